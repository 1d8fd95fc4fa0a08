"""What containerd's configuration says of NVIDIA's runtime, and how that is put right.

Kubernetes and whoever speaks CRI find a runtime by its name in /etc/containerd/config.toml. Of that
file one table is this role's, appended between two marks, so that every other line and comment
stays as it is: TOML's tables may stand in any order. NVIDIA's own nvidia-ctk writes a drop-in
from 1.18 on, and containerd 1.x takes the whole CRI section of an imported file for that of
config.toml (https://github.com/containerd/containerd/issues/5837), so that what the drop-in does
not repeat is lost; hence no drop-in here. containerd itself is asked, by `config dump`, whether it
reads the new text and whether anything else would change by it, before the file is replaced.

containerd reads it when it starts and at no other time. Containers live through its restart where
its unit has KillMode=process: each has a shim of its own
(https://github.com/containerd/containerd/blob/main/docs/ops.md). A docker whose unit is bound to
containerd's would be restarted with it, and is looked for.

Runs on the host, from standard input: `python3 - ACTION`, where ACTION is look, write, restore,
parting or take. Prints JSON; ends with 1 and a sentence where nothing can be done. Standard
library, Python 3.7.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = "/"
CONFIG = "/etc/containerd/config.toml"
PROGRAMS = ("/usr/bin/containerd", "/usr/local/bin/containerd")
# Who makes containers by CRI; docker does not.
USERS = ("kubelet", "crictl", "nerdctl")
PLACES = ("/usr/bin/", "/usr/local/bin/", "/usr/sbin/")
RUNTIME = "/usr/bin/nvidia-container-runtime"
NAME = "nvidia-container-runtime"
BEGIN = "# Begin of what the Ansible role nvidia_container_toolkit wrote; changes here are lost.\n"
END = "# End of what the Ansible role nvidia_container_toolkit wrote.\n"
OWED = "/run/provision/containerd-restart"
TASKS = "/run/containerd/io.containerd.runtime.v2.task/"
SAVED = ".provision-saved"
TIMEOUT = 60
# The CRI plugin's name, by the version of the configuration's format.
PLUGINS = {2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}


class RefusedError(Exception):
    """Nothing was changed; the text says why."""


def inside(path):
    """A path of the host."""
    return os.path.join(ROOT, path.lstrip("/"))


def text(path):
    """A file's text; None where there is none."""
    try:
        with open(inside(path), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def call(*argv):
    """(exit code, output, errors) of a program; 127 where there is none."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, "", str(error)
    return (
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
    )


def version(content):
    """The format's version, as the text says it; 1 without a word, 2 of an empty one."""
    said = re.search(r"(?m)^\s*version\s*=\s*(\d+)\s*(?:#.*)?$", content or "")
    if said is not None:
        return int(said.group(1))
    return 1 if re.search(r"(?m)^\s*[^#\s]", content or "") else 2


def disabled(content):
    """Does the text switch CRI off? Docker's package of containerd brings such a file."""
    said = re.search(r"(?ms)^\s*disabled_plugins\s*=\s*\[(.*?)\]", content or "")
    return said is not None and re.search(r"[\"'](io\.containerd\.grpc\.v1\.)?cri[\"']", said[1])


def parsed(dump):
    """{(table, key): value's text} of what `containerd config dump` prints."""
    found, table = {}, ""
    for line in dump.splitlines():
        line = line.strip()
        head = re.fullmatch(r"\[([^\[\]]*)\]", line)
        if head is not None:
            table = head.group(1).replace("'", '"')
        elif "=" in line:
            key, _, value = line.partition("=")
            found[table, key.strip()] = value.strip()
    return found


def dumped(path):
    """What containerd makes of a file. RefusedError with its words where it can't be read."""
    code, out, error = call("containerd", "--config", path, "config", "dump")
    if code:
        lines = [line for line in (error or out).splitlines() if line.strip()]
        raise RefusedError(
            "containerd can't read {0}: {1}".format(CONFIG, lines[-1].strip() if lines else code)
        )
    return parsed(out)


def table(number, name):
    """The name of a runtime's table."""
    return 'plugins."{0}".containerd.runtimes.{1}'.format(PLUGINS[number], name)


def binary(dump):
    """The program of the runtime "nvidia"; None without one."""
    for number in PLUGINS:
        value = dump.get((table(number, "nvidia") + ".options", "BinaryName"))
        if value is not None:
            return value.strip("\"'") or None
    return None


def default(dump):
    """Is nvidia the runtime of those who name none?"""
    values = [value for (_, key), value in dump.items() if key == "default_runtime_name"]
    return any(value.strip("\"'") == "nvidia" for value in values)


def tables(dump):
    """{runtime: {the rest of the table's name: {key: value's text}}} of all runtimes."""
    found = {}
    for at, key in dump:
        said = re.match(r'plugins\."[^"]*cri[^"]*"\.containerd\.runtimes\.([^.]+)(.*)$', at)
        if said is not None:
            found.setdefault(said.group(1), {}).setdefault(said.group(2), {})[key] = dump[at, key]
    return found


def block(number, dump, whole, also=()):
    """The table, with what runc's has: cgroups of systemd's are for both or for none.

    `also`: runtimes that containerd has by itself, as it has them.
    """
    name = table(number, "nvidia")
    lines = [BEGIN.rstrip("\n")]
    if whole:
        lines.append("version = {0}".format(number))
    lines += ["[{0}]".format(name), '  runtime_type = "io.containerd.runc.v2"']
    lines += ["[{0}.options]".format(name), '  BinaryName = "{0}"'.format(RUNTIME)]
    options = {}
    for one in PLUGINS:
        head = table(one, "runc") + ".options"
        options.update({key: dump[at, key] for at, key in dump if at == head})
    for key in sorted(options):
        if key != "BinaryName" and options[key] not in ('""', "''", "false", "0", "[]"):
            lines.append("  {0} = {1}".format(key, options[key]))
    known = tables(dump)
    for one in sorted(also):
        for rest in sorted(known[one]):
            lines.append("[{0}{1}]".format(table(number, one), rest))
            lines += ["  {0} = {1}".format(*pair) for pair in sorted(known[one][rest].items())]
    return "\n".join(lines) + "\n" + END


def torn(content):
    """Why our block can't be told from what is somebody else's; None where it can."""
    if content and not content.endswith("\n"):
        content += "\n"
    before, begin, rest = (content or "").partition(BEGIN)
    inner, end, _after = rest.partition(END)
    if not begin or (end and BEGIN not in inner):
        return None
    return (
        "{0} has in line {1} the begin of this role's lines ({2}) and no end of them ({3}), so "
        "that they can't be told from somebody else's; expected both. Put the end back below the "
        "table, or take the table and its begin out".format(
            CONFIG, before.count("\n") + 1, BEGIN.strip(), END.strip()
        )
    )


def split(content):
    """(what is before our block, the block, what is after it). RefusedError where it is torn."""
    fault = torn(content)
    if fault is not None:
        raise RefusedError(fault)
    content = content or ""
    if BEGIN not in content:
        return content, "", ""
    if not content.endswith("\n"):
        content += "\n"
    before, begin, rest = content.partition(BEGIN)
    inner, end, after = rest.partition(END)
    return before, begin + inner + end, after


def without(content):
    """The text less our block and the empty line before it."""
    before, mine, after = split(content)
    return (before[:-1] if mine and before.endswith("\n\n") else before) + after


def wanted(content):
    """The text with our block as it should be. RefusedError where that can't be."""
    rest = without(content)
    if disabled(rest):
        raise RefusedError("disabled_plugins in {0} switches CRI off".format(CONFIG))
    number = version(rest)
    if number not in PLUGINS:
        raise RefusedError(
            "{0} is of version {1}; expected 2 or 3 (containerd config migrate shows it so)".format(
                CONFIG, number
            )
        )
    found = tried(rest)
    other = binary(found)
    if other == RUNTIME:
        return rest  # somebody else's entry, and a good one
    if other is not None or (table(number, "nvidia"), "runtime_type") in found:
        raise RefusedError(
            "{0} has a runtime nvidia of somebody else's, by {1}; expected {2}".format(
                CONFIG, other or "runc", RUNTIME
            )
        )
    whole = not rest.strip()
    gap = "" if whole else ("\n" if rest.endswith("\n") else "\n\n")
    new = rest + gap + block(number, found, whole)
    # One that is named in the file takes the place of all that containerd 1.6 has by itself.
    lost = set(tables(found)) - set(tables(tried(new)))
    return rest + gap + block(number, found, whole, lost) if lost else new


def tried(content):
    """What containerd makes of a text that would lie in config.toml's place."""
    place = os.path.dirname(os.path.realpath(inside(CONFIG)))
    if not content.strip():
        content = "version = 2\n"
    made = not os.path.isdir(place)
    handle, new = tempfile.mkstemp(dir=None if made else place, prefix=".provision-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        return dumped(new)
    finally:
        os.unlink(new)


def apart(before, after):
    """Keys outside our table that differ between two dumps; the list of files read is no key."""
    mine = tuple(table(number, "nvidia") for number in PLUGINS)
    keys = {one for one in set(before) | set(after) if before.get(one) != after.get(one)}
    return sorted(
        "{0}.{1}".format(at, key).lstrip(".")
        for at, key in keys
        if not at.startswith(mine) and (at, key) != ("", "imports")
    )


def unit(name):
    """What systemd says of containerd's unit."""
    out = call("systemctl", "show", "containerd.service", "--property", name, "--value")[1]
    return out.strip()


def daemon():
    """ "PID START" of the containerd that runs as a unit; None without one."""
    pid = unit("MainPID")
    stat = text("/proc/{0}/stat".format(pid)) if pid.isdigit() and pid != "0" else None
    if stat is None or "(containerd)" not in stat:
        return None
    return "{0} {1}".format(pid, stat.rpartition(")")[2].split()[19])


def at_work():
    """[(namespace, identity)] of the containers whose shims run."""
    found = glob.glob(inside(TASKS) + "*/*/address")
    return [tuple(path.split("/")[-3:-1]) for path in sorted(found)]


def users():
    """Those of them that were started by NVIDIA's program; docker's are docker's to tell."""
    found = []
    for space, identity in at_work():
        path = "{0}{1}/{2}/options.json".format(TASKS, space, identity)
        if space != "moby" and NAME in (text(path) or ""):
            found.append("{0}/{1}".format(space, identity))
    return found


def used():
    """Is there somebody who makes containers by CRI? The rule of `auto`."""
    return any(os.path.exists(inside(place + name)) for place in PLACES for name in USERS)


def look():
    """What is there."""
    installed = any(os.path.exists(inside(path)) for path in PROGRAMS)
    found = {"installed": installed, "used": used(), "fault": None, "right": False}
    found.update(disabled=False, owed=False, loses=None)
    if not installed:
        return found
    try:
        content = text(CONFIG)
        found["disabled"] = bool(disabled(without(content)))
        found["right"] = wanted(content) == (content or "")
    except (RefusedError, OSError, UnicodeDecodeError) as error:
        found["fault"] = str(error)
    running = daemon()
    found["owed"] = running is not None and (text(OWED) or "").strip() == running
    if running is not None and at_work():
        found["loses"] = losing()
    return found


def losing():
    """Why a restart would end containers; None where they live through it."""
    if unit("KillMode") != "process":
        return "KillMode of containerd.service is not process"
    bound = unit("BoundBy").split() + unit("RequiredBy").split() + unit("ConsistsOf").split()
    if "docker.service" in bound and any(space == "moby" for space, _ in at_work()):
        return "docker.service would be restarted with containerd"
    return None


def replace(path, content, like):
    """The whole file or the old one, with the owner and mode that it had."""
    handle, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".provision-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(new, 0o644 if like is None else like.st_mode & 0o7777)
        if like is not None:
            os.chown(new, like.st_uid, like.st_gid)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def kept(path):
    """(where a copy of the file is now, its status); (None, None) where there is none."""
    if not os.path.exists(path):
        return None, None
    like, saved, number = os.stat(path), path + SAVED, 1
    while os.path.lexists(saved):
        number += 1
        saved = "{0}{1}.{2}".format(path, SAVED, number)
    shutil.copy2(path, saved)
    os.chown(saved, like.st_uid, like.st_gid)
    return saved, like


def owe():
    """Note that the containerd which runs now has to be restarted."""
    running = daemon()
    if running is not None:
        os.makedirs(inside(os.path.dirname(OWED)), mode=0o755, exist_ok=True)
        replace(inside(OWED), running + "\n", None)


def put(content, new):
    """The new text, once containerd reads it and nothing else changes by it."""
    changed = apart(tried(content), tried(new))
    if changed:
        raise RefusedError(
            "{0} would change beside the runtime nvidia: {1}".format(CONFIG, ", ".join(changed))
        )
    path = os.path.realpath(inside(CONFIG))
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    saved, like = kept(path)
    owe()
    if new.strip():
        replace(path, new, like)
    else:
        os.unlink(path)
    return {"changed": True, "saved": saved}


def write():
    """Make the runtime known to containerd; what was there is kept beside it."""
    content = text(CONFIG)
    new = wanted(content)
    if new == (content or ""):
        return {"changed": False, "saved": None}
    return put(content or "", new)


def restore(saved):
    """Put back what `write` found: the file that it kept under `saved`, or none ("")."""
    path = os.path.realpath(inside(CONFIG))
    if saved:
        with open(saved, encoding="utf-8") as file:
            replace(path, file.read(), os.stat(saved))
    else:
        os.unlink(path)
    return {"restored": saved or None}


def parting():
    """What stands in the way of taking the toolkit away."""
    found = {"block": False, "users": [], "default": False, "loses": None, "fault": None}
    content = text(CONFIG)
    found["fault"] = torn(content)
    if found["fault"] or not any(os.path.exists(inside(path)) for path in PROGRAMS):
        return found
    found.update(block=bool(split(content)[1]), users=users())
    if found["block"]:
        found["default"] = default(tried(content))
        if daemon() is not None and at_work():
            found["loses"] = losing()
    return found


def take():
    """Take our block out; a file that held nothing else goes."""
    content = text(CONFIG)
    if not split(content)[1]:
        return {"changed": False, "saved": None}
    return put(content, without(content))


def main(argv):
    """The program."""
    actions = {
        "look": look,
        "write": write,
        "restore": restore,
        "parting": parting,
        "take": take,
    }
    try:
        answer = actions[argv[0]](*argv[1:])
    except RefusedError as error:
        sys.stderr.write("{0}\n".format(error))
        return 1
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
