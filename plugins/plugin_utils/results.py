"""Reduces a task's result to what the report may hold: it is passed around, without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from typing import Any

PHASES = ("look", "end", "preflight", "apply", "proof", "receipt", "verify", "accept")
# Long enough for pip's or apt's last lines, short enough for a terminal.
MESSAGE_LIMIT = 2000
STDERR_LINES = 8

# Ansible's own words name neither the host's part in it nor what to do.
TIMED_OUT = (
    "not done after {seconds} s, so the run went on without this host. ssh answers there, and a "
    "program hangs. See there what waits for a disk or a device (ps -eo pid,stat,etime,args | grep "
    "' D'), file servers (df) and the kernel's words (dmesg | tail); then run again: what is left "
    "of it there is ended, or waited for where it is dpkg, and repaired. A host that is only slow "
    "gets longer by gpu_look_timeout or gpu_step_timeout in its host_vars"
)
# ansible-core 2.17 says it in its message alone.
OLD_TIMED_OUT = re.compile(r"action failed to execute in the expected time frame \((\d+)\)")
# Newer versions of Ansible say where a filter of the collection was asked, before what it says.
OF_FILTER = re.compile(r"\A.*The filter plugin 'provision\.gpu\.\w+' failed: ", re.S)
CREDENTIALS_IN_URL = re.compile(r"(?<=://)[^/\s@]+@")


def without_credentials(text: str) -> str:
    """The text without the users and passwords in its URLs."""
    return CREDENTIALS_IN_URL.sub("***@", text)


def message_of(result: dict[str, Any]) -> str:
    """A failed result's message, without its arguments, hidden parts or passwords in URLs.

    For a loop its items' messages: its own is only "One or more items failed".
    """
    if "censored" in result or result.get("_ansible_no_log"):
        return "hidden by no_log"
    seconds = _time_limit(result)
    if seconds is not None:
        return TIMED_OUT.format(seconds=seconds)
    parts = []
    items = [item for item in result.get("results") or () if isinstance(item, dict)]
    failed_items = [item for item in items if item.get("failed")]
    if failed_items:
        parts += [message_of(item) for item in failed_items]
    elif result.get("msg"):
        parts.append(OF_FILTER.sub("", str(result["msg"])))
    stderr = result.get("stderr") or result.get("module_stderr")
    if isinstance(stderr, str) and stderr.strip() and not failed_items:
        parts += stderr.strip().splitlines()[-STDERR_LINES:]
    text = "\n".join(dict.fromkeys(part for part in parts if part)) or "no message"
    text = without_credentials(text)
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"


def timed_out(result: dict[str, Any]) -> bool:
    """Whether the task, or an item of its loop, was not done in its time: it may still run."""
    items = [item for item in result.get("results") or () if isinstance(item, dict)]
    return any(_time_limit(entry) is not None for entry in (result, *items))


def _time_limit(result: dict[str, Any]) -> object:
    """The seconds within which the task was not done; None where it was."""
    timedout = result.get("timedout")
    if isinstance(timedout, dict):
        return timedout.get("period", "?")
    words = OLD_TIMED_OUT.search(str(result.get("msg", ""))) if result.get("failed") else None
    return words[1] if words else None


def phase_of(name: str) -> str | None:
    """The phase in a task's name: "preflight" of "preflight | Refuse ..."; None without one."""
    head, separator, _rest = name.partition("|")
    # Ansible puts a role's name in front: "role : name".
    head = head.rpartition(":")[2].strip().lower()
    return head if separator and head in PHASES else None


def component_of(task: Any, components: Container[str]) -> str | None:
    """The component of the task's role, or of the role that included it; None without one.

    Roles that several components share are of no component.
    """
    while task is not None:
        role = getattr(task, "_role", None)
        name: str = role.get_name().rpartition(".")[2] if role else ""
        if name in components:
            return name
        task = getattr(task, "_parent", None)
    return None


def json_copy(value: Any) -> Any:
    """A copy of JSON types only: results may hold Ansible's tagged or lazy values."""
    return json.loads(json.dumps(value, default=str))


def unpacked(value: Any) -> Any:
    """A copy of JSON types only, of a value that may also come as its JSON in one text."""
    return json.loads(value) if isinstance(value, str) else json_copy(value)


def will_be_rescued(task: Any) -> bool:
    """Whether a block around this task rescues its failure; other tasks report the outcome."""
    child, parent = task, getattr(task, "_parent", None)
    while parent is not None:
        if getattr(parent, "rescue", None) and child._uuid in {
            member._uuid for member in parent.block
        }:
            return True
        child, parent = parent, getattr(parent, "_parent", None)
    return False
