"""The workspaces of a host: who has one, who should, and whose container runs as wished.

They are the inventory's and stand in no lock. Files and one answer of docker's tell all: what was
wished lies in workspace.json as data, and a container carries the revision that it was started
with. No token is read into an answer: the wish has its SHA-256, and the file is compared with it.
"""

import hashlib
import json
import re

from ...change import change
from ...host import file_state
from . import workspace_users

NAME = "gpu_workspace"
PLACE = "/etc/gpu-workspace"
WANTS = "/etc/systemd/system/multi-user.target.wants/gpu-workspace@{0}.service"
UNITS_PLACE = "/etc/systemd/system"
PORT = "gpu-workspace-port@{0}.socket"
PORT_WANTS = UNITS_PLACE + "/sockets.target.wants/"
# Where systemd opens the ways to Jupyter and TensorBoard, for root and nginx alone.
PORTS = "/run/gpu-workspace-ports"
LISTEN = """\
# Written by the Ansible role gpu_workspace; changes made here are lost.
[Socket]
ListenStream={0}:{1}
"""
SOCKET = "unix:///var/run/docker.sock"
LABEL = "gpu-workspace"
PERSON = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
PATIENCE = "20"
# SHA-256 of the Containerfile that the role ships.
RECIPE = "74c81a01d07c0e92dc35f53c914394ee11a2bf09ca808dd8ad23a35986948768"

# What serves all of them, as the role ships it: {path: (mode, SHA-256)}.
FILES = {
    "/usr/local/sbin/gpu-workspace": (
        0o755,
        "0c5cb530cc4783fef1e953fea6fde4284fcc63320b5c233c2a78f08cfb9c24f7",
    ),
    "/etc/systemd/system/gpu-workspace-port@.service": (
        0o644,
        "3bf83b26f2ce4da4b66b58883d6cdcad2fda851e5ec5f7fa9c7c729aa65bd0e3",
    ),
    "/etc/systemd/system/gpu-workspace-port@.socket": (
        0o644,
        "e143b3d481d935de11fb72f9a6e34141334d91e8601119f9a0245d6074c48a6e",
    ),
    "/etc/systemd/system/gpu-workspace@.service": (
        0o644,
        "2f1d62b1215ca4f1f229db243ca9286b85bfa08ca0f57f9ceb3c3d25606aaf10",
    ),
}


def wanted(options):
    """{name: the person as the inventory has it}."""
    return {one["name"]: one for one in options.get("gpu_workspaces") or []}


def locked(row):
    """What an image that is built on the host takes from its stack: all that it is made of."""
    row = row or {}
    found = {}
    if "tensorflow" in row:
        names = ("version", "python", "requirements_sha256")
        found["tensorflow"] = {name: row["tensorflow"][name] for name in names}
    if "cuda" in row:
        found["cuda"] = {
            "packages": row["cuda"]["packages"]["runtime"],
            "files": {name: one["path"] for name, one in row["cuda"].get("files", {}).items()},
            "sonames": sorted(row["cuda"].get("sonames", {})),
        }
    if "cudnn" in row:
        names = ("version", "cuda", "sha256", "soname")
        found["cudnn"] = {name: row["cudnn"][name] for name in names}
    env = row.get("gpu_env", {})
    found["env"] = {"path": env.get("path", []), "xla": env.get("xla_cuda_data_dir", "")}
    return found


def built(options, row):
    """The name of the image that is built here, by all that goes into it; None where none is."""
    sha256 = options.get("gpu_workspace_base_sha256")
    base = "sha256:" + sha256 if sha256 else options.get("gpu_workspace_base")
    if not base:
        return None
    said = {
        "base": base,
        "packages": options.get("gpu_workspace_packages") or [],
        "places": [
            options.get("tensorflow_root") or "/opt/tensorflow",
            options.get("cudnn_root") or "/opt/nvidia/cudnn",
        ],
        "recipe": RECIPE,
        "stack": locked(row),
    }
    text = json.dumps(said, sort_keys=True)
    return "gpu-workspace-built:" + hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def told(options, row):
    """The options with the name of the image that the row of the lock gives, where one is built."""
    name = built(options, row)
    return dict(options, gpu_workspace_image=name) if name else options


