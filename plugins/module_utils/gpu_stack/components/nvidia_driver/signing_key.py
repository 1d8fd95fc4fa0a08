"""Installs the lab's key that DKMS signs modules with, or takes it away."""

from __future__ import annotations

from ...host import file_state, managed_files, platform
from ...host.context import Context
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import certificates, signing, signing_files

if TYPE_CHECKING:
    from typing import Any


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module driver_signing returns: {changed, files}. RefusalError with the reason."""
    context = Context()
    context.platform = platform.look(context)
    return bring(context, params, check_mode)


def bring(context: Context, params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What settle() returns, of this host."""
    key, certificate = params["key"], params["certificate"]
    if params["state"] == "absent":
        key = certificate = ""
    else:
        fault = wrong(key, certificate)
        if fault:
            raise RefusalError(fault)
    always = signing.dkms_signs_always(context)
    files = write(context, always, key, certificate, check_mode)
    result: dict[str, Any] = {"changed": bool(files), "files": files}
    if check_mode and files:
        result["msg"] = f"Would write or remove {', '.join(files)}"
    return result


def wrong(key: str, certificate: str) -> str:
    """Why DKMS could not sign with these; "" where nothing is seen. Says nothing of the key."""
    if "-----BEGIN" not in key or "PRIVATE KEY-----" not in key:
        return "nvidia_driver_signing_key_file holds no private key in PEM"
    if "ENCRYPTED" in key:
        return (
            "the key in nvidia_driver_signing_key_file has a password, which DKMS cannot give:"
            " keep it without one in Ansible Vault (ansible-vault encrypt FILE)"
        )
    if "-----BEGIN" not in certificate or not certificates.der(certificate.encode()):
        return (
            "nvidia_driver_signing_certificate_file holds no certificate in PEM (openssl x509"
            " -inform DER -in FILE makes it of DER)"
        )
    return ""


def _without_block(text: str) -> str:
    before, begin, rest = text.partition(signing_files.BEGIN)
    _inside, end, after = rest.partition(signing_files.END)
    return before + after if begin and end else text


def write(context: Context, signs_always: bool, key: str, certificate: str, dry: bool) -> list[str]:
    """Paths of the files that were not as wished; now they are, unless `dry`.

    Without a key all of them go. Raises RefusalError or OSError.
    """
    texts: dict[str, tuple[str | None, int]] = {}
    if key:
        texts.update(signing_files.texts_of(signs_always, certificate))
        texts[signing_files.KEY] = (key, 0o600)
    entries = []
    for path in (
        signing_files.KEY,
        signing_files.CERTIFICATE,
        signing_files.SETTINGS,
        signing_files.TOOL,
    ):
        text, mode = texts.get(path, (None, file_state.MODE))
        entries.append(managed_files.Entry(path, text, mode, directory=text is not None))
    old = context.read(signing_files.FRAMEWORK)
    new = _without_block(old or "") + (signing_files.BLOCK if key and not signs_always else "")
    if new != (old or ""):
        entries.append(managed_files.Entry(signing_files.FRAMEWORK, new or None, directory=True))
    differences = managed_files.bring(context, entries, dry)
    return [difference["after_header"] for difference in differences]
