"""What to do where Secure Boot is on and no key that the machine trusts signs the module."""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from .signing import UNSIGNED

if TYPE_CHECKING:
    from typing import Any

WHY = "Secure Boot is on: the kernel will refuse the module that DKMS builds, for "
CONSOLE = (
    "choose a one-time password, reboot, and at the machine's console, in the blue MokManager, "
    "choose Enroll MOK, Continue, Yes, and type that password; then run again"
)
OTHERWISE = (
    "Or switch Secure Boot off in the firmware; on Ubuntu take driver_source: distribution, whose "
    "modules Canonical signs"
)
FLEET = (
    "make one key for all machines (openssl req -new -x509 -newkey rsa:2048 -nodes -days 3650 "
    "-subj /CN=lab-modules/ -addext extendedKeyUsage=codeSigning -keyout mok.key -out mok.pem) and "
    "name the two files in nvidia_driver_signing_key_file and "
    "nvidia_driver_signing_certificate_file; on each machine once: sudo mokutil --import mok.der "
    "(openssl x509 -in mok.pem -outform DER -out mok.der), "
)


def unsigned(signing: dict[str, Any]) -> tuple[str, str]:
    """(message, hint) about what `signing.look` saw."""
    certificate = signing.get("certificate") or ""
    if signing.get("given"):
        return (
            WHY + "the certificate in nvidia_driver_signing_certificate_file is not among those "
            "that this machine trusts",
            "on this machine: sudo mokutil --import FILE, that certificate in DER (openssl x509 "
            f"-in mok.pem -outform DER -out FILE), {CONSOLE}. {OTHERWISE}",
        )
    if signing.get("made"):
        return (
            WHY + f"it is signed with {certificate}, which is not among the certificates that this "
            "machine trusts",
            f"sudo mokutil --import {certificate}, {CONSOLE}. For many machines {FLEET}{CONSOLE}. "
            + OTHERWISE,
        )
    lacks = f"{certificate} is not there" if certificate else "DKMS signs with none here"
    return (
        WHY + f"no key that this machine trusts signs it ({lacks})",
        f"{FLEET}{CONSOLE}. {OTHERWISE}",
    )


def refused(kernel: str, verdict: str, signer: dict[str, str]) -> tuple[str, str]:
    """(message, hint) about a module that the distribution should have signed.

    verdict: `signing.UNSIGNED` or `signing.STRANGE`. signer: as `built_modules.signers` has it.
    """
    file, name = signer.get("file") or "nvidia.ko", signer.get("signer") or ""
    who = "it is unsigned"
    if verdict != UNSIGNED:
        who = f'"{name}" signed it, whose key is' if name else "it is signed by a key that is"
        who += " not among those that this machine trusts"
    message = f"Secure Boot is on, and kernel {kernel} will refuse the module {file}: {who}"
    if "/updates/dkms/" in file:
        return message, (
            "DKMS built it, and it is found before the distribution's: dkms status names it; sudo "
            "dkms remove NAME/VERSION --all takes it away, and without its package (nvidia-dkms-*) "
            "DKMS builds no other; then run again"
        )
    if "/updates/" in file:
        return message, (
            f"somebody put it there, where it is found before the distribution's: move it away, "
            f"sudo depmod {kernel}, then run again"
        )
    return message, (
        f"dpkg -S {file} names the package and apt-cache policy where that came from: take the "
        "distribution's own. Where the signer is yours, have its certificate enrolled: sudo "
        f"mokutil --import FILE, {CONSOLE}"
    )
