"""Makes CRI-O know NVIDIA's runtime, or forget it.

CRI-O reads crio.conf and then every file below crio.conf.d, by the order of their names, whatever
these end in (https://github.com/cri-o/cri-o/blob/main/docs/crio.conf.d.5.md, and UpdateFromPath in
pkg/config/config.go). So one drop-in is this role's, under the name that nvidia-ctk uses, and no
copy and no half of it ever lies there: CRI-O would read that too.

The runtime takes the options of the default one, wherever they are written: without its
monitor_path CRI-O looks for conmon in its PATH, where CRI-O's own packages have none, and does not
start (https://github.com/NVIDIA/nvidia-container-toolkit/issues/681). What CRI-O makes of it all it
is asked itself: `crio config` merges and checks the files, before anything takes its place, in a
copy of the directory.

SIGHUP is not enough: crio.conf(5) calls the table of runtimes reloadable and `crio status config`
shows the new one, while pods of it fail until a restart
(https://github.com/cri-o/cri-o/issues/10202). Containers live through a restart, since each has a
conmon of its own (https://github.com/cri-o/cri-o/discussions/8020). One that still is in the cgroup
of CRI-O's unit is ended with it unless that has KillMode=process (contrib/systemd/crio.service says
why), and is looked for.
"""

from __future__ import annotations

import collections
import os
import re
import shutil
import tempfile

from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import crio, units
from .crio import CONFIG, DROPIN, HEADER, OPTIONS, PLACE, RUNTIME, TABLE
from .kept_files import inside, keep, note_restart, put_back, replace, text
from .runtime import CriRuntime

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import State

_NOTHING = ('""', "''", "false", "[]")


def _lines(dump: str) -> list[str]:
    """[line] of what a dump says, without marks of defaults and the table of ours.

    That one is no default, and ends where the next begins or is explained.
    """
    lines, in_table = [], False
    for line in dump.splitlines():
        bare = re.sub(r"^\s*#\s?", "", line).strip()
        if re.match(r"\[[^\[\]]+\]$", bare):
            in_table = bare == f"[{TABLE}nvidia]"
        elif line.lstrip().startswith("#"):
            in_table = False
        if bare and not in_table:
            lines.append(bare)
    return lines


def _apart(before: str, after: str) -> list[str]:
    """Lines that one of two dumps has more often than the other."""
    first, second = collections.Counter(_lines(before)), collections.Counter(_lines(after))
    return sorted((first - second) + (second - first))


def _block(dump: dict[tuple[str, str], str]) -> str:
    """The drop-in's text."""
    lines = [HEADER.rstrip("\n"), f"[{TABLE}nvidia]"]
    lines += [f'runtime_path = "{RUNTIME}"', 'runtime_type = "oci"']
    name = crio.model(dump)
    for key in OPTIONS if name else ():
        value = dump.get((f"{TABLE}{name}", key), '""')
        if value not in _NOTHING:
            lines.append(f"{key} = {value}")
    return "\n".join(lines) + "\n"


