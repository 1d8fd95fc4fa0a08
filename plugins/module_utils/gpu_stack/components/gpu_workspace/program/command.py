"""docker's command of a person's container, and what runs in it."""

from __future__ import annotations

from . import files, places, settings, traits

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

# Threads count too: a library of numbers starts one for each processor in each of its programs.
PIDS = 16384
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


def command(name: str) -> list[str]:
    """docker's arguments for a person's container."""
    recorded = files.data(places.folder(name) + "/workspace.json")
    if recorded is None:
        raise places.RefusedError(f"{name} has no workspace here")
    person = settings.wished(recorded)
    revision = (files.text(places.folder(name) + "/revision") or "").strip()
    home, parts = "/home/" + name, traits.parts(person["kind"])
    arguments = [
        *("run", "--detach", "--rm", "--init"),
        *("--name", places.container(name), "--hostname", name),
        *("--label", f"{places.LABEL}={name}"),
        *("--label", f"{places.REVISION}={revision}"),
        # A program of root's that somebody puts into a home makes nobody root.
        *("--security-opt", "no-new-privileges"),
        # One who starts programs without end, or writes without end, ends nobody else's.
        *("--pids-limit", str(PIDS), "--log-driver", "local"),
        *("--log-opt", "max-size=10m", "--log-opt", "max-file=3"),
        *("--network", places.NETWORK),
        # sshd lets people in as root alone; what else runs there is given up to them.
        *("--user", "0:0" if "ssh" in parts else person["user"]),
        # The image has no name for that number.
        *("--env", "USER=" + name, "--env", "LOGNAME=" + name),
        *("--workdir", home, "--shm-size", person["shm_size"]),
        *("--env", "HOME=" + home, "--env", "SHELL=/bin/bash"),
    ]
    if "jupyter" in parts:
        arguments += [
            *("--env", "JUPYTER_TOKEN_FILE=" + places.INSIDE),
            # Jupyter notes its token there; a home is kept, copied and shared.
            *("--env", "JUPYTER_RUNTIME_DIR=/tmp/jupyter-runtime"),
        ]
    arguments += _published(recorded, person) + _mounts(recorded["root"], person)
    if person["cpus"]:
        arguments += ["--cpus", str(person["cpus"])]
    if person["memory"]:
        # Without the second a container may swap as much again.
        arguments += ["--memory", person["memory"], "--memory-swap", person["memory"]]
    arguments += gpu_arguments(name)
    return [*arguments, "--entrypoint", "/bin/sh", recorded["image"], "-c", start(person)]


def _published(recorded: dict[str, Any], person: dict[str, Any]) -> list[str]:
    """docker's arguments for the ports of the host that docker itself leads to a container."""
    parts, ports = traits.parts(person["kind"]), []
    if "ports" not in recorded:
        # Made before systemd held these ports; the next run of the playbook changes it.
        if "jupyter" in parts:
            ports.append((recorded["address"], person["port"], places.JUPYTER))
        if "tensorboard_port" in person:
            ports.append(("127.0.0.1", person["tensorboard_port"], places.TENSORBOARD))
    if "ssh" in parts:
        ports.append((recorded["ssh_address"], person["ssh_port"], places.SSH))
    return [
        word
        for address, port, inner in ports
        for word in ("--publish", f"{address}:{port}:{inner}")
    ]


def _mounts(root: str, person: dict[str, Any]) -> list[str]:
    """docker's arguments for the home, what a person logs in with, and the volumes."""
    name, parts = person["name"], traits.parts(person["kind"])
    mounts = [(places.home_of(root, name), "/home/" + name, True)]
    if "jupyter" in parts:
        mounts.append((places.folder(name) + "/token", places.INSIDE, False))
    if "ssh" in parts:
        mounts += [
            (f"{places.folder(name)}/{entry}", f"{places.SHOWN}/{entry}", False)
            for entry in ("authorized_keys", "host_key", *settings.password_file(name))
        ]
    mounts += [
        (volume["path"], volume.get("at", volume["path"]), volume.get("writable", False))
        for volume in person["volumes"]
    ]
    arguments = []
    for source, target, writable in mounts:
        mount = f"type=bind,src={source},dst={target}"
        arguments += ["--mount", mount if writable else mount + ",readonly"]
    return arguments


def gpu_arguments(name: str) -> list[str]:
    """docker's arguments for somebody's GPUs."""
    return gpu_words(settings.gpus_of(name))


def gpu_words(gpus: Any) -> list[str]:
    """docker's arguments for "all" GPUs, or a list of indices and UUIDs; none where it is empty."""
    if gpus == "all":
        return ["--gpus", "all"]
    if not gpus:
        # An image may say NVIDIA_VISIBLE_DEVICES=all, and NVIDIA's runtime be docker's default.
        return ["--runtime", "runc", "--env", "NVIDIA_VISIBLE_DEVICES=void"]
    # docker reads the value as CSV: the quotes keep the list together.
    return ["--gpus", '"device={0}"'.format(",".join(map(str, gpus)))]


def start(person: dict[str, Any]) -> str:
    """What runs in the container: Jupyter, sshd, or sshd with Jupyter beside it."""
    parts = traits.parts(person["kind"])
    uid, gid = traits.numbers(person["user"])
    others = "ssh" in parts and uid
    words = f"setpriv --reuid={uid} --regid={gid} --clear-groups " if others else ""
    served = [
        "--{0}.{1}={2}".format(kind, word, value.format(person["name"]))
        for kind in ("ServerApp", "NotebookApp")
        for word, value in SERVED
    ]
    jupyter = START_JUPYTER.format(words, places.JUPYTER, " ".join(served))
    board = ""
    if "tensorboard_port" in person:
        board = START_TENSORBOARD.format(words, person["name"], places.TENSORBOARD)
    if "ssh" not in parts:
        return board + jupyter
    script = START_SSH
    values = {
        "name": person["name"],
        "uid": uid,
        "gid": gid,
        "port": places.SSH,
        "shown": places.SHOWN,
    }
    for key in values:
        script = script.replace(f"@{key}@", str(values[key]))
    script += board
    # Where both run the container ends with Jupyter, and systemd starts it anew.
    return script + ("exec " + SSHD if parts == {"ssh"} else SSHD + " &\n" + jupyter)
