#!/usr/bin/python3
"""A workspace for each person of a host: a container that systemd keeps, with Jupyter or sshd.

What a person gets stands in /etc/gpu-workspace/NAME/workspace.json, and systemd's unit
gpu-workspace@NAME runs this program, which makes docker's command of it. The token lies beside it,
is mounted into the container and read there from its file: in no command line, no environment and
no answer of docker's. A password for SSH is a hash in a file of root's, and comes only from who
wished for one. Nobody's home is ever removed from here.

The role pipes it to the host's Python before it is installed (look), and then calls it: apply,
prove. The units call run and stop; people call list. A change of one person gives that one a new
revision, which the container carries as a label: what runs and what is wished are told apart by
it, and no other container is touched.

Standard library, Python 3.7.
"""

import fcntl
import hashlib
import http.client
import json
import os
import re
import resource
import secrets
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

ROOT = "/"
PLACE = "/etc/gpu-workspace"
STATE = "/run/gpu-workspace"
# {name: uid} of everybody who ever had a workspace here: a uid is never another person's.
USERS = "/var/lib/gpu-workspace/users.json"
# Above the uids of accounts and of systemd's own, below those that useradd hands out for user
# namespaces: https://systemd.io/UIDS-GIDS/
FIRST_USER, LAST_USER = 70000, 99999
# Whom everybody was before each had a uid of their own.
FORMER_USER = "1000:1000"
# Directories that hold more than homes: nobody else may enter the homes' root.
SHARED_PLACES = {
    "/" + one
    for one in (
        *("bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc"),
        *("root", "run", "sbin", "srv", "sys", "tmp", "usr", "usr/local", "var", "var/lib"),
        *("var/tmp", "var/lib/docker", "var/lib/gpu-workspace"),
    )
}
UNIT = "gpu-workspace@{0}.service"
WANTS = "/etc/systemd/system/multi-user.target.wants/"
# What leads to a container: PORT.format("ada.jupyter") and the path that systemd opens for it.
PORT = "gpu-workspace-port@{0}.socket"
PORTS = "/run/gpu-workspace-ports"
UNITS_PLACE = "/etc/systemd/system"
PORT_WANTS = UNITS_PLACE + "/sockets.target.wants/"
PROXIES = ("/usr/lib/systemd/systemd-socket-proxyd", "/lib/systemd/systemd-socket-proxyd")
SOCKET = "unix:///var/run/docker.sock"
LABEL = "gpu-workspace"
REVISION = "gpu-workspace.revision"
SHOWN = "/run/gpu-workspace"
INSIDE = SHOWN + "/token"
# What crypt(3) makes of a password: SHA-512 or yescrypt; of the weaker ones none.
# https://manpages.debian.org/bookworm/libcrypt-dev/crypt.5.en.html
HASH = re.compile(
    r"\$6\$(rounds=\d{4,9}\$)?[./0-9A-Za-z]{1,16}\$[./0-9A-Za-z]{86}"
    r"|\$y\$[./0-9A-Za-z]+\$[./0-9A-Za-z]{1,86}\$[./0-9A-Za-z]{43}"
)
JUPYTER = 8888
SSH = 22
TENSORBOARD = 6006
SERVES = {"jupyter": JUPYTER, "tensorboard": TENSORBOARD}
# All workspaces are on one network of docker's, on which they do not reach each other.
NETWORK = "gpu-workspaces"
# Threads count too: a library of numbers starts one for each processor in each of its programs.
PIDS = 16384
APART = "com.docker.network.bridge.enable_icc=false"
TIMEOUT = 60
# No list of GPUs is longer, and no answer of Jupyter's that counts kernels.
SAID = 1 << 16
ANSWER = 10
# docker answers nobody while it makes or removes a container; without an overlay it copies the
# whole image for each.
STARTS = 600
# systemd tries again after 5 seconds: what is still wrong then does not cure itself.
PERSISTS = 12

KEYS = (
    *("name", "kind", "gpus", "shared", "cpus", "memory", "shm_size"),
    *("port", "ssh_port", "ssh_keys", "tensorboard_port", "user", "volumes"),
)
# What each kind is, beside what all have: {kind: the words that it needs}.
KINDS = {
    "jupyter": ("port",),
    "ssh": ("ssh_port", "ssh_keys"),
    "both": ("port", "ssh_port", "ssh_keys"),
}
VOLUME_KEYS = ("path", "at", "writable")
SECRET_KEYS = ("token", "tokens", "secret")
PASSWORD_KEYS = ("password", "passwords", "passwd", "password_hash")
NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)"
    r"@openssh\.com) [A-Za-z0-9+/=]{40,}( [ -~]*)?"
)
USER = re.compile(r"\d{1,9}(:\d{1,9})?")
SIZE = re.compile(r"(\d+)([kmg])b?", re.I)
UUID = re.compile(r"GPU-[0-9a-fA-F-]{8,}")
UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
SHORTEST_TOKEN = 16
# By SSH `root` was uid 0, whatever `user` said.
SYSTEMS_OWN = ("root", "sshd")

# In the container: whichever Jupyter the image has. It reads the token from the file that
# JUPYTER_TOKEN_FILE names, and shows `...` for it in its log.
START_JUPYTER = (
    "for one in jupyter-lab jupyter-notebook; do command -v $one >/dev/null && exec {0}$one "
    "--ip=0.0.0.0 --port={1} --no-browser --allow-root {2}; done; "
    "echo 'there is no Jupyter in this image' >&2; exit 127"
)
# Everybody's Jupyter has a path of its own, by which a proxy in front of all tells them apart, and
# takes from it who asks and by what (X-Forwarded-Proto). The words are of jupyter_server and of the
# notebook before it; neither minds the other's.
SERVED = (("base_url", "/{0}/"), ("trust_xheaders", "True"))
# sshd takes nothing over from the image's environment, in which CUDA and Python are found; what it
# is told here a session has. It knows people by the image's list, in which this one is put. The
# image's own configuration is not read: it may let others in, and names what can be named once.
# OpenSSH before 8.7 offers keyboard-interactive unless the older name of the option says no too:
# https://www.openssh.com/txt/release-8.7
START_SSH = r"""
mkdir -p /run/sshd
# The image may have that name for another uid.
sed -i '/^@name@:/d' /etc/passwd
echo '@name@:x:@uid@:@gid@::/home/@name@:/bin/bash' >> /etc/passwd
grep -q '^[^:]*:[^:]*:@gid@:' /etc/group || echo '@name@:x:@gid@:' >> /etc/group
# A password lets somebody in where there is one, and nobody else can read what it is known by.
ways=no
if [ -s @shown@/password ]; then
    ways=yes
    umask 077
    { grep -v '^@name@:' /etc/shadow; printf '%s:' '@name@'; tr -d '\n' < @shown@/password
      echo ':19000:0:99999:7:::'; } > /etc/shadow.new
    sed -i 's/^@name@:[^:]*:/@name@:x:/' /etc/passwd
    mv /etc/shadow.new /etc/shadow
    umask 022
fi
told=
for one in PATH LD_LIBRARY_PATH CUDA_HOME CUDA_PATH XLA_FLAGS LANG; do
    eval "value=\${$one-}"
    [ -z "$value" ] || told="$told \"$one=$value\""
done
set -- -D -e -f /dev/null -p @port@ -h @shown@/host_key \
    -o AuthorizedKeysFile=@shown@/authorized_keys \
    -o AllowUsers=@name@ -o "PasswordAuthentication=$ways" -o KbdInteractiveAuthentication=no \
    -o ChallengeResponseAuthentication=no \
    -o UsePAM=no -o PermitRootLogin=prohibit-password -o PermitUserEnvironment=no \
    -o PidFile=none -o "Subsystem=sftp internal-sftp"
[ -z "$told" ] || set -- "$@" -o "SetEnv=${told# }"
"""
# sshd starts itself anew for each connection, and for that wants to be called by its whole path.
SSHD = '"$(command -v sshd || echo /usr/sbin/sshd)" "$@"'
# It has no password: it listens to its own container alone, into which `relay` leads. What ends it
# does not end the container.
START_TENSORBOARD = """\
while :; do
    {0}mkdir -p /home/{1}/logs
    {0}tensorboard --logdir=/home/{1}/logs --host=127.0.0.1 --port={2} \\
        --path_prefix=/{1}/tensorboard
    sleep 5
done &
"""
HAS = {
    "jupyter": ("command -v jupyter-lab || command -v jupyter-notebook", "Jupyter"),
    "tensorboard": ("command -v tensorboard", "tensorboard"),
    "ssh": ("test -x /usr/sbin/sshd || command -v sshd", "sshd"),
}


class RefusedError(Exception):
    """Nothing was stopped and nothing is lost; the text says why."""


# what is wished


def checked(value):
    """The list `gpu_workspaces`, each with all keys. ValueError says what is wrong with it.

    No value of an unknown key is ever shown: it may be a secret in the wrong place.
    """
    if not isinstance(value, list):
        raise ValueError("it is a list of people, each a mapping with a name")
    people = [_person(number, one) for number, one in enumerate(value, 1)]
    _apart(people)
    return people


