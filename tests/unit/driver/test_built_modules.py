"""Modules that the distribution built and signed: what brings them, whose they are, who signs them.

apt's records and the kernel's list of keys are stand-ins for Ubuntu's.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from gpu_stack import removal
from gpu_stack.components import nvidia_driver
from gpu_stack.components.nvidia_driver import (
    built_modules,
    kernel_rules,
    method_rules,
    running_driver,
    signing,
)
from gpu_stack.host.context import Context, Result

from .test_driver_method import SERVER, SIGNED, of, signed_host
from .trees import context, status, tree

STEM = "linux-modules-nvidia-470-server"
VERSION = SIGNED["version"]
GA, HWE = "5.15.0-153-generic", "6.8.0-79-generic"
LISTS = {"/var/lib/apt/lists/x_Packages": ""}
CANONICAL = "Canonical Ltd. Kernel Module Signing"
BY_DKMS = {"userspace": {}, "kernel": {"nvidia-dkms-470-server": SERVER}}
BUILT_HERE = {**SIGNED, "packages": BY_DKMS}


def stanza(name: str, version: str, driver: str = "", more: str = "") -> str:
    """One of apt's records; with `driver` it is tied to that version of it, as Ubuntu's are."""
    common = "nvidia-kernel-common-470-server"
    tied = f", {common} (<= {driver}-1), {common} (>= {driver})" if driver else ""
    return f"Package: {name}\nVersion: {version}\nDepends: linux-base{tied}\n{more}\n"


def machine(
    root: Path, *packages: str, shows: str = "", modules: Mapping[str, str] | None = None,
    kernel: str = GA, kernels: tuple[str, ...] = (), files: Mapping[str, str] | None = None,
    row: dict[str, Any] = SIGNED,
) -> Context:  # fmt: skip
    """A host with these packages; `shows`: what apt-cache knows; `modules`: {kernel: version}."""
    installed = status(*((name, "1") for name in packages))
    tree(root, {f"/boot/vmlinuz-{kernel}": "" for kernel in kernels})
    tree(root, {"/var/lib/dpkg/status": installed, **(files or {})})
    asked: list[list[str]] = []

    def run(argv: list[str]) -> Result:
        asked.append(argv)
        if argv[:2] == ["apt-cache", "show"]:
            wanted = [line for line in shows.split("\n\n") if line.split("\n")[0][9:] in argv[2:]]
            return Result(0 if wanted else 100, "\n\n".join(wanted), "")
        if argv[:3] == ["modinfo", "-F", "version"] and argv[4] in (modules or {}):
            return Result(0, (modules or {})[argv[4]] + "\n", "")
        return Result(1, "", "")

    made = context(root, driver=row, distribution="ubuntu")
    made.run = run
    made.platform["kernel"] = kernel
    made.asked = asked  # type: ignore[attr-defined]
    return made


# names


@pytest.mark.parametrize(
    ("names", "stem"),
    [
        (["linux-modules-nvidia-470-server-generic", "nvidia-kernel-common-470-server"], STEM),
        (["linux-modules-nvidia-615-server-open-generic"], "linux-modules-nvidia-615-server-open"),
        (["linux-modules-nvidia-580-generic-hwe-22.04"], "linux-modules-nvidia-580"),
        (["linux-modules-nvidia-fs-generic", "nvidia-dkms-470-server"], ""),
    ],
)
def test_the_locks_names_tell_the_branch(names: list[str], stem: str) -> None:
    assert built_modules.stem(names) == stem


@pytest.mark.parametrize(
    ("image", "flavour"),
    [
        ("generic", "generic"),
        ("generic-hwe-22.04", "generic-hwe-22.04"),
        ("generic-hwe-22.04-edge", "generic-hwe-22.04-edge"),
        ("lowlatency-hwe-22.04", "lowlatency-hwe-22.04"),
        ("aws-lts-22.04", "aws-lts-22.04"),
        ("oem-22.04d", "oem-22.04d"),
        ("virtual", "generic"),
        ("virtual-hwe-22.04", "generic-hwe-22.04"),
    ],
)
def test_modules_follow_what_brings_the_kernels(tmp_path: Path, image: str, flavour: str) -> None:
    here = machine(tmp_path, f"linux-image-{image}")
    assert built_modules.metapackages(here, of_lock()) == [f"{STEM}-{flavour}"]


def of_lock() -> list[str]:
    return [name for name, _version in of(SIGNED)]


def test_several_flavours_are_followed_each_and_a_kernels_own_image_by_none(tmp_path: Path) -> None:
    names = ("linux-image-generic", "linux-image-virtual", "linux-image-gcp", f"linux-image-{GA}")
    here = machine(tmp_path, *names)
    assert built_modules.metapackages(here, of_lock()) == [f"{STEM}-gcp", f"{STEM}-generic"]
    assert built_modules.metapackages(here, ["nvidia-dkms-470-server"]) == []


# what apt has


def test_the_newest_of_the_locked_driver_is_asked_for(tmp_path: Path) -> None:
    name = f"{STEM}-{GA}"
    newer = stanza(name, "5.15.0-153.163+2", "470.256.02")
    older = stanza(name, "5.15.0-153.163+1", VERSION) + stanza(name, "5.15.0-153.163", VERSION)
    here = machine(tmp_path, shows=newer + older)
    assert built_modules.specs(here, [name], VERSION) == {name: f"{name}=5.15.0-153.163+1"}
    assert built_modules.specs(here, [name], "470.1") == {}
    assert built_modules.specs(here, [], VERSION) == {}


def test_what_names_no_driver_is_of_any(tmp_path: Path) -> None:
    here = machine(tmp_path, shows=stanza("a", "1") + stanza("b", "2", more="Status: x\n"))
    assert built_modules.specs(here, ["a", "b", "c"], VERSION) == {"a": "a=1"}


def test_an_apt_without_lists_is_asked_by_name(tmp_path: Path) -> None:
    assert built_modules.specs(machine(tmp_path), ["a"], VERSION) == {"a": "a"}
    assert built_modules.specs(machine(tmp_path, files=LISTS), ["a"], VERSION) == {}


def test_on_an_hwe_host_the_plan_names_hwe_alone(tmp_path: Path) -> None:
    shows = stanza(f"{STEM}-generic", "1") + stanza(f"{STEM}-generic-hwe-22.04", "1")
    here = machine(tmp_path, "linux-image-generic-hwe-22.04", "linux-image-kvm", shows=shows)
    assert built_modules.lacking(here, SIGNED, "full") == [f"{STEM}-generic-hwe-22.04"]
    assert built_modules.lacking(here, SIGNED, "userspace") == []
    row = copy.deepcopy(SIGNED)
    row["packages"]["kernel"] = {"nvidia-dkms-470-server": SERVER}
    assert built_modules.lacking(here, row, "full") == []


def test_a_missing_metapackage_is_in_the_plan(tmp_path: Path) -> None:
    found = {"metapackages_lacking": [f"{STEM}-generic-hwe-22.04"]}
    signed_host(tmp_path)
    here = context(tmp_path, driver=SIGNED, distribution="ubuntu")
    state = {**nvidia_driver.look(here), **found}
    changes = nvidia_driver.differ({"nvidia_driver": SIGNED}, state, {})
    (change,) = [entry for entry in changes if entry["item"].startswith("linux-modules")]
    assert (change["item"], change["to"]) == (f"{STEM}-generic-hwe-22.04", "installed")


@pytest.mark.parametrize(
    ("shows", "files", "state"),
    [
        (stanza(f"{STEM}-{GA}", "1", VERSION), {}, "offered"),
        (stanza(f"{STEM}-{GA}", "1"), {}, "offered"),
        (stanza(f"{STEM}-{GA}", "2", "470.256.02") + stanza(f"{STEM}-{GA}", "1", VERSION), {},
         "offered"),
        (stanza(f"{STEM}-{GA}", "2", "470.256.02"), {}, "470.256.02"),
        ("", LISTS, "absent"),
        ("", {}, "unknown"),
    ],
)  # fmt: skip
def test_what_apt_has_for_a_kernel_that_lacks_its_module(
    tmp_path: Path, shows: str, files: dict[str, str], state: str
) -> None:
    here = machine(tmp_path, shows=shows, files=files, kernels=(GA,))
    assert kernel_rules.offered_modules(here) == {GA: state}


def test_what_has_its_module_is_not_asked_for(tmp_path: Path) -> None:
    """The newest has none, as after last night's upgrade; the running one has."""
    modules = {GA: VERSION}
    here = machine(tmp_path, modules=modules, kernels=(GA, HWE), files=LISTS)
    assert kernel_rules.offered_modules(here) == {HWE: "absent"}
    here = machine(tmp_path, modules={**modules, HWE: VERSION}, kernels=(GA, HWE))
    assert kernel_rules.offered_modules(here) == {}
    assert not [argv for argv in here.asked if argv[0] == "apt-cache"]  # type: ignore[attr-defined]


