"""The converged state as plain data, which every way asserts.

It is read once from a converged host and its tree, so that pyinfra, plain Ansible and the script
assert exactly what `provision` installed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from pathlib import Path
from typing import Any

import yaml

from provision.locallab.machine import Podman

# The files that a run writes besides packages, cuDNN and the venv, if the host has them.
OUR_FILES = (
    "/etc/apt/preferences.d/provision-cuda",
    "/etc/apt/preferences.d/provision-nvidia-driver",
    "/etc/apt/apt.conf.d/51provision-gpu-stack",
    "/etc/apt/sources.list.d/provision-debian-nonfree.sources",
    "/etc/ld.so.conf.d/00-provision-cudnn.conf",
    "/etc/ld.so.conf.d/provision-gpu.conf",
    "/etc/profile.d/provision-gpu.sh",
    "/etc/provision/gpu.env",
    "/etc/systemd/system.conf.d/50-provision-gpu.conf",
    "/etc/environment",
)
OUR_LINKS = ("/opt/nvidia/cudnn/current", "/opt/tensorflow/current")
RECEIPT = "/var/lib/provision/receipt.json"
# Files that no program reads, and slim images lack.
UNREAD = "^/usr/share/(bug|doc|info|lintian|locale|man)/"


def read(podman: Podman, container: str, tree: Path) -> dict[str, Any]:
    """The state of a converged host, as JSON data."""
    lock = yaml.safe_load((tree / "stacks" / "gpu_lock.yml").read_text(encoding="utf-8"))
    slim = lock["gpu_lock"]
    row = slim["stacks"][slim["rows"][0]["stack"]]
    userspace = row["nvidia_driver"]["packages"]["userspace"]
    packages = {**userspace, **row["cuda"]["packages"]["toolkit"]}
    request = {"files": OUR_FILES, "links": OUR_LINKS, "packages": sorted(packages)}
    script = f"import json\nrequest = json.loads({json.dumps(json.dumps(request))})\n" + _ON_HOST
    host = json.loads(podman.call("exec", "-i", container, "python3", "-", stdin=script.encode()))
    cudnn = f"/opt/nvidia/cudnn/{host['links']['/opt/nvidia/cudnn/current']}"
    venv = f"/opt/tensorflow/{host['links']['/opt/tensorflow/current']}"
    return {
        "digest": slim["digest"],
        "packages": packages,
        "files": host["files"],
        "links": host["links"],
        "cudnn": cudnn,
        "cudnn_files": host["cudnn"],
        "dpkg": host["dpkg"],
        "dist_info": host["dist_info"],
        "sonames": [*row["cuda"]["sonames"], row["cudnn"]["soname"]],
        "libraries": [file["path"] for file in row["cuda"]["files"].values()],
        "venv": venv,
        "python": row["tensorflow"]["python"],
        "wheels": row["tensorflow"]["wheels"],
        "requirements_sha256": row["tensorflow"]["requirements_sha256"],
    }


_ON_HOST = """
import base64, glob, os, subprocess
host = {"files": {}, "links": {}, "cudnn": {}}
format = "${Package} ${Version} ${db:Status-Want} ${db:Status-Status}\\n"
query = ["dpkg-query", "--show", "--showformat", format, *request["packages"]]
host["dpkg"] = sorted(subprocess.check_output(query, text=True).splitlines())
venv = os.path.realpath("/opt/tensorflow/current")
(site,) = glob.glob(venv + "/lib/python3*/site-packages")
host["dist_info"] = sorted(n for n in os.listdir(site) if n.endswith(".dist-info"))
for path in request["files"]:
    if os.path.exists(path):
        mode = oct(os.stat(path).st_mode & 0o7777)[2:].zfill(4)
        with open(path, "rb") as stream:
            content = base64.b64encode(stream.read()).decode()
        host["files"][path] = {"content": content, "mode": mode}
for path in request["links"]:
    host["links"][path] = os.readlink(path)
top = os.path.realpath("/opt/nvidia/cudnn/current")
for folder, _directories, names in os.walk(top):
    for name in names:
        path = os.path.join(folder, name)
        info = os.lstat(path)
        if os.path.islink(path):
            host["cudnn"][os.path.relpath(path, top)] = {"link": os.readlink(path)}
        else:
            mode = oct(info.st_mode & 0o7777)[2:].zfill(4)
            host["cudnn"][os.path.relpath(path, top)] = {"size": info.st_size, "mode": mode}
print(json.dumps(host))
"""


def content(state: dict[str, Any], path: str) -> bytes:
    """The bytes of one of our files."""
    return base64.b64decode(state["files"][path]["content"])


def shell(state: dict[str, Any], script: str) -> str:
    """The shell script that asserts the state: the data as variables, then `script`."""
    hashes = "".join(
        f"{hashlib.sha256(content(state, path)).hexdigest()}  {path}\n" for path in state["files"]
    )
    data = {
        "digest": state["digest"],
        "names": " ".join(state["packages"]),
        "packages": "".join(
            f"{name} {version} hold installed\n"
            for name, version in sorted(state["packages"].items())
        ),
        "hashes": hashes,
        "links": "".join(f"{path} {to}\n" for path, to in state["links"].items()),
        "cudnn": state["cudnn"],
        "cudnn_files": "".join(sorted(cudnn_line(*item) for item in state["cudnn_files"].items())),
        "sonames": " ".join(state["sonames"]),
        "libraries": " ".join(state["libraries"]),
        "venv": state["venv"],
        "python": state["python"],
        "wheels": "".join(sorted(f"{_project(name)} {v}\n" for name, v in state["wheels"].items())),
        "requirements": state["requirements_sha256"],
        "unread": UNREAD,
    }
    return "".join(f"{key}={shlex.quote(value)}\n" for key, value in data.items()) + script


def cudnn_line(path: str, entry: dict[str, Any]) -> str:
    """A line as `find -printf` writes it: a link's target, or a file's size and mode."""
    if "link" in entry:
        return f"{path} -> {entry['link']}\n"
    return f"{path} {entry['size']} {entry['mode']}\n"


def _project(name: str) -> str:
    """A project's name as in dist-info folders: PEP 503's with underscores."""
    return name.lower().replace("-", "_").replace(".", "_")
