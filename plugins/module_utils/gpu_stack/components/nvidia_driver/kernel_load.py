"""Loads the driver's module into the kernel, or says why a reboot or a person has to."""

from __future__ import annotations

import json

from ...host import managed_files, platform
from ...host.context import SILENT, Context, run_program
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import kernel_words, running_driver

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Result

# Seconds for the kernel's log, and for a module that initialises eight GPUs.
PATIENCE = 30.0
LONGEST = 600.0
LOADED, REBOOTING, WITHOUT_NOUVEAU = "loaded", "rebooting", "without_nouveau"


def _run(argv: list[str]) -> Result:
    return run_program(argv, LONGEST if argv[0] == "modprobe" else PATIENCE)


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module driver_loaded returns: {changed, reason}. RefusalError where nothing helps.

    reason: why it takes a reboot; "" where it takes none.
    """
    return bring(Context(runner=_run), params["state"], params["version"], check_mode)


def bring(context: Context, state: str, version: str, check_mode: bool) -> dict[str, Any]:
    """What settle() returns, of this host."""
    if state == REBOOTING:
        return _note(context, running_driver.reason(context, version), check_mode)
    if state == WITHOUT_NOUVEAU:
        return _without_nouveau(context, check_mode)
    why = running_driver.reason(context, version)
    if why:
        _refuse_again(context, why)
        return {"changed": False, "reason": why}
    changed = False
    if running_driver.loaded(context) is None and platform.gpus(context):
        if check_mode:
            return {"changed": True, "reason": "", "msg": "Would load the kernel module"}
        _load(context, version)
        changed = True
    _forget(context, check_mode)
    return {"changed": changed, "reason": ""}


def _refuse_again(context: Context, why: str) -> None:
    """Raises RefusalError where a reboot has been done for this, and changed nothing."""
    if not running_driver.in_vain(context, why):
        return
    quote = kernel_words.quoted(kernel_words.last(kernel_words.lines(context.run)))
    raise RefusalError(
        f"This host was rebooted for it, and still {why}. {quote} {running_driver.hint(why)}"
    )


def _note(context: Context, why: str, check_mode: bool) -> dict[str, Any]:
    if why and not check_mode:
        _refuse_again(context, why)
        text = json.dumps(running_driver.request(context, why), sort_keys=True) + "\n"
        entry = managed_files.Entry(running_driver.RECORD, text, 0o600, directory=True)
        managed_files.bring(context, [entry])
    return {"changed": False, "reason": why}


def _forget(context: Context, check_mode: bool) -> None:
    if not check_mode and context.lstat(running_driver.RECORD) is not None:
        managed_files.bring(context, [managed_files.Entry(running_driver.RECORD, None)])


def _without_nouveau(context: Context, check_mode: bool) -> dict[str, Any]:
    """Takes nouveau out of the kernel, where nothing shows a picture through it."""
    if not running_driver.nouveau(context):
        _forget(context, check_mode)
        return {"changed": False, "reason": ""}
    if check_mode:
        return {"changed": True, "reason": "", "msg": "Would take nouveau out of the kernel"}
    answer = context.run(["modprobe", "--remove", "nouveau"])
    if answer.rc == 0:
        return {"changed": True, "reason": ""}
    why = "nouveau is loaded"
    _refuse_again(context, why)
    return {"changed": False, "reason": why}


def _load(context: Context, version: str) -> None:
    before = kernel_words.lines(context.run)
    answer = context.run(["modprobe", "nvidia"])
    if answer.rc == 0:
        now = running_driver.loaded(context)
        if now in (None, version):
            return
        raise RefusalError(
            f"modprobe loaded the module {now}, and {version} is installed."
            f" {running_driver.hint('')}"
        )
    last_lines = kernel_words.last(kernel_words.lines(context.run), before)
    words = " ".join(answer.err.split()) or f"modprobe ended with {answer.rc}"
    todo = kernel_words.cure(words, last_lines)
    if answer.rc == SILENT:
        todo = "the card or its firmware hangs: power the machine off and on, then run again"
    raise RefusalError(
        f"The driver's module does not load, and a reboot is no cure: {words.rstrip('.')}."
        f" {kernel_words.quoted(last_lines)} What to do: {todo}."
    )
