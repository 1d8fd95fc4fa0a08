"""A component set to absent: the plan names what this program put there, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import converged_host as made
import pytest
from converged_host import CUDART, CUDNN, VENV, Host
from gpu_stack import receipt, removal
from gpu_stack.components import gpu_env
from gpu_stack.components.cuda import nvidia_cuda
from gpu_stack.components.nvidia_driver import persistence
from gpu_stack.host.context import Context, Result

GONE = {f"{name}_state": "absent" for name in ("cuda", "cudnn", "gpu_env", "tensorflow")}
NO_TENSORFLOW = {"tensorflow_state": "absent"}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Converged by a run whose receipt tells what it found: libcusolver11 was there before."""
    host = made.make(tmp_path)
    receipt_of(host, theirs={"libcusolver11": "11.1"})
    return host


def receipt_of(host: Host, *, theirs: dict[str, str] | None = None, **more: Any) -> None:
    receipt: dict[str, Any] = {"lock_digest": made.LOCK["digest"], "after": {"cuda": "11.2.2"}}
    if theirs is not None:
        ours = sorted({"libcudart11.0", "nvidia-cuda-toolkit"} - set(theirs))
        receipt["packages"] = {"cuda": {"ours": ours, "theirs": theirs}}
    host.write("/var/lib/provision/receipt.json", json.dumps(receipt | more))


def names(host: Host, options: dict[str, str]) -> dict[str, list[str]]:
    """{component: items} of the plan."""
    found: dict[str, list[str]] = {}
    for component, item, _ in host.items(options=options):
        found.setdefault(component, []).append(item)
    return found


def test_just_what_is_ours_is_named(host: Host) -> None:
    found = names(host, GONE)
    found.pop("receipt", None)
    assert found == {
        "cuda": ["libcudart11.0", "nvidia-cuda-toolkit", "/etc/apt/preferences.d/provision-cuda"],
        "cudnn": [
            "/etc/ld.so.conf.d/00-provision-cudnn.conf",
            CUDNN,
            "/opt/nvidia/cudnn/current",
        ],
        "gpu_env": [gpu_env.PROFILE, gpu_env.UNITS, gpu_env.MANAGER, gpu_env.PAM],
        "tensorflow": [VENV, "/opt/tensorflow/current"],
    }


def test_they_go_in_the_opposite_order(host: Host) -> None:
    names = ("tensorflow", "gpu_env", "cudnn", "cuda")
    assert host.plan(options=GONE)["steps"] == [f"{name}:remove" for name in names]
    assert host.plan(options=GONE, only=["cudnn"])["steps"] == ["cudnn:remove"]
    assert host.plan()["steps"] == []


def test_what_others_put_there_is_not_named(host: Host) -> None:
    """Directories without our mark, a `current` that leads elsewhere, files of other names."""
    host.write("/opt/tensorflow/mine/bin/python", "")
    host.write("/opt/nvidia/cudnn/9.9/include/cudnn.h", "")
    host.link("/opt/nvidia/cudnn/current", "9.9")
    host.write("/etc/apt/preferences.d/mine", "")
    items = [item for listed in names(host, GONE).values() for item in listed]
    assert "/opt/nvidia/cudnn/current" not in items
    assert not [item for item in items if "mine" in item or "9.9" in item]


def test_nothing_is_left_to_do_on_a_host_without_it(tmp_path: Path) -> None:
    host = Host(tmp_path)
    release = 'ID=debian\nVERSION_ID="11"\n'
    host.write("/etc/os-release", release)
    host.write("/proc/sys/kernel/arch", "x86_64\n")
    receipt_of(host, absent=["cuda", "cudnn", "gpu_env", "tensorflow"])
    plan = host.plan(options=GONE)
    assert (plan["changes"], plan["blockers"]) == ([], [])


def test_a_host_that_was_told_of_no_absence_owes_a_proof(host: Host) -> None:
    items = host.items(options=NO_TENSORFLOW)
    assert ("receipt", "absent components", "none") in items
    receipt_of(host, absent=["tensorflow"])
    assert ("receipt", "absent components", "tensorflow") in host.items()


# whose the packages are


def test_packages_from_before_the_first_run_stay(tmp_path: Path) -> None:
    """No receipt: nobody of ours was here, whatever is installed."""
    host = made.make(tmp_path)
    host.remove("/var/lib/provision/receipt.json")
    plan = host.plan(options=GONE)
    assert not [change for change in plan["changes"] if change["item"] in host.packages]
    assert plan["packages"]["cuda"]["theirs"]["libcudart11.0"] == CUDART
    notes = [notice["message"] for notice in plan["notices"] if notice["id"] == "there-before"]
    assert notes == [next(note for note in notes if f"libcudart11.0 {CUDART}" in note)]


