"""A fresh install on a machine with nouveau in charge of its card: one run, and the one after it.

Nothing is prepared: dpkg has DKMS build the driver in the machine, which takes an hour or more
under emulation. So this is no part of `make test-all`; `make bare` runs it. The card has ids and
nothing behind them, so the run ends where the driver refuses it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import demo
import pytest
import yaml
from conftest import NEWEST
from test_virtual import Machine

from provision import locallab
from provision.locallab import cudnn_archive
from provision.locallab.machine import cache_directory
from provision.locallab.vm import Virtual

pytestmark = [
    pytest.mark.hosts, pytest.mark.slow, pytest.mark.hours, pytest.mark.network,
    pytest.mark.usefixtures("machines_possible"),
]  # fmt: skip

# {platform: (wish, version of its cuDNN archive)}
WISHES: dict[str, tuple[dict[str, Any], str | None]] = {
    "debian11": ({"tensorflow": "2.9"}, cudnn_archive.VERSION),
    "debian12": ({"tensorflow": "2.14"}, "8.7.0.84"),
    "debian13": ({"python": "3.13"}, None),
}
LONGEST = 4 * 3600


class Bare(Machine):
    """A fresh install with a card on its bus, and a rendered project for it."""

    def __init__(self, platform: str, folder: Path) -> None:
        super().__init__(
            f"bare-{platform}", folder, locallab.Shape(platform, gpus=1, virtual=Virtual())
        )
        self.folder = folder
        wish, cudnn = WISHES[platform]
        wish = dict(wish)
        # All of dpkg with DKMS is one task, which under emulation takes longer than anywhere.
        values = {
            "gpu_stack": wish, "nvidia_driver_reboot": True, "gpu_step_timeout": LONGEST,
        }  # fmt: skip
        if cudnn:
            archive = cudnn_archive.pack(cache_directory(), version=cudnn)
            wish["cudnn"] = {
                "version": archive.version, "cuda": archive.cuda, "sha256": archive.sha256
            }  # fmt: skip
            values["cudnn_controller_file"] = str(archive.path)
        variables = folder / "lab/group_vars"
        variables.mkdir(parents=True)
        (variables / "gpu_hosts.yml").write_text(yaml.safe_dump(values), "utf-8")
        (folder / "lab/hosts.yml").write_text(
            yaml.safe_dump(self.lab.inventory("gpu_hosts")), "utf-8"
        )
        for command in (["lock", "--project", str(folder)], ["render", str(folder)]):
            assert demo.provision(*command) == 0

    def run(self) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        """A run of the rendered project, and what its report says of the machine."""
        done = subprocess.run(
            [str(NEWEST), "site.yml", "-i", "lab"],
            cwd=self.folder, capture_output=True, text=True, check=False, timeout=LONGEST,
        )  # fmt: skip
        report = json.loads((self.folder / "report/latest/report.json").read_text("utf-8"))
        return done, report["hosts"]["vm01"]


@pytest.fixture(scope="module", params=sorted(WISHES))
def machine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bare]:
    made = Bare(request.param, tmp_path_factory.mktemp("bare"))
    yield made
    made.lab.down()


def test_one_run_reboots_once_and_tries_the_module_on_the_booted_kernel(machine: Bare) -> None:
    """Built for the booted kernel and taken by it; the card refuses, by the kernel's words."""
    assert machine.ssh("ls -d /sys/module/nouveau") == "/sys/module/nouveau"
    assert machine.ssh("ls /usr/src | grep -c ^nvidia || true") == "0"
    before = machine.boot_id()
    done, entry = machine.run()
    output = done.stdout + done.stderr
    assert machine.boot_id() != before, output[-3000:]
    assert output.count("Reboot the host] ") == 1, output[-3000:]
    assert machine.ssh("ls -d /sys/module/nouveau || true") == ""
    kernel = machine.ssh("uname -r")
    assert machine.ssh(f"/sbin/modinfo -k {kernel} nvidia-current -F vermagic").startswith(kernel)
    assert "NVRM" in machine.ssh("sudo dmesg")
    assert done.returncode == 2, output[-3000:]
    assert entry["status"] == "failed"
    assert "a reboot is no cure" in entry["failure"]["message"]
    assert "fallen off the bus" in entry["failure"]["message"]


def test_the_next_run_changes_nothing_and_does_not_reboot(machine: Bare) -> None:
    before = machine.boot_id()
    done, entry = machine.run()
    assert machine.boot_id() == before
    assert done.returncode == 2
    assert "a reboot is no cure" in entry["failure"]["message"]
    # The rest of the stack stays planned: the run ends at the card, before it.
    assert re.search(r"^vm01 .* changed=0 ", done.stdout, re.M), done.stdout[-3000:]
