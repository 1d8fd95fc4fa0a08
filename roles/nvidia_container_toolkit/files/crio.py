"""What CRI-O's configuration says of NVIDIA's runtime, and how that is put right.

CRI-O reads crio.conf and then every file below crio.conf.d, by the order of their names, whatever
these end in (https://github.com/cri-o/cri-o/blob/main/docs/crio.conf.d.5.md, and UpdateFromPath in
pkg/config/config.go). So one drop-in is this role's, under the name that nvidia-ctk uses, and no
copy and no half of it ever lies there: CRI-O would read that too.

The runtime takes the options of the default one, wherever they are written: without its
monitor_path CRI-O looks for conmon in its PATH, where CRI-O's own packages have none, and does not
start (https://github.com/NVIDIA/nvidia-container-toolkit/issues/681). What CRI-O makes of it all it
is asked itself: `crio config` merges and checks the files, before anything takes its place, in a
copy of the directory.

SIGHUP is not enough: crio.conf(5) calls the table of runtimes reloadable and `crio status config`
shows the new one, while pods of it fail until a restart
(https://github.com/cri-o/cri-o/issues/10202). Containers live through a restart, since each has a
conmon of its own (https://github.com/cri-o/cri-o/discussions/8020). One that still is in the cgroup
of CRI-O's unit is ended with it unless that has KillMode=process (contrib/systemd/crio.service says
why), and is looked for.

Runs on the host, from standard input: `python3 - ACTION`, where ACTION is look, write, restore,
proof, parting or take. Prints JSON; ends with 1 and a sentence where nothing can be done. Standard
library, Python 3.7.
"""

import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = "/"
CONFIG = "/etc/crio/crio.conf"
PLACE = "/etc/crio/crio.conf.d"
DROPIN = PLACE + "/99-nvidia.toml"
PROGRAMS = ("/usr/bin/crio", "/usr/local/bin/crio")
RUNTIME = "/usr/bin/nvidia-container-runtime"
HEADER = "# Written by the Ansible role nvidia_container_toolkit; changes made here are lost.\n"
OWED = "/run/provision/crio-restart"
SAVED = ".provision-saved"
TIMEOUT = 60
TABLE = "crio.runtime.runtimes."
# Of the default runtime's, what concerns how a container is watched and what a pod may ask for.
OPTIONS = (
    *("runtime_root", "monitor_path", "monitor_cgroup", "monitor_exec_cgroup", "monitor_env"),
    *("allowed_annotations", "privileged_without_host_devices", "container_min_memory"),
)
NOTHING = ('""', "''", "false", "[]")


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


def parsed(dump):
    """{(table, key): value's text} of what `crio config` prints.

    It comments out what is CRI-O's own default (`# default_runtime = "crun"`), and explains each
    option with examples that look alike; what stands without the sign wins.
    """
    found, said = {}, set()
    table, key, value, plain = "", None, "", False
    for line in dump.splitlines():
        bare = re.sub(r"^\s*#\s?", "", line).strip()
        if key is None:
            head = re.match(r"\[([^\[\]]+)\]$", bare)
            if head is not None:
                table = head.group(1).strip().replace('"', "")
                continue
            pair = re.match(r"([A-Za-z_]+)\s*=\s*(\S.*)$", bare)
            if pair is None:
                continue
            key, value, plain = pair.group(1), pair.group(2), not line.lstrip().startswith("#")
        else:
            value += " " + bare
        # A list has a line for each of its values.
        if value.startswith("[") and not value.endswith("]") and bare:
            continue
        if plain or (table, key) not in said:
            found[table, key] = re.sub(r",?\s*\]$", "]", re.sub(r"^\[\s*", "[", value))
        if plain:
            said.add((table, key))
        key = None
    return found


def lines(dump):
    """[line] of what a dump says, without marks of defaults and the table of ours.

    That one is no default, and ends where the next begins or is explained.
    """
    found, mine = [], False
    for line in dump.splitlines():
        bare = re.sub(r"^\s*#\s?", "", line).strip()
        if re.match(r"\[[^\[\]]+\]$", bare):
            mine = bare == "[{0}nvidia]".format(TABLE)
        elif line.lstrip().startswith("#"):
            mine = False
        if bare and not mine:
            found.append(bare)
    return found


def apart(one, two):
    """Lines that one of two dumps has more often than the other."""
    first, second = collections.Counter(lines(one)), collections.Counter(lines(two))
    return sorted((first - second) + (second - first))


def dumped(place):
    """What CRI-O makes of crio.conf and the files of a directory, as it prints it.

    RefusedError with its words where it can't read them.
    """
    # One that is named has to be there.
    named = ["--config", inside(CONFIG)] if os.path.exists(inside(CONFIG)) else []
    code, out, error = call("crio", *named, "--config-dir", place, "config")
    if code:
        told = [line for line in (error or out).splitlines() if line.strip()]
        said = told[-1].strip().replace(place, PLACE) if told else code
        raise RefusedError("crio can't read {0} with {1}: {2}".format(CONFIG, PLACE, said))
    return out