class Crio(CriRuntime):
    """The CRI-O of a host, which gets one drop-in."""

    facts = crio
    option = "nvidia_container_toolkit_crio"
    name = daemon = "crio"
    unit, config = crio.UNIT, DROPIN
    would = (
        f"Would make the runtime nvidia known to CRI-O in {DROPIN}, and restart it where it runs"
    )
    would_forget = f"Would remove {DROPIN}, and restart CRI-O where it runs"
    journal = "journalctl -u crio says why."
    title = "CRI-O"
    shown = "crio config shows what CRI-O makes of it"
    is_written = "It is written."
    restarted_to = "know the runtime"
    cure = (
        "Drain the node when its users agree, or give the unit KillMode=process (systemctl edit "
        "crio)"
    )

    # the drop-in

    def _above(self) -> str:
        """Where CRI-O reads no copy and no half of a file."""
        return inside(self.context, os.path.dirname(CONFIG))

    def _dumped(self, place: str) -> str:
        """What CRI-O makes of crio.conf and the files of a directory, as it prints it.

        RefusalError with its words where it can't read them.
        """
        path = inside(self.context, CONFIG)
        # One that is named has to be there.
        named = ["--config", path] if os.path.exists(path) else []
        answer = self.context.run(["crio", *named, "--config-dir", place, "config"])
        if answer.rc:
            message = units.last_line(answer).replace(place, PLACE) or answer.rc
            raise RefusalError(f"crio can't read {CONFIG} with {PLACE}: {message}")
        return str(answer.out)

    def _tried(self, content: str | None) -> str:
        """What CRI-O makes of it with this text as our drop-in; without one for None."""
        here, private = inside(self.context, PLACE), tempfile.mkdtemp(prefix="provision-crio-")
        # Below it, for a copied directory is open to all as the original is.
        copy = os.path.join(private, os.path.basename(PLACE))
        try:
            if os.path.isdir(here):
                shutil.copytree(here, copy)
            else:
                os.mkdir(copy)
            new = os.path.join(copy, os.path.basename(DROPIN))
            if content is not None:
                with open(new, "w", encoding="utf-8") as file:
                    file.write(content)
            elif crio.ours(text(self.context, DROPIN)):
                os.unlink(new)
            return self._dumped(copy)
        finally:
            shutil.rmtree(private, ignore_errors=True)

    def _before(self) -> str | None:
        """CRI-O's dump without our drop-in; None where it can't be read for want of it alone.

        That is so where somebody's default_runtime is nvidia.
        """
        try:
            return self._tried(None)
        except RefusalError:
            content = text(self.context, DROPIN)
            if content is not None and not crio.ours(content):
                raise
            self._tried(_block({}))
            return None

    def _wished(self, content: str | None) -> str | None:
        """The drop-in's text as it should be; None where somebody else's does it already.

        RefusalError where that can't be.
        """
        dump = self._before()
        program = crio.program(crio.parsed(dump)) if dump is not None else None
        if program == RUNTIME:
            return None
        if program is not None:
            raise RefusalError(
                f"CRI-O's configuration ({CONFIG}, {PLACE}) has a runtime nvidia of somebody "
                f"else's, by {program}; expected {RUNTIME}"
            )
        if content is not None and not crio.ours(content):
            raise RefusalError(
                f"{DROPIN} is somebody else's and names no runtime nvidia; expected such a table, "
                "or another name of the file: CRI-O reads it under any"
            )
        new = _block(crio.parsed(self._tried(_block({}))))
        after = self._tried(new)
        changed = [] if dump is None else _apart(dump, after)
        if changed:
            raise RefusalError(
                "CRI-O would read something else beside the runtime nvidia: " + ", ".join(changed)
            )
        return new

    def planned(self) -> tuple[Any, Any]:
        """(the drop-in's text or None, as it should be): equal where nothing is to be written."""
        content = text(self.context, DROPIN)
        new = self._wished(content)
        if new is None and not crio.ours(content):
            return content, content
        return content, new

    def difference(self, old: Any, new: Any) -> dict[str, Any]:
        header = {"before_header": DROPIN, "after_header": DROPIN}
        return dict(header, before=old or "", after=new or "")

    def write(self) -> dict[str, Any]:
        """Make the runtime known to CRI-O; what was there is kept beside crio.conf."""
        old, new = self.planned()
        if new == old:
            return {"changed": False, "saved": None}
        path = inside(self.context, DROPIN)
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        saved, status = keep(path, self._above())
        note_restart(self.context, crio.OWED, crio.daemon(self.context))
        if new is not None:
            replace(path, new, status, self._above())
        elif saved is not None:
            os.unlink(path)
        return {"changed": True, "saved": saved, "diff": self.difference(old, new)}

    def restore(self, saved: str | None) -> None:
        """Put back what `write` found: the file that it kept under `saved`, or none."""
        put_back(inside(self.context, DROPIN), saved, self._above())

    def take(self) -> dict[str, Any]:
        """Take our drop-in away; one that somebody changed is kept beside crio.conf."""
        content, path = text(self.context, DROPIN), inside(self.context, DROPIN)
        if not crio.ours(content):
            return {"changed": False, "saved": None}
        try:
            saved = None if content == self._wished(content) else keep(path, self._above())[0]
        except RefusalError:
            saved = keep(path, self._above())[0]
        note_restart(self.context, crio.OWED, crio.daemon(self.context))
        os.unlink(path)
        return {"changed": True, "saved": saved, "diff": self.difference(content, None)}

    def started(self) -> None:
        """RefusalError where the crio that runs can be asked and does not know the runtime.

        CRI-O starts without a runtime that it finds no good, and says so in its journal alone.
        """
        for argv in (["crio", "status", "config"], ["crio-status", "config"]):
            answer = self.context.run(argv)
            if answer.rc == 0:
                dump = crio.parsed(answer.out)
                runtimes = {at[len(TABLE) :] for at, _key in dump if at.startswith(TABLE)}
                if "nvidia" not in runtimes:
                    names = ", ".join(sorted(runtimes))
                    raise RefusalError(f"crio runs and knows the runtimes {names} alone")
                return

    # without it

    def removal_state(self) -> dict[str, Any]:
        """What stands in the way of taking the toolkit away, and whether our drop-in is there."""
        state = {"entry": False, "users": [], "default": False, "other": None, "loses": None}
        if not crio.installed(self.context):
            return state
        state.update(entry=crio.ours(text(self.context, DROPIN)), users=crio.users(self.context))
        running = crio.daemon(self.context)
        if running is not None and (
            state["entry"] or units.restart_due(self.context, crio.OWED, running)
        ):
            state["loses"] = crio.losing(self.context)
        try:
            dump = self._before()
        except RefusalError:
            return state  # it says nothing that our drop-in could be part of
        rest = {} if dump is None else crio.parsed(dump)
        state["default"] = dump is None or crio.default(rest) == "nvidia"
        state["other"] = RUNTIME if crio.program(rest) == RUNTIME else None
        return state

    def needed(self, state: State) -> str | None:
        if state["users"]:
            return (
                "Containers of CRI-O's were started by the toolkit's program, and could not be "
                f"stopped without it: {', '.join(state['users'])}. Stop them when their users "
                "agree, then run again. Nothing was changed."
            )
        if self.left_alone():
            return None
        if state["default"]:
            return (
                "CRI-O has nvidia as its default_runtime, and would not start without it: take "
                "that out of /etc/crio first. Nothing was changed."
            )
        if state["other"] is not None:
            return (
                "A file of somebody's below /etc/crio names the toolkit's program as the runtime "
                "nvidia: take that out first. Nothing was changed."
            )
        if state["loses"] is not None:
            return (
                "CRI-O has to be restarted to forget the runtime, and containers would be lost: "
                f"{state['loses']}. Nothing was changed."
            )
        return None