def test_a_receipt_from_before_there_was_a_ledger_tells_that_the_run_was_ours(host: Host) -> None:
    receipt_of(host)
    assert set(host.packages) <= set(names(host, GONE)["cuda"])


def test_a_run_that_died_has_noted_whose_they_were(host: Host) -> None:
    """Its packages are installed and no receipt was written: they are not the owner's."""
    host.remove("/var/lib/provision/receipt.json")
    note = {"packages": {"cuda": {"ours": ["libcudart11.0"], "theirs": {"libcusolver11": "1"}}}}
    host.write(receipt.UNFINISHED, json.dumps(note))
    items = names(host, GONE)["cuda"]
    assert "libcudart11.0" in items
    assert "libcusolver11" not in items


def test_packages_that_only_a_later_lock_names_stay_if_they_were_there(host: Host) -> None:
    """The runs of the former lock had nothing to do with them."""
    receipt_of(host, theirs={})  # ours: libcudart11.0 and nvidia-cuda-toolkit
    assert list(host.plan(options=GONE)["packages"]["cuda"]["theirs"]) == ["libcusolver11"]
    gone = names(host, GONE)["cuda"]
    assert "libcudart11.0" in gone
    assert "libcusolver11" not in gone


def test_packages_that_a_run_installs_for_a_later_lock_are_ours(host: Host) -> None:
    """The mark of a run tells so from before it installs them."""
    package = host.packages.pop("libcusolver11")
    host.write_status()
    receipt_of(host, theirs={})
    noted = host.plan()["packages"]["cuda"]
    host.packages["libcusolver11"] = package
    host.write_status()
    host.write(receipt.UNFINISHED, json.dumps({"packages": {"cuda": noted}}))
    assert host.plan(options=GONE)["packages"]["cuda"] == noted
    assert "libcusolver11" in names(host, GONE)["cuda"]


def test_packages_of_former_locks_are_remembered(host: Host) -> None:
    del host.packages["libcudart11.0"]  # which the run will install
    host.write_status()
    entry = {"ours": ["libcudart10.1"], "theirs": {}}
    host.write(
        "/var/lib/provision/receipt.json",
        json.dumps({"lock_digest": "sha256:1", "packages": {"cuda": entry}}),
    )
    ours = host.plan()["packages"]["cuda"]["ours"]
    assert {"libcudart10.1", "libcudart11.0"} <= set(ours)


def test_the_runtimes_tools_are_ours_while_no_package_has_them(host: Host) -> None:
    marker = "/usr/lib/nvidia-cuda-toolkit/.provision-tools"
    host.write(marker, "nvidia-cuda-toolkit=1\n")
    assert marker not in names(host, GONE)["cuda"]
    del host.packages["nvidia-cuda-toolkit"]
    host.write_status()
    assert marker in names(host, GONE)["cuda"]


def test_the_file_with_debians_components_goes_with_the_last_that_needs_it(host: Host) -> None:
    host.write(nvidia_cuda.SHARED, "Types: deb\n")
    assert nvidia_cuda.SHARED in names(host, GONE)["cuda"]
    pins = "/etc/apt/preferences.d/provision-nvidia-driver"
    repository = "/etc/apt/sources.list.d/provision-cuda.sources"
    host.write(repository, "Types: deb\n")
    host.write(pins, "x\n")
    assert nvidia_cuda.SHARED not in names(host, GONE)["cuda"]
    assert repository in names(host, GONE)["cuda"]
    host.write(pins, "# Source: network\n")
    assert repository not in names(host, GONE)["cuda"]


def test_the_driver_takes_along_what_no_other_needs(host: Host) -> None:
    context = Context(root=str(host.root))
    for path in (nvidia_cuda.SHARED, "/etc/apt/sources.list.d/provision-cuda.sources"):
        host.write(path, "Types: deb\n")
        assert [path, "present"] not in removal.look(context, "nvidia_driver", None)
    host.remove("/etc/apt/preferences.d/provision-cuda")
    assert len(removal.look(context, "nvidia_driver", None)) == 2


def test_the_daemons_drop_in_goes_with_the_driver_and_one_of_somebodys_stays(host: Host) -> None:
    theirs = str(Path(persistence.CONDITION).parent / "mine.conf")
    host.write(theirs, "[Service]\nNice=5\n")
    host.write(persistence.CONDITION, persistence.CONDITION_TEXT)
    seen = removal.look(Context(root=str(host.root)), "nvidia_driver", None)
    assert [persistence.CONDITION, "present"] in seen
    assert [theirs, "present"] not in seen