def image(options):
    """The image under the name that docker has it by on the host."""
    sha256 = options.get("gpu_workspace_image_sha256")
    return "gpu-workspace:" + sha256[:16] if sha256 else options.get("gpu_workspace_image") or ""


def settings(person, options, users):
    """What should stand in a person's workspace.json; `users` are those who have a uid by now."""
    return {
        "image": image(options),
        "root": workspace_users.root_of(options),
        "address": options.get("gpu_workspace_address") or "127.0.0.1",
        "ssh_address": options.get("gpu_workspace_ssh_address") or "0.0.0.0",  # noqa: S104 as wished
        "base": "/{0}/".format(person["name"]),
        "network": "gpu-workspaces",
        "ports": PORTS,
        "user": users.get(person["name"]),
        "workspace": person,
    }


# the look


def there(context):
    """Names of the people who have something here."""
    return [
        name
        for name in context.listdir(PLACE)
        if PERSON.fullmatch(name) and context.isdir("{0}/{1}".format(PLACE, name))
    ]


def running(context):
    """{name: revision} of the containers that run; None where docker does not answer."""
    words = " ".join('{{{{.Label "{0}"}}}}'.format(one) for one in (LABEL, LABEL + ".revision"))
    command = ["timeout", PATIENCE, "docker", "--host", SOCKET, "ps", "--no-trunc"]
    answer = context.run([*command, "--filter", "label=" + LABEL, "--format", words])
    if answer.rc != 0:
        return None
    pairs = [line.split() for line in answer.out.splitlines()]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def person(context, name):
    place = "{0}/{1}/".format(PLACE, name)
    try:
        found = json.loads(context.read(place + "workspace.json") or "null")
    except ValueError:
        found = None
    token, password = context.read(place + "token"), context.read(place + "password")
    return {
        "settings": found,
        "token": hashlib.sha256(token.encode("utf-8")).hexdigest() if token else None,
        "password": hashlib.sha256(password.encode("utf-8")).hexdigest() if password else None,
        "revision": (context.read(place + "revision") or "").strip() or None,
        "enabled": context.lstat(WANTS.format(name)) is not None,
        "listens": _listening_units(context, name),
    }


def listens(settings_of):
    """{"ada.jupyter": text} of what a workspace.json has systemd listen at for somebody."""
    person = settings_of["workspace"]
    places = {}
    if "port" in person:
        places["jupyter"] = (settings_of["address"], person["port"])
    if "tensorboard_port" in person:
        places["tensorboard"] = ("127.0.0.1", person["tensorboard_port"])
    return {"{0}.{1}".format(person["name"], what): LISTEN.format(*places[what]) for what in places}


def _listening_units(context, name):
    """{"ada.jupyter": text} of the ports that systemd holds for somebody, from a boot on too."""
    before, after = PORT.split("{0}")
    found = {}
    for entry in context.listdir(UNITS_PLACE):
        if entry.startswith(before + name + ".") and entry.endswith(after + ".d"):
            port = entry[len(before) : -len(after + ".d")]
            enabled = context.lstat(PORT_WANTS + PORT.format(port)) is not None
            open_now = context.lstat("{0}/{1}".format(PORTS, port)) is not None
            text = context.read("{0}/{1}/address.conf".format(UNITS_PLACE, entry))
            found[port] = text if enabled and open_now else None
    return found


def look(context):
    """{version, people, running, files, uids}; the last three only where somebody is wished for.

    The version is how many there are, for receipts and reports.
    """
    names = there(context)
    found = {"version": str(len(names)) if names else None, "people": {}, "running": {}}
    found["people"] = {name: person(context, name) for name in names}
    if not wanted(context.options):
        return found
    found["running"] = running(context) if names else {}
    found["uids"] = workspace_users.look(context, wanted(context.options))
    found["files"] = {}
    for path in FILES:
        data = context.read_bytes(path)
        found["files"][path] = {
            "sha256": None if data is None else hashlib.sha256(data).hexdigest(),
            "fault": file_state.fault(context, path, FILES[path][0]),
        }
    return found


# the plan


