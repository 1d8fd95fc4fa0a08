"""Signatures of files, by ssh-keygen: people have SSH keys, and every machine has the program.

A signature is for one purpose, its namespace: one made for another does not count.

A key's passphrase is asked for by ssh-keygen itself, at the terminal; an agent's key is used by the
agent. Nothing secret passes through here.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from provision import inputs
from provision.errors import DriftError, InputError, MachineError

SUFFIX = ".sig"
# Of a program that asks nobody.
TIMEOUT_SECONDS = 60
_GOOD = re.compile(r'^Good "[^"]*" signature for .* with (.* key \S+)$', re.MULTILINE)


@dataclass(frozen=True)
class Signer:
    """Who signed: an identity of the allowed signers, and the key as "ED25519 key SHA256:..."."""

    identity: str
    key: str


def signature_of(path: Path) -> Path:
    """The file with a file's signature."""
    return path.with_name(path.name + SUFFIX)


def check_key(key: Path, more: str = "") -> None:
    """InputError unless there is a file of the key's name; `more` is what else the hint says."""
    if not key.is_file():
        raise InputError(
            "there is no such key",
            where=str(key),
            expected="a private SSH key, or the public one of an agent's",
            hint=f"--key names another; `ssh-keygen -t ed25519` makes one{more}",
        )


def sign(data: bytes, key: Path, namespace: str) -> bytes:
    """The armored signature of the bytes, for this purpose.

    `key` is a private key, or the public one of a key that an agent has. InputError where it can't
    be used, MachineError without ssh-keygen.
    """
    check_key(key)
    arguments = ["sign", "-f", str(key.absolute()), "-n", namespace]
    # At a terminal it may ask for a passphrase, or for a touch of the key.
    done = _ssh_keygen(arguments, data, None if _at_terminal() else TIMEOUT_SECONDS)
    if done.returncode != 0 or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise InputError(
            "the key can't sign",
            where=str(key),
            got=_said(done),
            hint="without a terminal take a key of an agent's: `ssh-add`, then --key KEY.pub",
        )
    return done.stdout


def verify(
    data: bytes,
    signature: Path,
    allowed_signers: Path,
    identity: str | None = None,
    *,
    namespace: str,
) -> Signer:
    """The signer of these bytes: the allowed signer `identity`, or by default any allowed one.

    DriftError where the bytes, the signer or the signature's purpose is another; InputError without
    a file, MachineError without ssh-keygen.
    """
    _check_there(signature, "there is no signature", "it lies beside what is signed")
    _check_there(
        allowed_signers,
        "there is no such file of allowed signers",
        "a line is: ada@example.org ssh-ed25519 AAAA...; `man ssh-keygen` has more",
    )
    files = ["-s", str(signature.absolute()), "-f", str(allowed_signers.absolute())]
    identities = [identity]
    if identity is None:
        principals = _ssh_keygen(["find-principals", *files], b"", TIMEOUT_SECONDS)
        lines = principals.stdout.decode("utf-8", "replace").splitlines()
        identities = [line for line in lines if line]
        if not identities:
            raise DriftError(
                "the signature is of nobody in the file of allowed signers, or is none",
                where=str(signature),
                got=_said(principals),
                expected=f"a signer in {allowed_signers}",
            )
    for name in identities:
        done = _ssh_keygen(
            ["verify", *files, "-n", namespace, "-I", str(name)], data, TIMEOUT_SECONDS
        )
        if done.returncode == 0:
            good = _GOOD.search(done.stdout.decode("utf-8", "replace"))
            return Signer(str(name), good.group(1) if good else "")
    raise DriftError(
        "the signature is not good for this file: one of them was changed, or it is by another key "
        "or for another purpose",
        where=str(signature),
        got=_said(done),
        expected=f"signed as {namespace} by {' or '.join(map(str, identities))}",
    )


def _check_there(path: Path, missing: str, hint: str) -> None:
    """InputError unless it is a regular file: ssh-keygen would wait for a named pipe."""
    try:
        inputs.read(path)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(missing, where=str(path), hint=hint) from None


def _ssh_keygen(
    arguments: Sequence[str], data: bytes, timeout: float | None
) -> subprocess.CompletedProcess[bytes]:
    """Runs `ssh-keygen -Y ...` over these bytes. MachineError where it is missing, old or hangs."""
    install = "sudo apt install openssh-client"
    try:
        done = subprocess.run(
            ["ssh-keygen", "-Y", *arguments],
            input=data,
            # The agent's socket, the askpass program.
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            check=False,
            timeout=timeout,
        )
    except OSError as error:
        raise MachineError.of(error, "ssh-keygen can't be started", hint=install) from None
    except subprocess.TimeoutExpired:
        raise MachineError(f"ssh-keygen did not answer within {timeout} s") from None
    if re.search(rb"(unknown|illegal|invalid) option", done.stderr):
        raise MachineError(
            "this ssh-keygen knows no signatures",
            got=_said(done),
            expected="OpenSSH 8.2 or newer",
            hint=install,
        )
    return done


def _at_terminal() -> bool:
    """Whether there is a terminal at which ssh-keygen can ask."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    """What ssh-keygen said, in one line."""
    lines = done.stderr.decode("utf-8", "replace").split("\n")
    words = [line.strip() for line in lines if line.strip() and "standard input" not in line]
    return "; ".join(words)[:500] or f"exit code {done.returncode}"
