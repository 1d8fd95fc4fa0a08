"""The blocks in an environment's `bin/activate` that select its own CUDA, on hosts with several.

`. bin/activate` puts the programs and libraries of the environment's CUDA tree first and points XLA
to it; `deactivate` restores the variables. Two marked blocks in a file that `venv` writes, for
shells that read it (bash, zsh, dash): the first begins the function `deactivate`, the second ends
the file. PATH needs no block, for `deactivate` restores it anyway.
"""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context

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


def without_blocks(text: str) -> str:
    """The text without our blocks."""
    lines, inside = [], False
    for line in text.splitlines(True):
        inside = inside or line.strip() == BEGIN
        if not inside:
            lines.append(line)
        inside = inside and line.strip() != END
    return "".join(lines)


def with_blocks(text: str, prefix: str) -> str:
    """The text with the blocks of the CUDA tree at `prefix`, or without any where that is ""."""
    plain = without_blocks(text)
    if not prefix:
        return plain
    head, function, rest = plain.partition(FUNCTION + "\n")
    leave = f"    {BEGIN}\n{LEAVE}    {END}\n" if function else ""
    quoted = "'" + prefix.replace("'", "'\\''") + "'"
    enter = f"{BEGIN}\n{ENTER.format(prefix=quoted)}{END}\n"
    whole = head + function + leave + rest
    return whole + ("" if whole.endswith("\n") else "\n") + enter


def fault(context: Context, venv: str, cuda: dict[str, Any]) -> str | None:
    """What is wrong with the CUDA of `bin/activate`; None where nothing is."""
    prefix = (cuda.get("prefix") or "") if cuda.get("source") in ("network", "local") else ""
    text = context.read(venv + "/bin/activate")
    if not text or text == with_blocks(text, prefix):
        return None
    if text == without_blocks(text):
        return "no CUDA"
    return "another CUDA" if prefix else "a CUDA"
