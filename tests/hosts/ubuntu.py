"""A host that says Ubuntu 20.04, and a project for it that is locked from the proving ground."""

from __future__ import annotations

import json
import os
import shlex
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
from tests.ground import Site
from tests.ground.repository import Key
from tests.hosts.conftest import Project

CA = "/etc/ssl/lab-ca.pem"
SYSTEM_CA = Path("/etc/ssl/certs/ca-certificates.crt")


class Ubuntu(Project):
    """A project of one such host, and the site that its packages come from."""

    site: Site

    def root(self, command: str, *, stdin: str | None = None) -> str:
        (one,) = self.lab.hosts
        done = subprocess.run(
            [
                "ssh", *self.lab.ssh_arguments(), "-i", str(one.key_file),
                f"{one.user}@{one.address}", "sudo sh -c " + shlex.quote(command),
            ],
            input=stdin, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
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
        local = stack.get("cuda_source") == "local"
        self.locked(inventory, self.site.old_key if local else self.site.key)

    def locked(self, inventory: Mapping[str, Any], nvidia: Key) -> None:
        """The inventory is written, locked from the site whose NVIDIA signs with this, rendered."""
        (self.path / "lab").mkdir(parents=True, exist_ok=True)
        (self.path / "lab/hosts.yml").write_text(yaml.safe_dump(inventory), "utf-8")
        ubuntu = self.site.ubuntu()
        for name, key in (("nvidia.asc", nvidia.armored), ("ubuntu.asc", str(ubuntu["key"]))):
            (self.path / name).write_text(key, "ascii")
        bundle = self.path / "ca.pem"
        bundle.write_text(SYSTEM_CA.read_text("utf-8") + self.site.ca.read_text("utf-8"), "utf-8")
        locked = self.controller(
            bundle, "lock", "--nvidia-mirror", self.site.url, "--nvidia-key", "nvidia.asc",
            "--archive-mirror", f"ubuntu2004={ubuntu['url']},focal-updates,focal-security",
            "--archive-key", "ubuntu.asc",
        )  # fmt: skip
        assert locked.returncode == 0, locked.stdout + locked.stderr
        rendered = self.controller(bundle, "render", ".")
        assert rendered.returncode == 0, rendered.stdout + rendered.stderr

    def controller(self, bundle: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = Path(sys.executable).parent / "provision"
        return subprocess.run(
            [str(program), *arguments], cwd=self.path, text=True, check=False, timeout=600,
            capture_output=True, env={**os.environ, "SSL_CERT_FILE": str(bundle)},
        )  # fmt: skip

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
        f"{name}-{os.getpid()}", platform="ubuntu2004", state_dir=directory / ".lab", hosts=[host]
    )
    try:
        project = kind(directory, lab)
        project.site = site
        project.root(f"cat > {CA}", stdin=site.ca.read_text("utf-8"))
        archive = site.ubuntu()
        project.root("cat > /usr/share/keyrings/lab-ubuntu.asc", stdin=str(archive["key"]))
        lines = "".join(
            f"deb [signed-by=/usr/share/keyrings/lab-ubuntu.asc] {archive['url']} {suite} "
            "main restricted universe multiverse\n"
            for suite in ("focal", "focal-updates", "focal-security")
        )
        project.root("cat > /etc/apt/sources.list.d/lab-ubuntu.list", stdin=lines)
        project.root("cat > /etc/apt/apt.conf.d/50lab-ca", stdin=f'{trusts} "{CA}";\n')
        yield project
    finally:
        lab.down()