def test_the_daemons_unit_goes_where_the_role_wrote_it(host: Host) -> None:
    host.write(persistence.OWN, persistence.unit_text({"source": "runfile"}))
    context = Context(root=str(host.root))
    assert [persistence.OWN, "present"] in removal.look(context, "nvidia_driver", None)
    host.write(persistence.OWN, "[Service]\nExecStart=/usr/bin/nvidia-persistenced\n")
    assert [persistence.OWN, "present"] not in removal.look(context, "nvidia_driver", None)


def test_a_driver_of_the_installer_is_ours_where_the_pins_say_so(host: Host) -> None:
    context = Context(root=host.root)
    host.write("/usr/bin/nvidia-uninstall", "#!/bin/sh\n")
    host.write("/var/lib/nvidia/log", "470.256.02\n")
    item = ["driver (.run)", "470.256.02"]
    assert item not in removal.look(context, "nvidia_driver", None)
    pins = "# Written by provision: the driver stays 470.256.02 on this host.\n"
    for way, ours in (("runfile", True), ("network", False)):
        host.write("/etc/apt/preferences.d/provision-nvidia-driver", f"{pins}# Source: {way}\n")
        assert (item in removal.look(Context(root=host.root), "nvidia_driver", None)) is ours
    host.remove("/usr/bin/nvidia-uninstall")
    assert item not in removal.look(Context(root=host.root), "nvidia_driver", None)


def test_nvidias_trees_and_what_was_written_for_them_are_ours_by_their_marks(host: Host) -> None:
    paths = (
        "/usr/local/cuda-11.2/.provision-packages",
        "/etc/apt/preferences.d/zz-provision-cuda",
        "/etc/apt/apt.conf.d/90provision-cuda",
        "/etc/ld.so.conf.d/00-provision-cuda.conf",
    )
    host.write("/usr/local/cuda-11.8/bin/nvcc", "")
    for path in paths:
        host.write(path, "")
    seen = removal.look(Context(root=host.root), "cuda", None)
    assert all([path, "present"] in seen for path in paths)
    assert not any("11.8" in item for item, _ in seen)


def test_the_links_of_cudnn_in_cudas_tree_are_ours_by_their_record(host: Host) -> None:
    tree = "/usr/local/cuda-11.2"
    links = {
        f"{tree}/{name}": f"{CUDNN}/{name}" for name in ("include/cudnn.h", "lib64/libcudnn.so.8")
    }
    host.link(f"{tree}/lib64/libcudnn.so.8", f"{CUDNN}/lib64/libcudnn.so.8")
    host.write(f"{tree}/include/cudnn.h", "a copy by hand")
    host.write(f"{tree}/.provision-cudnn", json.dumps(links))
    seen = removal.look(Context(root=str(host.root)), "cudnn", None)
    assert [item for item, _ in seen if item.startswith(tree)] == [
        f"{tree}/.provision-cudnn",
        f"{tree}/lib64/libcudnn.so.8",
    ]


# what forbids it


def ids(host: Host, options: dict[str, str], run: Any = None) -> list[tuple[str, str]]:
    if run is not None:
        host.run = run  # type: ignore[method-assign]
    return [
        (blocker["id"], blocker["message"]) for blocker in host.plan(options=options)["blockers"]
    ]


def test_what_another_wish_needs_is_refused(host: Host) -> None:
    ((id_, message),) = ids(host, {"cuda_state": "absent", "cudnn_state": "absent"})
    assert id_ == "needed-by-another"
    assert message == (
        "TensorFlow is wished for, and does not work without CUDA and cuDNN, set to absent"
    )


def test_tensorflow_with_cuda_of_wheels_needs_no_cuda(host: Host) -> None:
    other = copy.deepcopy(made.LOCK)
    del other["stacks"]["debian11-small"]["cuda"], other["stacks"]["debian11-small"]["cudnn"]
    plan = host.plan(lock=other, options={"cuda_state": "absent"})
    assert plan["blockers"] == []
    assert plan["absent"] == []


def apt(words: str, rc: int = 0) -> Any:
    def run(argv: Sequence[str]) -> Result:
        if "--simulate" in argv:
            assert list(argv)[:4] == [
                *("apt-get", "remove", "--simulate", "--allow-change-held-packages"),
            ]
            return Result(rc, words, "E: broken\n" if rc else "")
        return Result(127, "", "")

    return run


def test_a_package_of_somebody_else_that_needs_ours_is_named(host: Host) -> None:
    host.packages["octave-gpu"] = {"version": "1", "state": "install ok installed"}
    host.write_status()
    status = (host.root / "var/lib/dpkg/status").read_text()
    host.write(
        "/var/lib/dpkg/status",
        status.replace(
            "Package: octave-gpu\n",
            "Package: octave-gpu\nDepends: libc6, libcudart11.0 (>= 11), x | y\n",
        ),
    )
    output = "Purg octave-gpu [1]\nRemv libcudart11.0 [1]\nRemv nvidia-cuda-toolkit [1]\n"
    ((id_, message),) = ids(host, GONE, apt(output))
    assert id_ == "needed-package"
    assert message == "octave-gpu is installed and needs libcudart11.0, set to absent"


