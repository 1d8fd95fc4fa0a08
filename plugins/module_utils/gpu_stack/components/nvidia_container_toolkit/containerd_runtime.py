"""Makes containerd know NVIDIA's runtime, or forget it.

Kubernetes and whoever speaks CRI find a runtime by its name in /etc/containerd/config.toml. Of that
file one table is this role's, appended between two marks, so that every other line and comment
stays as it is: TOML's tables may stand in any order. NVIDIA's own nvidia-ctk writes a drop-in
from 1.18 on, and containerd 1.x takes the whole CRI section of an imported file for that of
config.toml (https://github.com/containerd/containerd/issues/5837), so that what the drop-in does
not repeat is lost; hence no drop-in here. containerd itself is asked, by `config dump`, whether it
reads the new text and whether anything else would change by it, before the file is replaced.

containerd reads it when it starts and at no other time. Containers live through its restart where
its unit has KillMode=process: each has a shim of its own
(https://github.com/containerd/containerd/blob/main/docs/ops.md). A docker whose unit is bound to
containerd's would be restarted with it, and is looked for.
"""

from __future__ import annotations

import os
import re
import tempfile

from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import containerd, containerd_default, units
from .containerd import BEGIN, CONFIG, END, PLUGINS, RUNTIME
from .kept_files import inside, keep, note_restart, put_back, replace, text
from .runtime import CriRuntime

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ...shapes import State

_NOTHING = ('""', "''", "false", "0", "[]")


def _torn_words(content: str | None) -> str | None:
    """Why our block can't be told from what is somebody else's; None where it can."""
    line = containerd.torn(content)
    if line is None:
        return None
    return (
        f"{CONFIG} has in line {line} the begin of this role's lines ({BEGIN.strip()}) and no end "
        f"of them ({END.strip()}), so that they can't be told from somebody else's; expected both. "
        "Put the end back below the table, or take the table and its begin out"
    )


def _split(content: str | None) -> tuple[str, str, str]:
    """(what is before our block, the block, what is after it). RefusalError where it is torn."""
    fault = _torn_words(content)
    if fault is not None:
        raise RefusalError(fault)
    content = content or ""
    if BEGIN not in content:
        return content, "", ""
    if not content.endswith("\n"):
        content += "\n"
    before, begin, rest = content.partition(BEGIN)
    inner, end, after = rest.partition(END)
    return before, begin + inner + end, after


def _without(content: str | None) -> str:
    """The text less our block, the empty line before it, and our default in another's table."""
    before, block, after = _split(content)
    rest = (before[:-1] if block and before.endswith("\n\n") else before) + after
    return containerd_default.without(rest)


def _ours(content: str) -> str:
    """What of the text is ours."""
    marked = [line for line in content.splitlines(True) if containerd_default.MARK in line]
    return "".join([_split(content)[1], *marked])


def _tables(dump: dict[tuple[str, str], str]) -> dict[str, dict[str, dict[str, str]]]:
    """{runtime: {the rest of the table's name: {key: value's text}}} of all runtimes."""
    tables: dict[str, dict[str, dict[str, str]]] = {}
    for at, key in dump:
        match = re.match(r'plugins\."[^"]*cri[^"]*"\.containerd\.runtimes\.([^.]+)(.*)$', at)
        if match is not None:
            tables.setdefault(match.group(1), {}).setdefault(match.group(2), {})[key] = dump[
                at, key
            ]
    return tables


def _block(number: int, whole: bool, lines: list[str]) -> str:
    """Our lines between their marks; `whole`: the file has no other."""
    version = [f"version = {number}"] if whole else []
    return "\n".join([BEGIN.rstrip("\n"), *version, *lines]) + "\n" + END


def _default_table(number: int) -> list[str]:
    """The table that names the default runtime, for a file that has none."""
    head = f'[plugins."{PLUGINS[number]}".containerd]'
    return [head, f'  {containerd_default.KEY} = "nvidia"']


