"""A Debian 11 with docker at work, and what a model and its server's image are made of there.

No image of TensorFlow Serving can be had here: a stand-in of the same interface is built on the
host (tests/ground/serving_image.py), of the TensorFlow that prepare.yml brings.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

MOLECULE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(MOLECULE), str(MOLECULE.parent), str(MOLECULE.parent / "scripts")]

import demo  # noqa: E402
from creating import Asked, asked  # noqa: E402

from provision import locallab  # noqa: E402
from provision.locallab import cudnn_archive  # noqa: E402
from provision.locallab.machine import cache_directory  # noqa: E402
from tests.ground import serving_image  # noqa: E402

# As somebody who owns the host. Its volume is not on podman's own overlay, so docker has overlay2.
DOCKER = """\
set -e
export DEBIAN_FRONTEND=noninteractive
mkdir -p /etc/docker
echo '{"storage-driver": "overlay2"}' > /etc/docker/daemon.json
apt-get -qq update
apt-get -qq install -y --no-install-recommends docker.io > /dev/null
"""
# What expect.yml calls when TensorFlow is there: a model of one version, and the image, whose id
# is the last line.
PREPARED = """\
set -e
mkdir -p /root/made /srv/models/line
CUDA_VISIBLE_DEVICES=-1 /opt/tensorflow/current/bin/python -I /srv/lab/models.py /root/made 2
mv /root/made/2 /srv/models/line/2
sh /srv/lab/image.sh < /srv/lab/server.py
"""


def settle(lab: locallab.Lab) -> None:
    """The host as its owner has it, and the files that PREPARED takes."""
    (host,) = lab.hosts

    def root(*command: str, stdin: str = "") -> None:
        lab.podman.call("exec", "--interactive", host.container, *command, stdin=stdin.encode())

    root("mkdir", "-p", "/srv/lab")
    for path, text in {
        "/srv/lab/server.py": serving_image.SERVER.read_text("utf-8"),
        "/srv/lab/image.sh": serving_image.IMAGE,
        "/srv/lab/models.py": serving_image.MODELS,
        "/srv/lab/prepared.sh": PREPARED,
    }.items():
        root("sh", "-c", 'cat > "$0"', path, stdin=text)
    root("sh", "-c", DOCKER)


def make(wanted: Asked) -> None:
    """The host, and a rendered project for it that was never run."""
    project = wanted.project
    project.mkdir(parents=True, exist_ok=True)
    lab = locallab.up(
        wanted.name,
        locallab.Shape(
            privileged=True,
            arguments=["--cgroupns=host"],
            volumes=["/sys/fs/cgroup:/sys/fs/cgroup:rw", "/var/lib/docker"],
        ),
        state_dir=project / ".lab",
        hosts=wanted.hosts,
        keep=wanted.keep,
        owner_pid=wanted.owner_pid,
    )
    demo.write_inventory(project, lab, cudnn_archive.pack(cache_directory()))
    shutil.copytree(wanted.more, project / "lab", dirs_exist_ok=True)
    for command in (["lock", "--project", str(project)], ["render", str(project)]):
        code = demo.provision(*command)
        if code:
            raise SystemExit(code)
    settle(lab)


if __name__ == "__main__":
    make(asked(__doc__))
