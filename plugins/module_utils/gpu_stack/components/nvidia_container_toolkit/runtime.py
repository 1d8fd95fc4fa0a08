"""How a container runtime is made to know NVIDIA's, or to forget it: the same steps for each.

It is looked at, and refused where it could not be served. Then its configuration is written, after
a note that it has to be restarted, and it is looked at again: containers may have been started
meanwhile. Where a restart would end none of them it is done, and where the daemon does not start,
the configuration from before is put back and started. No container is ever stopped.

The note stays where a run was cut off or refused before the restart; the next run does it.
"""

from . import units
from .kept_files import RefusedError

# Seconds for systemctl, which waits for the daemon: one with many images takes minutes to start.
RESTART_PATIENCE = 1800.0


class RestartError(RefusedError):
    """A daemon was restarted and did not start; `said` is what systemctl said."""

    def __init__(self, message, said):
        super().__init__(message)
        self.said = said


def refuse(words):
    """Raises RefusedError with these words, if any."""
    if words is not None:
        raise RefusedError(words)


class Runtime:
    """One container runtime of a host; docker, containerd and CRI-O each say the rest."""

    # Its name at the beginning of a sentence, and that of its daemon and its unit; the file that
    # is written.
    name = daemon = unit = config = ""
    # What a run would do, for a person.
    would = would_forget = ""
    # Where to look when it does not start.
    journal = ""
    # docker reads its configuration anew when told to.
    restarts_to_forget = True

    def __init__(self, context, restart, comes_later=False):
        """`context`: the host, with the role's options. `restart(unit)`: systemctl's Result.

        `comes_later`: it is not missed yet, for another package of this run brings it.
        """
        self.context = context
        self.systemctl_restart = restart
        self.comes_later = comes_later

    def present(self, check=False):
        """Make it know the runtime; with `check` say what would be done. Returns the answer."""
        if self.left_alone():
            return {"changed": False}
        found = self.there()
        answer = {"changed": False, "installed": found["installed"]}
        refuse(self.unserved(found))
        if not self.wanted():
            return answer
        if check:
            found = self.look()
            refuse(self.unready(found))
            if self.due(found):
                difference = self.difference(*found["planned"])
                answer.update(changed=True, msg=self.would, diff=difference)
            return answer
        written = self.written()
        found = self.look()
        refuse(self.unready(found, written))
        answer.update(written, restarted=found["owed"])
        if found["owed"]:
            self.restart(written)
            answer["changed"] = True
        self.proof(found)
        return answer

    def absent(self, check=False):
        """Make it forget the runtime; with `check` say what would be done. Returns the answer."""
        found = self.parting()
        refuse(self.needed(found))
        if self.left_alone():
            return {"changed": False}
        if check:
            answer = {"changed": found["entry"]}
            return dict(answer, msg=self.would_forget) if found["entry"] else answer
        answer = self.take()
        answer["restarted"] = self.restarts_to_forget and self.owed()
        if answer["restarted"]:
            result = self.systemctl_restart(self.unit)
            if result.rc:
                said = result.err.strip()
                raise RestartError(f"Unable to restart service {self.unit}: {said}", said)
            answer["changed"] = True
        return answer

    def restart_due(self):
        """Note a restart that the packages which come next make necessary. docker's alone do."""

    def written(self):
        """What `write` did. RefusedError with the way out where it could not be written."""
        try:
            return self.write()
        except RefusedError as error:
            raise RefusedError(self.unwritten(str(error))) from error

    def restart(self, written):
        """Restart the daemon; one that does not start gets back what it had.

        `written` is what `write` returned. Raises RestartError.
        """
        result = self.systemctl_restart(self.unit)
        words = f"{self.name} did not start with the runtime nvidia in {self.config}"
        if result.rc == 0:
            try:
                self.started()
                return
            except RefusedError as error:
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
        raise RestartError(f"{words}. {self.journal}", result.err.strip())

    def started(self):
        """After a restart: RefusedError where it does not know the runtime."""

    def proof(self, found):
        """At the end: RefusedError where it does not know the runtime. `found`: what `look` saw."""

    def unwritten(self, fault):
        """What a person is told of a file that could not be written."""
        return fault

    # What each has to say beside: `left_alone`, `there`, `unserved`, `wanted`; `look`, `unready`,
    # `due`, `difference`; `write`, `restore`; and without it `parting`, `needed`, `take`, `owed`.


class CriRuntime(Runtime):
    """containerd or CRI-O, which the kubelet asks: what both see of themselves."""

    # The module with the look's functions: wish, wanted, owed, installed, daemon, losing, OWED.
    facts = None

    def left_alone(self):
        return self.wish() == "none"

    def wish(self):
        return self.facts.wish(self.context.options)

    def wanted(self):
        return self.facts.needs_runtime(self.context)

    def owed(self):
        return self.facts.owed(self.context)

    def there(self):
        return {"installed": self.facts.installed(self.context)}

    def look(self):
        """{"fault", "planned", "right", "owed", "loses"} of one that is installed."""
        seen = {"fault": None, "planned": None, "right": False}
        try:
            seen["planned"] = old, new = self.planned()
            seen["right"] = old == new
        except (RefusedError, OSError, UnicodeDecodeError) as error:
            seen["fault"] = str(error)
        running = self.facts.daemon(self.context)
        seen["owed"] = units.restart_due(self.context, self.facts.OWED, running)
        seen["loses"] = self.facts.losing(self.context) if running is not None else None
        return seen

    def due(self, found):
        return found["owed"] or not found["right"]
