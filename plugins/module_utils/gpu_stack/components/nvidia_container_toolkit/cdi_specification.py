"""The CDI specification made anew, and taken away.

`nvidia-ctk cdi generate` is asked for the text, which takes the file's place in one step and only
where it is one that this host's podman reads and whose files are there. In /etc/cdi what somebody
else made is kept under another name, which no reader of CDI takes for a specification; what lies
under /run is NVIDIA's own unit's, and made anew at each boot.

From 1.19.1 on the toolkit writes CDI 0.7.0, which podman reads from 5.1 on
(https://github.com/NVIDIA/nvidia-container-toolkit/issues/1860). For an older one additional groups
are left out, as NVIDIA's page on troubleshooting has it, and the specification is of 0.5.0.
"""

import functools
import os
import tempfile

from ...host.context import Context, run_program
from ...host.kept_names import free_name
from . import cdi

FLAG = "no-additional-gids-for-device-nodes"
# Seconds for nvidia-ctk, which asks the driver.
PATIENCE = 120.0
# By these NVIDIA's unit has nvidia-ctk write the file itself, or in another way.
_HIDDEN = ("NVIDIA_CTK_CDI_OUTPUT_FILE_PATH", "NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS")


_NONE = (
    "There is no CDI specification for this driver: {0}. What was there is there. nvidia-smi says "
    "whether the driver works (after a driver update it does so from the next boot on); "
    "nvidia_container_toolkit_cdi set to none leaves it alone."
)


class RefusedError(Exception):
    """Nothing was changed; the text says why."""


def environment():
    """That of the programs: this process's, without what would direct nvidia-ctk."""
    variables = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
    variables["LC_ALL"] = "C"
    variables["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return variables


def host():
    """The running system."""
    runner = functools.partial(run_program, patience=PATIENCE, environment=environment())
    return Context(runner=runner)


def look(context, version, wish):
    """{podman, driver, fault, left} as of `cdi.look`, and what follows for this toolkit and wish.

    `path`: where the specification is; `wanted`: is there to be one here; `unit`: has the toolkit a
    unit that makes it at boot; `plain`: must groups be left out.
    """
    seen = cdi.look(context, version)
    answer = {name: seen[name] for name in ("podman", "driver", "fault", "left")}
    answer["path"] = cdi.place(version)
    answer["wanted"] = cdi.concerned(seen, {"nvidia_container_toolkit_cdi": wish})
    answer["unit"] = cdi.refreshed(version)
    answer["plain"] = cdi.plain(version, seen["podman"])
    return answer


def present(context, version, wish, check):
    """(what `look` sees, with `changed`, `saved` and `diff`; why there is none, or None).

    With `check` nothing is changed, and a driver that is missing is no reason: the packages of the
    same run would bring it. `saved`: the name under which somebody else's is kept.
    """
    seen = dict(look(context, version, wish), changed=False, saved=None, diff=[])
    if wish == "required" and cdi.reads(seen["podman"]) == ():
        return seen, (
            "nvidia_container_toolkit_cdi is required, and podman {0} reads no CDI specification; "
            "{1} is the first that does. Install a newer podman, or set it to auto. Nothing was "
            "changed."
        ).format(seen["podman"], ".".join(map(str, cdi.PODMAN_SINCE)))
    if not seen["wanted"]:
        if wish == "required" and not check:
            return seen, (
                "nvidia_container_toolkit_cdi is required, and the loader finds no {0}: a CDI "
                "specification names the driver's libraries. Install the driver, then run again."
            ).format(cdi.SONAME)
        return seen, None
    seen["changed"] = seen["fault"] is not None or seen["left"] is not None
    try:
        if not check:
            _make(context, seen)
    except (RefusedError, OSError) as error:
        seen["changed"] = False
        return seen, _NONE.format(error)
    return seen, None


def _make(context, seen):
    """The specification anew where it is not as it has to be, and away what is in its way."""
    path = seen["path"]
    if seen["fault"] is not None:
        old = context.read(path)
        new = "{0}.\n{1}".format(cdi.MARK, _generated(context, seen))
        if path == cdi.ETC and old and not old.startswith(cdi.MARK):
            seen["saved"] = _keep(context, path)
        replace(_real(context, path), new)
        seen["diff"] = [
            {"before_header": path, "after_header": path, "before": old or "", "after": new}
        ]
    if seen["left"] is not None:
        os.unlink(_real(context, seen["left"]))


def _generated(context, seen):
    """What nvidia-ctk says that the file should be; RefusedError where that is of no use."""
    flags = ["--feature-flag", FLAG] if seen["plain"] else []
    made = context.run(["nvidia-ctk", "cdi", "generate", *flags])
    if made.rc != 0:
        said = [line for line in made.err.splitlines() if line.strip()]
        raise RefusedError(
            "nvidia-ctk cdi generate says: {0}".format(said[-1] if said else "nothing")
        )
    newest, library = cdi.reads(seen["podman"]), cdi.library(context)
    wrong = cdi.fault(made.out, newest, library, context.exists)
    if wrong is not None:
        wrong = "is " + wrong if wrong.startswith("made for") else wrong
        raise RefusedError("what nvidia-ctk cdi generate made {0}".format(wrong))
    return made.out


def absent(context, packages, check):
    """Paths of the specifications that are (or would be) removed, as `cdi.own` has them."""
    gone = cdi.own(context, packages)
    for path in gone:
        if not check:
            os.unlink(_real(context, path))
    return gone


# files


def _real(context, path):
    """`path` on this machine's disk."""
    return os.path.join(context.root, path.lstrip("/"))


def replace(path, text):
    """The whole file or the old one, for everybody to read, whatever umask this is run with."""
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        os.makedirs(directory)
        os.chmod(directory, 0o755)  # noqa: S103 - podman of any user reads it
    handle, new = tempfile.mkstemp(dir=directory, prefix=".provision-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(new, 0o644)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def _keep(context, path):
    """Keeps what is at `path` under a name that no reader of CDI takes, which is returned."""
    name = free_name(path, lambda place: os.path.lexists(_real(context, place)))
    replace(_real(context, name), context.read(path))
    return name