def test_where_dkms_builds_apt_is_not_asked(tmp_path: Path) -> None:
    here = machine(tmp_path, kernels=(GA,), row=BUILT_HERE, files=LISTS)
    assert kernel_rules.offered_modules(here) == {}
    assert kernel_rules.module_signers(here) == {}


# whose they are


def test_what_the_metapackages_brought_goes_with_the_driver(tmp_path: Path) -> None:
    """apt would take it along, and refuse for what this program did not install."""
    brought = (f"{STEM}-{GA}", f"linux-objects-nvidia-470-server-{GA}", f"{STEM}-generic")
    others = ("linux-modules-nvidia-535-server-generic", f"linux-signatures-nvidia-{GA}")
    here = machine(tmp_path, "linux-image-generic", *brought, *others, kernels=(GA,))
    before = removal.ledger(here, here.row, {"after": {"nvidia_driver": {}}})["nvidia_driver"]
    assert set(brought) <= set(before["ours"])
    assert not set(others) & set(before["ours"])
    # What was there before the first run stays.
    first = removal.ledger(here, here.row, None)["nvidia_driver"]
    assert set(first["theirs"]) == set(brought)
    # A run has installed the packages of the lock since, and these came with them.
    ours = list(nvidia_driver.named_packages(SIGNED, here))
    noted = {"packages": {"nvidia_driver": {"ours": ours, "theirs": {}}}}
    assert removal.ledger(here, here.row, noted)["nvidia_driver"]["theirs"] == {}
    userspace = nvidia_driver.packages(SIGNED, context(tmp_path, container=True, driver=SIGNED))
    assert userspace == SIGNED["packages"]["userspace"]


