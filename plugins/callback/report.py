"""Writes what a run did into report/: events.jsonl as it happens, report.json at its end.

The only source of events in the project: the live view, the report pages and `provision`'s exit
codes all read what this plugin writes, so they can't contradict Ansible. It needs nothing but
ansible-core, and is loaded with this collection's playbooks without being enabled
(`playbooks/callback_plugins/`); for other playbooks name it in `callbacks_enabled`.

Nothing of a task's arguments, of variables, or of a result hidden by `no_log` is written: the
report is meant to be passed around.
"""

from __future__ import annotations

DOCUMENTATION = """
name: report
type: aggregate
short_description: Keeps the report of every run in report/
description:
  - Records every host's plan, components, checks and outcome, and nothing secret.
author: The provision authors (!UNKNOWN)
extends_documentation_fragment: provision.gpu.report
"""

import atexit  # noqa: E402
import os  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from ansible import context  # noqa: E402
from ansible.plugins.callback import CallbackBase  # noqa: E402
from ansible_collections.provision.gpu.plugins.plugin_utils import (  # noqa: E402
    examination,
    hosts,
    project,
    queue_pace,
)
from ansible_collections.provision.gpu.plugins.plugin_utils.holders import Holders  # noqa: E402
from ansible_collections.provision.gpu.plugins.plugin_utils.interrupts import (  # noqa: E402
    Interrupts,
    end_workers,
    ignore_endings,
)
from ansible_collections.provision.gpu.plugins.plugin_utils.record import COMPONENTS, Record  # noqa: E402
from ansible_collections.provision.gpu.plugins.plugin_utils.results import (  # noqa: E402
    component_of,
    json_copy,
    message_of,
    phase_of,
    timed_out,
    will_be_rescued,
)
from ansible_collections.provision.gpu.plugins.plugin_utils.table import table  # noqa: E402
from ansible_collections.provision.gpu.plugins.plugin_utils.writer import Writer  # noqa: E402

