"""The lab's own key on a host: its files, and what tells DKMS to sign with it."""

from __future__ import annotations

import hashlib

from ...change import change
from ...host import file_state
from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Options

FRAMEWORK = "/etc/dkms/framework.conf"
KEY = "/etc/dkms/provision-signing.key"
CERTIFICATE = "/etc/dkms/provision-signing.pem"
# dkms 3 reads the directory, dkms 2 its framework.conf alone.
SETTINGS = FRAMEWORK + ".d/provision-signing.conf"
TOOL = "/etc/dkms/provision-sign"
OPTION = "nvidia_driver_signing_given"

SETTINGS_TEXT = f"""\
# Written by provision: the modules of this host are signed with the lab's key.
mok_signing_key="{KEY}"
mok_certificate="{CERTIFICATE}"
"""
TOOL_TEXT = f"""\
#!/bin/sh
# Written by provision: dkms calls it with a kernel and a module, which it signs with the lab's key.
exec "/lib/modules/$1/build/scripts/sign-file" sha512 {KEY} {CERTIFICATE} "$2"
"""
BEGIN, END = "# provision: begin\n", "# provision: end\n"
BLOCK = f'{BEGIN}sign_tool="{TOOL}"\n{END}'


def given(options: Options) -> dict[str, str] | None:
    """{"certificate": PEM, "key": SHA-256 of its file} of the options; None without a key."""
    wished = options.get(OPTION)
    return wished if isinstance(wished, dict) and wished.get("certificate") else None


def digest(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def texts_of(signs_always: bool, certificate: str) -> dict[str, tuple[str, int]]:
    """{path: (content, mode)} of the files beside the key."""
    tell = {SETTINGS: (SETTINGS_TEXT, 0o644)} if signs_always else {TOOL: (TOOL_TEXT, 0o755)}
    return {CERTIFICATE: (certificate, 0o644), **tell}


def look(context: Context, signs_always: bool) -> dict[str, Any]:
    """{"faults": {path: what is wrong}, "left": [paths]} of the files against the options."""
    wished = given(context.options)
    left = [path for path in (KEY, CERTIFICATE, SETTINGS, TOOL) if context.lstat(path) is not None]
    if wished is None:
        return {"faults": {}, "left": left}
    faults = {}
    fault = file_state.fault(context, KEY, 0o600)
    if fault is None and digest(context.read(KEY)) != wished["key"]:
        fault = "absent" if context.lstat(KEY) is None else "another key"
    if fault is not None:
        faults[KEY] = fault
    for path, (text, mode) in texts_of(signs_always, wished["certificate"]).items():
        wrong = file_state.fault(context, path, mode)
        complaint = file_state.complaint(context.read(path), text, wrong)
        if complaint is not None:
            faults[path] = complaint
    if not signs_always and BLOCK not in (context.read(FRAMEWORK) or ""):
        faults[FRAMEWORK] = "without sign_tool"
    return {"faults": faults, "left": []}


def differ(name: str, seen: dict[str, Any]) -> Changes:
    """The changes that have DKMS sign with the lab's key, or no longer. Pure."""
    reason = "DKMS signs modules with the lab's key by it"
    changes = [
        change(name, path, None if fault == "absent" else fault, "as wished", reason)
        for path, fault in sorted((seen.get("faults") or {}).items())
    ]
    reason = "no key is wished for any more"
    return changes + [
        change(name, path, "present", None, reason) for path in seen.get("left") or []
    ]
