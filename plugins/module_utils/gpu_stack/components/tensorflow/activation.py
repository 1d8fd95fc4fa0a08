"""What an environment's `bin/activate` says of its own CUDA, for hosts with several trees.

`. bin/activate` puts the programs and libraries of the environment's tree first and tells XLA of
it; `deactivate` brings back what was there. Two marked blocks in a file that `venv` writes, for
shells that read it (bash, zsh, dash): the first begins the function `deactivate`, the second ends
the file. PATH needs no undoing, for `deactivate` brings back the one from before.
"""

BEGIN = "# BEGIN provision: the CUDA of this environment"
END = "# END provision"
FUNCTION = "deactivate () {"

LEAVE = """\
    if [ -n "${_PROVISION_CUDA:-}" ] ; then
        unset LD_LIBRARY_PATH XLA_FLAGS _PROVISION_CUDA
        if [ -n "${_OLD_LD_LIBRARY_PATH+x}" ] ; then
            export LD_LIBRARY_PATH="$_OLD_LD_LIBRARY_PATH"
            unset _OLD_LD_LIBRARY_PATH
        fi
        if [ -n "${_OLD_XLA_FLAGS+x}" ] ; then
            export XLA_FLAGS="$_OLD_XLA_FLAGS"
            unset _OLD_XLA_FLAGS
        fi
    fi
"""

ENTER = """\
_PROVISION_CUDA={prefix}
[ -z "${{LD_LIBRARY_PATH+x}}" ] || _OLD_LD_LIBRARY_PATH="$LD_LIBRARY_PATH"
[ -z "${{XLA_FLAGS+x}}" ] || _OLD_XLA_FLAGS="$XLA_FLAGS"
export PATH="$VIRTUAL_ENV/bin:$_PROVISION_CUDA/bin:$_OLD_VIRTUAL_PATH"
export LD_LIBRARY_PATH="$_PROVISION_CUDA/lib64:$_PROVISION_CUDA/extras/CUPTI/lib64\
${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
export XLA_FLAGS="--xla_gpu_cuda_data_dir=$_PROVISION_CUDA"
"""


def without(text):
    """The text without our blocks."""
    lines, inside = [], False
    for line in text.splitlines(True):
        inside = inside or line.strip() == BEGIN
        if not inside:
            lines.append(line)
        inside = inside and line.strip() != END
    return "".join(lines)


def wanted(text, prefix):
    """What the file is to say: with the blocks of this tree, or with none."""
    plain = without(text)
    if not prefix:
        return plain
    head, found, rest = plain.partition(FUNCTION + "\n")
    leave = "    {0}\n{1}    {2}\n".format(BEGIN, LEAVE, END) if found else ""
    enter = "{0}\n{1}{2}\n".format(
        BEGIN, ENTER.format(prefix="'" + prefix.replace("'", "'\\''") + "'"), END
    )
    whole = head + found + leave + rest
    return whole + ("" if whole.endswith("\n") else "\n") + enter


def activation(context, venv, cuda):
    """What is wrong with what `bin/activate` says of CUDA; None where nothing is."""
    prefix = (cuda.get("prefix") or "") if cuda.get("source") in ("network", "local") else ""
    text = context.read(venv + "/bin/activate")
    if not text or text == wanted(text, prefix):
        return None
    if text == without(text):
        return "no CUDA"
    return "another CUDA" if prefix else "a CUDA"