# signatures

SERIAL = "8F:52:00:01:9A:BC"
LINE = "0dd1f6ba I------     1 perm 1f010000     0     0 "
CANONICALS = "88f752e560a1e0737e31163a466ad7b70a850c19"
KEYS = (
    f"{LINE}keyring   _uid_ses.0: 1\n"
    f"{LINE}asymmetri {CANONICAL}: {CANONICALS}: X509.rsa 0a850c19 []\n"
    f"{LINE}asymmetri Lab: mok: 0102030405060708: X509.rsa 05060708 []\n"
    f"{LINE}asymmetri Acme: Acme modules: a1a2a3a4a5a6: X509.rsa a3a4a5a6 []\n"
    f"{LINE}blacklist tbs:88f752e5\n"
)
ON = {"/sys/firmware/efi/efivars/SecureBoot-x": "\x06\0\0\0\x01"}


def taken(
    root: Path, signer: str, keys: str = KEYS, sig_id: str = "PKCS#7",
    row: dict[str, Any] = SIGNED,
) -> dict[str, Any]:  # fmt: skip
    """What is said of a module by this signer, which no list of the firmware's has."""
    fields = {"sig_id": sig_id, "sig_key": SERIAL, "signer": signer, "filename": "/x/nvidia.ko"}
    here = machine(root, kernels=(GA,), files={"/proc/keys": keys, **ON}, row=row)

    def run(argv: list[str]) -> Result:
        return Result(0, fields.get(argv[2], "") + "\n", "")

    here.run = run
    verdict = signing.verdict(here, GA, "nvidia")
    return {"verdict": verdict, "said": kernel_rules.module_signers(here)}


