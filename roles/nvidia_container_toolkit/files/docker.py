"""What docker's configuration says of NVIDIA's runtime, and how that is put right.

daemon.json is the administrator's: it is read and written as data, every other key stays, what was
there is kept under another name, and a file that is no JSON is left alone and refused. dockerd
looks for NVIDIA's hook when it starts and at no other time
(https://github.com/moby/moby/blob/v24.0.0/daemon/nvidia_linux.go, `init`), so it must be restarted
once; that a running dockerd still owes it is noted under /run with that process's own start, and
settled by whoever restarts it.

Taking the entry away needs no restart: at SIGHUP dockerd reads `runtimes` anew
(https://docs.docker.com/reference/cli/dockerd/#configuration-reload-behavior), and no container is
lost by that. It does so only where the file has the word
(https://github.com/moby/moby/blob/v24.0.0/daemon/reload_unix.go, `reloadPlatform`).

Runs on the host, from standard input: `python3 - ACTION`, where ACTION is look, owe, write,
restore, proof, parting or take. Prints JSON; ends with 1 and a sentence where nothing can be
done. Standard library, Python 3.7.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = "/"
CONFIG = "/etc/docker/daemon.json"
PROGRAMS = ("/usr/bin/dockerd", "/usr/sbin/dockerd")
SNAP = "/snap/bin/docker"
PIDFILE = "/run/docker.pid"
SOCKET = "unix:///var/run/docker.sock"
OWED = "/run/provision/docker-restart"
RUNTIME = "nvidia-container-runtime"
SAVED = ".provision-saved"
TIMEOUT = 30


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


def parsed(content):
    """daemon.json as a dict. RefusedError for what docker itself would not read."""
    if content is None or not content.strip():
        return {}
    try:
        found = json.loads(content)
    except ValueError as error:
        raise RefusedError("{0} is not JSON: {1}".format(CONFIG, error)) from error
    if not isinstance(found, dict):
        raise RefusedError("{0} holds no mapping".format(CONFIG))
    if not isinstance(found.get("runtimes", {}), dict):
        raise RefusedError("runtimes in {0} is no mapping".format(CONFIG))
    return found


def read():
    """daemon.json as a dict. RefusedError where it can't be read as what it should be."""
    try:
        return parsed(text(CONFIG))
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError("{0} can't be read: {1}".format(CONFIG, error)) from error


def runtime(config):
    """The program of the runtime "nvidia", without a directory of the system's; None without."""
    entry = config.get("runtimes", {}).get("nvidia")
    if not isinstance(entry, dict):
        return None
    path = str(entry.get("path") or "")
    return RUNTIME if path == "/usr/bin/" + RUNTIME else path or None


def merged(config):
    """The configuration with the runtime; arguments that somebody gave it stay."""
    runtimes = dict(config.get("runtimes", {}))
    before = runtimes.get("nvidia")
    arguments = before.get("args") if isinstance(before, dict) else None
    runtimes["nvidia"] = {"args": arguments or [], "path": RUNTIME}
    return dict(config, runtimes=runtimes)


def daemon():
    """ "PID START" of the dockerd that runs, START in the kernel's own ticks; None without one."""
    pid = (text(PIDFILE) or "").strip()
    try:
        stat = text("/proc/{0}/stat".format(pid)) if pid.isdigit() else None
    except OSError:
        stat = None
    # The name stands in brackets and may hold blanks; the start is the 22nd field (proc(5)).
    if stat is None or "(dockerd)" not in stat:
        return None
    return "{0} {1}".format(pid, stat.rpartition(")")[2].split()[19])


def containers():
    """(how many run or are paused, whether they live through a restart); (None, None) unknown."""
    opened, closed = "{" * 2, "}" * 2
    shape = " ".join(
        opened + word + closed
        for word in (".ContainersRunning", ".ContainersPaused", ".LiveRestoreEnabled")
    )
    words = ask(["info", "--format", shape]).split()
    if len(words) != 3 or not words[0].isdigit() or not words[1].isdigit():
        return None, None
    return int(words[0]) + int(words[1]), words[2] == "true"


