"""The steps that add NVIDIA's runtime to a container runtime's configuration, or remove it.

A request that this host can't serve is refused first. Then a pending restart is noted, and the
configuration is written. The state is read again, for containers may have been started meanwhile:
the daemon is restarted only if that ends none of them. One that does not start gets its former
configuration back and is started again. No container is ever stopped.

A run that is cut off or refused before the restart leaves the note, and the next run restarts.
"""

from __future__ import annotations

from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import units

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...host.context import Context, Result
    from ...shapes import State

# Seconds for systemctl, which waits for the daemon: one with many images takes minutes to start.
RESTART_PATIENCE = 1800.0


class RestartError(RefusalError):
    """A daemon was restarted and did not start; the result's `said` is systemctl's message."""


def refuse(words: str | None) -> None:
    """Raises RefusalError with these words, if any."""
    if words is not None:
        raise RefusalError(words)


class Runtime:
    """Base class of the container runtimes: docker, containerd and CRI-O."""

    # Its name at the start of a sentence, its daemon, its unit, and its configuration file.
    name = daemon = unit = config = ""
    # Messages of check mode.
    would = would_forget = ""
    # Where to look when it does not start.
    journal = ""
    # Not docker, which reloads its configuration.
    restarts_to_forget = True

    def __init__(
        self, context: Context, restart: Callable[[str], Result], comes_later: bool = False
    ) -> None:
        """`context`: the host, with the role's options. `restart(unit)`: systemctl's Result.

        `comes_later`: it may be missing now, as this run installs it later.
        """
        self.context = context
        self.systemctl_restart = restart
        self.comes_later = comes_later

    def present(self, check: bool = False) -> dict[str, Any]:
        """Adds the runtime, or with `check` says so; returns the module's result."""
        if self.left_alone():
            return {"changed": False}
        state = self.installation()
        answer = {"changed": False, "installed": state["installed"]}
        refuse(self.unserved(state))
        if not self.needs_runtime():
            return answer
        if check:
            state = self.look()
            refuse(self.unready(state))
            if self.due(state):
                difference = self.difference(*state["planned"])
                answer.update(changed=True, msg=self.would, diff=difference)
            return answer
        written = self.written()
        state = self.look()
        refuse(self.unready(state, written))
        answer.update(written, restarted=state["owed"])
        if state["owed"]:
            self.restart(written)
            answer["changed"] = True
        self.proof(state)
        return answer

    def absent(self, check: bool = False) -> dict[str, Any]:
        """Removes the runtime, or with `check` says so; returns the module's result."""
        state = self.removal_state()
        refuse(self.needed(state))
        if self.left_alone():
            return {"changed": False}
        if check:
            answer = {"changed": state["entry"]}
            return dict(answer, msg=self.would_forget) if state["entry"] else answer
        answer = self.take()
        answer["restarted"] = self.restarts_to_forget and self.owed()
        if answer["restarted"]:
            result = self.systemctl_restart(self.unit)
            if result.rc:
                message = result.err.strip()
                words = f"Unable to restart service {self.unit}: {message}"
                raise RestartError(words, said=message)
            answer["changed"] = True
        return dict(answer)

    def restart_due(self) -> None:
        """Notes a restart that packages installed later need; only docker's do."""

    def written(self) -> dict[str, Any]:
        """The result of `write`; raises RefusalError with a hint if it failed."""
        try:
            result: dict[str, Any] = self.write()
            return result
        except RefusalError as error:
            raise RefusalError(self.unwritten(str(error))) from error

    def restart(self, written: dict[str, Any]) -> None:
        """Restarts the daemon; restores the former configuration if it does not start.

        `written` is what `write` returned. Raises RestartError.
        """
        result = self.systemctl_restart(self.unit)
        words = f"{self.name} did not start with the runtime nvidia in {self.config}"
        if result.rc == 0:
            try:
                self.started()
                return
            except RefusalError as error:
                words = str(error)
        if written["changed"]:
            self.restore(written["saved"])
        runs = self.systemctl_restart(self.unit).rc == 0
        if written["changed"]:
            end = "runs with it" if runs else "does not start with it either"
            words += f"; the configuration from before is back, and {self.daemon} {end}"
        else:
            end = "runs after a second start" if runs else "does not start at a second time either"
            words += f"; this run wrote nothing there, and {self.daemon} {end}"
        raise RestartError(f"{words}. {self.journal}", said=result.err.strip())

    def started(self) -> None:
        """Raises RefusalError if the restarted daemon does not know the runtime."""

    def proof(self, state: State) -> None:
        """Raises RefusalError if the daemon does not know the runtime. state: of `look`."""

    def unwritten(self, fault: str) -> str:
        """Message about a file that could not be written."""
        return fault

    # Each runtime defines its state, why it can't be configured, whether it is to be; the plan and
    # its obstacles; writing and restoring; and the same for the removal.
    left_alone: Any
    installation: Any
    unserved: Any
    needs_runtime: Any
    look: Any
    unready: Any
    due: Any
    difference: Any
    planned: Any
    write: Any
    restore: Any
    removal_state: Any
    needed: Any
    take: Any
    owed: Any


class CriRuntime(Runtime):
    """containerd or CRI-O, which serve the kubelet: what both have in common."""

    # The module with the look's functions: wish, wanted, owed, installed, daemon, losing, OWED.
    facts: Any = None
    # The role's option for it.
    option = ""
    # Its name within a sentence; what shows how it reads its configuration; what is written then;
    # why it is restarted, and what has to happen before.
    title = shown = is_written = restarted_to = cure = ""

    def unwritten(self, fault: str) -> str:
        return f"{fault}. It was left as it is; set {self.option} to none where that is meant."

    def left_alone(self) -> bool:
        return self.wish() == "none"

    def wish(self) -> str:
        return str(self.facts.wish(self.context.options))

    def needs_runtime(self) -> bool:
        return bool(self.facts.needs_runtime(self.context))

    def owed(self) -> bool:
        return bool(self.facts.owed(self.context))

    def installation(self) -> dict[str, Any]:
        return {"installed": self.facts.installed(self.context)}

    def look(self) -> dict[str, Any]:
        """{"fault", "planned", "right", "owed", "loses"} of one that is installed."""
        state: dict[str, Any] = {"fault": None, "planned": None, "right": False}
        try:
            state["planned"] = old, new = self.planned()
            state["right"] = old == new
        except (RefusalError, OSError, UnicodeDecodeError) as error:
            state["fault"] = str(error)
        running = self.facts.daemon(self.context)
        state["owed"] = units.restart_due(self.context, self.facts.OWED, running)
        state["loses"] = self.facts.losing(self.context) if running is not None else None
        return state

    def due(self, state: State) -> bool:
        return state["owed"] or not state["right"]

    def unserved(self, state: State) -> str | None:
        if self.wish() != "required" or state["installed"] or self.comes_later:
            return None
        return (
            f"{self.option} is required, and {self.title} is not installed. Install it first, or "
            "set it to auto. Nothing was changed."
        )

    def unready(self, state: State, written: dict[str, Any] | None = None) -> str | None:
        if state["fault"] is not None:
            return (
                f"{state['fault']}. It was left as it is, and nothing was changed: repair it "
                f"({self.shown}), or set {self.option} to none."
            )
        if not self.due(state) or state["loses"] is None:
            return None
        done = self.is_written if written and written["changed"] else "Nothing was changed."
        return (
            f"{self.title} has to be restarted to {self.restarted_to}, and containers would be "
            f"lost: {state['loses']}. {self.cure}, then run again; or set {self.option} to none. "
            f"{done}"
        )
