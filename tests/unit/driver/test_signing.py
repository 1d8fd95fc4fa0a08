"""Who signs the module, with which key, and whether the machine trusts it; on recorded trees.

The certificates are openssl's, and the signatures what modinfo printed of a module that Debian
12's sign-file signed with the first one's key.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components import nvidia_driver
from gpu_stack.components.nvidia_driver import (
    certificates,
    kernel_rules,
    signing,
    signing_files,
    signing_key,
)
from gpu_stack.host.context import Context, Result
from gpu_stack.host.refusal import RefusalError

from .trees import DRIVER, KERNEL, status, tree

DATA = Path(__file__).parent / "data"
LAB_PEM, DKMS_PEM = (DATA / "lab.pem").read_text(), (DATA / "dkms.pem").read_text()
LAB, OTHER = certificates.der(LAB_PEM.encode()), certificates.der(DKMS_PEM.encode())
LAB_SERIAL = "17:9C:15:20:13:4C:58:0A:80:54:23:3A:39:3E:61:F8:37:EA:D9:4C"
OTHER_SERIAL = "4B:15:85:23:D8:5F:AA:03:4E:64:E1:CF:1E:BA:E4:CD:37:48:27:79"
KEY = "-----BEGIN PRIVATE KEY-----\nMADEUPFORTHETEST\n-----END PRIVATE KEY-----\n"
EFIVARS = "/sys/firmware/efi/efivars/"
MOKLIST = EFIVARS + "MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"
MOKVAR = "/sys/firmware/efi/mok-variables/MokListRT"
DB = EFIVARS + "db-d719b2cb-3d3a-4596-a3bc-dad00e67656f"
ON = {EFIVARS + "SecureBoot-8be4df61": b"\x06\0\0\0\x01"}
SHA256 = bytes.fromhex("2616c4c14c509240aca941f936934328")
ATTRIBUTES = b"\x07\0\0\0"


def siglist(*entries: bytes, kind: bytes = certificates.X509, header: bytes = b"") -> bytes:
    """One EFI_SIGNATURE_LIST of entries of one size, each owned by nobody."""
    size = 16 + len(entries[0])
    head = struct.pack("<16sIII", kind, 28 + len(header) + size * len(entries), len(header), size)
    return head + header + b"".join(bytes(16) + entry for entry in entries)


def host(
    root: Path, files: Mapping[str, str | bytes], dkms: str = "3.0.10-8+deb12u1", **more: Any
) -> Context:
    listed = {"/var/lib/dpkg/status": status(("dkms", dkms, "install"))} if dkms else {}
    options, runner = more.pop("options", {}), more.pop("runner", None)
    made = Context(root=str(tree(root, {"/etc/x": "", **listed, **files})), options=options,
                   runner=runner)  # fmt: skip
    made.platform = {"architecture": "x86_64", "distribution": "debian", "release": "12", **more}
    return made


def test_the_certificates_of_signature_lists() -> None:
    hashes = siglist(bytes(32), bytes(32), kind=SHA256)
    data = hashes + siglist(LAB) + siglist(OTHER, header=b"1234") + siglist(b"x" * 9, b"y" * 9)
    assert certificates.of_lists(data) == [LAB, OTHER, b"x" * 9, b"y" * 9]
    assert certificates.of_lists(b"") == []
    # what is cut off, or claims to be longer or shorter than it is, ends it
    assert certificates.of_lists((siglist(LAB) + siglist(OTHER))[:-1]) == [LAB]
    assert certificates.of_lists(struct.pack("<16sIII", certificates.X509, 4, 0, 20)) == []
    assert certificates.of_lists(struct.pack("<16sIII", certificates.X509, 28, 0, 0)) == []
    assert certificates.of_lists(struct.pack("<16sIII", certificates.X509, 28, 99, 20)) == []


def test_a_certificate_in_pem_or_der() -> None:
    assert certificates.der(LAB) == LAB
    assert certificates.der(LAB + b"\n") == LAB
    assert certificates.der(b"text before\n" + LAB_PEM.encode()) == LAB
    begin, end = b"-----BEGIN CERTIFICATE-----\n", b"-----END CERTIFICATE-----\n"
    for wrong in (b"", b"\x30", LAB[:-1], b"hello", begin + b"A\n" + end, begin + b"AAAA\n" + end):
        assert certificates.der(wrong) == b""


def test_the_serial_number_is_what_modinfo_shows() -> None:
    assert certificates.serial(LAB) == LAB_SERIAL.replace(":", "").lower()
    assert certificates.serial(OTHER) == OTHER_SERIAL.replace(":", "").lower()
    assert certificates.serial(bytes.fromhex("300530030201 2a".replace(" ", ""))) == "2a"
    for wrong in (b"", LAB[:50], b"\x30\x02\x30\x00", bytes.fromhex("30053003040101")):
        assert certificates.serial(wrong) == ""


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (ON, True),
        ({EFIVARS + "SecureBoot-8be4df61": b"\x06\0\0\0\0"}, False),
        ({}, None),
        # mokutil --disable-validation
        ({**ON, EFIVARS + "MokSBStateRT-605dab50": b"\x06\0\0\0\x01"}, False),
        ({**ON, EFIVARS + "MokSBStateRT-605dab50": b"\x06\0\0\0\0"}, True),
    ],
)
def test_secure_boot_is_what_the_kernel_takes_it_for(
    tmp_path: Path, files: dict[str, bytes], expected: bool | None
) -> None:
    assert signing.secure_boot(host(tmp_path, files)) is expected


THREE = {"/var/lib/dkms/mok.key": KEY, "/var/lib/dkms/mok.pub": LAB}
UBUNTU = {"/var/lib/shim-signed/mok/MOK.priv": KEY, "/var/lib/shim-signed/mok/MOK.der": LAB}
UBUNTU_TOOLS = {"/usr/bin/kmodsign": "", "/usr/sbin/update-secureboot-policy": ""}
HELPER = """#!/bin/sh
/lib/modules/"$1"/build/scripts/sign-file sha512 /root/mok.priv /root/mok.der "$2"
"""
SIGN_TOOL = {
    "/etc/dkms/framework.conf": '# x\n# sign_tool="/no"\nsign_tool="/etc/dkms/sign_helper.sh"\n',
    "/etc/dkms/sign_helper.sh": HELPER,
}
ROOTS = {"/root/mok.priv": KEY, "/root/mok.der": LAB}
NAMED = {
    "/etc/dkms/framework.conf": 'mok_signing_key="/no"\n#mok_certificate=/no\n',
    "/etc/dkms/framework.conf.d/a.conf": "mok_signing_key=/k/x.key\nmok_certificate=/k/x.der\n",
}
OWN = {"/k/x.key": KEY, "/k/x.der": LAB}
TWENTY = {"distribution": "ubuntu", "release": "20.04"}
NEWER = {"distribution": "ubuntu", "release": "24.04"}


@pytest.mark.parametrize(
    ("files", "dkms", "platform", "certificate", "made"),
    [
        # dkms 3 makes a key with the first module that it builds
        ({}, "3.0.10-8+deb12u1", {}, "/var/lib/dkms/mok.pub", False),
        (THREE, "3.0.10-8+deb12u1", {}, "/var/lib/dkms/mok.pub", True),
        (THREE, "", {}, "/var/lib/dkms/mok.pub", True),
        ({"/var/lib/dkms/mok.pub": LAB}, "3.2.2-1", {}, "/var/lib/dkms/mok.pub", False),
        ({**THREE, "/var/lib/dkms/mok.pub": b""}, "3~", {}, "/var/lib/dkms/mok.pub", False),
        ({**NAMED, **OWN, **THREE}, "3.2.2-1", {}, "/k/x.der", True),
        ({**UBUNTU, **THREE}, "3.0.11-1ubuntu13", NEWER, "/var/lib/shim-signed/mok/MOK.der", True),
        # dkms 2 never signs with dkms 3's key
        (THREE, "2.8.4-3", {}, "", False),
        (THREE, "", {"release": "11"}, "", False),
        (SIGN_TOOL, "2.8.4-3", {}, "/root/mok.der", False),
        ({**SIGN_TOOL, **ROOTS}, "2.8.4-3", {}, "/root/mok.der", True),
        (ROOTS, "2.8.4-3", {}, "", False),
        (UBUNTU, "2.8.1-5ubuntu2", TWENTY, "", False),
        ({**UBUNTU, **UBUNTU_TOOLS}, "2.8.1-5ubuntu2", TWENTY, "/var/lib/shim-signed/mok/MOK.der",
         True),
    ],
)  # fmt: skip
def test_who_signs(
    tmp_path: Path,
    files: dict[str, str | bytes],
    dkms: str,
    platform: dict[str, str],
    certificate: str,
    made: bool,
) -> None:
    seen = signing.look(host(tmp_path, files, dkms, **platform))
    assert seen == {"certificate": certificate, "made": made, "enrolled": False, "given": False}
    here = host(tmp_path, {MOKLIST: ATTRIBUTES + siglist(LAB)}, dkms, **platform)
    assert signing.look(here)["enrolled"] is made
    assert kernel_rules.module_key(here) is made


@pytest.mark.parametrize(
    ("path", "data", "enrolled"),
    [
        (MOKLIST, ATTRIBUTES + siglist(OTHER) + siglist(LAB), True),
        (MOKVAR, siglist(LAB), True),
        (EFIVARS + "MokListRT1-605dab50", ATTRIBUTES + siglist(LAB), True),
        (DB, ATTRIBUTES + siglist(LAB), True),
        (MOKLIST, ATTRIBUTES + siglist(OTHER), False),
        # not a list of certificates, though the bytes are in it
        (MOKLIST, ATTRIBUTES + LAB, False),
        (MOKLIST, b"", False),
        (EFIVARS + "MokListXRT-605dab50", ATTRIBUTES + siglist(LAB), False),
        (MOKLIST + "/a-directory", b"", False),
    ],
)
def test_which_keys_the_machine_trusts(
    tmp_path: Path, path: str, data: bytes, enrolled: bool
) -> None:
    assert signing.look(host(tmp_path, {**THREE, path: data}))["enrolled"] is enrolled


GIVEN = {
    signing_files.OPTION: {"certificate": LAB_PEM, "key": signing_files.digest(KEY)},
}


def test_the_labs_key_counts_once_it_is_enrolled_though_the_run_still_has_to_install_it(
    tmp_path: Path,
) -> None:
    seen = signing.look(host(tmp_path, {}, "2.8.4-3", options=GIVEN))
    assert (seen["enrolled"], seen["given"]) == (False, True)
    enrolled = {MOKLIST: ATTRIBUTES + siglist(LAB)}
    assert signing.look(host(tmp_path, enrolled, "2.8.4-3", options=GIVEN))["enrolled"] is True


class Modinfo:
    """A modinfo that answers the fields of a signature; rc 1 for a module that is not there."""

    def __init__(self, sig_id: str, sig_key: str, rc: int = 0) -> None:
        self.fields, self.rc = {"sig_id": sig_id, "sig_key": sig_key}, rc

    def __call__(self, argv: list[str]) -> Result:
        assert argv[:2] == ["modinfo", "-F"]
        assert argv[3:5] == ["-k", KERNEL]
        return Result(self.rc, self.fields[argv[2]] + "\n" if self.rc == 0 else "", "")


@pytest.mark.parametrize(
    ("modinfo", "verdict"),
    [
        (Modinfo("PKCS#7", LAB_SERIAL), signing.TRUSTED),
        (Modinfo("PKCS#7", OTHER_SERIAL), signing.STRANGE),
        (Modinfo("", ""), signing.UNSIGNED),
        (Modinfo("PKCS#7", ""), None),
        (Modinfo("", "", rc=1), None),
    ],
)
def test_a_module_that_is_built_tells_its_signer(
    tmp_path: Path, modinfo: Modinfo, verdict: str | None
) -> None:
    enrolled = {**ON, MOKLIST: ATTRIBUTES + siglist(LAB)}
    here = host(tmp_path, enrolled, runner=modinfo)
    assert signing.verdicts(here, [KERNEL], "nvidia-current") == {KERNEL: verdict}
    expected = {KERNEL: verdict} if verdict in (signing.UNSIGNED, signing.STRANGE) else {}
    assert signing.refused({KERNEL: verdict}) == expected


def test_without_secure_boot_no_module_is_asked(tmp_path: Path) -> None:
    def run(argv: list[str]) -> Result:
        raise AssertionError(argv)

    assert signing.verdicts(host(tmp_path, {}, runner=run), [KERNEL], "nvidia") == {}


def test_what_the_kernel_has_taken_is_trusted(tmp_path: Path) -> None:
    here = host(tmp_path, {**ON, "/sys/module/nvidia/version": "1"}, kernel=KERNEL)
    assert signing.verdicts(here, [KERNEL], "nvidia") == {KERNEL: signing.TRUSTED}


def machine(**more: Any) -> dict[str, Any]:
    return {
        "kernels": [KERNEL], "modules": {KERNEL: DRIVER["version"]}, "initramfs_older": [],
        "blacklist": nvidia_driver.BLACKLIST_TEXT, **more,
    }  # fmt: skip


def test_a_module_that_the_kernel_would_refuse_is_drift() -> None:
    assert nvidia_driver._kernel_changes(DRIVER, machine()) == []
    state = machine(signatures={KERNEL: signing.UNSIGNED})
    (change,) = nvidia_driver._kernel_changes(DRIVER, state)
    assert (change["item"], change["from"], change["to"]) == (
        f"module for kernel {KERNEL}", "unsigned", "signed",
    )  # fmt: skip
    assert nvidia_driver._kernel_changes(DRIVER, machine(signatures={KERNEL: None})) == []


# the lab's key on the host


def bring(here: Context, check_mode: bool = False, **more: str) -> dict[str, Any]:
    asked = {"state": "present", "key": KEY, "certificate": LAB_PEM, **more}
    return signing_key.bring(here, asked, check_mode)


def modes(root: Path) -> dict[str, int]:
    paths = [path for path in (root / "etc/dkms").rglob("*") if path.is_file()]
    return {"/" + str(path.relative_to(root)): path.stat().st_mode & 0o777 for path in paths}


@pytest.mark.parametrize("dkms", ["2.8.4-3", "3.0.10-8+deb12u1"])
def test_the_key_is_installed_seen_and_taken_away(tmp_path: Path, dkms: str) -> None:
    own = "# of the package\n"
    here = host(tmp_path, {"/etc/dkms/framework.conf": own}, dkms, options=GIVEN)
    (tmp_path / "etc/dkms/framework.conf.d").mkdir(mode=0o755)
    always = dkms.startswith("3")
    files = {
        signing_files.KEY: 0o600, signing_files.CERTIFICATE: 0o644,
        **({signing_files.SETTINGS: 0o644} if always else {signing_files.TOOL: 0o755}),
    }  # fmt: skip
    changed = {*files, *([] if always else [signing_files.FRAMEWORK])}
    faults = signing_files.look(here, always)["faults"]
    assert set(faults) == changed
    assert len(signing_files.differ("nvidia_driver", {"faults": faults, "left": []})) == len(
        changed
    )
    assert set(bring(here, check_mode=True)["files"]) == changed
    assert set(signing_files.look(here, always)["faults"]) == changed
    result = bring(here)
    assert (result["changed"], set(result["files"])) == (True, changed)
    assert modes(tmp_path) == {**files, signing_files.FRAMEWORK: 0o644}
    assert bring(here) == {"changed": False, "files": []}
    assert signing_files.look(here, always) == {"faults": {}, "left": []}
    # DKMS signs with it now, whoever asks
    here.options = {}
    here._packages = None
    seen = signing.look(here)
    assert (seen["certificate"], seen["made"]) == (signing_files.CERTIFICATE, True)
    left = signing_files.look(here, always)["left"]
    assert set(left) == set(files)
    assert bring(here, state="absent")["changed"] is True
    assert modes(tmp_path) == {signing_files.FRAMEWORK: 0o644}
    assert here.read(signing_files.FRAMEWORK) == own


def test_a_key_that_is_open_edited_or_another_is_seen_and_none_of_it_is_shown(
    tmp_path: Path,
) -> None:
    here = host(tmp_path, {}, options=GIVEN)
    bring(here)
    key = tmp_path / signing_files.KEY[1:]
    key.chmod(0o644)
    assert signing_files.look(here, True)["faults"] == {signing_files.KEY: "mode 0644"}
    assert bring(here)["files"] == [signing_files.KEY]
    assert key.stat().st_mode & 0o777 == 0o600
    key.write_text(KEY.replace("MADE", "HADE"))
    seen = signing_files.look(here, True)
    assert seen["faults"] == {signing_files.KEY: "another key"}
    text = str(seen) + str(signing_files.differ("nvidia_driver", seen)) + str(bring(here))
    assert "MADEUP" not in text
    assert "HADEUP" not in text


def test_a_framework_conf_that_was_not_there_goes_again(tmp_path: Path) -> None:
    here = host(tmp_path, {}, "2.8.4-3")
    bring(here)
    assert here.read(signing_files.FRAMEWORK) == signing_files.BLOCK
    bring(here, state="absent")
    assert modes(tmp_path) == {}


@pytest.mark.parametrize(
    ("key", "certificate", "words"),
    [
        ("", LAB_PEM, "holds no private key in PEM"),
        (LAB_PEM, LAB_PEM, "holds no private key in PEM"),
        (KEY.replace("PRIVATE", "ENCRYPTED PRIVATE"), LAB_PEM, "has a password"),
        (KEY, "", "holds no certificate in PEM"),
        (KEY, "-----BEGIN CERTIFICATE-----\nx", "holds no certificate in PEM"),
    ],
)
def test_what_is_no_pair_is_refused_without_showing_it(
    tmp_path: Path, key: str, certificate: str, words: str
) -> None:
    with pytest.raises(RefusalError, match=words) as raised:
        bring(host(tmp_path, {}), key=key, certificate=certificate)
    assert "MADEUP" not in str(raised.value)
    assert modes(tmp_path) == {}