def ask(arguments):
    """What the docker of this host answers; "" where it does not."""
    try:
        done = subprocess.run(
            ["docker", "--host", SOCKET, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def look():
    """What is there."""
    running = daemon()
    found = {
        "installed": any(os.path.exists(inside(path)) for path in PROGRAMS),
        "snap": os.path.lexists(inside(SNAP)),
        "running": running is not None,
        "owed": running is not None and (text(OWED) or "").strip() == running,
        "runtime": None,
        "fault": None,
        "containers": None,
        "live_restore": None,
    }
    try:
        found["runtime"] = runtime(read())
    except RefusedError as error:
        found["fault"] = str(error)
    if running is not None:
        found["containers"], found["live_restore"] = containers()
    return found


def owe():
    """Note that the dockerd which runs now has to be restarted."""
    running = daemon()
    if running is not None:
        os.makedirs(inside(os.path.dirname(OWED)), mode=0o755, exist_ok=True)
        replace(inside(OWED), running + "\n", 0o644)
    return {"owed": running is not None}


def replace(path, content, mode, like=None):
    """The whole file or the old one; `like`: whose owner it gets."""
    handle, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".provision-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(new, mode)
        if like is not None:
            os.chown(new, like.st_uid, like.st_gid)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def free_name(path):
    """PATH.provision-saved, numbered where there are some."""
    name, number = path + SAVED, 1
    while os.path.lexists(name):
        number += 1
        name = "{0}{1}.{2}".format(path, SAVED, number)
    return name


def kept(path):
    """(where a copy of the file is now, the file's status); (None, None) where there is none."""
    if not os.path.exists(path):
        return None, None
    like = os.stat(path)
    saved = free_name(path)
    shutil.copy2(path, saved)
    os.chown(saved, like.st_uid, like.st_gid)
    return saved, like


def put(path, config, like):
    """daemon.json with this content, with the mode and the owner that it had."""
    content = json.dumps(config, indent=4, ensure_ascii=False) + "\n"
    replace(path, content, 0o644 if like is None else like.st_mode & 0o7777, like)


def write():
    """Merge the runtime into daemon.json; what was there is kept beside it."""
    config = read()
    if runtime(config) == RUNTIME:
        return {"changed": False, "saved": None}
    # A link of the administrator's stays one.
    path = os.path.realpath(inside(CONFIG))
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    saved, like = kept(path)
    owe()
    put(path, merged(config), like)
    return {"changed": True, "saved": saved}


def users():
    """Names of the containers at work that were given GPUs by the toolkit; None where unknown."""
    if daemon() is None:
        return []
    if containers()[0] is None:
        return None
    opened, closed = "{" * 2, "}" * 2
    shape = " ".join(
        opened + word + closed
        for word in (".Name", ".HostConfig.Runtime", "json .HostConfig.DeviceRequests")
    )
    # One that has ended meanwhile makes docker fail; what it says of the others is whole.
    found = []
    for one in ask(["ps", "--quiet", "--no-trunc"]).split():
        words = ask(["inspect", "--format", shape, one]).strip().split(" ", 2)
        if len(words) == 3 and (words[1] == "nvidia" or asks_for_gpus(words[2])):
            found.append(words[0].lstrip("/"))
    return sorted(found)


def asks_for_gpus(text):
    """Does a container's list of device requests (docker's JSON) name GPUs? `--gpus` does."""
    try:
        requests = json.loads(text) or []
    except ValueError:
        return False
    for one in requests:
        words = [word for group in one.get("Capabilities") or [] for word in group]
        if one.get("Driver") == "nvidia" or "gpu" in words:
            return True
    return False


def parting():
    """What stands in the way of taking the toolkit away."""
    found = {"entry": False, "default": False, "fault": None, "users": users()}
    try:
        config = read()
    except RefusedError as error:
        return dict(found, fault=str(error))
    found["entry"] = runtime(config) == RUNTIME
    found["default"] = config.get("default-runtime") == "nvidia"
    return found


def take():
    """Take the runtime out of daemon.json; a copy of what was there is kept beside it.

    A file in which nothing else stands goes. An entry that leads elsewhere is somebody else's. A
    dockerd that runs reads the file anew.
    """
    config = read()
    if runtime(config) != RUNTIME:
        return {"changed": False, "saved": None}
    if config.get("default-runtime") == "nvidia":
        raise RefusedError("{0} names nvidia as default-runtime".format(CONFIG))
    runtimes = {name: one for name, one in config["runtimes"].items() if name != "nvidia"}
    left = {name: value for name, value in config.items() if name != "runtimes"}
    if runtimes:
        left["runtimes"] = runtimes
    path = os.path.realpath(inside(CONFIG))
    saved, like = kept(path)
    running = daemon()
    if running is not None:
        put(path, dict(left, runtimes=runtimes), like)
        os.kill(int(running.split()[0]), signal.SIGHUP)
        forgotten()
    if left:
        put(path, left, like)
    else:
        os.unlink(path)
    return {"changed": True, "saved": saved}


def forgotten():
    """Wait until docker knows the runtime no more; one that does not answer is not waited for."""
    for _ in range(50):
        if '"nvidia"' not in known():
            return
        time.sleep(0.2)


def known():
    """Docker's own list of its runtimes, as JSON; "" where it does not answer."""
    opened, closed = "{" * 2, "}" * 2
    return ask(["info", "--format", opened + "json .Runtimes" + closed])


def restore(saved):
    """Put back what `write` found: the file that it kept under `saved`, or none ("")."""
    path = os.path.realpath(inside(CONFIG))
    if saved:
        like = os.stat(saved)
        with open(saved, encoding="utf-8") as file:
            replace(path, file.read(), like.st_mode & 0o7777, like)
    else:
        os.unlink(path)
    return {"restored": saved or None}


def proof():
    """What docker knows of the runtime now. RefusedError where it does not know it."""
    try:
        found = json.loads(known())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise RefusedError("docker runs and does not answer")
    if "nvidia" not in found:
        raise RefusedError("docker knows the runtimes {0} alone".format(", ".join(sorted(found))))
    return {"runtimes": sorted(found)}


def main(argv):
    """The program."""
    actions = {
        "look": look,
        "owe": owe,
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