def test_what_apt_would_install_instead_is_refused_too(host: Host) -> None:
    ((_, message),) = ids(host, GONE, apt("Inst other [1] (2)\nRemv libcudart11.0 [1]\n"))
    assert message == "apt would change other with it, which is not this program's"


def test_apts_own_refusal_is_reported(host: Host) -> None:
    ((_, message),) = ids(host, GONE, apt("", rc=100))
    assert message == "apt can't take the packages away: E: broken"


def test_a_process_that_uses_a_file_of_it_is_waited_for_by_nobody(host: Host) -> None:
    host.write("/proc/77/maps", f"7f00-7f01 r-xp 0 08:01 1  {VENV}/lib/x.so\n")
    host.write("/proc/77/comm", "python\n")
    host.write("/proc/77/cmdline", "python\0train.py\0")
    ((id_, message),) = ids(host, NO_TENSORFLOW)
    assert id_ == "in-use"
    assert message.startswith("pid 77 of None uses TensorFlow, set to absent: python train.py")


def test_where_maps_cant_be_read_the_command_line_tells_of_a_program(host: Host) -> None:
    """Root of a container without CAP_SYS_PTRACE reads no other user's /proc/PID/maps."""
    host.path("/proc/77/maps").mkdir(parents=True)
    host.write("/proc/77/comm", "python\n")
    host.write("/proc/77/cmdline", f"{VENV}/bin/python\0train.py\0")
    ((id_, _message),) = ids(host, NO_TENSORFLOW)
    assert id_ == "in-use"


def test_preflight_sees_a_removal_as_work_that_installs_nothing() -> None:
    """No room, no headers and no key are asked for, and somebody else's run is."""
    changes = [{"component": "cuda", "item": "x"}, {"component": "cudnn", "item": "y"}]
    seen = removal.without(changes, ["cuda"])
    assert [change["component"] for change in seen] == ["receipt", "cudnn"]


JOB = {"pid": 4711, "user": "alice", "command": "python train.py"}
DRIVER = {"packages": {"userspace": {"libcuda1": "470.256.02-2"}}}


def disturbed(loaded: str | None = None, **seen: Any) -> dict[str, Any]:
    state = {"nvidia_driver": {"loaded": loaded}}
    return {"preflight": seen, "container": False, "state": state}


def test_the_driver_stays_outside_the_window_and_under_people() -> None:
    changes = removal.differ("nvidia_driver", [["libcuda1", "470.256.02-2"]])
    row = {"nvidia_driver": DRIVER}
    options = {"gpu_maintenance_window": "Mon 08:00-09:00"}
    shell = {"user": "bob", "at": "pts/3", "from": "192.0.2.7", "idle": 7300}
    facts = disturbed("470.256.02", users=[shell], clock=[5, 60])
    blockers = removal.blockers(facts, changes, options, row, ["nvidia_driver"])
    assert [entry["id"] for entry in blockers] == ["maintenance-window", "logged-in"]
    assert all("taken away" in reason["message"] for reason in blockers)
    assert removal.blockers(disturbed(users=[shell]), changes, {}, row, ["nvidia_driver"]) == []


def test_the_driver_stays_while_a_gpu_process_runs() -> None:
    facts = disturbed(processes=[JOB])
    changes = removal.differ("nvidia_driver", [["libcuda1", "470.256.02-2"]])
    row = {"nvidia_driver": DRIVER}
    (blocker,) = removal.blockers(facts, changes, {}, row, ["nvidia_driver"])
    assert blocker["id"] == "gpu-processes"
    assert "taken away under them: pid 4711 of alice: python train.py" in blocker["message"]
    # A file of ours can go while it runs.
    pins = removal.differ("nvidia_driver", [["/etc/apt/preferences.d/x", "present"]])
    assert removal.blockers(facts, pins, {}, row, ["nvidia_driver"]) == []
    # With a time to wait the role waits, before it touches anything.
    waits = {"nvidia_driver_wait_for_gpu_processes": 600}
    assert removal.blockers(facts, changes, waits, row, ["nvidia_driver"]) == []


def test_a_module_that_stays_is_reported() -> None:
    facts = {"state": {"nvidia_driver": {"loaded": "470.256.02"}}}
    (notice,) = removal.notices(facts, {}, ["nvidia_driver"])
    assert notice["message"] == "the loaded kernel module stays until the host is rebooted"