def _person(number, one):
    if not isinstance(one, dict):
        raise ValueError("entry {0} is no mapping; expected {{name: ada, ...}}".format(number))
    name = one.get("name")
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        said = json.dumps(name) if isinstance(name, (str, int, float, bool)) else "nothing"
        raise ValueError(
            "entry {0}: {1} is no user name; expected small letters, digits, - and _, with a "
            "letter first, 32 at most".format(number, said)
        )
    for key in sorted(one, key=str):
        if key in SECRET_KEYS:
            raise ValueError(
                "{0}: {1} does not stand here; expected it in gpu_workspace_tokens: "
                "{{{0}: !vault ...}}, or nowhere: then the host makes one".format(name, key)
            )
        if key in PASSWORD_KEYS:
            raise ValueError(
                "{0}: {1} does not stand here; expected its hash in gpu_workspace_passwords: "
                "{{{0}: !vault ...}}, or nowhere: then keys alone let {0} in".format(name, key)
            )
        if key not in KEYS:
            raise ValueError(
                "{0} has the unknown word {1}; expected {2}".format(
                    name, json.dumps(key), ", ".join(KEYS)
                )
            )
    found = dict(DEFAULTS, **one)
    if name in SYSTEMS_OWN and one.get("kind") in ("ssh", "both"):
        raise ValueError(
            "entry {0}: {1} is an account that sshd itself needs in the container; expected "
            "another name".format(number, name)
        )
    if found["kind"] not in KINDS:
        raise ValueError("{0}: kind is {1}".format(name, _FORMS["kind"]))
    needed = ("gpus", *KINDS[found["kind"]])
    for key in needed:
        if key not in one:
            raise ValueError("{0} needs {1}: {2}".format(name, key, _FORMS[key]))
    for key in KEYS[2:]:
        if key in KINDS["both"] and key not in needed:
            if key in one:
                raise ValueError(
                    "{0}: {1} has no meaning for kind {2}".format(name, key, found["kind"])
                )
        elif key in found and not _CHECKS[key](found[key]):
            raise ValueError("{0}: {1} is {2}".format(name, key, _FORMS[key]))
    return found


DEFAULTS = {
    "kind": "jupyter",
    "shared": False,
    "cpus": 0,
    "memory": "",
    "shm_size": "1g",
    "user": "",
    "volumes": [],
}
_FORMS = {
    "kind": "jupyter, ssh or both",
    "gpus": "all, none, how many (1), or a list of indices and UUIDs ([0, GPU-...])",
    "shared": "true or false",
    "cpus": "a number of processors (2, 0.5); 0: no limit",
    "memory": 'a size like "16g" or "512m"; empty: no limit',
    "shm_size": 'a size like "1g"',
    "port": "a number from 1 to 65535",
    "ssh_port": "a number from 1 to 65535",
    "tensorboard_port": "a number from 1 to 65535",
    "ssh_keys": "a list of public keys, each as a line of ~/.ssh/id_ed25519.pub",
    "user": 'numbers of a user and a group, like "5001:5001"; empty: the host chooses',
    "volumes": "a list of {path: /data, at: /data, writable: false}, absolute, without , and :",
}


def _whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


def _gpus(value):
    if isinstance(value, list):
        fit = [
            (_whole(one) and one >= 0) or (isinstance(one, str) and UUID.fullmatch(one))
            for one in value
        ]
        return bool(value) and all(fit) and len(set(map(str, value))) == len(value)
    return value in ("all", "none") if isinstance(value, str) else _whole(value) and value > 0


def _port(value):
    return _whole(value) and 0 < value < 65536


def _volumes(value):
    if not isinstance(value, list):
        return False
    for one in value:
        if not isinstance(one, dict) or not {"path"} <= set(one) <= set(VOLUME_KEYS):
            return False
        places = [one["path"], one.get("at", one["path"])]
        if not all(isinstance(x, str) and re.fullmatch(r"/[^,:\n]+", x) for x in places):
            return False
        if not isinstance(one.get("writable", False), bool):
            return False
    return True


_CHECKS = {
    "gpus": _gpus,
    "shared": lambda value: isinstance(value, bool),
    "cpus": lambda value: (
        isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
    ),
    "memory": lambda value: value == "" or size(value) is not None,
    "shm_size": lambda value: size(value) is not None,
    "port": lambda value: _port(value),
    "ssh_port": lambda value: _port(value),
    "tensorboard_port": lambda value: _port(value),
    "ssh_keys": lambda value: (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, str) and KEY.fullmatch(one.strip()) for one in value)
    ),
    "user": lambda value: (
        isinstance(value, str) and (value == "" or USER.fullmatch(value) is not None)
    ),
    "volumes": _volumes,
}


def size(value):
    """Bytes of "16g", or None."""
    match = SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match.group(1)) == 0:
        return None
    return int(match.group(1)) * UNITS[match.group(2).lower()]


def _apart(people):
    """What two people can't have both."""
    seen = {}
    for one in people:
        said = [("name", one["name"])] + [("port", port) for port in ports(one)]
        if one["user"] and _owner(one["user"])[0]:
            # Two people with one uid could end and read each other's programs and files.
            said.append(("user", _owner(one["user"])[0]))
        for what in said:
            if what in seen:
                raise ValueError(
                    "{0} {1} is said twice ({2} and {3})".format(*what, seen[what], one["name"])
                )
            seen[what] = one["name"]
    takers = [one for one in people if one["gpus"] != "none"]
    everything = [one for one in takers if one["gpus"] == "all"]
    for one in everything:
        for other in takers:
            if other is not one and not (one["shared"] and other["shared"]):
                raise ValueError(
                    "{0} gets all GPUs, and {1} some of them; where that is meant, say shared: "
                    "true of both".format(one["name"], other["name"])
                )
    promised = {}
    for one in takers:
        for gpu in one["gpus"] if isinstance(one["gpus"], list) else ():
            other = promised.setdefault(str(gpu), one)
            if other is not one and not (one["shared"] and other["shared"]):
                raise ValueError(
                    "GPU {0} is promised twice, to {1} and {2}; where that is meant, say shared: "
                    "true of both".format(gpu, other["name"], one["name"])
                )


def ports(person):
    """The ports of the host that a workspace takes."""
    return [person[key] for key in ("port", "ssh_port", "tensorboard_port") if key in person]


def memory(people):
    """Bytes that they may use all together."""
    return sum(size(one["memory"]) or 0 for one in people)


def allocated(people, uuids, kept):
    """{name: "all", [] or [indices]} of the GPUs of a host; ValueError where there are not enough.

    `uuids` are the host's GPUs by index, `kept` what each had before: who asks for a number keeps
    his GPUs while they fit, so that one who comes or goes moves nobody else.
    """
    found, taken = {}, {}
    for one in people:
        if isinstance(one["gpus"], list):
            found[one["name"]] = mine = [_index(one["name"], gpu, uuids) for gpu in one["gpus"]]
            for index in mine:
                other = taken.setdefault(index, one)
                if other is not one and not (one["shared"] and other["shared"]):
                    raise ValueError(
                        "GPU {0} is promised twice, to {1} and {2}".format(
                            index, other["name"], one["name"]
                        )
                    )
        elif isinstance(one["gpus"], str):
            if one["gpus"] == "all" and not uuids:
                raise ValueError("{0} gets all GPUs, and nvidia-smi lists none".format(one["name"]))
            found[one["name"]] = "all" if one["gpus"] == "all" else []
    counting = [one for one in people if _whole(one["gpus"])]
    # Those who have theirs already come first.
    counting.sort(key=lambda one: len(kept.get(one["name"]) or []) != one["gpus"])
    for one in counting:
        free = [
            index
            for index in range(len(uuids))
            if index not in taken or (one["shared"] and taken[index]["shared"])
        ]
        mine = kept.get(one["name"]) or []
        if len(mine) != one["gpus"] or not set(mine) <= set(free):
            # Of those that may be shared the ones nobody has yet come first.
            mine = sorted(sorted(free, key=lambda index: index in taken)[: one["gpus"]])
        if len(mine) < one["gpus"]:
            raise ValueError(
                "{0} asks for {1} GPUs, and {2} of the host's {3} are left".format(
                    one["name"], one["gpus"], len(free), len(uuids)
                )
            )
        found[one["name"]] = mine
        for index in mine:
            taken.setdefault(index, one)
    return found


def _index(name, gpu, uuids):
    if isinstance(gpu, int) and gpu < len(uuids):
        return gpu
    if gpu in uuids:
        return uuids.index(gpu)
    raise ValueError(
        "{0} asks for GPU {1}, and nvidia-smi lists {2}".format(
            name,
            gpu,
            "0 to {0}".format(len(uuids) - 1) if len(uuids) > 1 else "{0}".format(len(uuids)),
        )
    )


# the host


def inside(path):
    """A path of the host."""
    return os.path.join(ROOT, path.lstrip("/"))