def tried(content):
    """What CRI-O makes of it with this text as our drop-in; without one for None."""
    here, copy = inside(PLACE), tempfile.mkdtemp(prefix="provision-crio-")
    try:
        if os.path.isdir(here):
            os.rmdir(copy)
            shutil.copytree(here, copy)
            os.chmod(copy, 0o700)
        new = os.path.join(copy, os.path.basename(DROPIN))
        if content is not None:
            with open(new, "w", encoding="utf-8") as file:
                file.write(content)
        elif ours(text(DROPIN)):
            os.unlink(new)
        return dumped(copy)
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def ours(content):
    """Did this role write the text?"""
    return (content or "").startswith(HEADER)


def program(dump):
    """The program of the runtime nvidia; None without one."""
    value = dump.get((TABLE + "nvidia", "runtime_path"))
    return None if value is None else value.strip("\"'") or "nvidia"


def default(dump):
    """The runtime of those who name none."""
    return dump.get(("crio.runtime", "default_runtime"), "").strip("\"'")


def model(dump):
    """The runtime whose options are taken: the default one, or else runc or crun."""
    for name in (default(dump), "runc", "crun"):
        if name != "nvidia" and any(at == TABLE + name for at, _ in dump):
            return name
    return None


def block(dump):
    """The drop-in's text."""
    made = [HEADER.rstrip("\n"), "[{0}nvidia]".format(TABLE)]
    made += ['runtime_path = "{0}"'.format(RUNTIME), 'runtime_type = "oci"']
    name = model(dump)
    for key in OPTIONS if name else ():
        value = dump.get((TABLE + name, key), '""')
        if value not in NOTHING:
            made.append("{0} = {1}".format(key, value))
    return "\n".join(made) + "\n"


def before():
    """CRI-O's dump without our drop-in; None where it can't be read for want of the runtime alone.

    That is so where somebody's default_runtime is nvidia.
    """
    try:
        return tried(None)
    except RefusedError:
        if text(DROPIN) is not None and not ours(text(DROPIN)):
            raise
        tried(block({}))
        return None


def wanted():
    """The drop-in's text as it should be; None where somebody else's does it already.

    RefusedError where that can't be.
    """
    content, dump = text(DROPIN), before()
    other = program(parsed(dump)) if dump is not None else None
    if other == RUNTIME:
        return None
    if other is not None:
        raise RefusedError(
            "CRI-O's configuration ({0}, {1}) has a runtime nvidia of somebody else's, by {2}; "
            "expected {3}".format(CONFIG, PLACE, other, RUNTIME)
        )
    if content is not None and not ours(content):
        raise RefusedError(
            "{0} is somebody else's and names no runtime nvidia; expected such a table, or another "
            "name of the file: CRI-O reads it under any".format(DROPIN)
        )
    new = block(parsed(tried(block({}))))
    after = tried(new)
    changed = [] if dump is None else apart(dump, after)
    if changed:
        raise RefusedError(
            "CRI-O would read something else beside the runtime nvidia: " + ", ".join(changed)
        )
    return new


def unit(name):
    """What systemd says of CRI-O's unit."""
    out = call("systemctl", "show", "crio.service", "--property", name, "--value")[1]
    return out.strip()


def daemon():
    """ "PID START" of the crio that runs as a unit; None without one."""
    pid = unit("MainPID")
    stat = text("/proc/{0}/stat".format(pid)) if pid.isdigit() and pid != "0" else None
    if stat is None or "(crio)" not in stat:
        return None
    return "{0} {1}".format(pid, stat.rpartition(")")[2].split()[19])


def monitors():
    """{pid: words of its command line} of the conmon processes, of which each container has one."""
    found = {}
    for path in glob.glob(inside("/proc/[0-9]*/comm")):
        pid = path.split("/")[-2]
        try:
            # Root's alone: podman of a user has its own, and anybody may call a process that.
            started_by = re.search(
                r"^Uid:\t(\d+)", text("/proc/{0}/status".format(pid)) or "", re.M
            )
            if started_by is None or started_by.group(1) != "0":
                continue
            if (text("/proc/{0}/comm".format(pid)) or "").strip() == "conmon":
                found[pid] = (text("/proc/{0}/cmdline".format(pid)) or "").split("\0")
        except OSError:
            continue  # it has ended
    return found


def users():
    """Names of CRI-O's containers at work that NVIDIA's program started."""
    found = []
    for words in monitors().values():
        given = {word: words[number] for number, word in enumerate(words[:-1], 1)}
        if RUNTIME in (given.get("-r"), given.get("--runtime")):
            found.append(given.get("-n") or given.get("--name") or given.get("-c") or "?")
    return sorted(found)


