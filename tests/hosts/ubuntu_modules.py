"""Stand-ins for Ubuntu's archive of signed kernel modules, and the role's way to one.

The packages have Ubuntu's names and relations. What is in them, and who signed it, is a test's.
"""

from __future__ import annotations

import base64
import io
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from provision.locallab.identity import Identity
from tests.ground import deb, repository

VERSION = "470.256.02"
JAMMY = Identity("22.04", "22.04.5", "jammy", "Jammy Jellyfish", "bookworm")
STEM = "linux-modules-nvidia-470-server"
HWE = "generic-hwe-22.04"
# A kernel that the machine does not have: the metapackages' newest, one day.
OTHER = "9.9.9-1-generic"
PACKAGES = {
    "nvidia-kernel-common-470-server": f"{VERSION}-0ubuntu0.22.04.1",
    "libnvidia-compute-470-server": f"{VERSION}-0ubuntu0.22.04.1",
}
# The role's own modules and tasks for the kernel, in its order.
PLAY: list[dict[str, Any]] = [
    {
        "hosts": "gpu",
        "become": True,
        "vars": {
            "nvidia_driver_version": VERSION,
            "nvidia_driver_branch": "470",
            "nvidia_driver_fabric_manager": "false",
            "__nvidia_driver_container": False,
            "__nvidia_driver_signed": [f"{STEM}-generic"],
        },
        "tasks": [
            {
                "name": "Find the kernels",
                "provision.gpu.driver_kernels": {"platform": "linux-headers-generic"},
                "register": "__nvidia_driver_built_for",
            },
            {
                "name": "Install the exact versions in one transaction",
                "provision.gpu.driver_packages": {
                    "state": "present",
                    "version": VERSION,
                    "packages": PACKAGES,
                    "parts": [*PACKAGES, f"{STEM}-generic"],
                    "signed": "{{ __nvidia_driver_signed }}",
                },
            },
            {
                "name": "Give the kernels their module",
                "ansible.builtin.include_role": {
                    "name": "provision.gpu.nvidia_driver",
                    "tasks_from": "kernel/module.yml",
                },
            },
        ],
    }
]


def tied() -> str:
    """How Ubuntu ties modules to their driver."""
    common = "nvidia-kernel-common-470-server"
    return f"{common} (<= {VERSION}-1), {common} (>= {VERSION})"


class Archive:
    """A stand-in for Ubuntu's archive, as a directory on the machine that its apt reads."""

    def __init__(self, ssh: Callable[..., str], folder: Path, kernel: str) -> None:
        """`ssh` runs a command of an ordinary user on the machine, with a standard input."""
        self.ssh, self.folder, self.kernel = ssh, folder, kernel
        self.packages: dict[str, Path] = {}

    def package(
        self, name: str, version: str, depends: str = "", files: Mapping[str, bytes] | None = None
    ) -> None:
        """Takes the place of another of this name."""
        path = self.folder / f"{name}_{version.replace(':', '')}_amd64.deb"
        fields = {
            "Package": name, "Version": version, "Architecture": "amd64",
            "Maintainer": "Lab <lab@example.org>", "Depends": depends,
            "Description": f"stand-in for Ubuntu's {name}",
        }  # fmt: skip
        made = deb.Writer(
            path,
            {key: value for key, value in fields.items() if value},
            {"postinst": f"#!/bin/sh\ndepmod {self.kernel}\n"} if files else None,
        )
        for place, data in (files or {}).items():
            made.file(place, data)
        self.packages[name] = made.close()

    def modules(self, version: str, module: bytes) -> None:
        """The booted kernel's package of modules."""
        place = f"lib/modules/{self.kernel}/kernel/nvidia-470srv/nvidia.ko"
        self.package(f"{STEM}-{self.kernel}", version, tied(), {place: module})

    def publish(self) -> None:
        """What the machine's apt knows from now on."""
        names = {f"./{path.name}": path for path in self.packages.values()}
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name, path in names.items():
                tar.add(path, name)
            index = repository.index(names).encode()
            entry = tarfile.TarInfo("./Packages")
            entry.size = len(index)
            tar.addfile(entry, io.BytesIO(index))
        self.ssh(
            "base64 -d > /tmp/stand-in.tar && sudo sh -ec '"
            "rm -rf /srv/stand-in && mkdir /srv/stand-in && tar -C /srv/stand-in -xf"
            " /tmp/stand-in.tar"
            " && echo deb [trusted=yes] file:/srv/stand-in ./"
            " > /etc/apt/sources.list.d/stand-in.list"
            " && apt-get update -qq -o Dir::Etc::sourceparts=-"
            " -o Dir::Etc::sourcelist=sources.list.d/stand-in.list -o APT::Get::List-Cleanup=0'",
            stdin=base64.b64encode(packed.getvalue()).decode(),
        )

    def first_day(self, module: bytes) -> None:
        """HWE's newest kernel is the booted one, GA's is another; the machine's kernels are HWE's.

        The machine says from now on that it is Ubuntu.
        """
        for path, (text, mode) in JAMMY.files("Debian 12").items():
            self.ssh(f"sudo mkdir -p $(dirname {path}) && sudo tee {path}", stdin=text)
            self.ssh(f"sudo chmod {mode:o} {path}")
        for name, version in PACKAGES.items():
            self.package(name, version)
        self.package(f"linux-image-{HWE}", "1")
        self.modules("1", module)
        self.package(f"{STEM}-{OTHER}", "1", tied())
        for flavour, kernel in ((HWE, self.kernel), ("generic", OTHER)):
            self.package(f"{STEM}-{flavour}", "1", f"{STEM}-{kernel}, {tied()}")
        self.publish()
        self.ssh(f"sudo apt-get install -y -qq linux-image-{HWE}")

    def installed(self) -> list[str]:
        """The machine's packages of modules."""
        listed = self.ssh(f"dpkg-query -W -f '${{db:Status-Abbrev}}${{Package}}\\n' '{STEM}-*'")
        return sorted(line[3:].strip() for line in listed.splitlines() if line.startswith("ii"))
