"""The host and project of the scenarios of containers: a Debian 12 with docker and podman.

dockerd and podman run for real in it, which is a privileged container for that. The toolkit's four
packages are stand-ins (tests/ground/toolkit.py): locked from this machine, and then served by the
host itself, which is another place with a CA of its own. create.yml calls a scenario's create.py,
which is this, as it calls scripts/demo.py for the other scenarios.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from creating import asked

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from provision import locallab  # noqa: E402 - this tree's, wherever Molecule is
from provision.locallab import cudnn_archive  # noqa: E402
from provision.locallab.machine import cache_directory  # noqa: E402
from tests.ground import toolkit, workspace_image  # noqa: E402
from tests.ground.server import Authority  # noqa: E402

# What stands in the owner's daemon.json and has to stay there.
FOREIGN = {"storage-driver": "overlay2", "log-driver": "json-file", "labels": ["rack=7"]}
SERVER = """\
import functools, http.server, ssl
log = open("/srv/lab/requests.log", "a", buffering=1)
class Handler(http.server.SimpleHTTPRequestHandler):
    def log_request(self, code="-", size="-"):
        log.write("{} {} {}\\n".format(self.command, self.path, int(code)))
handler = functools.partial(Handler, directory="/srv/lab/www")
server = http.server.ThreadingHTTPServer(("", 8443), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/srv/lab/server.pem", "/srv/lab/server.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
OWNER = f"""\
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install -y --no-install-recommends \
  docker.io podman crun netavark busybox-static > /dev/null
usermod --append --groups docker "$1"
{toolkit.TINY}tar -C /root/tiny -c . | docker import - tiny
tar -C /root/tiny -c . | podman import - tiny
systemd-run --unit=lab-repository /usr/bin/python3 /srv/lab/server.py
"""


def settle(lab: locallab.Lab, authority: Authority, www: Path) -> None:
    """The host as its owner has it, and the repository that it serves."""
    (host,) = lab.hosts

    def root(*command: str, stdin: str = "") -> None:
        lab.podman.call("exec", "--interactive", host.container, *command, stdin=stdin.encode())

    root("mkdir", "-p", "/srv/lab", "/etc/docker", "/etc/containers")
    lab.podman.call("cp", str(www), f"{host.container}:/srv/lab/www")
    certificate, private = authority.issue(host.address)
    for path, text in {
        "/srv/lab/server.pem": certificate.read_text("ascii"),
        "/srv/lab/server.key": private.read_text("ascii"),
        "/srv/lab/ca.pem": authority.bundle.read_text("ascii"),
        "/srv/lab/server.py": SERVER,
        **toolkit.NESTED,
        "/etc/docker/daemon.json": json.dumps(FOREIGN, indent=2),
    }.items():
        root("sh", "-c", 'cat > "$0"', path, stdin=text)
    root("sh", "-c", OWNER, "sh", host.user)


def write(project: Path, lab: locallab.Lab, more: Path, *, people: bool) -> None:
    """The inventory; with `people` also the image of their workspaces, which is made here."""
    archive = cudnn_archive.pack(cache_directory(), version="8.7.0.84")
    cudnn = {"version": archive.version, "cuda": archive.cuda, "sha256": archive.sha256}
    inventory = lab.inventory("gpu_hosts")
    inventory["gpu_hosts"].setdefault("vars", {})["gpu_stack"] = {
        "tensorflow": "2.14", "cudnn": cudnn, "container_toolkit": True
    }  # fmt: skip
    shutil.rmtree(project / "lab", ignore_errors=True)
    shutil.copytree(more, project / "lab")
    if people:
        image = workspace_image.pack()
        inventory["gpu_hosts"]["vars"] |= {
            "lab_image_file": str(image),
            "lab_image_sha256": workspace_image.sha256(image),
        }
    (project / "lab" / "hosts.yml").write_text(yaml.safe_dump(inventory), "utf-8")


def provision(*arguments: str, trusted: Path) -> None:
    """Run the command line as a person would."""
    environment = {**os.environ, "SSL_CERT_FILE": str(trusted)}
    command = [sys.executable, "-m", "provision", *arguments]
    code = subprocess.run(command, check=False, env=environment).returncode
    if code:
        raise SystemExit(code)


def make(
    project: Path, name: str, hosts: list[str], more: Path, *, people: bool = False
) -> locallab.Lab:
    """The host, and a rendered project for it that was never run.

    `more` is a folder with further files of the inventory (host_vars).
    """
    owner = os.environ.get("PROVISION_LAB_OWNER")
    project.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(project / "ground", ignore_errors=True)
    lab = locallab.up(
        name,
        locallab.Shape(
            platform="debian12",
            privileged=True,
            arguments=["--cgroupns=host"],
            volumes=["/sys/fs/cgroup:/sys/fs/cgroup:rw", "/var/lib/docker"],
        ),
        state_dir=project / ".lab",
        hosts=hosts,
        # Under podman's own overlay docker has no overlay2, so its state lies on a volume.
        keep=not owner,
        owner_pid=int(owner) if owner else None,
    )
    with toolkit.serve(project / "ground", versions=["1.20.1"]) as site:
        write(project, lab, more, people=people)
        key, trusted = project / "ground" / "toolkit.asc", project / "ground" / "trusted.pem"
        key.write_text(site.key.armored, "ascii")
        system = Path("/etc/ssl/certs/ca-certificates.crt").read_text("utf-8")
        trusted.write_text(system + site.ca.read_text("ascii"), "utf-8")
        mirror = ["--nvidia-mirror", site.web.url, "--nvidia-key", str(key)]
        provision("lock", "--project", str(project), *mirror, trusted=trusted)
        provision("render", str(project), trusted=trusted)
        settle(lab, site.web.authority, site.web.root)
    return lab


def main(*, people: bool = False) -> None:
    """What create.yml calls."""
    lab = asked(__doc__)
    make(lab.project, lab.name, lab.hosts, lab.more, people=people)
