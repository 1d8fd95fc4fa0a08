"""What a controller without a network needs: Ansible as locked wheels, the tree, the documentation.

The wheels are not the lock's, for a controller is no host of it. They are those that this version
of provision was tried with, by their hashes: so two bundles of one lock are the same bytes here
too, whatever is installed where they are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

from packaging.requirements import Requirement

from provision.bundle.manifest import CONTROLLER

# Of Debian 12 and 13, Ubuntu 22.04 and 24.04, and the oldest C library of these.
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
WHEEL_PLATFORM = "x86_64-manylinux_2_35"

REQUIREMENTS = f"{CONTROLLER}/requirements.txt"
_TREE, _DOCUMENTATION = f"{CONTROLLER}/project", f"{CONTROLLER}/docs"


def text() -> str:
    """The hash-locked requirements of whoever runs a tree and its checks, as pip reads them."""
    return resources.files("provision.bundle").joinpath("controller.txt").read_text("utf-8")


def requirements(python: str) -> str:
    """The requirements of one Python version, without environment markers."""
    where = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "os_name": "posix",
    }
    kept = []
    for line in text().replace("\\\n", " ").splitlines():
        pinned, *hashes = line.split(" --hash=")
        requirement = Requirement(pinned)
        if requirement.marker is None or requirement.marker.evaluate(where):
            pin = f"{requirement.name}{requirement.specifier}"
            kept.append(" ".join([pin, *(f"--hash={sha.strip()}" for sha in hashes)]) + "\n")
    return "".join(kept)


def made(
    lock: bytes, tree: Mapping[str, bytes], documentation: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Path -> bytes: the rendered project with its lock, the documentation, the requirements."""
    project = {f"{_TREE}/{path}": data for path, data in tree.items()}
    pages = {f"{_DOCUMENTATION}/{path}": data for path, data in documentation.items()}
    project[f"{_TREE}/lock.yml"] = lock
    return project | pages | {REQUIREMENTS: text().encode()}


_HEAD = """\
A bundle of `provision`: all that the hosts of lock.yml fetch, by the hashes in manifest.json.

    provision bundle --verify .        checks every file, where provision is installed
"""
_WITH_CONTROLLER = """
Five commands rebuild the lab from here, without a network. They need python3 with its venv
(Python 3.10 to 3.13 on x86_64), ssh, and your inventory, which is not in here: it can have
passwords. BUNDLE is this folder, HERE this machine's address.

    python3 -m venv ~/ansible
    ~/ansible/bin/pip install --no-index --find-links BUNDLE/wheels --require-hashes \\
        -r BUNDLE/controller/requirements.txt
    cp -r BUNDLE/controller/project ~/project && cp -r YOUR/INVENTORY ~/project/lab
    python3 -m http.server --bind HERE --directory BUNDLE 8000 &
    cd ~/project && PATH=~/ansible/bin:$PATH ansible-playbook site.yml -i lab -K \\
        -e gpu_bundle=http://HERE:8000

The second checks the hash of each wheel, the last those of everything that comes to a host. Whose
all of it is, a signature says (manifest.json.sig):

    ssh-keygen -Y verify -f ALLOWED_SIGNERS -I NAME -n provision-bundle \\
        -s BUNDLE/manifest.json.sig < BUNDLE/manifest.json

The documentation is in controller/docs; bundle.md there says what is where.
"""
_WITHOUT = """
What a controller needs is not in it (`provision bundle --controller`).
"""


def readme(*, with_controller: bool) -> bytes:
    """README.txt: what this is, and how a lab is rebuilt of it."""
    return (_HEAD + (_WITH_CONTROLLER if with_controller else _WITHOUT)).encode("ascii")
