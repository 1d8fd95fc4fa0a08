"""A host with a container runtime of the kubelet's: its files, and a daemon to be restarted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.host.context import Context, Result
from gpu_stack.host.refusal import RefusalError

from tests import host_tree


class CriMachine:
    """What hosts with containerd and with CRI-O share; each has `run`, which answers programs."""

    # The daemon's process, the role's option for it and what the role's module works with.
    daemon = option = ""
    runtime: Any = None
    # The file that is written.
    written = ""

    def __init__(self, root: Path, **units: str) -> None:
        self.root = root
        # What systemd says of the unit.
        self.units = {"MainPID": "812", **units}
        # How often it does not start with what is written; whether it starts at all.
        self.stops: float = 0
        self.dead = False
        self.restarted: list[str] = []
        self.put(f"/usr/bin/{self.daemon}", "")
        self.runs(5000)

    def runs(self, start: int) -> None:
        text = f"812 ({self.daemon}) S 1 " + "0 " * 17 + f"{start} 1 2\n"
        self.put("/proc/812/stat", text)

    def put(self, path: str, text: str) -> None:
        host_tree.put(self.root, path, text)

    def text(self, path: str = "") -> str:
        return (self.root / (path or self.written).lstrip("/")).read_text("utf-8")

    def is_written(self) -> bool:
        """Whether the daemon would start with what the role writes."""
        raise NotImplementedError

    def run(self, argv: Sequence[str]) -> Result:
        raise NotImplementedError

    def context(self, wish: str = "auto") -> Context:
        options = {f"nvidia_container_toolkit_{self.option}": wish}
        return Context(root=str(self.root), options=options, runner=self.run)

    def role(self, wish: str = "auto", **more: Any) -> Any:
        """What the role's module works with."""
        return self.runtime(self.context(wish), self.restart, **more)

    def restart(self, unit: str) -> Result:
        """Another process; or none where it is dead, or as often as `stops` says with the entry."""
        self.restarted.append(unit)
        if self.dead or (self.stops and self.is_written()):
            self.stops -= 1
            return Result(1, "", f"Job for {self.daemon}.service failed.\n")
        self.runs(5000 + 1000 * len(self.restarted))
        return Result(0, "", "")

    def is_refused_with_a_way_out(self) -> None:
        """Asserts what is said where its configuration can't be extended."""
        with pytest.raises(RefusalError, match="nothing was changed: repair it"):
            self.role().present(check=True)
        words = f"as it is; set nvidia_container_toolkit_{self.option} to none"
        with pytest.raises(RefusalError, match=words):
            self.role().present()

    def ends_no_container(self, words: str, written: str) -> None:
        """Asserts that what a restart would lose is refused with `words`, before and after.

        `written` is what is said where the configuration is there and the restart still to come.
        """
        with pytest.raises(RefusalError, match=words + r".*to none\. Nothing was changed\.$"):
            self.role().present(check=True)
        # Such a container was started since then: the note stays, and the next run restarts.
        with pytest.raises(RefusalError, match=words + rf".*to none\. {written} is written\.$"):
            self.role().present()
        assert self.restarted == []
        assert self.role().look()["owed"] is True
        self.units["KillMode"] = "process"
        done = self.role().present()
        assert (done["changed"], done["saved"], done["restarted"]) == (True, None, True)
        self.units["KillMode"] = "control-group"
        lost = "restarted to forget the runtime, and containers"
        for check in (True, False):
            with pytest.raises(RefusalError, match=lost):
                self.role().absent(check)
        assert self.is_written()
