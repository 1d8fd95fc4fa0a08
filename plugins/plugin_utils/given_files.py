"""Keys and certificates of this machine that a host is to have, as the look compares them.

The look sees hashes, and no key.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError


@contextlib.contextmanager
def _readable(option: str, path: str) -> Iterator[None]:
    """AnsibleActionFail with the option's name where the block can't read its file."""
    try:
        yield
    except AnsibleActionFail:
        raise
    except (AnsibleError, OSError) as error:
        raise AnsibleActionFail(
            f"{option}: {path} can't be read on this machine: {error}"
        ) from error


def signing(loader: Any, options: Mapping[str, Any]) -> dict[str, str]:
    """The certificate that modules are signed with, and the SHA-256 of its key.

    AnsibleActionFail where one can't be read, or others than its owner may read the key.
    """
    content: dict[str, bytes] = {}
    for name in ("key", "certificate"):
        option = f"nvidia_driver_signing_{name}_file"
        path = str(options.get(option) or "")
        with _readable(option, path):
            raw = Path(path)
            # A vault's own file may be read by all.
            open_to_others = name == "key" and raw.stat().st_mode & 0o077
            if open_to_others and not raw.read_bytes().startswith(b"$ANSIBLE_VAULT"):
                raise AnsibleActionFail(
                    f"{option}: {path} is a private key that others than its owner may read. "
                    "chmod 600 it, or keep it by Ansible Vault (ansible-vault encrypt FILE)"
                )
            content[name] = Path(loader.get_real_file(path)).read_bytes()
    loader.cleanup_all_tmp_files()
    return {
        "certificate": content["certificate"].decode("utf-8", "replace"),
        "key": hashlib.sha256(content["key"]).hexdigest(),
    }


def front_door(loader: Any, options: Mapping[str, Any]) -> dict[str, str]:
    """SHA-256 of the front door's files, decrypted by Ansible Vault.

    AnsibleActionFail where one can't be read.
    """
    digests: dict[str, str] = {}
    names = {
        "given": ("certificate", "key"),
        "acme": ("acme_ca",) if options.get("gpu_front_door_acme_ca") else (),
    }
    for name in names.get(str(options.get("gpu_front_door_tls")), ()):
        option = f"gpu_front_door_{name}"
        path = str(options.get(option) or "")
        with _readable(option, path):
            content = Path(loader.get_real_file(path)).read_bytes()
        digests[name] = hashlib.sha256(content).hexdigest()
    loader.cleanup_all_tmp_files()
    return digests
