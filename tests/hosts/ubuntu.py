"""A host that says Ubuntu 20.04, and a project for it that is locked from the proving ground."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

from provision import locallab
from provision.locallab import cudnn_archive
from provision.locallab.machine import cache_directory
from tests.ground import Site, clients
from tests.hosts.conftest import Project, as_root

CA = clients.CA


class Ubuntu(Project):
    """A project of one such host, and the site that its packages come from."""

    site: Site

    def root(self, command: str, *, stdin: str | None = None) -> str:
        done = as_root(self.lab, command, stdin, timeout=300)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def wish(self, variables: Mapping[str, Any] | None = None, **stack: str) -> None:
        """The inventory, locked from the site and rendered."""
        archive = cudnn_archive.pack(cache_directory())
        cudnn = {"version": archive.version, "cuda": archive.cuda, "sha256": archive.sha256}
        inventory: dict[str, Any] = self.lab.inventory("gpu_hosts")
        inventory["gpu_hosts"].setdefault("vars", {}).update(
            {
                "gpu_platform": "ubuntu2004",
                "gpu_stack": {"tensorflow": "2.9", "python": "3.9", "cudnn": cudnn, **stack},
                "cudnn_controller_file": str(archive.path),
                "cuda_ca_bundle": CA,
                "nvidia_driver_ca_bundle": CA,
                "tensorflow_cache_dir": "/var/cache/lab/pip",
                **(variables or {}),
            }
        )
        self.locked(inventory, local=stack.get("cuda_source") == "local")

    def locked(self, inventory: Mapping[str, Any], *, local: bool = False) -> None:
        """The inventory is written, locked from the site or its local installer, and rendered."""
        (self.path / "lab").mkdir(parents=True, exist_ok=True)
        (self.path / "lab/hosts.yml").write_text(yaml.safe_dump(inventory), "utf-8")
        lock = clients.lock(self.site, self.site.ubuntu(), self.path, local=local)
        for arguments in (lock, ["render", "."]):
            done = subprocess.run(
                [str(Path(sys.executable).parent / "provision"), *arguments], cwd=self.path,
                text=True, check=False, timeout=600, capture_output=True,
                env=clients.environment(self.site, self.path),
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr

    @property
    def entry(self) -> dict[str, Any]:
        """What the last report says of the host."""
        found: dict[str, Any] = self.report["hosts"][self.lab.hosts[0].name]
        return found

    def proven(self, *arguments: str) -> dict[str, Any]:
        """One run, an empty plan after it, and what the run's report says of the host."""
        applied = self.provision("apply", "-i", "lab", *arguments)
        assert applied.returncode == 0, applied.stdout[-6000:] + applied.stderr[-6000:]
        host = self.entry
        assert host["status"] == "proven", json.dumps(host, indent=1)[-4000:]
        again = self.provision("plan", "-i", "lab")
        assert again.returncode == 0, again.stdout[-4000:] + again.stderr[-4000:]
        return host


Made = TypeVar("Made", bound=Ubuntu)


@contextmanager
def bare_ubuntu(
    directory: Path,
    name: str,
    host: str,
    site: Site,
    *,
    kind: type[Made],
    trusts: str = "Acquire::https::CAInfo",
) -> Iterator[Made]:
    """A bare host that knows Canonical's archive and the lab's CA, and nothing of NVIDIA's.

    `trusts`: the setting of apt's that names the CA.
    """
    lab = locallab.up(
        f"{name}-{os.getpid()}",
        locallab.Shape(platform="ubuntu2004"),
        state_dir=directory / ".lab",
        hosts=[host],
    )
    try:
        project = kind(directory, lab)
        project.site = site
        for path, text in clients.host(site, site.ubuntu(), trusts).items():
            project.root(f"cat > {path}", stdin=text)
        yield project
    finally:
        lab.down()