def text(path):
    """A file's text; None where there is none."""
    try:
        with open(inside(path), encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def data(path):
    """A file's JSON; None where there is none, or it is something else."""
    try:
        return json.loads(text(path) or "null")
    except ValueError:
        return None


def put(path, content, mode=0o600, owner=(0, 0)):
    """The whole file or the old one."""
    handle, new = tempfile.mkstemp(dir=os.path.dirname(inside(path)), prefix=".new-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(new, mode)
        if os.geteuid() == 0:
            os.chown(new, *owner)
        os.replace(new, inside(path))
    except BaseException:
        os.unlink(new)
        raise


def call(command, timeout=TIMEOUT):
    """(exit code, output, errors) of a program; 127 where there is none, 124 where it hangs."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError:
        return 127, "", "{0} is not here".format(command[0])
    except subprocess.TimeoutExpired:
        return 124, "", "{0} did not answer within {1} s".format(command[0], timeout)
    return (
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
    )


def inquire(name, *command):
    """(exit code, output, errors) of a program of somebody's container, run as that person.

    What it says is the person's: no more than SAID bytes of it are read, within TIMEOUT seconds,
    and nothing of it but printable characters is passed on.
    """
    user = _wished(_settings(name))["user"]
    # A program in the container that docker has begun outlives its `docker exec`.
    bound = ["timeout", "-k", "5", str(TIMEOUT)] if command[0] != "/bin/sh" else []
    words = ["exec", "--user", user, container(name), *bound, *command]
    return limited(["docker", "--host", SOCKET, *words])


def limited(command, timeout=TIMEOUT, size=SAID):
    """`call` of a program that may say anything, for ever, as much as it likes."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except FileNotFoundError:
        return 127, "", "{0} is not here".format(command[0])
    said, until = {process.stdout: b"", process.stderr: b""}, time.monotonic() + timeout
    reading = set(said)
    while reading:
        ready = select.select(list(reading), [], [], max(0, until - time.monotonic()))[0]
        if not ready:
            break
        for stream in ready:
            block = os.read(stream.fileno(), 65536)
            said[stream] += block
            if not block:
                reading.discard(stream)
        if max(map(len, said.values())) > size:
            break
    if reading:
        process.kill()
    process.wait()
    out, error = (
        re.sub(r"[^\n\x20-\x7e]", "?", said[stream][:size].decode("utf-8", "replace"))
        for stream in (process.stdout, process.stderr)
    )
    process.stdout.close()
    process.stderr.close()
    if max(map(len, said.values())) > size:
        return 124, out, "it says more than {0} bytes".format(size)
    return (124, out, "no answer within {0} s".format(timeout)) if reading else (
        process.returncode, out, error,
    )  # fmt: skip


def docker(*arguments, **options):
    """`call` of docker on this host's own socket. RefusedError where it does not answer."""
    answer = call(["docker", "--host", SOCKET, *arguments], **dict({"timeout": STARTS}, **options))
    if answer[0] == 124:
        raise RefusedError(answer[2])
    return answer


def must(answer, what):
    """The output of a call that has to succeed."""
    code, out, error = answer
    if code:
        raise RefusedError("{0}: {1}".format(what, (error or out).strip()[-800:]))
    return out


def shape(*words):
    """A format for docker, in pieces: Ansible reads double brackets as its own."""
    return " ".join("{" * 2 + word + "}" * 2 for word in words)


def folder(name):
    return "{0}/{1}".format(PLACE, name)


def container(name):
    return "{0}-{1}".format(LABEL, name)


def there():
    """Names of the people who have something here."""
    try:
        names = os.listdir(inside(PLACE))
    except FileNotFoundError:
        return []
    return sorted(n for n in names if NAME.fullmatch(n) and os.path.isdir(inside(folder(n))))


def running():
    """{name: revision} of the workspaces whose containers run."""
    label = '.Label "{0}"'
    form = shape(label.format(LABEL), label.format(REVISION))
    out = must(
        docker("ps", "--no-trunc", "--filter", "label=" + LABEL, "--format", form),
        "docker does not answer",
    )
    pairs = [line.split() for line in out.splitlines()]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def gpus():
    """UUIDs of the host's GPUs, by index."""
    return re.findall(r"^GPU \d+: .*\(UUID: (\S+)\)", call(["nvidia-smi", "-L"])[1], re.M)


def settings(wish, person):
    """What stands in workspace.json: the person as wished, and what all have."""
    found = {key: wish[key] for key in ("image", "root", "address", "ssh_address")}
    found.update(base="/{0}/".format(person["name"]), network=NETWORK, workspace=person)
    return dict(found, ports=PORTS, user=wish["users"].get(person["name"]))


def digest(token):
    return hashlib.sha256(token.encode("utf-8")).hexdigest()


def needless(passwords, people):
    """Why a password is not to be used, without a word of it; None where each is.

    `people` are those of the wish, with all keys.
    """
    kinds = {one["name"]: one for one in people}
    for name in sorted(passwords):
        hashed = passwords[name]
        if name not in kinds or "ssh" not in _parts(kinds[name]["kind"]):
            return "gpu_workspace_passwords names {0}, who has no SSH".format(name)
        if kinds[name]["user"] and _owner(kinds[name]["user"])[0] == 0:
            return "{0} is root in the container, whom sshd lets in by keys alone".format(name)
        if not isinstance(hashed, str) or HASH.fullmatch(hashed) is None:
            return (
                "the password of {0} in gpu_workspace_passwords is no hash of crypt(3) by SHA-512 "
                "or yescrypt ($6$, $y$): `openssl passwd -6` makes one".format(name)
            )
    return None


def fault_of(name, wish, person, runs, digests):
    """Why a workspace is not as wished, in a few words; None where it is."""
    place = folder(name)
    found = data(place + "/workspace.json")
    if found is None:
        return "absent"
    if found != settings(wish, person):
        return "other settings"
    token = text(place + "/token")
    if not token:
        return "no token"
    if name in digests and digest(token) != digests[name]:
        return "another token"
    password = text(place + "/password")
    if (digest(password) if password else None) != (wish.get("passed") or {}).get(name):
        return "another password"
    revision = (text(place + "/revision") or "").strip()
    if not revision:
        return "unfinished"
    if owner_of(_home(wish["root"], name)) != found["user"]:
        return "the home is another user's"
    if not os.path.lexists(inside(WANTS + UNIT.format(name))):
        return "not enabled"
    if not held(name, settings(wish, person)):
        return "its port is not held"
    if runs.get(name) != revision:
        return "runs as before" if name in runs else "does not run"
    return None


# whose uid is whose


def _home(root, name):
    return "{0}/{1}".format(root, name)


def owner_of(path):
    """ "uid:gid" of a directory; None where there is none, or it is a link or something else."""
    try:
        found = os.lstat(inside(path))
    except OSError:
        return None
    return "{0.st_uid}:{0.st_gid}".format(found) if stat.S_ISDIR(found.st_mode) else None


def recorded():
    """{name: uid} that people were given here, whoever is gone among them."""
    found = data(USERS)
    pairs = found.items() if isinstance(found, dict) else ()
    return {name: uid for name, uid in pairs if _whole(uid)}


def accounts(kind, numbers):
    """{number: name} of the host's accounts ("passwd") or groups ("group") among these numbers.

    getent asks whatever the host knows its accounts by, LDAP too; where that does not answer in
    time it is the host's own file.
    """
    lines = (text("/etc/" + kind) or "").splitlines()
    lines += call(["getent", kind, *sorted(map(str, numbers))])[1].splitlines() if numbers else []
    rows = [line.split(":") for line in lines]
    known = {int(row[2]): row[0] for row in rows if len(row) > 3 and row[2].isdigit()}
    return {number: known[number] for number in numbers if number in known}


def delegated(number):
    """Whose user namespaces a uid or gid is for (/etc/subuid, /etc/subgid); None: nobody's."""
    for path in ("/etc/subuid", "/etc/subgid"):
        for line in (text(path) or "").splitlines():
            name, _, rest = line.partition(":")
            start, _, count = rest.partition(":")
            if not start.isdigit() or not count.isdigit():
                continue
            if int(start) <= number < int(start) + int(count):
                return "{0} ({1})".format(name, path)
    return None


def taken(person):
    """Why the `user` that somebody is wished for is not theirs to have; None where it is.

    Who is that account on the host could run programs of theirs outside the container, and read
    the home. Root is root inside as well, and who writes "0:0" says so.
    """
    if not person["user"] or _owner(person["user"])[0] == 0:
        return None
    uid, gid = _owner(person["user"])
    said = "user {0} of {1}".format(person["user"], person["name"])
    owner = accounts("passwd", [uid]).get(uid)
    if owner:
        return "{0} is {1}, an account of this host".format(said, owner)
    if delegated(uid) or delegated(gid):
        holder = delegated(uid) or delegated(gid)
        return "{0} is among the numbers that {1} has for containers".format(said, holder)
    rows = [line.split(":") for line in (text("/etc/passwd") or "").splitlines()]
    owner = next((row[0] for row in rows if len(row) > 3 and row[3] == str(gid)), None)
    if owner:
        return "{0} has the group of {1}, an account of this host".format(said, owner)
    # 100 is `users`, which gives no rights; the others of the system (docker, sudo, disk) do.
    if gid < 1000 and gid != 100:
        return "{0} has a group of the system".format(said)
    return None


def own_users(people):
    """{name: "uid:gid"} of those who have one by now; a recorded uid that an account got is none.

    RefusedError where somebody is wished for as an account of the host.
    """
    for one in people:
        why = taken(one)
        if why:
            raise RefusedError(
                "{0}; leave `user` out, then the host gives {1} a number of their own".format(
                    why, one["name"]
                )
            )
    known = recorded()
    lost = accounts("passwd", set(known.values()))
    found = {}
    for one in people:
        uid = known.get(one["name"])
        if one["user"]:
            found[one["name"]] = "{0}:{1}".format(*_owner(one["user"]))
        elif uid is not None and uid not in lost and not delegated(uid):
            found[one["name"]] = "{0}:{0}".format(uid)
    return found


def assign(people, root):
    """{name: "uid:gid"} of all; who has none yet gets one, which is recorded before it is used."""
    found, known = own_users(people), recorded()
    lacking = [one["name"] for one in people if one["name"] not in found]
    homes = os.listdir(inside(root)) if os.path.isdir(inside(root)) else []
    owners = {name: int((owner_of(_home(root, name)) or "0").split(":")[0]) for name in homes}
    used = set(known.values()) | {int(one.split(":")[0]) for one in found.values()}
    for name in lacking:
        # Where the record was lost a home still tells whose it is.
        mine = owners.get(name, 0)
        others = used | {owners[one] for one in owners if one != name}
        if not (FIRST_USER <= mine <= LAST_USER and mine not in others and _free([mine])):
            mine = _next(others | {mine})
        known[name] = mine
        used.add(mine)
        found[name] = "{0}:{0}".format(mine)
    if lacking:
        os.makedirs(os.path.dirname(inside(USERS)), mode=0o700, exist_ok=True)
        put(USERS, json.dumps(known, sort_keys=True) + "\n")
    return found


def _free(numbers):
    """Those that no account and no group has, and nobody's user namespaces."""
    there = set(accounts("passwd", numbers)) | set(accounts("group", numbers))
    return [one for one in numbers if one not in there and not delegated(one)]


def _next(used):
    """The first number of the range that is nobody's."""
    for start in range(FIRST_USER, LAST_USER + 1, 64):
        block = [one for one in range(start, min(start + 64, LAST_USER + 1)) if one not in used]
        free = _free(block) if block else []
        if free:
            return free[0]
    raise RefusedError(
        "no uid from {0} to {1} is left on this host; say `user` of who is new".format(
            FIRST_USER, LAST_USER
        )
    )


# the homes


def unfit(root):
    """Why a directory can't be the homes' root, which root alone enters; None where it can.

    Who could rename one of its parents could put another directory in its place.
    """
    real = os.path.realpath(inside(root))
    within = "/" + os.path.relpath(real, inside("/")) if ROOT != "/" else real
    for path in (root, within):
        if path.rstrip("/") in SHARED_PLACES or path == "/":
            return "{0} holds more than homes, and nobody else could use it".format(path)
        for line in (text("/etc/passwd") or "").splitlines():
            home = line.split(":")[5] if line.count(":") == 6 else ""
            if (home.rstrip("/") + "/").startswith(path.rstrip("/") + "/"):
                return "{0} is in it, the home of {1}".format(home, line.split(":")[0])
        parent = os.path.dirname(path.rstrip("/"))
        while True:
            why = _writable(parent)
            if why:
                return why
            if parent == "/":
                break
            parent = os.path.dirname(parent)
    return None


def _writable(path):
    """Who else than root can rename what is in a directory; None: nobody, or it is not there."""
    try:
        found = os.lstat(inside(path))
    except OSError:
        return None
    if found.st_uid not in (0, os.geteuid()):
        return "{0} belongs to uid {1}, who could replace what is in it".format(path, found.st_uid)
    if stat.S_ISLNK(found.st_mode) or found.st_mode & stat.S_ISVTX:
        return None
    if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and found.st_gid):
        mode = stat.S_IMODE(found.st_mode)
        return "{0} has mode {1:04o}: others can replace what is in it".format(path, mode)
    return None


def open_to_others(root):
    """Is the homes' root there, and not of root alone?"""
    try:
        found = os.stat(inside(root))
    except OSError:
        return False
    return found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != 0o700


def close_root(root):
    """The homes' root is root's alone. What a container puts into a home can run programs outside
    it as whoever that uid is on the host: nobody of the host gets there."""
    real = inside(root)
    os.makedirs(os.path.dirname(real), mode=0o755, exist_ok=True)
    if not os.path.isdir(real):
        os.mkdir(real, 0o700)
    handle = os.open(real, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if os.geteuid() == 0:
            os.fchown(handle, 0, 0)
        os.fchmod(handle, 0o700)
    finally:
        os.close(handle)


def mounted_in(home):
    """What is mounted below a home: its files may be somebody else's."""
    found = []
    for line in (text("/proc/self/mountinfo") or "").splitlines():
        place = re.sub(r"\\([0-7]{3})", lambda one: chr(int(one.group(1), 8)), line.split()[4])
        if place.startswith(home + "/"):
            found.append(place)
    return found


def _refuse_homes(wish, people):
    """RefusedError for a root or a home that can't be made safe."""
    why = unfit(wish["root"]) if people else None
    if why:
        raise RefusedError("gpu_workspace_root can't be {0}: {1}".format(wish["root"], why))
    for one in people:
        home = _home(wish["root"], one["name"])
        if os.path.lexists(inside(home)) and owner_of(home) is None:
            raise RefusedError(
                "{0} is no directory; where homes are on another disk, mount it there or name it "
                "in gpu_workspace_root".format(home)
            )
        mounted = mounted_in(home)
        if mounted and owner_of(home) != wish["users"].get(one["name"]):
            raise RefusedError(
                "{0} is mounted in the home of {1}, which is to get another owner; unmount it "
                "first, or bring it by `volumes`".format(mounted[0], one["name"])
            )


def hand_over(home, new):
    """Gives a home to the uid and gid `new`, with all in it that was its former owner's.

    No link is followed: each name is changed in the directory that was opened for it. The home
    itself comes last, so that a run that is cut off is seen, and done again. The kernel takes set-
    user-id and set-group-id bits from what is given away.
    """
    top = os.open(inside(home), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    former = os.fstat(top)

    def changed(found):
        uid = new[0] if found.st_uid == former.st_uid else -1
        return uid, new[1] if found.st_gid == former.st_gid else -1

    # Directories are open while something in them is not done: their number is that of the levels.
    levels = [(top, iter(os.listdir(top)))]
    try:
        while levels:
            here, names = levels[-1]
            name = next(names, None)
            if name is None:
                os.fchown(here, *changed(os.fstat(here)))
                os.fsync(here)
                os.close(levels.pop()[0])
                continue
            found = os.stat(name, dir_fd=here, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
                inner = os.open(name, flags, dir_fd=here)
                levels.append((inner, iter(os.listdir(inner))))
            else:
                os.chown(name, *changed(found), dir_fd=here, follow_symlinks=False)
    finally:
        for handle, _names in levels:
            os.close(handle)


def _give_home(home, user):
    """The home is there, and its person's."""
    if owner_of(home) is None:
        os.mkdir(inside(home), 0o700)
    if owner_of(home) != user and os.geteuid() == 0:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        hand_over(home, _owner(user))


# the ports of the host that lead to Jupyter and TensorBoard


def _listens(found):
    """{"ada.jupyter": text} of what a workspace.json has systemd listen at for somebody."""
    person = found["workspace"]
    places = {}
    if "port" in person:
        places["jupyter"] = (found["address"], person["port"])
    if "tensorboard_port" in person:
        # It knows no password.
        places["tensorboard"] = ("127.0.0.1", person["tensorboard_port"])
    return {"{0}.{1}".format(person["name"], what): LISTEN.format(*places[what]) for what in places}


LISTEN = """\
# Written by the Ansible role gpu_workspace; changes made here are lost.
[Socket]
ListenStream={0}:{1}
"""


def _listen_file(port):
    return "{0}/{1}.d/address.conf".format(UNITS_PLACE, PORT.format(port))


def opened_for(name):
    """The ports that systemd was told to hold for somebody, wished for or not."""
    before, after = PORT.split("{0}")
    try:
        units = os.listdir(inside(UNITS_PLACE))
    except FileNotFoundError:
        return []
    found = [one[len(before) : -len(after + ".d")] for one in units
             if one.startswith(before + name + ".") and one.endswith(after + ".d")]  # fmt: skip
    return sorted(found)


def held(name, wanted):
    """Does systemd hold the ports of somebody, as wished and from the next boot on?"""
    listens = _listens(wanted)
    return opened_for(name) == sorted(listens) and all(
        text(_listen_file(port)) == listens[port]
        and os.path.lexists(inside(PORT_WANTS + PORT.format(port)))
        and os.path.lexists(inside("{0}/{1}".format(PORTS, port)))
        for port in listens
    )


def close_ports(names):
    """systemd lets go of ports; who is led through them by now is cut off with the container."""
    if names:
        units = [PORT.format(one) for one in names]
        relays = [one[: -len("socket")] + "service" for one in units]
        call(["systemctl", "disable", "--now", *units], timeout=300)
        call(["systemctl", "stop", *relays], timeout=300)
    for one in names:
        shutil.rmtree(os.path.dirname(inside(_listen_file(one))), ignore_errors=True)


def hold_ports(settled):
    """systemd holds the ports of these people, {name: settings}; their containers are stopped."""
    wanted = {}
    for name in settled:
        wanted.update(_listens(settled[name]))
        close_ports([one for one in opened_for(name)
                     if text(_listen_file(one)) != _listens(settled[name]).get(one)])  # fmt: skip
    for one in wanted:
        os.makedirs(os.path.dirname(inside(_listen_file(one))), mode=0o755, exist_ok=True)
        put(_listen_file(one), wanted[one], 0o644)
    must(call(["systemctl", "daemon-reload"]), "systemctl daemon-reload")
    if wanted:
        units = [PORT.format(one) for one in sorted(wanted)]
        must(call(["systemctl", "enable", *units]), "systemctl enable")
        must(call(["systemctl", "start", *units], timeout=300), "systemctl start")


def relay(port):
    """Leads those who connect to a port of somebody's into the container, as long as it runs.

    The way leads by the container's own network, found by its process: not by an address or a port
    of the host that somebody else could have by then. Who connects while there is no container is
    turned away; systemd holds the port, and calls this again.
    """
    name, _, what = port.rpartition(".")
    handles = range(3, 3 + int(os.environ["LISTEN_FDS"]))
    entered = _entered(name)
    if entered is None:
        for one in handles:
            _turn_away(one)
        return
    process, net = entered
    child = os.fork()
    if child == 0:
        os.environ["LISTEN_PID"] = str(os.getpid())
        program = next((one for one in PROXIES if os.path.exists(one)), PROXIES[0])
        nobody = ("--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs")
        os.set_inheritable(net, True)
        words = ["nsenter", "--net=/proc/self/fd/{0}".format(net), "setpriv", *nobody, program]
        os.execvp("nsenter", [*words, "127.0.0.1:{0}".format(SERVES[what])])  # noqa: S606
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if not _lives(process):
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)
            break
        time.sleep(1)


def _entered(name):
    """(directory in /proc, network) of somebody's container, both open; None where none runs.

    It is asked for twice: between, the number of a process that ended can be another's.
    """
    before = _process(name)
    if before is None:
        return None
    try:
        process = os.open("/proc/{0}".format(before[0]), os.O_RDONLY | os.O_DIRECTORY)
        net = os.open("ns/net", os.O_RDONLY, dir_fd=process)
    except OSError:
        return None
    here = os.stat("/proc/self/ns/net")
    there = os.fstat(net)
    ours = (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
    return None if ours or _process(name) != before else (process, net)


def _process(name):
    """(pid, id) of somebody's container that runs; None where none does."""
    form = shape(".State.Pid", ".Id", 'index .Config.Labels "{0}"'.format(LABEL))
    code, out, _error = docker("inspect", "--format", form, container(name), timeout=TIMEOUT)
    words = out.split()
    if code or len(words) != 3 or words[0] == "0" or words[2] != name:
        return None
    return int(words[0]), words[1]


def _lives(process):
    """Does the process of an open directory of /proc still run?"""
    try:
        os.close(os.open("stat", os.O_RDONLY, dir_fd=process))
    except OSError:
        return False
    return True


def _turn_away(handle):
    """Ends the connections that wait at a listening socket."""
    listener = socket.socket(fileno=handle)
    listener.setblocking(False)
    try:
        while True:
            listener.accept()[0].close()
    except OSError:
        pass  # nobody waits any more
    listener.detach()


def kept():
    """{name: [indices]} that people have."""
    return {name: data(folder(name) + "/gpus.json") for name in there()}


def listening(port):
    """Does anything listen on this TCP port of the host?"""
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (text(path) or "").splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
                return True
    return False


def memory_there():
    """Bytes of memory of the host; None where unknown."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", text("/proc/meminfo") or "", re.M)
    return int(found.group(1)) * 1024 if found else None


def named(wish):
    """The wish with the name of the image that is built here, by all that goes into it."""
    if not wish.get("build"):
        return wish
    said = json.dumps(wish["build"], sort_keys=True)
    return dict(wish, image="gpu-workspace-built:" + digest(said)[:16])


def look(wish):
    """What differs from the wish. RefusedError for what this host can't give; stops nothing."""
    wish = named(wish)
    people = checked(wish["workspaces"])
    raw = {one["name"]: one for one in wish["workspaces"]}
    gone = [name for name in there() if name not in raw]
    found = {"changes": {}, "gone": gone, "image": True, "tried": True, "open": False}
    found["reference"] = wish["image"]
    if not people and not gone:
        return found
    # Without docker nobody's container runs, and who is gone can be forgotten all the same.
    runs = running() if people or docker("version")[0] == 0 else {}
    digests = wish.get("digests") or {}
    wish = dict(wish, users=own_users(people))
    _refuse_homes(wish, people)
    # Nobody's container is stopped for it.
    found["open"] = bool(people) and open_to_others(wish["root"])
    for one in people:
        fault = fault_of(one["name"], wish, raw[one["name"]], runs, digests)
        if fault is not None:
            found["changes"][one["name"]] = fault
    had, wanted = kept(), allocated(people, gpus() if _asks(people) else [], kept())
    for name in sorted(wanted):
        if had.get(name) is not None and had[name] != wanted[name]:
            found["changes"].setdefault(name, "other GPUs")
    room = size(wish.get("host_memory")) or memory_there()
    if room is not None and memory(people) > room:
        raise RefusedError(
            "the people of gpu_workspaces may use {0} MiB together; the host has {1} MiB".format(
                memory(people) >> 20, room >> 20
            )
        )
    used = {}
    for name in runs:
        used.update((port, name) for port in ports(_settings(name).get("workspace") or {}))
    for name in there():
        used.update((port, name) for port in _held_now(name))
    for one in people:
        for port in ports(one):
            if port not in used and listening(port):
                raise RefusedError(
                    "port {0} of {1} is in use by something else on this host".format(
                        port, one["name"]
                    )
                )
    _refuse_users(wish, found, runs)
    if people:
        network()
        found["image"] = docker("image", "inspect", wish["image"])[0] == 0
        # Nothing is written of an image in which that was not looked for.
        tried = set()
        for name in there():
            if _settings(name).get("image") == wish["image"]:
                tried |= _needs(_settings(name).get("workspace") or {})
        needed = set().union(*(_needs(one) for one in people))
        found["tried"] = found["image"] and needed <= tried
        found["parts"] = sorted(needed)
    return found


def _held_now(name):
    """The ports of the host that systemd holds for somebody."""
    person = _settings(name).get("workspace") or {}
    words = {"jupyter": "port", "tensorboard": "tensorboard_port"}
    return [
        person[words[what]]
        for what in words
        if words[what] in person
        and os.path.lexists(inside("{0}/{1}.{2}".format(PORTS, name, what)))
    ]


def _settings(name):
    found = data(folder(name) + "/workspace.json")
    return found if isinstance(found, dict) else {}


def _parts(kind):
    """What a kind consists of: jupyter, ssh."""
    return {"jupyter", "ssh"} if kind == "both" else {kind or "jupyter"}


def _needs(person):
    """What the image must have for somebody."""
    more = {"tensorboard"} if "tensorboard_port" in person else set()
    return _parts(person.get("kind")) | more


def network():
    """Whether our network is there. RefusedError where another one has its name."""
    code, out, _error = docker("network", "inspect", "--format", shape("json ."), NETWORK)
    if code:
        return False
    found = json.loads(out)
    option, _, value = APART.partition("=")
    if LABEL not in (found["Labels"] or {}) or (found["Options"] or {}).get(option) != value:
        raise RefusedError(
            "docker has a network {0} that is not of gpu_workspaces; remove it, or what uses "
            "it, first".format(NETWORK)
        )
    return True


def connect():
    """Makes the network where it is missing.

    docker takes one name for two networks, and then starts nothing on either: units that begin at
    once take turns.
    """
    os.makedirs(inside(STATE), mode=0o755, exist_ok=True)
    with open(inside(STATE + "/.network"), "w", encoding="utf-8") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not network():
            words = ("--driver", "bridge", "--label", LABEL, "--opt", APART, NETWORK)
            must(docker("network", "create", *words), "docker network create")


def _refuse_users(wish, found, runs):
    """RefusedError where the container of somebody who works in it would be stopped."""
    if wish.get("in_use") == "stop":
        return
    busy = []
    for name in sorted(runs):
        if name in found["changes"] or name in found["gone"]:
            count = opened(name, (_settings(name).get("workspace") or {}).get("port"))
            count += sessions(name)
            if count:
                busy.append("{0} ({1})".format(name, count))
    if busy:
        raise RefusedError(
            "these people have kernels, terminals or SSH open, and their containers would be "
            "stopped: {0}; let them save and end those, or set gpu_workspace_in_use to "
            "stop".format(", ".join(busy))
        )


def sessions(name):
    """How many connections to sshd somebody has open, as the container's network tells."""
    pid, count = (data("{0}/{1}.json".format(STATE, name)) or {}).get("pid"), 0
    for path in ("tcp", "tcp6"):
        for line in (text("/proc/{0}/net/{1}".format(pid, path)) or "").splitlines()[1:]:
            words = line.split()
            count += words[3] == "01" and int(words[1].rpartition(":")[2], 16) == SSH
    return count


def opened(name, port):
    """How many kernels and terminals somebody has open; 0 where Jupyter does not answer."""
    count = 0
    address = _settings(name).get("address")
    if not address or not port:
        return 0
    # One that was made before there were paths has none.
    base = _settings(name).get("base", "/")
    for path in ("api/kernels", "api/terminals"):
        # One that was made before systemd held the ports is asked at its own.
        place = (PORTS, name) if "ports" in _settings(name) else (address, port)
        status, body = ask(*place, base + path, text(folder(name) + "/token"))
        try:
            found = json.loads(body) if status == 200 else []
        except (ValueError, RecursionError):
            continue
        count += len(found) if isinstance(found, list) else 0
    return count


def _asks(people):
    return any(one["gpus"] != "none" for one in people)


def image(reference, *parts):
    """Refuses an image without what the people need of it, before any container is stopped."""
    script = "; ".join(
        "({0}) >/dev/null || echo lacks {1}".format(HAS[one][0], one) for one in parts
    )
    code, out, error = docker(
        *("run", "--rm", "--network", "none", "--entrypoint", "/bin/sh", reference),
        *("-c", script),
    )
    lacking = [HAS[line.split()[1]][1] for line in out.splitlines() if line.startswith("lacks ")]
    if code:
        raise RefusedError("docker could not try the image: {0}".format(error.strip()[-400:]))
    if lacking:
        raise RefusedError(
            "the image {0} has no {1} in its PATH".format(reference, " and no ".join(lacking))
        )
    return {"has": list(parts)}


def load(path, sha256, reference):
    """docker's image of a tar file under our own name, once its SHA-256 is the right one."""
    state = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            state.update(block)
    if state.hexdigest() != sha256:
        raise RefusedError(
            "{0} has the SHA-256 {1}; gpu_workspace_image_sha256 is {2}. It was not loaded".format(
                path, state.hexdigest(), sha256
            )
        )
    out = must(docker("load", "--input", path, timeout=3600), "docker load")
    names = re.findall(r"^Loaded image(?: ID)?: (\S+)$", out, re.M)
    if len(set(names)) != 1:
        raise RefusedError(
            "{0} holds {1} images; expected one: docker save NAME".format(path, len(set(names)))
        )
    must(docker("tag", names[0], reference), "docker tag")
    return {"loaded": names[0], "image": reference}


def apply(wish):
    """Brings people to what is wished, and only those who differ."""
    tokens = wish.get("tokens") or {}
    for name in sorted(tokens):
        token = tokens[name]
        if not isinstance(token, str) or len(token) < SHORTEST_TOKEN or re.search(r"\s", token):
            raise RefusedError(
                "the token of {0} in gpu_workspace_tokens is no text of at least {1} characters "
                "without blanks".format(name, SHORTEST_TOKEN)
            )
    passwords = wish.get("passwords") or {}
    wrong = needless(passwords, checked(wish["workspaces"]))
    # Where nobody is wished for they are nobody's, as tokens are.
    if wrong and wish["workspaces"]:
        raise RefusedError(wrong)
    digests = {name: digest(tokens[name]) for name in tokens}
    passed = {name: digest(passwords[name]) for name in passwords}
    wish = named(dict(wish, digests=digests, passed=passed))
    found = look(wish)
    if not found["image"]:
        raise RefusedError("docker has no image {0}".format(wish["image"]))
    people = {one["name"]: one for one in checked(wish["workspaces"])}
    raw = {one["name"]: one for one in wish["workspaces"]}
    every = list(people.values())
    given = allocated(every, gpus() if _asks(every) else [], kept())
    # Who is gone leaves a home, and what it holds must be out of reach as well.
    if every or (os.path.isdir(inside(wish["root"])) and unfit(wish["root"]) is None):
        close_root(wish["root"])
    if every:
        wish["users"] = assign(every, wish["root"])
    for name in found["gone"]:
        _remove(name)
    if found["gone"] and not there() and network():
        docker("network", "rm", NETWORK)  # somebody's own container may be on it: then it stays
    names = sorted(found["changes"])
    for name in names:
        secret = (tokens.get(name), passwords.get(name))
        _write(name, settings(wish, raw[name]), people[name], given[name], secret)
    units = [UNIT.format(name) for name in names]
    if units:
        # All are stopped before one is started: they may have changed ports or GPUs among them.
        must(call(["systemctl", "stop", *units], timeout=300), "systemctl stop")
        hold_ports({name: settings(wish, raw[name]) for name in names})
        for name in names:
            _give_home(_home(wish["root"], name), wish["users"][name])
            if not text(folder(name) + "/revision"):
                put(folder(name) + "/revision", secrets.token_hex(8) + "\n")
        must(call(["systemctl", "enable", *units]), "systemctl enable")
        must(call(["systemctl", "start", *units], timeout=300), "systemctl start")
    return {"changed": names, "removed": found["gone"], "tokens": folder("NAME/token")}


def _remove(name):
    """Stopped and forgotten; the home stays."""
    call(["systemctl", "disable", "--now", UNIT.format(name)], timeout=300)
    stop(name)
    close_ports(opened_for(name))
    shutil.rmtree(inside(folder(name)))


def _write(name, wanted, person, indices, secret):
    place, (token, password) = folder(name), secret
    os.makedirs(inside(PLACE), mode=0o700, exist_ok=True)
    os.makedirs(inside(place), mode=0o700, exist_ok=True)
    unchanged = (
        data(place + "/workspace.json") == wanted
        and data(place + "/gpus.json") == indices
        and text(place + "/token") in ((token,) if token else (text(place + "/token") or 0,))
        and text(place + "/password") == password
        and text(place + "/revision")
        and owner_of(_home(wanted["root"], name)) == wanted["user"]
    )
    if unchanged:
        return
    # Without it nothing of what is there is taken for what was wished.
    if os.path.lexists(inside(place + "/revision")):
        os.unlink(inside(place + "/revision"))
    owner = _owner(wanted["user"])
    put(place + "/token", token or text(place + "/token") or secrets.token_hex(24), 0o400, owner)
    put(place + "/gpus.json", json.dumps(indices) + "\n")
    if "ssh" in _parts(person["kind"]):
        keys = "".join(one.strip() + "\n" for one in person["ssh_keys"])
        put(place + "/authorized_keys", keys, 0o644)
        _host_key(place)
    if password:
        put(place + "/password", password, 0o400)
    elif os.path.lexists(inside(place + "/password")):
        os.unlink(inside(place + "/password"))
    put(place + "/workspace.json", json.dumps(wanted, indent=2, sort_keys=True) + "\n")


def _host_key(place):
    """sshd's own key, made once: another one would look like somebody in between."""
    path = inside(place + "/host_key")
    if not os.path.exists(path):
        making = path + ".new"
        for old in (making, making + ".pub"):
            if os.path.lexists(old):
                os.unlink(old)
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", making]
        must(call(words), "ssh-keygen")
        os.replace(making + ".pub", path + ".pub")
        os.replace(making, path)


def _owner(user):
    """(uid, gid) of "uid:gid"; without a gid it is the same number."""
    uid, _, gid = user.partition(":")
    return int(uid), int(gid or uid)


def _wished(found):
    """The person of a workspace.json, with the uid and gid that were given."""
    person = checked([found["workspace"]])[0]
    return dict(person, user=found.get("user") or person["user"] or FORMER_USER)


# what the units call


def command(name):
    """docker's arguments for a person's container."""
    found = data(folder(name) + "/workspace.json")
    if found is None:
        raise RefusedError("{0} has no workspace here".format(name))
    person = _wished(found)
    revision = (text(folder(name) + "/revision") or "").strip()
    home, parts = "/home/" + name, _parts(person["kind"])
    mounts = [(_home(found["root"], name), home, True)]
    if "jupyter" in parts:
        mounts.append((folder(name) + "/token", INSIDE, False))
    if "ssh" in parts:
        mounts += [
            ("{0}/{1}".format(folder(name), one), "{0}/{1}".format(SHOWN, one), False)
            for one in ("authorized_keys", "host_key", *_password(name))
        ]
    mounts += [
        (one["path"], one.get("at", one["path"]), one.get("writable", False))
        for one in person["volumes"]
    ]
    arguments = [
        *("run", "--detach", "--rm", "--init", "--name", container(name), "--hostname", name),
        *("--label", "{0}={1}".format(LABEL, name)),
        *("--label", "{0}={1}".format(REVISION, revision)),
        # A program of root's that somebody puts into a home makes nobody root.
        *("--security-opt", "no-new-privileges"),
        # One who starts programs without end, or writes without end, ends nobody else's.
        *("--pids-limit", str(PIDS), "--log-driver", "local"),
        *("--log-opt", "max-size=10m", "--log-opt", "max-file=3"),
        *("--network", NETWORK),
        # sshd lets people in as root alone; what else runs there is given up to them.
        *("--user", "0:0" if "ssh" in parts else person["user"]),
        # The image has no name for that number.
        *("--env", "USER=" + name, "--env", "LOGNAME=" + name),
        *("--workdir", home, "--shm-size", person["shm_size"]),
        *("--env", "HOME=" + home, "--env", "SHELL=/bin/bash"),
    ]
    if "jupyter" in parts:
        arguments += [
            *("--env", "JUPYTER_TOKEN_FILE=" + INSIDE),
            # Jupyter notes its token there; a home is kept, copied and shared.
            *("--env", "JUPYTER_RUNTIME_DIR=/tmp/jupyter-runtime"),
        ]
    if "ports" not in found and "jupyter" in parts:
        # Of before systemd held the ports; the next run changes it.
        place = (found["address"], person["port"], JUPYTER)
        arguments += ["--publish", "{0}:{1}:{2}".format(*place)]
    if "ports" not in found and "tensorboard_port" in person:
        place = ("127.0.0.1", person["tensorboard_port"], TENSORBOARD)
        arguments += ["--publish", "{0}:{1}:{2}".format(*place)]
    if "ssh" in parts:
        place = (found["ssh_address"], person["ssh_port"], SSH)
        arguments += ["--publish", "{0}:{1}:{2}".format(*place)]
    for source, target, writable in mounts:
        mount = "type=bind,src={0},dst={1}".format(source, target)
        arguments += ["--mount", mount if writable else mount + ",readonly"]
    if person["cpus"]:
        arguments += ["--cpus", str(person["cpus"])]
    if person["memory"]:
        # Without the second a container may swap as much again.
        arguments += ["--memory", person["memory"], "--memory-swap", person["memory"]]
    arguments += _handed(name)
    return [*arguments, "--entrypoint", "/bin/sh", found["image"], "-c", start(person)]


def _password(name):
    """The file of somebody's password, where there is one."""
    return ("password",) if text(folder(name) + "/password") else ()


def to_offer(name):
    """What sshd is to let somebody in by, in its own words."""
    return ",".join(("publickey", *_password(name)))


def _handed(name):
    """docker's arguments for somebody's GPUs."""
    indices = data(folder(name) + "/gpus.json")
    if indices == "all":
        return ["--gpus", "all"]
    if not indices:
        # An image may say NVIDIA_VISIBLE_DEVICES=all, and NVIDIA's runtime be docker's default.
        return ["--runtime", "runc", "--env", "NVIDIA_VISIBLE_DEVICES=void"]
    # docker reads the value as CSV: the quotes keep the indices together.
    return ["--gpus", '"device={0}"'.format(",".join(map(str, indices)))]


def start(person):
    """What runs in the container: Jupyter, sshd, or sshd with Jupyter beside it."""
    parts = _parts(person["kind"])
    uid, gid = _owner(person["user"])
    others = "ssh" in parts and uid
    words = "setpriv --reuid={0} --regid={1} --clear-groups ".format(uid, gid) if others else ""
    served = [
        "--{0}.{1}={2}".format(kind, word, value.format(person["name"]))
        for kind in ("ServerApp", "NotebookApp")
        for word, value in SERVED
    ]
    jupyter = START_JUPYTER.format(words, JUPYTER, " ".join(served))
    board = ""
    if "tensorboard_port" in person:
        board = START_TENSORBOARD.format(words, person["name"], TENSORBOARD)
    if "ssh" not in parts:
        return board + jupyter
    script = START_SSH
    told = {"name": person["name"], "uid": uid, "gid": gid, "port": SSH, "shown": SHOWN}
    for key in told:
        script = script.replace("@{0}@".format(key), str(told[key]))
    script += board
    # Where both run the container ends with Jupyter, and systemd starts it anew.
    return script + ("exec " + SSHD if parts == {"ssh"} else SSHD + " &\n" + jupyter)


def compose(name, *options):
    """A person's workspace as the text of a compose file; RefusedError for an unknown option.

    It is made of docker's arguments, so it has what they have and no list of its own. The token
    stays where it is: a file that is mounted.
    """
    if options not in ((), ("--runtime",)):
        raise RefusedError("{0} is no option; expected --runtime".format(" ".join(options)))
    lines = [
        "# The workspace of {0}, by: gpu-workspace compose {0}".format(name),
        "# Its name is that of the unit: systemctl stop {0}".format(UNIT.format(name)),
    ]
    if options:
        # Before 1.27 docker-compose wants a version, and 2.4 is the last that knows a runtime.
        lines.append('version: "2.4"')
    service, networks = composed(command(name), bool(options))
    content = {"services": {json.dumps(name): service}}
    if networks:
        content["networks"] = {json.dumps(one): {"name": one, "external": True} for one in networks}
    return "\n".join([*lines, *_yaml(content, "")]) + "\n"


def _mount(value):
    pairs = dict(one.partition("=")[::2] for one in value.split(","))
    found = {"type": pairs["type"], "source": pairs["src"], "target": pairs["dst"]}
    return dict(found, read_only=True) if "readonly" in pairs else found


# docker's options and the words of https://docs.docker.com/reference/compose-file/services/ for
# them: {option: (word, its form)}. Those of a list may be there more than once.
_ONCE = {
    "--name": ("container_name", str),
    "--hostname": ("hostname", str),
    "--user": ("user", str),
    "--workdir": ("working_dir", str),
    "--shm-size": ("shm_size", str),
    "--cpus": ("cpus", float),
    "--memory": ("mem_limit", str),
    "--memory-swap": ("memswap_limit", str),
    "--pids-limit": ("pids_limit", int),
    "--runtime": ("runtime", str),
    "--entrypoint": ("entrypoint", lambda value: [value]),
}
_OFTEN = {
    "--label": ("labels", str),
    "--security-opt": ("security_opt", str),
    "--env": ("environment", str),
    "--publish": ("ports", str),
    "--mount": ("volumes", _mount),
    "--network": ("networks", str),
}
# compose starts in its own way, and removes what it started.
_BARE = {"--init": {"init": True}, "--detach": {}, "--rm": {}}


def composed(arguments, by_runtime):
    """(service, its networks) of `docker run`'s arguments; RefusedError for one that is unknown."""
    words, service = iter(arguments[1:]), {}
    for word in words:
        if word in _BARE:
            service.update(_BARE[word])
        elif word in _ONCE:
            key, form = _ONCE[word]
            service[key] = form(next(words))
        elif word in _OFTEN:
            key, form = _OFTEN[word]
            service.setdefault(key, []).append(form(next(words)))
        elif word == "--log-driver":
            service.setdefault("logging", {})["driver"] = next(words)
        elif word == "--log-opt":
            key, _, value = next(words).partition("=")
            service.setdefault("logging", {}).setdefault("options", {})[key] = value
        elif word == "--gpus":
            _hand_over(service, next(words).strip('"'), by_runtime)
        elif word.startswith("-"):
            raise RefusedError("{0} has no word in a compose file".format(word))
        else:
            service.update(image=word, command=list(words))
    networks = service.get("networks", [])
    if not networks:
        # As docker's own; compose would make a network of the project's.
        service["network_mode"] = "bridge"
    return service, networks


def _hand_over(service, asked, by_runtime):
    """The GPUs of docker's "all" or "device=0,1", in either way that compose has."""
    devices = asked[len("device=") :].split(",") if asked != "all" else None
    if by_runtime:
        service["runtime"] = "nvidia"
        visible = "NVIDIA_VISIBLE_DEVICES=" + ",".join(devices or ["all"])
        service.setdefault("environment", []).append(visible)
        return
    which = {"device_ids": devices} if devices else {"count": "all"}
    request = dict({"driver": "nvidia"}, capabilities=["gpu"], **which)
    service["deploy"] = {"resources": {"reservations": {"devices": [request]}}}


def _yaml(value, indent):
    """Lines of YAML. compose reads `$` as the beginning of a variable unless there are two."""
    lines = []
    pairs = value.items() if isinstance(value, dict) else [(None, one) for one in value]
    for key, one in pairs:
        head = indent + ("-" if key is None else key + ":")
        if isinstance(one, str):
            block = one.replace("$", "$$")
            if "\n" in one and one.lstrip("\n") == one.strip():
                lines.append(head + " |-")
                lines += [indent + "  " + line if line else "" for line in block.split("\n")]
            else:
                lines.append(head + " " + json.dumps(block, ensure_ascii=False))
        elif isinstance(one, (dict, list)):
            inner = _yaml(one, indent + "  ")
            if key is None:
                lines += [head + inner[0][len(head) :], *inner[1:]]
            else:
                lines += [head, *inner]
        else:
            lines.append(head + " " + json.dumps(one))
    return lines


def run(name):
    """Starts the container, or finds it running, and waits until it ends."""
    revision = (text(folder(name) + "/revision") or "").strip()
    if not revision:
        raise RefusedError(
            "the workspace of {0} is unfinished; run the playbook again".format(name)
        )
    os.makedirs(inside(STATE), mode=0o755, exist_ok=True)
    if running().get(name) != revision:
        stop(name)
        connect()
        code, _out, error = docker(*command(name))
        if code:
            stop(name)  # docker leaves one behind that could not begin
            tell(name, {"error": error.strip()[-800:]})
            raise RefusedError(error.strip()[-800:])
    tell(name, seen(name))
    wait = ["docker", "--host", SOCKET, "wait", container(name)]
    os.execvp("docker", wait)  # noqa: S606 systemd follows this process


def tell(name, state):
    """What anybody may know of a workspace; no secret is among it."""
    put("{0}/{1}.json".format(STATE, name), json.dumps(state) + "\n", 0o644)


def seen(name):
    """The container's process, and its limits as they were wished."""
    form = shape(".State.Pid", ".Id")
    pid, identity = must(docker("inspect", "--format", form, container(name)), name).split()
    found = data(folder(name) + "/workspace.json")
    person = _wished(found)
    return {
        "container": identity,
        "pid": int(pid),
        "groups": groups(text("/proc/{0}/cgroup".format(pid)) or ""),
        "memory": size(person["memory"]),
        "cpus": person["cpus"] or None,
        "port": person.get("port"),
        "address": found["address"],
        "base": found.get("base", "/"),
        "tensorboard_port": person.get("tensorboard_port"),
        "ssh_port": person.get("ssh_port"),
        "ssh_address": found["ssh_address"],
        "ssh_ways": to_offer(name),
        "gpus": data(folder(name) + "/gpus.json"),
    }


def groups(content):
    """{"memory": files, "cpu": files}: where the kernel keeps a container's limits.

    Version 2 has one directory, version 1 one for each controller.
    """
    found = {}
    for line in content.splitlines():
        _number, names, path = line.split(":", 2)
        for one in names.split(","):
            if one in ("memory", "cpu"):
                found[one] = "/sys/fs/cgroup/{0}{1}".format(one, path)
            elif one == "":
                found.setdefault("unified", "/sys/fs/cgroup" + path)
    if "memory" in found:
        return {
            "memory": found["memory"] + "/memory.limit_in_bytes",
            "cpu": found.get("cpu", "") + "/cpu.cfs_quota_us",
        }
    place = found.get("unified", "")
    return {"memory": place + "/memory.max", "cpu": place + "/cpu.max"}


def stop(name):
    """Stops and removes the container of our label, and no other."""
    told = "{0}/{1}.json".format(STATE, name)
    if "container" in (data(told) or {}):
        # A proof would read the limits of one that is gone; why one could not start stays told.
        os.unlink(inside(told))
    form = shape(".Names") + " " + shape('.Label "{0}"'.format(LABEL))
    # `inspect` knows no container that is being removed, and its name is not free yet.
    listed = ("ps", "--all", "--filter", "name=" + container(name), "--format", form)
    found = [line.split(" ") for line in docker(*listed)[1].splitlines()]
    mine = [line for line in found if line[0] == container(name)]
    if not mine:
        return
    if mine[0][1] != name:
        raise RefusedError("the container {0} is not of gpu_workspaces".format(container(name)))
    docker("stop", "--time", "20", container(name))
    docker("rm", "--force", container(name))
    until = time.time() + STARTS
    while container(name) in docker(*listed)[1].split() and time.time() < until:
        time.sleep(0.5)


# the proof


def limits(state):
    """What is wrong with a container's limits; None where they are in force."""
    wanted = state["memory"]
    if wanted is not None:
        found = (text(state["groups"]["memory"]) or "").strip()
        if found != str(wanted):
            return "its memory is limited to {0}, not {1}".format(found or "nothing", wanted)
    if state["cpus"] is not None:
        found = (text(state["groups"]["cpu"]) or "").split()
        if not found or found[0] != str(int(state["cpus"] * 100000)):
            return "its processors are limited to {0}, not {1}".format(
                found[0] if found else "nothing", int(state["cpus"] * 100000)
            )
    return None


def ask(address, port, path, token=None):
    """(status, text) of Jupyter's answer, with or without a token; None where nothing answers.

    With a token it is asked at (PORTS, name): there is nobody else whom it could be told. What
    answers is the person's: ANSWER seconds are waited for the whole of it, SAID bytes are read.
    """
    host = "127.0.0.1" if address == "0.0.0.0" else address  # noqa: S104 compared, not bound
    # The header Host must be a name: Tornado since 6.5 answers 400 to a path.
    of_socket = ("localhost", None)
    connection = http.client.HTTPConnection(*(of_socket if address == PORTS else (host, port)))
    # A time-out of the connection's is for each piece of an answer, and there may be many.
    end = threading.Timer(ANSWER, lambda: connection.sock.shutdown(socket.SHUT_RDWR))
    end.daemon = True
    try:
        if address == PORTS:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(ANSWER)
            connection.sock.connect(inside("{0}/{1}.jupyter".format(PORTS, port)))
        else:
            connection.sock = socket.create_connection((host, port), timeout=ANSWER)
        end.start()
        headers = {"Authorization": "token " + token} if token else {}
        connection.request("GET", path, headers=headers)
        found = connection.getresponse()
        return found.status, found.read(SAID).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return None, ""
    finally:
        end.cancel()
        connection.close()


def proven(name, until):
    """None where a workspace does what it should; else why not. Waits for a slow start."""
    failing = None
    while True:
        state = data("{0}/{1}.json".format(STATE, name)) or {}
        failing = (failing or time.time()) if state.get("error") else None
        if failing is not None and time.time() - failing > PERSISTS:
            return "docker could not start it: {0}".format(state["error"])
        wrong = "nothing of it runs"
        if "container" in state:
            wrong = _jupyter(name, state) or _ssh(name, state) or _board(name, state)
        if wrong is None:
            break
        if time.time() > until:
            return "{0} (docker logs {1})".format(wrong, container(name))
        time.sleep(0.5)
    if state.get("port"):
        refused, _body = ask(state["address"], state["port"], state["base"] + "api/status")
        if refused not in (401, 403):
            return "Jupyter answers without the token: status {0}".format(refused)
    if call(["systemctl", "is-active", UNIT.format(name)])[1].strip() != "active":
        return "the unit {0} is not active".format(UNIT.format(name))
    return limits(state)


def _jupyter(name, state):
    """Why Jupyter does not let somebody with the token in; None where it does, or is not wished."""
    if not state.get("port"):
        return None
    token = text(folder(name) + "/token")
    status, _body = ask(PORTS, name, state["base"] + "api/status", token)
    if status == 200:
        return None
    told = "status {0}".format(status) if status else "no answer"
    return "Jupyter does not take the token: {0}".format(told)


def _board(name, state):
    """Why TensorBoard does not answer; None where it does, or is not wished."""
    port = state.get("tensorboard_port")
    if not port or ask("127.0.0.1", port, "/{0}/tensorboard/".format(name))[0] == 200:
        return None
    return "TensorBoard does not answer at port {0}".format(port)


def _ssh(name, state):
    """Why sshd is not as it should be: it offers keys, and a password to who has one."""
    if not state.get("ssh_port"):
        return None
    ways = offered(name, state["ssh_address"], state["ssh_port"])
    should = to_offer(name)
    if ways in (should, None):
        return None
    return "sshd offers {0}, and should offer {1} alone".format(ways or "nothing", should)


def offered(name, address, port):
    """What sshd lets somebody in by, as it says itself; "" where it does not answer.

    None where this host has no ssh to ask with.
    """
    host = "127.0.0.1" if address == "0.0.0.0" else address  # noqa: S104 compared, not bound
    code, _out, error = call(
        [
            *("ssh", "-F", "/dev/null", "-p", str(port), "-o", "BatchMode=yes"),
            *("-o", "PreferredAuthentications=none", "-o", "StrictHostKeyChecking=no"),
            *("-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=10"),
            *("{0}@{1}".format(name, host), "true"),
        ]
    )
    if code == 127:
        return None
    found = re.search(r"Permission denied \(([a-z,-]+)\)", error)
    return found.group(1) if found else ""


def prove(seconds):
    """RefusedError with all that is wrong with the workspaces of this host."""
    until = time.time() + float(seconds)
    found = {name: proven(name, until) for name in there()}
    given = handed()
    for name in found:
        found[name] = found[name] or given["people"].get(name, {}).get("wrong")
    wrong = ["{0}: {1}".format(name, found[name]) for name in sorted(found) if found[name]]
    wrong += [given["tensorflow"]["wrong"]] if given["tensorflow"]["wrong"] else []
    if wrong:
        raise RefusedError("; ".join(wrong))
    return {"proven": sorted(found), "gpus": given}


# In the image: how many GPUs TensorFlow lists, where there is a TensorFlow.
LIST = (
    "for one in python python3; do $one -c 'import importlib.util, sys; "
    'sys.exit(importlib.util.find_spec("tensorflow") is None)\' 2>/dev/null || continue; exec $one '
    "-c 'import tensorflow; "
    'print("GPUS", len(tensorflow.config.list_physical_devices("GPU")))\'; done; echo GPUS none'
)


# Where the toolkit puts it; a program of that name somewhere else may be the person's.
SMI = "/usr/bin/nvidia-smi"
LISTED = r"^GPU \d+: .*\(UUID: (GPU-[0-9A-Za-z-]{1,64})\)"
# Whatever is there of a GPU.
NONE = (
    "[ ! -x {0} ] || timeout -k 5 {1} {0} -L; "
    'for one in /dev/nvidia[0-9]*; do [ ! -e "$one" ] || echo "DEVICE $one"; done'
).format(SMI, TIMEOUT // 2)


def _without(name):
    """{gpus, wrong} of a container that was promised none: an image may ask for all by itself."""
    code, out, error = inquire(name, "/bin/sh", "-c", NONE)
    listed = re.findall(LISTED, out, re.M) + re.findall(r"^DEVICE (/dev/nvidia\d+)$", out, re.M)
    wrong = None
    if listed:
        wrong = "its container has GPUs ({0}), and none were promised".format(", ".join(listed))
    elif code == 124 or code in (125, 126, 127) or "No such container" in error:
        said = error.strip().splitlines() or ["status {0}".format(code)]
        wrong = "its container could not be asked for GPUs: {0}".format(said[-1][:200])
    return {"gpus": listed, "wrong": wrong}


def handed():
    """{people: {name: {gpus, wrong}}, tensorflow: {gpus, wrong}}: what containers list of GPUs.

    nvidia-smi is asked in everybody's own container, as the person. TensorFlow is asked once for an
    image, in a container beside them with the GPUs of one of them: it would take memory from
    somebody's limit.
    """
    found = {"people": {}, "tensorflow": {"gpus": None, "wrong": None}}
    all_uuids, asked = gpus(), None
    for name in there():
        indices = data(folder(name) + "/gpus.json")
        if not indices:
            found["people"][name] = _without(name)
            continue
        wanted = all_uuids
        if indices != "all":
            wanted = [
                all_uuids[one] if one < len(all_uuids) else "GPU {0}, which is gone".format(one)
                for one in indices
            ]
        code, out, error = inquire(name, SMI, "-L")
        listed = re.findall(LISTED, out, re.M)
        wrong = None
        if code:
            said = (error or out).strip().splitlines() or ["status {0}".format(code)]
            wrong = "nvidia-smi fails in its container: {0}".format(said[-1][:200])
        elif sorted(listed) != sorted(wanted):
            wrong = "its container lists {0} GPUs ({1}), and {2} were promised ({3})".format(
                len(listed), ", ".join(listed) or "none", len(wanted), ", ".join(wanted)
            )
        found["people"][name] = {"gpus": listed, "wrong": wrong}
        # Parts of a GPU (MIG) are counted in another way.
        if wrong is None and "  MIG " not in out:
            asked = asked or name
    if asked is not None:
        found["tensorflow"] = _tensorflow(asked, len(found["people"][asked]["gpus"]))
    return found


def _tensorflow(name, count):
    """What TensorFlow of the image lists with somebody's GPUs; {gpus: None} where it has none."""
    image = data(folder(name) + "/workspace.json")["image"]
    words = ["run", "--rm", "--network", "none", "--user", "65534:65534", "--env", "HOME=/tmp"]
    arguments = [*words, *_handed(name), "--entrypoint", "/bin/sh", image, "-c", LIST]
    code, out, error = docker(*arguments)
    seen = re.search(r"^GPUS (\d+|none)$", out, re.M)
    if seen is None or code:
        lines = error.strip().splitlines() or ["status {0}".format(code)]
        return {"gpus": None, "wrong": "TensorFlow fails in the image: {0}".format(lines[-1])}
    if seen.group(1) == "none":
        return {"gpus": None, "wrong": None}
    told = int(seen.group(1))
    wrong = None
    if told != count:
        said = [line for line in error.splitlines() if "dlopen" in line or "Could not load" in line]
        wrong = "TensorFlow in the image lists {0} of the {1} GPUs of {2}{3}".format(
            told, count, name, ": " + said[0].strip()[-200:] if said else ""
        )
    return {"gpus": told, "wrong": wrong}


def listed():
    """Who has what: no secret, but where it lies."""
    runs = running()
    rows = []
    for name in there():
        found = data(folder(name) + "/workspace.json") or {}
        given = data(folder(name) + "/gpus.json")
        shown = given if isinstance(given, str) else ",".join(map(str, given or [])) or "none"
        mine = found.get("workspace") or {}
        words = [name, "runs" if name in runs else "does not run", "GPUs " + shown]
        words.append("user {0}".format(found.get("user") or FORMER_USER))
        if "port" in mine:
            place = (found.get("address"), mine["port"], found.get("base", "/"))
            words.append("http://{0}:{1}{2}".format(*place))
            words.append("token in {0}/token".format(folder(name)))
        if "tensorboard_port" in mine:
            port = mine["tensorboard_port"]
            words.append("http://127.0.0.1:{0}/{1}/tensorboard/".format(port, name))
        if "ssh_port" in mine:
            words.append("ssh -p {0} {1}@HOST".format(mine["ssh_port"], name))
        rows.append("  ".join(words))
    return "\n".join(rows) or "nobody has a workspace here"


USAGE = """\
gpu-workspace list          who has what on this host
gpu-workspace command NAME  the docker command of a workspace
gpu-workspace compose NAME  the same as a compose file; with --runtime for an old compose
gpu-workspace gpus          what the workspaces' containers list of their GPUs
(run, stop, relay, look, image, load, apply and prove are for systemd and Ansible)"""


def main(argv):
    """The program."""
    name, rest = (argv[0], argv[1:]) if argv else ("", [])
    try:
        if name == "list":
            sys.stdout.write(listed() + "\n")
        elif name == "command":
            sys.stdout.write(json.dumps(["docker", *command(rest[0])]) + "\n")
        elif name == "compose" and rest:
            sys.stdout.write(compose(*rest))
        elif name == "gpus":
            sys.stdout.write(json.dumps(handed()) + "\n")
        elif name == "run":
            run(rest[0])
        elif name == "stop":
            stop(rest[0])
        elif name == "relay":
            relay(rest[0])
        elif name in ("look", "apply", "image", "load", "prove"):
            if name == "look":
                found = look(json.load(sys.stdin))
            elif name == "apply":
                found = apply(json.load(sys.stdin))
            else:
                found = {"image": image, "load": load, "prove": prove}[name](*rest)
            sys.stdout.write(json.dumps(found) + "\n")
        else:
            sys.stderr.write(USAGE + "\n")
            return 2
    except (RefusedError, ValueError) as error:
        sys.stderr.write("{0}\n".format(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