def _tables_of_runtimes(
    number: int, dump: dict[tuple[str, str], str], also: Iterable[str] = ()
) -> list[str]:
    """The table, with what runc's has: cgroups of systemd's are for both or for none.

    `also`: runtimes that containerd has by itself, as it has them.
    """
    name = containerd.table(number, "nvidia")
    lines = [f"[{name}]", '  runtime_type = "io.containerd.runc.v2"']
    lines += [f"[{name}.options]", f'  BinaryName = "{RUNTIME}"']
    options = {}
    for version in PLUGINS:
        head = containerd.table(version, "runc") + ".options"
        options.update({key: dump[at, key] for at, key in dump if at == head})
    for key in sorted(options):
        if key != "BinaryName" and options[key] not in _NOTHING:
            lines.append(f"  {key} = {options[key]}")
    tables = _tables(dump)
    for runtime in sorted(also):
        for rest in sorted(tables[runtime]):
            lines.append(f"[{containerd.table(number, runtime)}{rest}]")
            lines += [f"  {key} = {value}" for key, value in sorted(tables[runtime][rest].items())]
    return lines


def _apart(before: dict[tuple[str, str], str], after: dict[tuple[str, str], str]) -> list[str]:
    """Keys outside our table that differ between two dumps; the list of files read is no key."""
    prefixes = tuple(containerd.table(number, "nvidia") for number in PLUGINS)
    keys = {key for key in set(before) | set(after) if before.get(key) != after.get(key)}
    return sorted(
        f"{at}.{key}".lstrip(".")
        for at, key in keys
        if not at.startswith(prefixes) and (at, key) != ("", "imports")
    )


