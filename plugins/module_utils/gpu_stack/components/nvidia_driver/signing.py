"""Who signs the modules that DKMS builds, and whether this machine trusts that key.

Under Secure Boot the kernel takes only modules that are signed by a key of the firmware's (db) or
of the machine's owner (shim's MokList). dkms 2, as Debian 11 has it, signs by a program that its
framework.conf names, or on Ubuntu by kmodsign, and else not at all; dkms 3 signs always, with a key
that it makes itself, which nobody has enrolled.
"""

from __future__ import annotations

import re

from ...host import debian_versions
from ...type_checking import TYPE_CHECKING
from . import certificates, signing_files

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context

FRAMEWORK = signing_files.FRAMEWORK
DKMS_KEY = ("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub")
UBUNTU_KEY = ("/var/lib/shim-signed/mok/MOK.priv", "/var/lib/shim-signed/mok/MOK.der")
# What Ubuntu's dkms 2 signs with, where both are there beside the key's directory.
UBUNTU_TOOLS = ("kmodsign", "update-secureboot-policy")
# The firmware's own list and shim's. A long list of shim's is whole only in mok-variables, whose
# files begin without the attributes (Linux, drivers/firmware/efi/mokvar-table.c).
VARIABLES = "/sys/firmware/efi/efivars/"
LISTS = (
    (VARIABLES + "MokListRT*", 4),
    (VARIABLES + "db-d719b2cb-3d3a-4596-a3bc-dad00e67656f", 4),
    ("/sys/firmware/efi/mok-variables/MokListRT*", 0),
)
# The kernel's own list of keys: "... asymmetri NAME: NUMBER: X509.rsa ...", where the number is the
# certificate's key identifier or its serial number (crypto/asymmetric_keys/x509_public_key.c).
KEYS = "/proc/keys"
KEY = re.compile(r"\basymmetri (.+): ((?:[0-9a-f]{2}){4,}): X509\.")
SETTING = r"""^[ \t]*{0}=["']?([^"'\s#]+)"""
PUBLIC = re.compile(r"(/[\w./-]+\.(?:der|pub|crt|cer|pem|x509))\b")
PRIVATE = re.compile(r"(/[\w./-]+\.(?:priv|key|pem))\b")
TRUSTED, UNSIGNED, STRANGE = "trusted", "unsigned", "signed by an untrusted key"


def secure_boot(context: Context) -> bool | None:
    """Whether the firmware enforces Secure Boot; None without the variable (BIOS, container).

    A variable's content is four bytes of attributes and one byte of value. With shim's validation
    switched off (mokutil --disable-validation) the kernel takes it as off too.
    """
    answer = None
    for path in context.glob(VARIABLES + "SecureBoot-*"):
        data = context.read_bytes(path)
        if data:
            answer = bool(data[-1] == 1)
            break
    off = [context.read_bytes(path) for path in context.glob(VARIABLES + "MokSBStateRT-*")]
    return False if answer and any(data and data[-1] == 1 for data in off) else answer


def trusted(context: Context) -> list[bytes]:
    """The certificates, in DER, that modules may be signed with on this machine."""
    trusted_certificates: list[bytes] = []
    for pattern, attributes in LISTS:
        for path in context.glob(pattern):
            data = context.read_bytes(path)
            if data:
                trusted_certificates.extend(certificates.of_lists(data[attributes:]))
    return trusted_certificates


def built_in(context: Context) -> list[str]:
    """Names of the keys that the running kernel was built with, as Canonical's for modules.

    The machine's owner's and the firmware's are left out: trusted() has their certificates.
    """
    trusted_certificates = trusted(context)
    return [
        name
        for name, number in KEY.findall(context.read(KEYS) or "")
        if not any(bytes.fromhex(number) in data for data in trusted_certificates)
    ]


def tells_keys(context: Context) -> bool:
    """Whether the kernel says which keys it has."""
    return bool(KEY.search(context.read(KEYS) or ""))


def dkms_signs_always(context: Context) -> bool:
    """Whether the dkms that is here, or that the platform would install, is version 3."""
    dkms = context.packages.get("dkms")
    if dkms is not None:
        return bool(debian_versions.compare(dkms["version"], "3~") >= 0)
    release = (context.platform.get("distribution"), str(context.platform.get("release")))
    return release not in (("debian", "11"), ("ubuntu", "20.04"), ("ubuntu", "22.04"))


