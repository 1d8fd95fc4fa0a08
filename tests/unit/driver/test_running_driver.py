"""When a reboot is a cure, and that the same one is not done twice; on recorded trees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_stack import plan
from gpu_stack.components import nvidia_driver
from gpu_stack.components.nvidia_driver import kernel_load, kernel_rules, running_driver
from gpu_stack.host import boots
from gpu_stack.host.context import SILENT, Context, Result
from gpu_stack.host.refusal import RefusalError

from .trees import DRIVER, KERNEL, age, tree

VERSION = "470.256.02"
NOUVEAU = {"/sys/module/nouveau/initstate": "live\n"}
GPU = {
    "/sys/bus/pci/devices/0000:00:05.0/vendor": "0x10de\n",
    "/sys/bus/pci/devices/0000:00:05.0/class": "0x030200\n",
}
INITRAMFS = f"/boot/initrd.img-{KERNEL}"
IGNORED = """\
[    0.000000] Linux version 5.10.0-46-amd64
[   12.100000] nvidia: module license 'NVIDIA' taints kernel.
[   12.200000] NVRM: The NVIDIA GPU 0000:00:05.0 (PCI ID: 10de:1eb8)
[   12.200001] NVRM: installed in this system is not supported by the
[   12.200002] NVRM: NVIDIA 470.256.02 driver release.
[   12.200003] nvidia: probe of 0000:00:05.0 failed with error -1
[   12.200004] NVRM: The NVIDIA probe routine failed for 1 device(s).
[   12.200005] NVRM: None of the NVIDIA devices were initialized.
"""


class Kernel:
    """A host whose modprobe answers as a test has it; `log` is what dmesg prints after it."""

    def __init__(self, root: Path, answer: Result, before: str = "", log: str = "") -> None:
        self.root, self.answer, self.before, self.log = root, answer, before, log
        self.asked: list[str] = []
        self.context = Context(root=str(root), runner=self.run)

    def run(self, argv: list[str]) -> Result:
        self.asked.append(" ".join(argv))
        if argv[0] == "modprobe":
            self.before += self.log
            if self.answer.rc == 0:
                tree(self.root, {"/sys/module/nvidia/version": self.answer.out})
            return Result(self.answer.rc, "", self.answer.err)
        if argv[0] == "dmesg":
            return Result(0, self.before, "")
        return Result(127, "", "not found")

    def loaded(self, check_mode: bool = False, state: str = "loaded") -> dict[str, Any]:
        return kernel_load.bring(self.context, state, VERSION, check_mode)


def boot(root: Path, name: str) -> None:
    tree(root, {boots.BOOT: name + "\n"})


def test_a_module_that_loads_is_loaded_and_no_reboot_is_due(tmp_path: Path) -> None:
    tree(tmp_path, GPU)
    kernel = Kernel(tmp_path, Result(0, VERSION, ""))
    assert kernel.loaded(check_mode=True)["changed"] is True
    assert "modprobe nvidia" not in kernel.asked
    assert kernel.loaded() == {"changed": True, "reason": ""}
    assert kernel.loaded() == {"changed": False, "reason": ""}
    assert kernel.asked.count("modprobe nvidia") == 1


def test_a_machine_without_a_card_loads_nothing(tmp_path: Path) -> None:
    kernel = Kernel(tree(tmp_path, {"/etc/hostname": "x"}), Result(1, "", "no"))
    assert kernel.loaded() == {"changed": False, "reason": ""}
    assert kernel.asked == []


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (NOUVEAU, "nouveau is loaded"),
        ({"/sys/module/nvidia/version": "460.91.03\n"},
         f"module 460.91.03 is loaded, {VERSION} is installed"),
    ],
)  # fmt: skip
def test_only_nouveau_and_another_version_take_a_reboot(
    tmp_path: Path, files: dict[str, str], reason: str
) -> None:
    kernel = Kernel(tree(tmp_path, {**GPU, **files}), Result(0, VERSION, ""))
    assert kernel.loaded() == {"changed": False, "reason": reason}
    assert kernel.asked == []


@pytest.mark.parametrize(
    ("error", "log", "words", "cure"),
    [
        ("could not insert 'nvidia_current': No such device", IGNORED,
         "NVRM: None of the NVIDIA devices were initialized.", "another driver_branch"),
        ("could not insert 'nvidia': Operation not permitted",
         "[9.1] Lockdown: modprobe: unsigned module loading is restricted; see man\n",
         "Lockdown: modprobe: unsigned module loading is restricted", "mokutil --import"),
        ("could not insert 'nvidia': Key was rejected by service",
         "[9.1] Loading of module with unavailable key is rejected\n",
         "Loading of module with unavailable key is rejected", "mokutil --import"),
        ("could not insert 'nvidia': Exec format error",
         "[9.1] nvidia: version magic '5.10.0-1' should be '5.10.0-2'\n",
         "version magic '5.10.0-1' should be", "dkms install --force"),
        ("could not insert 'nvidia': Unknown symbol in module", "[9.1] nvidia: Unknown symbol x\n",
         "Unknown symbol x", "dkms install --force"),
        ("FATAL: Module nvidia not found in directory /lib/modules/5", "", "of an hour ago",
         "run again, which builds it"),
        ("could not insert 'nvidia': Device or resource busy", "", "of an hour ago",
         "vfio-pci"),
        ("could not insert 'nvidia': Cannot allocate memory", "", "of an hour ago",
         "sudo dmesg"),
    ],
)  # fmt: skip
def test_another_reason_fails_at_once_with_the_kernels_words(
    tmp_path: Path, error: str, log: str, words: str, cure: str
) -> None:
    old = "[1.0] nouveau 0000:00:05.0: of an hour ago\n"
    kernel = Kernel(tree(tmp_path, GPU), Result(1, "", f"modprobe: ERROR: {error}\n"), old, log)
    with pytest.raises(RefusalError) as raised:
        kernel.loaded()
    message = str(raised.value)
    assert f"a reboot is no cure: modprobe: ERROR: {error}." in message
    assert words in message
    assert cure in message
    # earlier lines only where this try brought none
    assert ("of an hour ago" in message) is (log == "")
    assert len(message) < 6 * 300 + 800


def test_a_kernel_that_says_nothing_is_told_so(tmp_path: Path) -> None:
    kernel = Kernel(tree(tmp_path, GPU), Result(1, "", ""))
    with pytest.raises(
        RefusalError, match=r"modprobe ended with 1\. The kernel's log says nothing"
    ):
        kernel.loaded()


def test_modprobes_own_words_count_before_older_lines(tmp_path: Path) -> None:
    old = "[1.0] Lockdown: modprobe: unsigned module loading is restricted\n"
    kernel = Kernel(tree(tmp_path, GPU), Result(1, "", "nvidia: Exec format error"), old)
    with pytest.raises(RefusalError, match="dkms install --force"):
        kernel.loaded()


def test_a_modprobe_without_an_answer_names_the_hardware(tmp_path: Path) -> None:
    kernel = Kernel(tree(tmp_path, GPU), Result(SILENT, "", "modprobe did not answer"))
    with pytest.raises(RefusalError, match="power the machine off and on"):
        kernel.loaded()


def test_a_module_of_another_version_that_came_is_said(tmp_path: Path) -> None:
    kernel = Kernel(tree(tmp_path, GPU), Result(0, "460.91.03", ""))
    with pytest.raises(RefusalError, match=r"loaded the module 460\.91\.03, and 470\.256\.02 is"):
        kernel.loaded()


def test_the_log_is_journalds_where_dmesg_gives_none(tmp_path: Path) -> None:
    asked = []

    def run(argv: list[str]) -> Result:
        asked.append(argv[0])
        if argv[0] == "journalctl":
            return Result(0, "kernel: NVRM: x\nkernel: usb 1-1\n", "")
        return Result(1, "", "dmesg: read kernel buffer failed: Operation not permitted")

    assert kernel_load.kernel_words.lines(run) == ["kernel: NVRM: x"]
    assert asked == ["dmesg", "journalctl"]
    assert kernel_load.kernel_words.lines(lambda _argv: Result(127, "", "")) == []


def rebooted(root: Path) -> Kernel:
    """A host that was rebooted for nouveau, which is still there."""
    tree(root, {**GPU, **NOUVEAU, INITRAMFS: "old", nvidia_driver.BLACKLIST: "blacklist nouveau"})
    boot(root, "one")
    kernel = Kernel(root, Result(1, "", ""), before="[3.1] nouveau 0000:00:05.0: NV164\n")
    assert kernel.loaded(check_mode=True, state="rebooting")["reason"] == "nouveau is loaded"
    assert not (root / running_driver.RECORD[1:]).exists()
    kernel.loaded(state="rebooting")
    # cut off before the reboot: it is still to be done
    assert kernel.loaded()["reason"] == "nouveau is loaded"
    boot(root, "two")
    return kernel


@pytest.mark.parametrize("state", ["loaded", "rebooting", "without_nouveau"])
def test_the_same_reboot_is_not_done_twice(tmp_path: Path, state: str) -> None:
    kernel = rebooted(tmp_path)
    with pytest.raises(RefusalError) as raised:
        kernel.loaded(state=state)
    message = str(raised.value)
    assert "rebooted for it, and still nouveau is loaded. The kernel said: [3.1] nouveau" in message
    assert "lsinitramfs" in message


def test_a_boot_that_brings_up_something_else_is_tried(tmp_path: Path) -> None:
    kernel = rebooted(tmp_path)
    age(tmp_path, INITRAMFS, 1234)
    assert kernel.loaded() == {"changed": False, "reason": "nouveau is loaded"}


def test_another_reason_is_another_reboot(tmp_path: Path) -> None:
    kernel = rebooted(tmp_path)
    (tmp_path / "sys/module/nouveau/initstate").unlink()
    (tmp_path / "sys/module/nouveau").rmdir()
    tree(tmp_path, {"/sys/module/nvidia/version": "460.91.03\n"})
    assert "460.91.03 is loaded" in kernel.loaded()["reason"]


def test_what_a_reboot_cured_is_forgotten(tmp_path: Path) -> None:
    kernel = rebooted(tmp_path)
    (tmp_path / "sys/module/nouveau/initstate").unlink()
    (tmp_path / "sys/module/nouveau").rmdir()
    kernel.answer = Result(0, VERSION, "")
    assert kernel.loaded() == {"changed": True, "reason": ""}
    assert not (tmp_path / running_driver.RECORD[1:]).exists()


@pytest.mark.parametrize("text", ["", "{", "[1]", '"x"', '{"reason": "nouveau is loaded"}'])
def test_a_note_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    tree(tmp_path, {**NOUVEAU, running_driver.RECORD: text})
    here = Context(root=str(tmp_path))
    assert running_driver.in_vain(here, "nouveau is loaded") is False


def test_the_note_holds_nothing_secret_and_is_roots(tmp_path: Path) -> None:
    rebooted(tmp_path)
    record = tmp_path / running_driver.RECORD[1:]
    assert record.stat().st_mode & 0o777 == 0o600
    noted = json.loads(record.read_text())
    assert sorted(noted) == ["boot", "files", "reason"]
    assert sorted(noted["files"]) == [INITRAMFS, nvidia_driver.BLACKLIST]


def test_nouveau_goes_without_a_reboot_where_nobody_uses_it(tmp_path: Path) -> None:
    kernel = Kernel(tree(tmp_path, NOUVEAU), Result(0, VERSION, ""))
    assert kernel.loaded(check_mode=True, state="without_nouveau")["changed"] is True
    assert kernel.asked == []
    assert kernel.loaded(state="without_nouveau") == {"changed": True, "reason": ""}
    assert kernel.asked == ["modprobe --remove nouveau"]
    kernel.answer = Result(1, "", "FATAL: Module nouveau is in use.")
    assert kernel.loaded(state="without_nouveau")["reason"] == "nouveau is loaded"
    without = Kernel(tmp_path / "other", Result(1, "", ""))
    assert without.loaded(state="without_nouveau") == {"changed": False, "reason": ""}


def state(**more: Any) -> dict[str, Any]:
    return {
        "nouveau_loaded": True, "loaded": None, "gpus": 1, "kernels": [KERNEL],
        "modules": {KERNEL: VERSION}, "initramfs_older": [], **more,
    }  # fmt: skip


def test_a_plan_announces_a_reboot_once(tmp_path: Path) -> None:
    (change,) = running_driver.differ("nvidia_driver", DRIVER, state())
    assert change["reboot"] is True
    vain = {"reboot_in_vain": "nouveau is loaded"}
    (change,) = running_driver.differ("nvidia_driver", DRIVER, state(**vain))
    assert (change["reboot"], change["reason"]) == (False, "a reboot did not change that")
    for other in ({"initramfs_older": [INITRAMFS]}, {"modules": {KERNEL: None}}):
        (change,) = running_driver.differ("nvidia_driver", DRIVER, state(**vain, **other))
        assert change["reboot"] is True


def test_the_look_sees_that_a_reboot_was_in_vain(tmp_path: Path) -> None:
    rebooted(tmp_path)
    here = Kernel(tmp_path, Result(1, "", ""), before="[3.1] nouveau: x\n").context
    seen = running_driver.look(here, VERSION)
    assert seen == {
        "loaded": None, "nouveau_loaded": True, "reboot_in_vain": "nouveau is loaded"
    }  # fmt: skip
    assert running_driver.look(here, None)["reboot_in_vain"] == ""
    assert kernel_rules.boot_words(here) == "[3.1] nouveau: x"


def test_without_a_reboot_that_is_noted_the_kernels_words_are_not_looked_for(
    tmp_path: Path,
) -> None:
    kernel = Kernel(tmp_path, Result(1, "", ""), before="[3.1] nouveau: x\n")
    assert kernel_rules.boot_words(kernel.context) == ""
    assert kernel.asked == []


# As dmesg printed it on a booted Debian 11, before and after `modprobe nvidia`.
DEAD_CARD = """\
[   26.018933] nvidia: loading out-of-tree module taints kernel.
[   26.612112] nvidia-nvlink: Nvlink Core is being initialized, major device number 249
[{0}] NVRM: The NVIDIA GPU 0000:00:03.0
               NVRM: (PCI ID: 10de:1eb8) installed in this system has
               NVRM: fallen off the bus and is not responding to commands.
