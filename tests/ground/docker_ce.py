"""Docker's own apt repository: stand-ins under its packages' names, made of Debian's docker.

Debian's real docker.io, containerd and runc are taken apart and put together again as docker-ce,
docker-ce-cli and containerd.io, with the dependencies and conflicts that Docker's have
(https://github.com/docker/docker-ce-packaging/blob/master/deb/common/control), so dockerd really
runs. What they are called and who signed them is a test's.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.ground import repository
from tests.ground.repository import Key

PLACE = "docker/linux/debian"
SUITE = "bookworm"
VERSION = "5:20.10.24-1~debian.12~bookworm"
USER = "Docker Release (a stand-in of a test's) <docker@docker.test>"
# As Docker's containerd.io has it: CRI is off.
CONFIG = 'disabled_plugins = ["cri"]\n'
PLUGINS = ("docker-buildx-plugin", "docker-compose-plugin")
CONFLICTS = "docker (<< 1.5~), docker-engine, docker.io"


def taken_apart(package: Path, target: Path) -> Mapping[str, str]:
    """A package's files and scripts below `target`; its control fields."""
    subprocess.run(["dpkg-deb", "-R", str(package), str(target)], check=True)
    text = (target / "DEBIAN" / "control").read_text("utf-8")
    return dict(re.findall(r"(?m)^([\w-]+): (.*)$", text))


def put_together(tree: Path, fields: Mapping[str, str], target: Path) -> None:
    """A .deb of a directory of files and scripts."""
    (tree / "DEBIAN").mkdir(parents=True, exist_ok=True)
    (tree / "DEBIAN" / "md5sums").unlink(missing_ok=True)
    known = {"Architecture": "amd64", "Maintainer": USER, "Description": "a stand-in of a test's"}
    text = "".join(f"{name}: {value}\n" for name, value in {**fields, **known}.items())
    (tree / "DEBIAN" / "control").write_text(text, "utf-8")
    name = f"{fields['Package']}_{fields['Version'].replace(':', '%3a')}_amd64.deb"
    subprocess.run(
        ["dpkg-deb", "-b", "--root-owner-group", "-Zgzip", "-z1", str(tree), str(target / name)],
        check=True, capture_output=True,
    )  # fmt: skip


def depends(fields: Mapping[str, str]) -> str:
    """What Debian's needs of others, without what Docker's packages bring themselves."""
    listed = [package.strip() for package in fields["Depends"].split(",")]
    return ", ".join(
        package for package in listed if package.split()[0] not in ("containerd", "runc")
    )


def packages(debian: Mapping[str, Path], target: Path) -> None:
    """The five packages, of Debian's {name: file}."""
    target.mkdir(parents=True)
    engine, client, runtime = (target / name for name in ("engine", "client", "runtime"))
    fields = taken_apart(debian["docker.io"], engine)
    (client / "usr" / "bin").mkdir(parents=True)
    shutil.move(engine / "usr" / "bin" / "docker", client / "usr" / "bin" / "docker")
    shutil.rmtree(engine / "usr" / "share" / "doc")
    own = {"Version": VERSION, "Conflicts": CONFLICTS}
    needs = f"containerd.io (>= 1.4.1), docker-ce-cli, iptables, {depends(fields)}"
    put_together(engine, {"Package": "docker-ce", "Depends": needs, **own}, target)
    put_together(client, {"Package": "docker-ce-cli", "Depends": "libc6", **own}, target)
    fields = taken_apart(debian["containerd"], runtime)
    subprocess.run(["dpkg-deb", "-x", str(debian["runc"]), str(runtime)], check=True)
    shutil.rmtree(runtime / "usr" / "share" / "doc")
    (runtime / "etc" / "containerd").mkdir(parents=True, exist_ok=True)
    (runtime / "etc" / "containerd" / "config.toml").write_text(CONFIG, "ascii")
    (runtime / "DEBIAN" / "conffiles").write_text("/etc/containerd/config.toml\n", "ascii")
    both = "containerd, runc"
    asked = {
        "Package": "containerd.io", "Version": "1.6.20-1", "Depends": "libc6, libseccomp2",
        "Provides": both, "Conflicts": both, "Replaces": both,
    }  # fmt: skip
    put_together(runtime, asked, target)
    for name in PLUGINS:
        tree = target / name
        (tree / "usr" / "share" / "doc" / name).mkdir(parents=True)
        put_together(tree, {"Package": name, "Version": "1.0-1~debian.12~bookworm"}, target)


def lay_out(root: Path, debian: Mapping[str, Path], signer: Key) -> None:
    """The repository and its key below `root`, as Docker lays them out."""
    top, work = root / PLACE, root.parent / "docker-ce"
    packages(debian, work)
    made = {"stable": sorted(work.glob("*.deb"))}
    about = {"Origin": "Docker", "Label": "Docker CE", "Codename": SUITE}
    repository.suites(top, SUITE, made, signer, **about)
    (top / "gpg").write_text(signer.armored, "ascii")
