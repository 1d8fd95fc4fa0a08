"""The state of a run: built from the results of tasks, returned as the report.

Nothing here touches a disk or knows Ansible's classes.
"""

from __future__ import annotations

import datetime
from typing import Any

from ansible_collections.provision.gpu.plugins.plugin_utils.registry import NAMES as COMPONENTS
from ansible_collections.provision.gpu.plugins.plugin_utils.results import MESSAGE_LIMIT, json_copy


def utc(seconds: float) -> str:
    """ISO 8601 in UTC with milliseconds: sortable as text, readable by everything."""
    moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


class Host:
    """The state of one host in this run."""

    def __init__(self) -> None:
        self.plan: dict[str, Any] | None = None
        self.second: dict[str, Any] | None = None
        self.failure: dict[str, Any] | None = None
        self.unreachable = False
        self.components: dict[str, dict[str, Any]] = {}
        self.last_task = ""
        # Of the inventory, for who reads the report of a fleet.
        self.groups: list[str] = []
        # The component whose tasks began last, and what dpkg still finishes of an interrupted run.
        self.at: str | None = None
        self.finishing: str | None = None
        # Warnings of roles: {"id", "component", "message", "hint"}, as preflight's are.
        self.notes: list[dict[str, Any]] = []


class Record:
    """The run as data: the plugin (or a test) adds results, `report` returns the report.

    Times are seconds since the epoch.
    """

    def __init__(
        self, mode: str, started: float, lock: dict[str, Any], version: str | None
    ) -> None:
        self.mode = mode
        self.started = started
        self.lock = lock
        self.version = version
        self.hosts: dict[str, Host] = {}
        # Hosts of batches that did not begin, because one before them was not proven.
        self.not_begun: list[str] = []

    def host(self, name: str) -> Host:
        """The state of this host, a new one at first."""
        return self.hosts.setdefault(name, Host())

    def looked(self, name: str, result: dict[str, Any]) -> str:
        """Adds a result of `gpu_state`: a host's first is its plan, a later one the proof.

        Returns the phase, look or proof.
        """
        host = self.host(name)
        if host.plan is None:
            host.plan = json_copy(result)
            return "look"
        host.second = json_copy(result)
        return "proof"

    def worked(self, name: str, component: str, seconds: float, changed: bool) -> None:
        """Adds a task's time and change to its component."""
        entry = self.host(name).components.setdefault(component, {"seconds": 0.0, "changed": False})
        entry["seconds"] = round(entry["seconds"] + seconds, 3)
        entry["changed"] = entry["changed"] or changed

    def warned(self, name: str, component: str | None, message: str) -> None:
        """Adds a role's own warning, from a task "step | Warn ...", to those of preflight."""
        note = {
            "id": "role",
            "component": component,
            "message": message[:MESSAGE_LIMIT],
            "hint": "",
        }
        if note not in self.host(name).notes:
            self.host(name).notes.append(note)

    def interruption(self, name: str) -> str:
        """The state that an interrupted run left a host in, and what to do."""
        host = self.host(name)
        if host.plan is None:
            return "untouched, it was not looked at"
        if host.at is None:
            return "untouched, nothing was changed yet"
        text = f"in the middle of {host.at}: run again to go on"
        if host.finishing:
            text += f" ({host.finishing} is finishing there, and the next run waits for it)"
        return text

    def failed(self, name: str, task: str, message: str, phase: str | None) -> None:
        """Sets a host's failure; with blockers and nothing done it is preflight's."""
        host = self.host(name)
        blockers = (host.plan or {}).get("blockers")
        if blockers and not host.components:
            phase = "preflight"
        host.failure = {"task": task, "message": message, "phase": phase}

    def locked_versions(self, stack: str | None) -> dict[str, str]:
        """{component: version} of this stack in the lock."""
        row = (self.lock.get("stacks") or {}).get(stack or "", {})
        versions = {
            component: row[component]["version"]
            for component in COMPONENTS
            if isinstance(row.get(component), dict) and row[component].get("version")
        }
        if row.get("tensorflow", {}).get("python"):
            versions["python"] = row["tensorflow"]["python"]
        return versions

    def report(
        self,
        finished: float,
        *,
        previous: dict[str, Any],
        checks: dict[str, Any],
        interrupted: bool = False,
        failures: set[str] | None = None,
    ) -> dict[str, Any]:
        """The whole report.

        `failures`: hosts that Ansible's own statistics count as failed (rescued failures don't
        count); None when the run did not reach its statistics.
        """
        proven = dict(previous.get("proven") or {})
        hosts = {}
        for name in sorted(self.hosts):
            host = self.hosts[name]
            if failures is not None and name not in failures:
                host.failure = None
            entry = self._host(name, checks.get("hosts", {}).get(name), interrupted)
            if entry["status"] == "proven":
                proven[name] = {"time": checks["finished"], "stack": entry["stack"]}
            last = proven.get(name) or {}
            # A proof of another stack does not count for this one.
            same = not entry["stack"] or last.get("stack") == entry["stack"]
            entry["last_proven"] = last.get("time") if same else None
            hosts[name] = entry
        report = {
            "format": 1,
            "provision": self.version,
            "lock_digest": self.lock.get("digest"),
            "mode": self.mode,
            "started": utc(self.started),
            "finished": utc(finished),
            "seconds": round(finished - self.started, 1),
            "hosts": hosts,
            "proven": proven,
        }
        if interrupted:
            report["interrupted"] = True
        if self.not_begun:
            bad = [
                name
                for name, entry in hosts.items()
                if entry["status"] in ("failed", "blocked", "unreachable")
            ]
            report["not_begun"] = {
                "hosts": self.not_begun,
                "message": f"Not begun, and untouched: {', '.join(self.not_begun)}; a batch before "
                f"them is not proven ({', '.join(bad)})",
            }
        return report

    def _host(self, name: str, checked: dict[str, Any] | None, interrupted: bool) -> dict[str, Any]:
        """A host's entry of the report; `checked`: what the verify play wrote about it."""
        host = self.hosts[name]
        plan = host.plan or {}
        now = host.second or plan
        # The receipt is written after the second look.
        left = [
            change
            for change in (host.second or {}).get("changes") or []
            if change.get("component") != "receipt"
        ]
        summary = (checked or {}).get("summary")
        changes = plan.get("changes") or []
        selected = [change for change in changes if change.get("selected", True)]
        status, failure = self._status(name, selected, changes, left, summary, interrupted)
        row = (self.lock.get("stacks") or {}).get(plan.get("stack") or "")
        versions = {
            component: state["version"]
            for component, state in (now.get("state") or {}).items()
            # A CUDA on the host of a stack that brings its own with TensorFlow is not the stack's.
            if isinstance(state, dict) and state.get("version") and (not row or component in row)
        }
        versions.update((checked or {}).get("found") or {})
        absent = plan.get("absent") or []
        return {
            "status": status,
            "simulated_gpu": bool(plan.get("simulated_gpu")),
            "container": bool(plan.get("container")),
            "platform": plan.get("platform"),
            "groups": host.groups,
            "stack": plan.get("stack"),
            "wanted": {
                component: version
                for component, version in self.locked_versions(plan.get("stack")).items()
                if component not in absent
                and not (component == "python" and "tensorflow" in absent)
            },
            "absent": absent,
            "found": versions,
            "gpus": now.get("gpus") or [],
            "changes": changes,
            "left": left,
            "not_selected": plan.get("not_selected") or [],
            "blockers": plan.get("blockers") or [],
            # Preflight's; the key "warnings" of a result is Ansible's own.
            "warnings": (plan.get("notices") or []) + host.notes,
            "reboot": now.get("reboot"),
            "checks": (checked or {}).get("checks") or [],
            "checks_summary": summary,
            "components": host.components,
            "failure": failure,
            "last_proven": None,
        }

    def _status(
        self,
        name: str,
        selected: list[Any],
        changes: list[Any],
        left: list[Any],
        summary: dict[str, int] | None,
        interrupted: bool,
    ) -> tuple[str, dict[str, Any] | None]:
        """(status, failure) of a host; the order of the tests is their priority."""
        host = self.hosts[name]
        if host.unreachable:
            return "unreachable", host.failure
        if summary and summary.get("failed"):
            message = f"{summary['failed']} of the checks failed"
            return "failed", {"task": "verify", "message": message, "phase": "verify"}
        pending = [change for change in left if change.get("selected", True)]
        if pending and all(change.get("reboot") for change in pending):
            message = "all is done but a reboot: reboot the host, then run again"
            return "failed", {"task": "proof", "message": message, "phase": "apply"}
        if host.failure:
            blocked = host.failure["phase"] == "preflight"
            return ("blocked" if blocked else "failed"), host.failure
        if host.plan is None:
            message = self.interruption(name) if interrupted else "never looked at"
            task = "interrupted" if interrupted else host.last_task
            return "failed", {"task": task, "message": message, "phase": "look"}
        if host.plan.get("blockers") and not changes:
            message = "; ".join(str(blocker.get("message")) for blocker in host.plan["blockers"])
            return "blocked", {"task": "look", "message": message, "phase": "preflight"}
        if self.mode == "check":
            return ("drift" if changes else "converged"), None
        if selected and host.second is None:
            ended = "the run ended before this host did"
            message = self.interruption(name) if interrupted else ended
            task = "interrupted" if interrupted else host.last_task
            return "failed", {"task": task, "message": message, "phase": "apply"}
        if pending:
            items = [f"{change.get('component')} {change.get('item')}" for change in pending]
            message = f"still different: {', '.join(items)}"
            return "failed", {"task": "proof", "phase": "proof", "message": message}
        if left if host.second is not None else changes:
            return "drift", None
        if summary and summary.get("passed"):
            return "proven", None
        return "converged", None
