"""A host with Ubuntu's identity for the tests of what goes wrong: one machine under several names.

Each name has a wish of its own (the .run file, NVIDIA's repository, Ubuntu's packages), so that one
lock and one rendered project serve a whole module, and a test says which way is meant by --limit.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from provision.locallab import cudnn_archive
from provision.locallab.machine import cache_directory
from tests.ground import Site
from tests.hosts.ubuntu import CA, Ubuntu, bare_ubuntu

RUNFILE, NETWORK, PACKAGES = "by-runfile", "by-network", "by-packages"
VERSION = "470.256.02"
# Directories without their times: a file that was written and removed again is no difference. The
# marks of a run that has begun (/var/lib/provision) are the run's own.
PICTURE = (
    "dpkg-query -W -f '${db:Status-Abbrev}${Package}=${Version}\\n'; apt-mark showhold;"
    " find /etc /opt /usr /var/lib/nvidia /var/lib/dkms /var/cache/provision /var/tmp/provision*"
    " /tmp/provision* -xdev -name __pycache__ -prune -o"
    " \\( -type d -printf '%p %m\\n' -o -printf '%p %y %m %U %s %T@ %l\\n' \\) 2>/dev/null | sort"
)


class Focal(Ubuntu):
    """The machine, its project, and the site that its packages come from."""

    def machine(self, script: str) -> str:
        """What a script prints with more rights than the host itself has: it may mount."""
        return self.lab.podman.call(
            "exec", "--privileged", "--interactive", self.lab.hosts[0].container, "sh", "-e",
            stdin=script.encode(),
        )  # fmt: skip

    def picture(self) -> list[str]:
        return self.root(PICTURE).splitlines()

    def wishes(self, settings: Mapping[str, Any]) -> None:
        """The inventory of all names, locked from the site and rendered."""
        archive = cudnn_archive.pack(cache_directory())
        cudnn = {"version": archive.version, "cuda": archive.cuda, "sha256": archive.sha256}
        run = self.site.runfile("470")
        stack = {
            "tensorflow": "2.9", "python": "3.9", "cudnn": cudnn, "cuda": "11.2",
            "cuda_source": "network",
        }  # fmt: skip
        wishes: dict[str, dict[str, Any]] = {
            RUNFILE: {
                "driver_source": "runfile", "driver_branch": VERSION,
                "driver_sha256": str(run["sha256"]),
            },
            NETWORK: {"driver_source": "network", "driver_branch": "470"},
            PACKAGES: {"driver_branch": "470"},
        }  # fmt: skip
        inventory: dict[str, Any] = self.lab.inventory("gpu_hosts")
        group = inventory["gpu_hosts"]
        (real,) = group["hosts"].values()
        group["hosts"] = {
            name: {**real, "gpu_stack": {**stack, **wish}} for name, wish in wishes.items()
        }
        group["vars"].update(
            {
                "gpu_platform": "ubuntu2004",
                "cudnn_controller_file": str(archive.path),
                "cudnn_ca_bundle": CA,
                "cuda_ca_bundle": CA,
                "nvidia_driver_ca_bundle": CA,
                "cuda_profile": "runtime",
                "tensorflow_cache_dir": "/var/cache/lab/pip",
                **settings,
            }
        )
        self.locked(inventory)

    def apply(
        self, name: str, tags: str = "", **options: Any
    ) -> tuple[subprocess.CompletedProcess[str], str]:
        """`provision apply` of one name, and all it printed in one line."""
        arguments = ["apply", "-i", "lab", "--limit", name]
        arguments += ["--tags", tags] if tags else []
        arguments += ["-e", json.dumps(options)] if options else []
        done = self.provision(*arguments)
        text = done.stdout + done.stderr
        assert "Traceback" not in text, text
        return done, " ".join(text.split())

    def left(self, name: str, tags: str = "", **options: Any) -> list[Any]:
        """What `provision plan` finds to change of what is selected."""
        arguments = ["plan", "-i", "lab", "--limit", name, *(["--tags", tags] if tags else [])]
        arguments += ["-e", json.dumps(options)] if options else []
        done = self.provision(*arguments)
        # What the tags leave out is drift too.
        assert done.returncode in {0, 5}, done.stdout[-4000:] + done.stderr[-4000:]
        return [change for change in self.report["hosts"][name]["changes"] if change["selected"]]

    def cured(self, name: str, tags: str = "", **options: Any) -> None:
        """One run, after which nothing is left."""
        done, text = self.apply(name, tags, **options)
        assert done.returncode == 0, text[-6000:]
        assert self.left(name, tags, **options) == []


@contextlib.contextmanager
def focal(directory: Path, name: str, site: Site, **settings: Any) -> Iterator[Focal]:
    """A bare machine on which the site's own server alone is trusted by its CA."""
    trusts = f"Acquire::https::{shlex.quote(site.web.address)}::CaInfo"
    with bare_ubuntu(directory, name, name, site, kind=Focal, trusts=trusts) as made:
        # What Ansible's apt module would install by itself, and one list of all archives.
        made.root("apt-get -qq update && apt-get -qq install python3-apt >/dev/null")
        made.wishes(settings)
        yield made
