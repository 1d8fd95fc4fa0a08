"""Secure Boot: whose modules the kernel takes, and that no run begins where it would take none."""

from __future__ import annotations

import base64
import lzma
from collections.abc import Iterator
from pathlib import Path

import pytest
import signing
from conftest import over_ssh
from test_virtual import Machine, project_for

from provision import locallab
from provision.locallab.vm import Virtual

pytestmark = [
    pytest.mark.hosts, pytest.mark.slow, pytest.mark.network,
    pytest.mark.usefixtures("machines_possible"),
]  # fmt: skip

# {platform: the TensorFlow that is wished}; dkms 3 makes a key of its own, dkms 2 signs with none.
WISHES = {"debian12": "2.14", "debian11": "2.9", "debian13": "2.20"}
# Linux 5.10 leaves a key that it does not know to lockdown.
REFUSALS = {
    "debian11": "Operation not permitted",
    "debian12": "Key was rejected by service",
    "debian13": "Key was rejected by service",
}
Trusting = tuple[str, Machine, dict[str, tuple[Path, Path]]]


@pytest.fixture(scope="module", params=list(WISHES))
def trusting(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trusting]:
    """Secure Boot is on and the firmware trusts the key `ours`, not `stranger`."""
    folder = tmp_path_factory.mktemp("trusting")
    keys = {name: signing.key_pair(folder, name) for name in ("ours", "stranger")}
    for private, _ in keys.values():
        private.chmod(0o600)
    virtual = Virtual(secure_boot=True, enrol=(keys["ours"][1],))
    made = Machine("sb", folder, locallab.Shape(request.param, gpus=1, virtual=virtual))
    yield request.param, made, keys
    made.lab.down()


def test_secure_boot_is_on_and_the_key_is_enrolled(trusting: Trusting) -> None:
    _, machine, _ = trusting
    assert "enabled" in machine.ssh("mokutil --sb-state")
    assert "[integrity]" in machine.ssh("cat /sys/kernel/security/lockdown")
    enrolled = machine.ssh("mokutil --list-enrolled")
    assert "CN=ours" in enrolled
    assert "CN=stranger" not in enrolled


@pytest.mark.parametrize(("signer", "loaded"), [("ours", True), ("stranger", False), (None, False)])
def test_the_kernel_takes_a_module_by_its_signers_key(
    trusting: Trusting, signer: str | None, loaded: bool
) -> None:
    platform, machine, keys = trusting
    path = machine.ssh("/sbin/modinfo -n dummy")
    module = base64.b64decode(machine.ssh(f"base64 {path}"))
    if path.endswith(".xz"):  # from Debian 13 on
        module = lzma.decompress(module)
    module = signing.unsigned(module)
    if signer:
        module = signing.signed(module, *keys[signer])
    machine.ssh("base64 -d > /tmp/dummy.ko", stdin=base64.b64encode(module).decode())
    done = over_ssh(machine.lab, "sudo insmod /tmp/dummy.ko && sudo rmmod dummy")
    assert (done.returncode == 0) is loaded, done.stderr
    if signer == "stranger":
        assert REFUSALS[platform] in done.stderr


@pytest.mark.parametrize("key", [None, "stranger", "ours"])
def test_no_run_touches_a_host_whose_firmware_would_refuse_the_module(
    trusting: Trusting, key: str | None, tmp_path: Path
) -> None:
    """Without a key of the lab's, with one that is not enrolled, and, planned, with ours."""
    platform, machine, keys = trusting
    more = ""
    if key:
        private, certificate = keys[key]
        more = (
            f"nvidia_driver_signing_key_file: {private}\n"
            f"nvidia_driver_signing_certificate_file: {signing.pem(certificate)}\n"
        )
    project = project_for(machine, tmp_path / "project", WISHES[platform], platform, more)
    state = "dpkg-query --show | sha256sum; sudo ls -R /etc /boot /opt /usr/local | sha256sum"
    before = machine.ssh(state)
    # What is not refused would be built for an hour: it is planned alone.
    done = project.provision("plan" if key == "ours" else "apply", "-i", "lab")
    blockers = [blocker["id"] for blocker in project.report["hosts"]["vm01"]["blockers"]]
    assert ("secure-boot" in blockers) is (key != "ours"), done.stdout + done.stderr
    assert done.returncode == (5 if key == "ours" else 4), done.stdout + done.stderr
    assert machine.ssh(state) == before
