"""The image's build, as far as apt's part of it: a stand-in for apt says what it was asked."""

from __future__ import annotations

import copy
import os
import subprocess
from pathlib import Path
from typing import Any

from provision import kubernetes
from provision.catalog import load
from provision.lock import Lock
from tests.unit.kubernetes_files import locked
from tests.unit.kubernetes_files.test_manifests import CHOSEN, LOCK

NVIDIA = "https://developer.download.nvidia.com/compute/cuda/repos/debian11/x86_64"
# As apt in the distributions' own images: none has certificates before it installs them.
APT = """\
#!/bin/sh
for word; do case $word in update|install) break;; esac; done
echo "$word" >>"$ROOT/log"
case $word in
update)
    if grep -q https:// "$ROOT"/etc/apt/sources.list.d/* && [ ! -e "$ROOT/certificates" ]; then
        echo "E: No system certificates available." >&2
        exit 100
    fi
    sed -n 's/^URIs: //p' "$ROOT"/etc/apt/sources.list.d/* >>"$ROOT/log"
    ;;
install) case $* in *ca-certificates*) touch "$ROOT/certificates";; esac;;
esac
"""


def built(lock: Lock, root: Path) -> list[str]:
    """What apt is asked before the locked packages, and the archives that it reads at an update."""
    for name, data in kubernetes.for_cluster(lock, load(), CHOSEN).items():
        if name.startswith("image/locked/"):
            path = root / name.removeprefix("image/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    for folder in ("etc/apt/sources.list.d", "usr/share/keyrings", "bin"):
        (root / folder).mkdir(parents=True)
    (root / "etc/os-release").write_text('ID=debian\nVERSION_ID="11"\n')
    (root / "bin/apt-get").write_text(APT)
    (root / "bin/apt-get").chmod(0o755)
    script = (root / "locked/install.sh").read_text()
    # Not a step further: the rest is for an image's own root.
    script, rest, _ = script.partition("\nif [ -s packages.txt ]")
    assert rest
    for place in ("/locked", "/etc/", "/usr/share/keyrings/"):
        script = script.replace(place, f"{root}{place}")
    environment = {**os.environ, "PATH": f"{root}/bin:{os.environ['PATH']}", "ROOT": str(root)}
    subprocess.run(["sh", "-c", script], env=environment, check=True, timeout=60)
    return (root / "log").read_text().splitlines()


def with_repository(repository: dict[str, Any] | None) -> Lock:
    """The lock, with CUDA of this repository."""
    slim: Any = copy.deepcopy(dict(LOCK.slim))
    if repository:
        slim["stacks"][locked.STACK]["cuda"]["repository"] = repository
    return Lock(slim, LOCK.details)


def test_certificates_come_before_the_repository_that_needs_them(tmp_path: Path) -> None:
    repository = {"url": NVIDIA, "suite": "/", "key": "a key", "fingerprints": []}
    asked = built(with_repository(repository), tmp_path)
    debian = "http://deb.debian.org/debian"
    assert asked[:4] == ["update", debian, "install", "update"]
    assert set(asked[4:]) == {debian, NVIDIA}
    source = next((tmp_path / "etc/apt/sources.list.d").glob("*nvidia*")).read_text()
    assert "Signed-By: /usr/share/keyrings/provision-nvidia.asc\n" in source
    assert (tmp_path / "usr/share/keyrings/provision-nvidia.asc").read_text() == "a key"


def test_without_a_repository_of_nvidias_there_is_one_update(tmp_path: Path) -> None:
    asked = built(with_repository(None), tmp_path)
    assert asked == ["update", "http://deb.debian.org/debian", "install"]