[   26.989991] nvidia-nvlink: Unregistered the Nvlink Core, major device number 249
"""


def test_a_message_of_several_lines_is_one_and_says_what_to_do_with_a_dead_card() -> None:
    """At the second try only the first of its lines has another time."""
    words = kernel_load.kernel_words
    before = words.lines(lambda _argv: Result(0, DEAD_CARD.format("   26.656386"), ""))
    after = words.lines(lambda _argv: Result(0, DEAD_CARD.format("  273.678774"), ""))
    assert len(after) == 2
    last = words.last(after, before)
    assert last == (
        "[  273.678774] NVRM: The NVIDIA GPU 0000:00:03.0 NVRM: (PCI ID: 10de:1eb8) installed in"
        " this system has NVRM: fallen off the bus and is not responding to commands."
    )
    assert "power the machine off and on" in words.cure("nvidia: No such device", last)


WAITING = "5.10.0-50-amd64"


def installed(newest: str = WAITING, module: str | None = VERSION, **more: Any) -> dict[str, Any]:
    """Facts of a machine that runs KERNEL and has `newest` under /boot."""
    driver = {"version": VERSION, "scope": "full", "kernels": [newest, KERNEL]}
    driver["modules"] = {newest: module, KERNEL: VERSION}
    facts = {"platform": {"kernel": KERNEL}, "container": False, "gpus": [], "receipt": None}
    return {**facts, "simulated_gpu": False, "state": {"nvidia_driver": {**driver, **more}}}


def reasons(facts: dict[str, Any]) -> list[tuple[str, str]]:
    notices = nvidia_driver.notices({"nvidia_driver": {"version": VERSION}}, facts)
    assert {(change["id"], change["component"]) for change in notices} <= {
        ("kernel-waiting", "nvidia_driver")
    }
    return [(reason["message"], reason["hint"]) for reason in notices]


def test_a_kernel_that_waits_for_its_boot_is_said_with_its_module() -> None:
    ((message, hint),) = reasons(installed())
    assert message == (
        f"kernel {WAITING} is installed and waits for its boot; {KERNEL} is running. "
        f"Module {VERSION} is built for it"
    )
    assert hint.startswith("reboot when it suits")
    for module in (None, "470.1"):
        ((message, hint),) = reasons(installed(module=module))
        assert message.endswith(f"Module {VERSION} is not there for it")
        assert hint.startswith("apply builds the module; a reboot before that")


@pytest.mark.parametrize(
    "facts",
    [
        installed(newest=KERNEL),
        installed(newest="5.10.0-9-amd64"),  # the running kernel's image was removed
        installed(kernels=[]),
        installed(scope="userspace"),
        {**installed(), "container": True},
        {**installed(), "platform": {}},
    ],
    ids=["the same", "older", "none", "userspace", "container", "not known"],
)
def test_no_kernel_waits(facts: dict[str, Any]) -> None:
    assert reasons(facts) == []


def test_a_plan_without_changes_has_the_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("differences", "receipt_changes"):
        monkeypatch.setattr(plan, name, lambda *_arguments: [])
    lock = {
        "rows": [{"wish": {}, "platform": {}, "stack": "s"}],
        "stacks": {"s": {"nvidia_driver": {"version": VERSION}}},
    }
    result = plan.plan(lock, {}, {}, installed())
    assert (result["changes"], result["blockers"]) == ([], [])
    assert [notice["id"] for notice in result["notices"]] == ["kernel-waiting"]
    gone = {"nvidia_driver_state": "absent"}
    assert plan.plan(lock, {}, gone, installed())["notices"] == []
    no_driver = {**lock, "stacks": {"s": {}}}
    assert plan.plan(no_driver, {}, {}, installed())["notices"] == []
    assert plan.plan({"rows": [], "stacks": {}}, {}, {}, installed())["notices"] == []
