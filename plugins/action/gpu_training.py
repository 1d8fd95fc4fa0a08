"""Passes a training's steps their arguments, and follows a job on the controller."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components import tensorflow
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.training import outcome
from ansible_collections.provision.gpu.plugins.plugin_utils import (
    host_options,
    training,
)
from ansible_collections.provision.gpu.plugins.plugin_utils.results import json_copy

# A job's, which signs what its supervisors say to each other.
SECRET = re.compile(r"[0-9a-f]{64}")
# Seconds: of one question for news, and between questions where a host does not answer.
WAIT, AGAIN = 5.0, 5.0
# Seconds in which a task has written a secret that it has begun.
WRITTEN = 5.0
# Questions without an answer after which a host counts as out of reach.
PATIENCE = 12
# Bytes of the output before now that are shown to who comes back.
BEFORE = 4000
# Bytes of what is kept of a host's output, which goes on as HOST.log.1 while another begins.
LARGEST = 1 << 30


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible has no types
    """Runs the module of the same name, and `follow` by asking it again and again."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        result: dict[str, Any] = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        step = self._task.args.get("step")
        plan = json_copy((task_vars.get("gpu_training_asked") or {}).get("asked") or {})
        if not plan:
            return self._module(dict(self._task.args), task_vars)
        host = str(task_vars["inventory_hostname"])
        common = {
            "job": plan["job"],
            "host": host,
            "user": str(self._value(task_vars, "gpu_train_user") or ""),
            "folder": str(self._value(task_vars, "gpu_train_folder") or ""),
        }
        if step == "follow":
            return {**result, "changed": False, "training": self._follow(task_vars, plan, common)}
        more = {"step": step, **common}
        if plan["action"] == "start":
            more.update(self._of_start(task_vars, plan, step, plan["hosts"].index(host)))
            if step == "reach" and not more["places"]:
                # A job of one host: nobody is to be reached.
                return {**result, "changed": False, "training": []}
        before = time.time()
        answer = self._module(more, task_vars)
        if step == "look" and "training" in answer:
            # The host has read its clock between these.
            answer["training"]["between"] = [before, time.time()]
        return answer

    def _value(self, task_vars: dict[str, Any], name: str) -> Any:
        return (
            host_options.plain(self._templar.template(task_vars[name]))
            if name in task_vars
            else None
        )

    def _module(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> Any:
        return self._execute_module(
            module_name="provision.gpu.gpu_training", module_args=arguments, task_vars=task_vars
        )

    def _of_start(
        self, task_vars: dict[str, Any], plan: dict[str, Any], step: str, worker: int
    ) -> dict[str, Any]:
        """The arguments of the steps until a worker has started."""
        try:
            # Here and not in the plan, which Ansible shows with -v. At each step, so that a host's
            # own that can't be is refused by the look.
            variables = training.environment(self._value(task_vars, "gpu_train_environment") or {})
        except training.AskedError as error:
            raise AnsibleActionFail(str(error)) from None
        options = host_options.of_host(self._templar, task_vars, ("tensorflow_root",))
        more: dict[str, Any] = {
            "worker": worker,
            "token": plan["token"],
            "ports": training.ports(plan, worker),
            "tensorflow_root": tensorflow.root_of(options),
        }
        if step == "reach":
            more["places"] = training.places(plan, worker, training.looks(task_vars, plan["hosts"]))
        if step == "start":
            # From now on hosts may have begun the job: Ctrl-C has to stop it.
            training.say({"event": "starting"})
            try:
                files = training.files(plan)
            except training.AskedError as error:
                raise AnsibleActionFail(str(error)) from None
            python = str(task_vars["gpu_training_look"]["training"]["python"])
            more.update(
                python=python,
                given=json.dumps(training.given(plan, worker, python, variables)),
                files=json.dumps(files),
                secret=_secret(_folder(task_vars, plan["job"])),
            )
        return more

    def _follow(
        self, task_vars: dict[str, Any], plan: dict[str, Any], common: dict[str, Any]
    ) -> dict[str, Any]:
        """Writes what the worker prints to the project's report/, until its job ends.

        Ctrl-C ends this, and not the job.
        """
        folder = _folder(task_vars, plan["job"])
        watch = Watch(self._display, folder, common["host"])
        # All output for whoever starts the job; only its end for whoever comes back to it.
        offset = 0 if plan["action"] == "start" else -BEFORE
        since, silent = None, 0
        while True:
            news = {**common, "step": "read", "offset": offset, "since": since, "wait": WAIT}
            try:
                answer = self._module(news, task_vars)
            except AnsibleConnectionFailure as error:
                answer = {"failed": True, "msg": str(error)}
            if answer.get("failed") or "training" not in answer:
                silent += 1
                if silent > PATIENCE:
                    words = str(answer.get("msg") or answer.get("module_stderr") or "no answer")
                    raise AnsibleActionFail(
                        f"it can't be asked any more; the job goes on there: {words[:500]}"
                    )
                time.sleep(AGAIN)
                continue
            news, silent = json_copy(answer["training"]), 0
            if not news["found"]:
                return {"found": False}
            watch.show(news)
            offset, since = news["offset"], news["status"]["written"]
            if not news["active"] and not news["log"]:
                return {"status": news["status"], "active": False}


class Watch:
    """What is new of a host's worker, for the log and for who watches."""

    def __init__(self, display: Any, folder: Path, host: str) -> None:
        self._display, self._host = display, host
        self._log = folder / f"{host}.log"
        self._last: dict[str, Any] = {}
        # The try for which it was said that it may hang.
        self._hinted: int | None = None

    def show(self, news: dict[str, Any]) -> None:
        """Passes on the new lines, and what else has changed."""
        worker = news["status"]["worker"]
        lines = [_printable(line) for line in news["log"].splitlines()]
        if self._log.exists() and self._log.stat().st_size > LARGEST:
            self._log.replace(self._log.with_name(self._log.name + ".1"))
        with self._log.open("a", encoding="utf-8") as stream:
            stream.writelines(line + "\n" for line in lines)
        for line in lines:
            self._say({"event": "line", "text": line}, worker)
        state = {
            key: news["status"][key] for key in ("verdict", "reason", "generation", "progress")
        }
        state["restarts"] = (news["status"].get("board") or {}).get("history") or []
        if state != self._last:
            self._say({"event": "state", **state}, worker)
            self._last = state
        words, generation = outcome.hint(news["status"]), state["generation"]
        if words and worker == 0 and generation != self._hinted:
            self._say({"event": "note", "text": words}, worker)
            self._hinted = generation

    def _say(self, event: dict[str, Any], worker: int) -> None:
        training.say({**event, "worker": worker, "host": self._host})
        if not os.environ.get("PROVISION_LIVE") and event["event"] in ("line", "note"):
            self._display.display(f"{worker} {self._host}: {event['text']}")


def _printable(line: str) -> str:
    """A user's program wrote it, and it is shown on an administrator's terminal."""
    return "".join(c if c.isprintable() or c == "\t" else "?" for c in line)


def _folder(task_vars: dict[str, Any], job: str) -> Path:
    """Where the controller keeps what it has seen of a job."""
    folder: Path = training.home(task_vars) / "training" / job
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _written(path: Path) -> str:
    """The text of a secret, which another worker's task may be writing just now."""
    end = time.monotonic() + WRITTEN
    while True:
        text = path.read_text("utf-8", "replace").strip()
        if SECRET.fullmatch(text) or time.monotonic() >= end:
            return text
        time.sleep(0.05)


def _secret(folder: Path) -> str:
    """The job's secret: made by the first worker's task that asks, and read by the others.

    No variable of Ansible's holds it: those are shown with -v.
    """
    path = folder / "secret"
    try:
        # Not a link to a file that is written before: not every file system has hard links.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        secret = _written(path)
    else:
        secret = os.urandom(32).hex()
        try:
            with os.fdopen(descriptor, "w") as stream:
                stream.write(secret)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError:
            path.unlink()
            raise
    if SECRET.fullmatch(secret) is None:
        # Anybody could sign with an empty one.
        raise AnsibleActionFail(
            f"{path} is no secret of a job's, but {len(secret)} characters, as after a power cut: "
            "remove it, and start the job again"
        )
    return secret