@pytest.mark.parametrize("signer", [CANONICAL, "Acme modules"])
def test_a_key_that_the_kernel_was_built_with_is_trusted(tmp_path: Path, signer: str) -> None:
    assert taken(tmp_path, signer) == {"verdict": signing.TRUSTED, "said": {}}


@pytest.mark.parametrize("signer", ["Eve", "modules", "", "Canonical Ltd. Kernel"])
def test_a_strangers_key_is_named(tmp_path: Path, signer: str) -> None:
    named = {GA: {"signer": signer, "file": "/x/nvidia.ko"}}
    assert taken(tmp_path, signer) == {"verdict": signing.STRANGE, "said": named}


def test_an_unsigned_module_is_named(tmp_path: Path) -> None:
    answer = taken(tmp_path, "", sig_id="")
    assert answer["verdict"] == signing.UNSIGNED
    assert list(answer["said"]) == [GA]


def test_where_dkms_builds_no_signer_is_named(tmp_path: Path) -> None:
    answer = taken(tmp_path, "Eve", row=BUILT_HERE)
    assert answer == {"verdict": signing.STRANGE, "said": {}}


def test_where_the_kernel_names_no_key_nobody_can_tell(tmp_path: Path) -> None:
    assert taken(tmp_path, CANONICAL, keys="")["said"] == {}


def test_a_kernel_whose_keys_are_all_the_owners_tells_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = b"0\x82" + bytes.fromhex("0102030405060708") + b"x"
    monkeypatch.setattr(signing, "trusted", lambda _context: [lab])
    keys = f"{LINE}asymmetri Lab: mok: 0102030405060708: X509.rsa 05060708 []\n"
    assert list(taken(tmp_path, "Eve", keys=keys)["said"]) == [GA]


def test_the_owners_keys_are_not_the_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DKMS gives its own the same name everywhere: they are known by their numbers."""
    lab = b"0\x82" + bytes.fromhex("0102030405060708") + b"x"
    monkeypatch.setattr(signing, "trusted", lambda _context: [lab])
    here = machine(tmp_path, files={"/proc/keys": KEYS})
    assert signing.built_in(here) == [CANONICAL, "Acme: Acme modules"]


# what a boot brings up


def test_a_module_of_the_distributions_that_changed_is_worth_another_reboot(tmp_path: Path) -> None:
    path = f"/lib/modules/{GA}/kernel/nvidia-470srv/nvidia.ko"
    here = machine(tmp_path, files={path: "x"})
    assert path in running_driver.request(here, "x")["files"]


def test_a_kernel_that_waits_without_its_module_is_not_built_for(tmp_path: Path) -> None:
    state = {"scope": "full", "kernels": [HWE, GA], "modules": {HWE: None, GA: VERSION}}
    facts = {
        "state": {"nvidia_driver": state}, "platform": {"kernel": GA}, "container": False,
    }  # fmt: skip
    (notice,) = running_driver.notices({"nvidia_driver": SIGNED}, facts)
    assert notice["hint"].startswith("apply installs the module;")
    built = {**SIGNED, "packages": {"kernel": {"nvidia-dkms-470-server": SERVER}}}
    (notice,) = running_driver.notices({"nvidia_driver": built}, facts)
    assert notice["hint"].startswith("apply builds the module;")


def test_somebodys_hold_of_what_follows_the_kernel_is_no_other_version() -> None:
    held = {"version": "6.8.0-1", "want": "hold", "status": "installed"}
    name = f"{STEM}-generic"
    state = {"pins": None, "packages": {name: held, "libnvidia-compute-470-server": held}}
    host = {"state": {"nvidia_driver": state}, "container": False}
    ((message, _hint),) = method_rules.held_elsewhere(host, [], {}, {"nvidia_driver": SIGNED})
    assert message.endswith("at another version: libnvidia-compute-470-server 6.8.0-1")