def _setting(text: str, name: str) -> str | None:
    values = re.findall(SETTING.format(name), text, re.M)
    return values[-1] if values else None


def _configured(context: Context) -> str:
    files = [FRAMEWORK, *context.glob(FRAMEWORK + ".d/*.conf")]
    return "\n".join(context.read(path) or "" for path in files)


def _pair(context: Context) -> tuple[str, str] | None:
    """(private key, certificate) that DKMS signs with; None where it does not sign."""
    ubuntu = context.platform.get("distribution") == "ubuntu"
    if dkms_signs_always(context):
        text, usual = _configured(context), UBUNTU_KEY if ubuntu else DKMS_KEY
        key = _setting(text, "mok_signing_key")
        # Ubuntu's own pair counts only where no key is named.
        usual = DKMS_KEY if key else usual
        return key or usual[0], _setting(text, "mok_certificate") or usual[1]
    tools = all(context.glob(f"/usr/*bin/{name}") for name in UBUNTU_TOOLS)
    if tools and context.isdir(UBUNTU_KEY[0].rpartition("/")[0]):
        return UBUNTU_KEY
    tool = _setting(context.read(FRAMEWORK) or "", "sign_tool")
    text = context.read(tool) or "" if tool else ""
    private, public = PRIVATE.findall(text), PUBLIC.findall(text)
    return (private[0], public[-1]) if private and public else None


def look(context: Context) -> dict[str, Any]:
    """{"certificate", "made", "enrolled", "given"}: DKMS's certificate as a path, "" without one;
    whether key and certificate are there; whether the machine trusts it; whether it is the
    options' own, which the run installs.
    """
    given = signing_files.given(context.options)
    if given is not None:
        public = certificates.der(given["certificate"].encode())
        path, made = signing_files.CERTIFICATE, True
    else:
        pair = _pair(context)
        path = pair[1] if pair else ""
        public = certificates.der(context.read_bytes(path) or b"") if path else b""
        made = bool(public) and pair is not None and context.exists(pair[0])
    enrolled = made and bool(public) and public in trusted(context)
    return {"certificate": path, "made": made, "enrolled": enrolled, "given": given is not None}


def verdict(context: Context, kernel: str, name: str) -> str | None:
    """TRUSTED, UNSIGNED or STRANGE of the module that `kernel` would load; None where nobody
    can tell: without the module, or with a kmod that was built without openssl.
    """
    # The kernel itself has taken it.
    if kernel == context.platform.get("kernel") and context.exists("/sys/module/nvidia"):
        return TRUSTED
    answers = {}
    for field in ("sig_id", "sig_key"):
        answer = context.run(["modinfo", "-F", field, "-k", kernel, name])
        if answer.rc != 0:
            return None
        answers[field] = answer.out.strip()
    if not answers["sig_id"]:
        return UNSIGNED
    serial = answers["sig_key"].replace(":", "").lower().lstrip("0")
    serials = [certificates.serial(data).lstrip("0") for data in trusted(context)]
    if not serial:
        return None
    if serial in serials or _by_the_kernel(context, kernel, name):
        return TRUSTED
    return STRANGE


def _by_the_kernel(context: Context, kernel: str, name: str) -> bool:
    """Whether a key that the running kernel was built with signed the module.

    Of those keys the kernel tells the name alone. It is the common name, behind an organisation
    where there is one (x509_fabricate_name in crypto/asymmetric_keys/x509_cert_parser.c).
    """
    names = built_in(context)
    if not names:
        return False
    signer = context.run(["modinfo", "-F", "signer", "-k", kernel, name]).out.strip()
    return any(own == signer or own.endswith(": " + signer) for own in names)


def verdicts(context: Context, kernels: list[str], name: str) -> dict[str, str | None]:
    """{kernel: what verdict() says}; {} where Secure Boot is not on."""
    if not secure_boot(context):
        return {}
    return {kernel: verdict(context, kernel, name) for kernel in kernels}


def refused(verdicts: dict[str, str | None]) -> dict[str, str]:
    """{kernel: UNSIGNED or STRANGE} of the modules that these kernels will not take. Pure."""
    return {kernel: trust for kernel, trust in verdicts.items() if trust in (UNSIGNED, STRANGE)}
