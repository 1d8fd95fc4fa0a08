"""The CDI specification: what it names, and how it is made anew.

`nvidia-ctk cdi generate` is asked for the text, which takes the file's place in one step and only
where it is one that this host's podman reads and whose files are there. In /etc/cdi what somebody
else made is kept under another name, which no reader of CDI takes for a specification; what lies
under /run is NVIDIA's own unit's, and made anew at each boot.

From 1.19.1 on the toolkit writes CDI 0.7.0, which podman reads from 5.1 on
(https://github.com/NVIDIA/nvidia-container-toolkit/issues/1860). For an older one additional groups
are left out, as NVIDIA's page on troubleshooting has it, and the specification is of 0.5.0.

Runs on the host, from standard input: `python3 - ACTION VERSION`, where ACTION is look, make or
take and VERSION the toolkit's. Prints JSON; ends with 1 and a sentence where nothing can be done.
Standard library, Python 3.7.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = "/"
RUN = "/var/run/cdi/nvidia.yaml"
ETC = "/etc/cdi/nvidia.yaml"
UNIT_SINCE = (1, 18)
GROUPS_SINCE = (1, 19, 1)
FLAG = "no-additional-gids-for-device-nodes"
MARK = "# Made by the Ansible role nvidia_container_toolkit"
SAVED = ".provision-saved"
PODMAN = "/usr/bin/podman"
PODMAN_SINCE = (4, 1)
READS = (((5, 1), (0, 7, 0)), (PODMAN_SINCE, (0, 5, 0)))
DEVICE = "nvidia.com/gpu"
SONAME = "libcuda.so.1"
TIMEOUT = 120


class RefusedError(Exception):
    """Nothing was changed; the text says why."""


def inside(path):
    """A path of the host."""
    return os.path.join(ROOT, path.lstrip("/"))


def text(path):
    """A file's text; None where there is none."""
    try:
        with open(inside(path), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def run(*argv):
    """(exit code, standard output, standard error) of a program; 127 where there is none."""
    hidden = ("NVIDIA_CTK_CDI_OUTPUT_FILE_PATH", "NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["LC_ALL"] = "C"
    environment["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, "", str(error)
    words = [one.decode("utf-8", "replace") for one in (done.stdout, done.stderr)]
    return done.returncode, words[0], words[1]


def numbers(version):
    """A version's numbers, to be compared."""
    return tuple(int(one) for one in re.findall(r"\d+", version or "")[:3])


def place(version):
    """Where the specification is: where NVIDIA's unit of that version writes it, or stays."""
    return RUN if numbers(version) >= UNIT_SINCE else ETC


def podman():
    """Its version; None where there is none, "" where no package tells."""
    if not os.path.exists(inside(PODMAN)):
        return None
    rc, out, _ = run("dpkg-query", "--show", "--showformat", "${Version}", "podman")
    return out.split(":")[-1].split("-")[0].split("+")[0] if rc == 0 else ""


def reads(version):
    """The newest CDI version that a podman reads; () where it reads none, None where unknown."""
    if not version:
        return None
    for since, newest in READS:
        if numbers(version) >= since:
            return newest
    return ()


def plain(version, found):
    """Must that version of the toolkit be told to leave groups out, for this podman?"""
    newest = reads(found)
    return bool(newest) and newest < (0, 7, 0) and numbers(version) >= GROUPS_SINCE


def library():
    """The file that the loader opens for libcuda; None where it finds none."""
    for line in run("ldconfig", "-p")[1].splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.startswith(SONAME + " (") and "x86-64" in name and path:
            real = os.path.realpath(inside(path))
            return real if os.path.exists(real) else None
    return None


def paths(content):
    """The host's files that a specification gives to containers."""
    return re.findall(r"(?m)^[ -]*hostPath: *[\"']?([^\"'\n]+?)[\"']? *$", content)


def fault(content, newest, opened):
    """Why a specification does not give the GPUs of this host; None where it does."""
    if content is None:
        return "absent"
    kind = re.search(r"(?m)^kind: *[\"']?([^\"'\s]+)", content)
    if kind is None or kind.group(1) != DEVICE or not re.search(r"name: *[\"']?all\b", content):
        return "names no {0}=all".format(DEVICE)
    version = re.search(r"(?m)^cdiVersion: *[\"']?([0-9.]+)", content)
    if newest and (version is None or numbers(version.group(1)) > newest):
        said = "without a version" if version is None else version.group(1)
        return "CDI {0}, and podman reads {1}".format(said, ".".join(map(str, newest)))
    named = paths(content)
    gone = [path for path in named if not os.path.exists(inside(path))]
    if gone:
        more = " and {0} more".format(len(gone) - 1) if len(gone) > 1 else ""
        return "names {0}{1}, which is not there".format(gone[0], more)
    name = (opened or "").rsplit("/", 1)[-1]
    if name and name not in [path.rsplit("/", 1)[-1] for path in named]:
        return "without {0}".format(name)
    return None


def left(version, newest, opened):
    """The path of a specification that has to go; None where none does.

    Of two that name one device podman takes that of /var/run/cdi. What the role made for an older
    toolkit is of no use beside it; where the role's own is in /etc, a bad one there hides it.
    """
    path = ETC if place(version) == RUN else RUN
    content = text(path)
    if content is None:
        return None
    goes = content.startswith(MARK) if path == ETC else fault(content, newest, opened) is not None
    return path if goes else None


def look(version):
    """What is there."""
    found, opened = podman(), library()
    return {
        "podman": found,
        "reads": reads(found) != (),
        "plain": plain(version, found),
        "driver": opened is not None,
        "path": place(version),
        "fault": fault(text(place(version)), reads(found), opened),
        "left": left(version, reads(found), opened),
        "unit": place(version) == RUN,
    }


def replace(path, content):
    """The whole file or the old one, for everybody to read, whatever umask this is run with."""
    if not os.path.isdir(os.path.dirname(path)):
        os.makedirs(os.path.dirname(path))
        os.chmod(os.path.dirname(path), 0o755)  # noqa: S103 - podman of any user reads it
    handle, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".provision-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(new, 0o644)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def keep(path):
    """Keep what is at `path` under a name that no reader of CDI takes; None where nothing is."""
    content = text(path)
    if content is None:
        return None
    name, number = path + SAVED, 1
    while os.path.lexists(inside(name)):
        number += 1
        name = "{0}{1}.{2}".format(path, SAVED, number)
    replace(inside(name), content)
    return name


def make(version):
    """Make the specification anew where it is not as it has to be."""
    seen, saved = look(version), None
    content = text(seen["path"])
    if seen["fault"] is not None:
        flags = ["--feature-flag", FLAG] if seen["plain"] else []
        rc, out, err = run("nvidia-ctk", "cdi", "generate", *flags)
        if rc != 0:
            said = [line for line in err.splitlines() if line.strip()]
            raise RefusedError(
                "nvidia-ctk cdi generate says: {0}".format(said[-1] if said else "nothing")
            )
        wrong = fault(out, reads(seen["podman"]), library())
        if wrong is not None:
            raise RefusedError("what nvidia-ctk cdi generate made {0}".format(wrong))
        if seen["path"] == ETC and not (content or MARK).startswith(MARK):
            saved = keep(ETC)
        replace(inside(seen["path"]), "{0}.\n{1}".format(MARK, out))
    if seen["left"] is not None:
        os.unlink(inside(seen["left"]))
    changed = seen["fault"] is not None or seen["left"] is not None
    return {"changed": changed, "saved": saved}


def take(_version, *owned):
    """Remove what is the role's own, and what a package made that is gone with its unit.

    `owned`: names of packages that went.
    """
    gone = []
    for path in (ETC, RUN):
        content = text(path)
        mine = content is not None and content.startswith(MARK)
        units = path == RUN and content is not None and "nvidia-container-toolkit-base" in owned
        if mine or units:
            os.unlink(inside(path))
            gone.append(path)
    return {"changed": bool(gone), "gone": gone}


def main(argv):
    """The program."""
    actions = {"look": look, "make": make, "take": take}
    try:
        answer = actions[argv[0]](*argv[1:])
    except RefusedError as error:
        sys.stderr.write("{0}\n".format(error))
        return 1
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