def losing():
    """Why a restart would end containers; None where they live through it."""
    if unit("KillMode") == "process":
        return None
    group, held = unit("ControlGroup"), 0
    for pid in monitors():
        try:
            said = text("/proc/{0}/cgroup".format(pid)) or ""
        except OSError:
            continue  # it has ended
        held += any(line.split(":", 2)[-1] == group for line in said.splitlines())
    if not group or not held:
        return None
    return "crio.service has no KillMode=process, and conmon runs in its own cgroup ({0})".format(
        held
    )


def look():
    """What is there."""
    installed = any(os.path.exists(inside(path)) for path in PROGRAMS)
    found = {"installed": installed, "fault": None, "right": False, "owed": False, "loses": None}
    if not installed:
        return found
    try:
        content = text(DROPIN)
        new = wanted()
        found["right"] = new == content or (new is None and not ours(content))
    except (RefusedError, OSError, UnicodeDecodeError) as error:
        found["fault"] = str(error)
    running = daemon()
    found["owed"] = running is not None and (text(OWED) or "").strip() == running
    if running is not None:
        found["loses"] = losing()
    return found


def replace(path, content, like, place=None):
    """The whole file or the old one, with the owner and mode that it had.

    It is made in `place`, of the same file system.
    """
    handle, new = tempfile.mkstemp(dir=place or os.path.dirname(path), prefix=".provision-")
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
    like, name = os.stat(path), os.path.basename(path)
    first = os.path.join(inside(os.path.dirname(CONFIG)), name + SAVED)
    saved, number = first, 1
    while os.path.lexists(saved):
        number += 1
        saved = "{0}.{1}".format(first, number)
    shutil.copy2(path, saved)
    os.chown(saved, like.st_uid, like.st_gid)
    return saved, like


def owe():
    """Note that the crio which runs now has to be restarted."""
    running = daemon()
    if running is not None:
        os.makedirs(inside(os.path.dirname(OWED)), mode=0o755, exist_ok=True)
        replace(inside(OWED), running + "\n", None)


def put(new):
    """The drop-in in its place, or none of it."""
    path, above = inside(DROPIN), inside(os.path.dirname(CONFIG))
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    saved, like = kept(path)
    owe()
    if new is not None:
        replace(path, new, like, above)
    elif saved is not None:
        os.unlink(path)
    return {"changed": True, "saved": saved}


def write():
    """Make the runtime known to CRI-O; what was there is kept beside crio.conf."""
    content, new = text(DROPIN), wanted()
    if new == content or (new is None and not ours(content)):
        return {"changed": False, "saved": None}
    return put(new)


def restore(saved):
    """Put back what `write` found: the file that it kept under `saved`, or none ("")."""
    path = inside(DROPIN)
    if saved:
        with open(saved, encoding="utf-8") as file:
            replace(path, file.read(), os.stat(saved), inside(os.path.dirname(CONFIG)))
    elif os.path.exists(path):
        os.unlink(path)
    return {"restored": saved or None}


def proof():
    """Does the crio that runs know the runtime? {"known": None} where it can't be asked.

    CRI-O starts without a runtime that it finds no good, and says so in its journal alone.
    """
    for argv in (("crio", "status", "config"), ("crio-status", "config")):
        code, out, _error = call(*argv)
        if code == 0:
            known = sorted(at[len(TABLE) :] for at, _ in parsed(out) if at.startswith(TABLE))
            if "nvidia" not in known:
                raise RefusedError(
                    "crio runs and knows the runtimes {0} alone".format(
                        ", ".join(sorted(set(known)))
                    )
                )
            return {"known": True}
    return {"known": None}


def parting():
    """What stands in the way of taking the toolkit away."""
    found = {"dropin": False, "users": [], "default": False, "other": None, "loses": None}
    if not any(os.path.exists(inside(path)) for path in PROGRAMS):
        return found
    found.update(dropin=ours(text(DROPIN)), users=users())
    try:
        dump = before()
    except RefusedError:
        return found  # it says nothing that our drop-in could be part of
    rest = {} if dump is None else parsed(dump)
    found["default"] = dump is None or default(rest) == "nvidia"
    found["other"] = RUNTIME if program(rest) == RUNTIME else None
    if found["dropin"] and daemon() is not None:
        found["loses"] = losing()
    return found


def take():
    """Take our drop-in away; one that somebody changed is kept beside crio.conf."""
    if not ours(text(DROPIN)):
        return {"changed": False, "saved": None}
    try:
        saved = None if text(DROPIN) == wanted() else kept(inside(DROPIN))[0]
    except RefusedError:
        saved = kept(inside(DROPIN))[0]
    owe()
    os.unlink(inside(DROPIN))
    return {"changed": True, "saved": saved}


def main(argv):
    """The program."""
    actions = {
        "look": look,
        "write": write,
        "restore": restore,
        "proof": proof,
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