def fault(person, seen, found, options):
    """(what is there, why that is not as wished) of one person; None where it is."""
    runs, users = found["running"], found["uids"]["users"]
    if person["name"] in found["uids"]["taken"]:
        return "user " + users[person["name"]], found["uids"]["taken"][person["name"]]
    if seen is None or seen["settings"] is None:
        return None, "wished for, and not here"
    if seen["settings"] != settings(person, options, users):
        return _told(seen["settings"], settings(person, options, users))
    name = person["name"]
    wrong = _secret_fault(name, seen, options)
    if wrong is not None:
        return wrong
    if seen["revision"] is None:
        return "unfinished", "a run was cut off before it was whole"
    if not seen["enabled"]:
        return "not enabled", "it would not come back after a reboot"
    if seen["listens"] != listens(settings(person, options, users)):
        return "port not held", "while it starts anew another program could open its port"
    if runs is None:
        return "unknown", "docker does not answer"
    if name not in runs:
        return "not running", "its container is not there"
    if runs[name] != seen["revision"]:
        return "runs as before", "its container was started with other settings"
    return None


def _secret_fault(name, seen, options):
    """As `fault`, of what somebody logs in with."""
    if seen["token"] is None:
        return "no token", "nobody could log in"
    token = (options.get("gpu_workspace_digests") or {}).get(name)
    if token is not None and seen["token"] != token:
        return "another token", "gpu_workspace_tokens has changed"
    if seen["password"] != (options.get("gpu_workspace_passed") or {}).get(name):
        return "another password", "gpu_workspace_passwords has changed"
    return None


def _told(old, new):
    """Which words differ; of a value that may be long, none."""
    before, after = old.get("workspace") or {}, new["workspace"]
    names = [key for key in sorted(set(before) | set(after)) if before.get(key) != after.get(key)]
    shared = ("image", "root", "address", "ssh_address", "base", "network", "ports", "user")
    names += [key for key in shared if key not in old or old[key] != new[key]]
    return "other settings", "changed: " + ", ".join(names or ["the file"])


def differ(found, options):
    """Changes of the workspaces: who is concerned, and nobody else."""
    changes = []
    people = wanted(options)
    for name in sorted(found["people"]):
        if name not in people:
            changes.append(
                change(NAME, "workspace " + name, "here", None, "no longer wished; the home stays")
            )
    changes += _root(found, options)
    for path in sorted(found.get("files") or {}):
        seen = found["files"][path]
        old = seen["fault"]
        if old is None and seen["sha256"] != FILES[path][1]:
            old = "absent" if seen["sha256"] is None else "other content"
        if old is not None:
            changes.append(
                change(NAME, path, old, "as shipped", "systemd runs the workspaces by it")
            )
    for name in sorted(people):
        seen = found["people"].get(name)
        wrong = fault(people[name], seen, found, options)
        home = _home(people[name], found["uids"], options)
        if wrong is None and home is not None:
            wrong = ("home of another", "its container is stopped while the home changes its owner")
        if wrong is not None:
            changes.append(change(NAME, "workspace " + name, wrong[0], "as wished", wrong[1]))
        if home is not None:
            changes.append(home)
    return changes


def _root(found, options):
    """The change of a homes' root that the host's accounts can enter, in a list."""
    seen = found.get("uids") and found["uids"]["root"]
    if not seen:
        return []
    why = "an account of the host with a person's uid could read homes and run what they hold"
    return [change(NAME, workspace_users.root_of(options), seen, "mode 0700 of root", why)]


def _home(person, uids, options):
    """The change of a home that is there and is to have another owner; None where it is not."""
    name = person["name"]
    seen, wished = uids["homes"].get(name), uids["users"].get(name)
    if seen is None or seen["owner"] == wished or name in uids["taken"]:
        return None
    why = "all in it that is of {0} gets its person's own".format(seen["owner"])
    if seen["account"]:
        why += "; on the host that is " + seen["account"]
    volumes = workspace_users.scratch(person)
    if volumes:
        why += "; writable volumes keep their owner: " + ", ".join(volumes)
    path = "{0}/{1}".format(workspace_users.root_of(options), name)
    return change(NAME, "home " + path, seen["owner"], wished or "a uid of its own", why)


# what could forbid it