DEBUG = ("debug", "ansible.builtin.debug")
LOOK = ("gpu_state", "provision.gpu.gpu_state")
REBOOT = ("reboot", "ansible.builtin.reboot")
# Of the texts of a host's progress.
TEXT_LIMIT = 200
UNMATCHED = "--limit matches no host of the inventory: "
# The play that brings the fleet's cache, before the hosts of the run; and its own playbook.
CACHE_PLAY = "Artifact cache"
CACHE_PLAYBOOK = "cache.yml"


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible has no types
    """The plugin: turns Ansible's calls into events and, at the end, the report."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "provision.gpu.report"
    CALLBACK_NEEDS_ENABLED = False
    CALLBACK_NEEDS_WHITELIST = False

    def __init__(self) -> None:
        super().__init__()
        # The project is known with the playbook.
        self._tree = Path()
        self._record: Record | None = None
        self._begun: dict[tuple[str, str], float] = {}
        self._pid = os.getpid()
        self._done = False
        self._holders: Holders | None = None
        self._given_up: set[str] = set()
        self._first_play: Any = None
        self._serving = False
        self._writer: Writer | None = None

    # Ansible's calls

    def v2_playbook_on_start(self, playbook: Any) -> None:
        queue_pace.slow_down()
        unmatched = hosts.unmatched_limit(playbook)
        if unmatched:
            # `provision` looks for these words in the log.
            self._display.error(f"{UNMATCHED}{', '.join(unmatched)}. No host was touched.")
            raise SystemExit(project.BAD_OPTIONS)
        self._tree = project.of_run(playbook, self._display.error)
        project.settle(playbook, self._tree)
        if project.file_name(playbook) in (*examination.PLAYBOOKS, CACHE_PLAYBOOK):
            return  # no run: the last report stays
        lock = project.lock_file(self._tree, context.CLIARGS.get("extra_vars") or ())
        self._record = Record(
            self._mode(), time.time(), project.read_lock(lock), project.rendered_by(self._tree)
        )
        self._writer = Writer(self._tree, self._record, self._display.warning)
        self._writer.begin()
        self._holders = Holders(self._holder_message)
        self._holders.start()
        # An interrupted run never reaches its statistics, and needs its report most.
        atexit.register(self._at_exit)
        Interrupts().survive()
        self._event("run_start", mode=self._record.mode, components=list(COMPONENTS))

    def v2_playbook_on_play_start(self, play: Any) -> None:
        batch = hosts.hosts_of(play)
        self._serving = play.get_name().strip() == CACHE_PLAY
        if self._serving and not batch:
            return  # a fleet without a cache
        if self._first_play is None and batch and not self._serving:
            self._first_play = play
        if self._record is not None:
            examination.begin(play.get_name().strip())
        self._event("play", play=play.get_name().strip(), hosts=len(batch))

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:  # noqa: ARG002
        self._event("task", **self._about(task))
        if self._writer is not None:
            self._writer.note()

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self._event("task", **self._about(task))

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        name = host.get_name()
        self._begun[name, task._uuid] = time.monotonic()
        if self._holders is not None and task.action in REBOOT:
            self._holders.reboots(name)
        if self._serving:
            return
        about = self._about(task)
        if self._record is not None and "component" in about:
            self._record.host(name).at = about["component"]
        self._event("host_start", host=name, **about)

    def v2_runner_on_ok(self, result: Any) -> None:
        self._result(result, "changed" if result._result.get("changed") else "ok")

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._result(result, "skipped")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._result(result, "ok" if ignore_errors else "failed")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._result(result, "unreachable")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        if self._record is None:
            return
        for name in stats.dark:
            self._record.host(name).unreachable = True
        if stats.failures or stats.dark:
            self._record.not_begun = self._not_reached()
        self._finish(failures=set(stats.failures) | set(stats.dark))

    # The plugin's own methods

    def _about(self, task: Any) -> dict[str, Any]:
        # A role's task begins with the role's full name; the report drops the collection's.
        name = task.get_name().strip().removeprefix("provision.gpu.")
        component = component_of(task, COMPONENTS)
        if component is not None:
            return {"task": name, "component": component, "phase": "apply"}
        phase = phase_of(name) or ("look" if task.action in LOOK else None)
        return {"task": name, "phase": phase} if phase else {"task": name}

    def _result(self, result: Any, status: str) -> None:
        if self._record is None:
            return
        name, task, data = result._host.get_name(), result._task, result._result
        about = self._about(task)
        begun = self._begun.pop((name, task._uuid), None)
        seconds = time.monotonic() - begun if begun is not None else 0.0
        if self._serving and status not in ("failed", "unreachable"):
            return  # the cache's host may have no wish, and then it has no part in the report
        if status == "skipped" and name not in self._record.hosts:
            return  # what is done once for all hosts is skipped in the name of whoever is first
        if timed_out(data):
            self._given_up.add(name)
        host = self._record.host(name)
        host.last_task = about["task"]
        host.groups = host.groups or hosts.groups_of(result._host)
        looked = task.action in LOOK and status in ("ok", "changed")
        if looked and "changes" in data:
            about["phase"] = self._record.looked(name, data)
            self._event(
                "plan",
                host=name,
                phase=about["phase"],
                components=json_copy(data.get("components") or []),
                changes=len(data.get("changes") or []),
                blockers=len(data.get("blockers") or []),
                simulated_gpu=bool(data.get("simulated_gpu")),
            )
        if "component" in about and status != "skipped":
            self._record.worked(name, about["component"], seconds, status == "changed")
        if status == "ok" and task.action in DEBUG and "| Warn " in about["task"]:
            self._record.warned(name, about.get("component"), str(data.get("msg") or ""))
        extra: dict[str, Any] = {}
        if status in ("failed", "unreachable"):
            extra["message"] = message_of(data)
            if status == "failed" and will_be_rescued(task):
                extra["rescued"] = True
            else:
                self._record.failed(name, about["task"], extra["message"], about.get("phase"))
            host.unreachable = host.unreachable or status == "unreachable"
        self._event(
            "host_result",
            host=name,
            status=status,
            changed=status == "changed",
            seconds=round(seconds, 3),
            action=task.action,
            **about,
            **extra,
        )

    def _holder_message(self, host: str, message: dict[str, Any]) -> None:
        """Records a holder's message about its host; called from the holders' thread."""
        if self._record is None:
            return
        host_record = self._record.host(host)
        if isinstance(message.get("finishing"), str):
            host_record.finishing = message["finishing"][:TEXT_LIMIT]
        progress = message.get("progress")
        if isinstance(progress, dict):
            fields: dict[str, Any] = {
                key: progress[key][:TEXT_LIMIT]
                for key in ("phase", "text")
                if isinstance(progress.get(key), str)
            }
            fields |= {
                key: progress[key]
                for key in ("bytes", "total")
                if isinstance(progress.get(key), int)
            }
            self._event("progress", host=host, component=host_record.at, **fields)

    def _event(self, event: str, **fields: Any) -> None:
        if self._writer is not None:
            self._writer.event(event, **fields)

    def _finish(self, *, failures: set[str] | None, interrupted: bool = False) -> None:
        if self._done or self._writer is None:
            return
        self._done = True
        if self._holders is not None:
            self._holders.stop(finished=not interrupted, given_up=self._given_up)
        keep = int(self.get_option("keep"))
        report = self._writer.finish(failures=failures, interrupted=interrupted, keep=keep)
        if not os.environ.get("PROVISION_LIVE"):
            lines = table(report)
            if lines:
                self._display.display("")
                for line in lines:
                    self._display.display(line)
                self._display.display(f"\nReport: {self._writer.folder / 'report.json'}")

    def _at_exit(self) -> None:
        # Workers are forked from this process and must not write its report.
        if os.getpid() == self._pid and not self._done:
            ignore_endings()
            end_workers()
            self._note_untouched()
            self._finish(failures=None, interrupted=True)

    def _note_untouched(self) -> None:
        """Puts hosts that were not reached into an interrupted run's report."""
        if self._record is not None:
            for name in self._not_reached():
                self._record.host(name)

    def _not_reached(self) -> list[str]:
        """Hosts with a wish that the run has not reached, in the inventory's order."""
        if self._record is None or self._first_play is None:
            return []
        try:
            names: list[str] = hosts.not_begun(self._first_play, self._record.hosts)
            return names
        except Exception as error:  # of Ansible's internals, while it exits
            self._display.vv(f"hosts that were not reached are not in the report: {error}")
            return []

    def _mode(self) -> str:
        arguments = context.CLIARGS
        if arguments.get("check"):
            return "check"
        tags = set(arguments.get("tags") or ()) - {"all"}
        return "verify" if tags == {"verify"} else "run"
