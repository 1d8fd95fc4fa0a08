"""One look at a host in one round trip, and the answer to it: a plan, or the doctor's findings."""

from __future__ import annotations

from . import receipt
from .host import boots, platform
from .host.context import Context
from .plan import choose, differences, finish, plan, receipt_changes, to_remove
from .registered import COMPONENTS
from .type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

    from .host.context import Result


def look(
    lock: dict[str, Any] | None = None,
    wish: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    deep: bool = False,
    root: str = "/",
    runner: Callable[[Sequence[str]], Result] | None = None,
) -> dict[str, Any]:
    """Everything the plan needs to know about the host; reads, and changes nothing."""
    context = Context(root=root, options=options, deep=deep, runner=runner)
    return _look(context, lock, wish)


def _look(
    context: Context, lock: dict[str, Any] | None, wish: dict[str, Any] | None
) -> dict[str, Any]:
    context.platform = platform.look(context)
    context.container = platform.container(context)
    gpus = platform.gpus(context)
    _stack, context.row = choose(lock, wish, context.platform, gpus)
    states = {component.NAME: component.look(context) for component in COMPONENTS}
    removed = to_remove(context.row, context.options)
    if removed:
        from . import removal

        ledger = removal.ledger(context, context.row, removal.noted(context))
        for name in removed:
            states[name]["remains"] = removal.look(context, name, ledger.get(name))
    return {
        "lock_digest": (lock or {}).get("digest"),
        "platform": context.platform,
        "container": context.container,
        "simulated_gpu": platform.simulated_gpu(context),
        "gpus": gpus,
        "receipt": receipt.look(context),
        "receipt_fault": receipt.fault(context),
        "unfinished": receipt.unfinished(context),
        "state": states,
        "preflight": {},
    }


def examine(
    lock: dict[str, Any] | None,
    wish: dict[str, Any] | None,
    options: dict[str, Any] | None,
    only: Sequence[str] | None,
    skip: Sequence[str] | None,
    deep: bool = False,
    root: str = "/",
    runner: Callable[[Sequence[str]], Result] | None = None,
    run: str | None = None,
    notes: bool = False,
) -> dict[str, Any]:
    """Look and plan; where something is to be done, look at what could forbid it as well.

    `run`: the id of the run that looks, whose own lock on the host is none in its way. `notes`:
    on a host that is as it should be, what was compared may be noted for the next look.
    """
    context = Context(root=root, options=options, deep=deep, runner=runner)
    facts = _look(context, lock, wish)
    result = plan(lock, wish, options, facts, only, skip)
    if result["components"]:
        from . import preflight

        preflight.survey(context, facts, result, run)
        result = plan(lock, wish, options, facts, only, skip)
    elif notes and not (result["changes"] or result["blockers"]):
        boots.note(context, context.compared)
    return result


def ask_doctor(
    parameters: dict[str, Any],
    root: str = "/",
    runner: Callable[[Sequence[str]], Result] | None = None,
) -> dict[str, Any]:
    """What is wrong with the host, by the cases that are known; changes nothing.

    The doctor's files come with such a question alone: the ordinary look doesn't pay for them.
    """
    from . import preflight
    from .doctor import findings

    options = parameters.get("options") or {}
    context = Context(root=root, options=options, runner=runner)
    facts = _look(context, parameters.get("lock"), parameters.get("wish"))
    facts["preflight"] = preflight.look(context)
    changes = []
    if context.row is not None:
        changes = differences(context.row, facts, options)
        changes += receipt_changes(parameters.get("lock"), context.row, options, facts)
    return findings.answer(parameters, facts, context, changes)


def answer(parameters: dict[str, Any], check_mode: bool = False) -> dict[str, Any]:
    """What the task returns for its parameters, on the host that this runs on."""
    if parameters.get("doctor"):
        return ask_doctor(parameters)
    result = examine(
        parameters.get("lock"),
        parameters.get("wish"),
        parameters.get("options") or {},
        parameters.get("only"),
        parameters.get("skip"),
        deep=bool(parameters.get("deep")),
        run=parameters.get("run"),
        notes=not check_mode,
    )
    return finish(result, check_mode)