class Containerd(CriRuntime):
    """The containerd of a host, whose config.toml gets one table."""

    facts = containerd
    option = "nvidia_container_toolkit_containerd"
    name = daemon = "containerd"
    unit, config = containerd.UNIT, CONFIG
    would = (
        f"Would make the runtime nvidia known to containerd in {CONFIG}, and restart it where it "
        "runs"
    )
    would_forget = (
        f"Would take the runtime nvidia out of {CONFIG}, and restart containerd where it runs"
    )
    journal = "journalctl -u containerd says why."
    title = "containerd"
    shown = "containerd config dump shows what containerd makes of it"
    is_written = "The table is written."
    restarted_to = "read the runtime"
    cure = "Stop them when their users agree"

    # the file

    def _dumped(self, path: str) -> dict[tuple[str, str], str]:
        """What containerd makes of a file. RefusalError with its words where it can't be read."""
        answer = self.context.run(["containerd", "--config", path, "config", "dump"])
        if answer.rc:
            message = units.last_line(answer) or answer.rc
            raise RefusalError(f"containerd can't read {CONFIG}: {message}")
        return containerd.parsed(answer.out)

    def _tried(self, content: str) -> dict[tuple[str, str], str]:
        """What containerd makes of a text that would lie in config.toml's place."""
        place = os.path.dirname(os.path.realpath(inside(self.context, CONFIG)))
        if not content.strip():
            content = "version = 2\n"
        directory = place if os.path.isdir(place) else None
        handle, new = tempfile.mkstemp(dir=directory, prefix=".provision-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(content)
            return self._dumped(new)
        finally:
            os.unlink(new)

    def _with_block(self, content: str | None) -> str:
        """The text with our block as it should be. RefusalError where that can't be."""
        rest = _without(content)
        if containerd.disabled(rest):
            raise RefusalError(f"disabled_plugins in {CONFIG} switches CRI off")
        number = containerd.version(rest)
        if number not in PLUGINS:
            raise RefusalError(
                f"{CONFIG} is of version {number}; expected 2 or 3 (containerd config migrate "
                "shows it so)"
            )
        dump = self._tried(rest)
        program = containerd.program(dump)
        named = program == RUNTIME  # by somebody else's entry, and a good one
        if not named and (
            program is not None or (containerd.table(number, "nvidia"), "runtime_type") in dump
        ):
            raise RefusalError(
                f"{CONFIG} has a runtime nvidia of somebody else's, by {program or 'runc'}; "
                f"expected {RUNTIME}"
            )
        whole, lines = not rest.strip(), []
        if containerd.is_default_wished(self.context.options) and not containerd.default(dump):
            plugin = PLUGINS[number]
            lines = [] if containerd_default.has_table(rest, plugin) else _default_table(number)
            rest = containerd_default.within(rest, plugin)
        runtimes = [] if named else _tables_of_runtimes(number, dump)
        if not lines and not runtimes:
            return rest
        gap = "" if whole else ("\n" if rest.endswith("\n") else "\n\n")
        new = rest + gap + _block(number, whole, lines + runtimes)
        # One that is named in the file takes the place of all that containerd 1.6 has by itself.
        lost = set(_tables(dump)) - set(_tables(self._tried(new)))
        if not lost:
            return new
        return rest + gap + _block(number, whole, lines + _tables_of_runtimes(number, dump, lost))

    def planned(self) -> tuple[Any, Any]:
        """(the text that is there, the text as it should be)."""
        content = text(self.context, CONFIG)
        return content or "", self._with_block(content)

    def difference(self, old: Any, new: Any) -> dict[str, Any]:
        """Of our lines alone: the rest may hold a registry's password."""
        header = {"before_header": CONFIG, "after_header": CONFIG}
        return dict(header, before=_ours(old), after=_ours(new))

    def _put(self, old: Any, new: Any) -> dict[str, Any]:
        """The new text, once containerd reads it and nothing else changes by it."""
        after = self._tried(new)
        changed = _apart(self._tried(old), after)
        if containerd.sets_default(old) or containerd.sets_default(new):
            changed = [key for key in changed if not key.endswith("." + containerd_default.KEY)]
        if containerd.sets_default(new) and not containerd.default(after):
            raise RefusalError(
                f"containerd would have {containerd.default_name(after)} as its default runtime: "
                f"another file that {CONFIG} imports names it"
            )
        if changed:
            raise RefusalError(
                f"{CONFIG} would change beside the runtime nvidia: {', '.join(changed)}"
            )
        path = os.path.realpath(inside(self.context, CONFIG))
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        saved, status = keep(path)
        note_restart(self.context, containerd.OWED, containerd.daemon(self.context))
        if new.strip():
            replace(path, new, status)
        else:
            os.unlink(path)
        return {"changed": True, "saved": saved, "diff": self.difference(old, new)}

    def write(self) -> dict[str, Any]:
        """Make the runtime known to containerd; what was there is kept beside it."""
        old, new = self.planned()
        return {"changed": False, "saved": None} if new == old else self._put(old, new)

    def restore(self, saved: str | None) -> None:
        """Put back what `write` found: the file that it kept under `saved`, or none."""
        put_back(os.path.realpath(inside(self.context, CONFIG)), saved)

    def take(self) -> dict[str, Any]:
        """Take our block out; a file that held nothing else goes."""
        content = text(self.context, CONFIG)
        rest = _without(content)
        if rest == (content or ""):
            return {"changed": False, "saved": None}
        return self._put(content, rest)

    # without it

    def removal_state(self) -> dict[str, Any]:
        """What stands in the way of taking the toolkit away, and whether our entry is there."""
        state = {"entry": False, "users": [], "default": False, "loses": None}
        content = text(self.context, CONFIG)
        state["fault"] = _torn_words(content)
        if state["fault"] or not containerd.installed(self.context):
            return state
        rest = _without(content)
        state.update(entry=rest != (content or ""), users=containerd.users(self.context))
        if state["entry"]:
            state["default"] = containerd.default(self._tried(rest))
        running = containerd.daemon(self.context)
        owed = units.restart_due(self.context, containerd.OWED, running)
        if running is not None and (state["entry"] or (owed and not self.left_alone())):
            state["loses"] = containerd.losing(self.context)
        return state

    def needed(self, state: State) -> str | None:
        if state["fault"] is not None and not self.left_alone():
            return (
                f"{state['fault']}; or set nvidia_container_toolkit_containerd to none. "
                "Nothing was changed."
            )
        if state["users"]:
            return (
                "Containers of containerd's were started by the toolkit's program, and could not "
                f"be stopped without it: {', '.join(state['users'])}. Stop them when their users "
                "agree, then run again. Nothing was changed."
            )
        if state["default"]:
            return (
                f"{CONFIG} names nvidia as its default_runtime_name: take that out first. "
                "Nothing was changed."
            )
        if state["loses"] is not None:
            return (
                "containerd has to be restarted to forget the runtime, and containers would be "
                f"lost: {state['loses']}. Nothing was changed."
            )
        return None
