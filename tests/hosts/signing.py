"""Keys for kernel modules, and modules signed with them, as the kernel's own sign-file does it."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

MAGIC = b"~Module signature appended~\n"
PKEY_ID_PKCS7 = 2


def key_pair(folder: Path, name: str) -> tuple[Path, Path]:
    """A new key pair: (private key in PEM, certificate in DER)."""
    private, certificate = folder / f"{name}.key", folder / f"{name}.der"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650",
            "-subj", f"/CN={name}/", "-keyout", str(private),
            "-outform", "DER", "-out", str(certificate),
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    return private, certificate


def pem(certificate: Path) -> Path:
    """The certificate in PEM, beside the one in DER."""
    path = certificate.with_suffix(".pem")
    if not path.exists():
        subprocess.run(
            ["openssl", "x509", "-inform", "DER", "-in", str(certificate), "-out", str(path)],
            check=True, capture_output=True,
        )  # fmt: skip
    return path


def unsigned(module: bytes) -> bytes:
    """A module without the signature at its end (include/linux/module_signature.h)."""
    if not module.endswith(MAGIC):
        return module
    end = len(module) - len(MAGIC)
    (length,) = struct.unpack(">I", module[end - 4 : end])
    return module[: end - 12 - length]


def signed(module: bytes, private: Path, certificate: Path) -> bytes:
    """An unsigned module with a signature of this key: a detached PKCS #7 and its length."""
    signature = subprocess.run(
        [
            "openssl", "cms", "-sign", "-binary", "-noattr", "-nocerts", "-md", "sha256",
            "-signer", str(pem(certificate)), "-inkey", str(private), "-outform", "DER",
        ],
        input=module, check=True, capture_output=True,
    ).stdout  # fmt: skip
    trailer = struct.pack(">BBBBB3xI", 0, 0, PKEY_ID_PKCS7, 0, 0, len(signature))
    return module + signature + trailer + MAGIC
