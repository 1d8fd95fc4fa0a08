"""What the look sees of the machine on odd hosts: GPU users, firmware, kernel, disk, cards."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_stack import room
from gpu_stack.components.nvidia_driver import kernel_rules
from gpu_stack.host import free_gpus, gpu_models, processes
from gpu_stack.host.context import Result
from gpu_stack.host.refusal import RefusalError

from .odd_hosts import USERS, asked, process
from .test_preflight import reasons
from .trees import KERNEL, context, places, tree

# who uses a GPU


def test_what_a_user_called_a_process_does_nothing_to_a_terminal(tmp_path: Path) -> None:
    tree(tmp_path, process(7, "evil\x1b[2J", command="train\0\x1b]0;x\x07\0--y"))
    found = processes.process(context(tmp_path), "7", "evil\x1b[2J")
    assert found["command"] == "train ?]0;x? --y"
    tree(tmp_path, {"/proc/7/cmdline": ""})
    assert processes.process(context(tmp_path), "7", "evil\x1b[2J")["command"] == "evil?[2J"


COMPUTE_APPS = ("nvidia-smi", "--query-compute-apps=pid,name", "--format=csv,noheader")


def test_jobs_are_reported_by_number_with_their_users_and_commands(tmp_path: Path) -> None:
    """By /proc where it can be read, else as nvidia-smi names them."""
    tree(
        tmp_path,
        {
            "/etc/passwd": USERS,
            **process(9, "python3", 0, "python3\0-m\0train\0"),
            **process(77, "jupyter", 1001, ""),
            **process(123, "java", 4242, "java\0" + "x" * 300),
            "/proc/200/comm": "odd\n",
            # It ended while it was looked at; and not everything that is open is a file.
            "/proc/300/fd/4": "",
            "/proc/400/fd/4": "",
            "/proc/self/comm": "python3\n",
            **process(1, "systemd", 0, "init"),
        },
        {
            "/proc/9/fd/0": "/dev/null",
            "/proc/9/fd/7": "/dev/nvidia0",
            "/proc/77/fd/3": "/dev/nvidia-uvm",
            "/proc/123/fd/3": "/dev/nvidiactl",
            "/proc/200/fd/3": "/dev/nvidia1",
            "/proc/300/fd/3": "/dev/nvidia1",
            "/proc/self/fd/3": "/dev/nvidia1",
            "/proc/1/fd/3": "/dev/nvram",
        },
    )
    smi = "991, /usr/bin/python3\n 992, x\n200, y\n[Not Found], [Insufficient Permissions]\n"
    here = asked(tmp_path, {COMPUTE_APPS: Result(0, smi, "")})
    assert processes.processes(here) == [
        {"pid": 9, "user": "root", "command": "python3 -m train"},
        {"pid": 77, "user": "ada", "command": "jupyter"},
        {"pid": 123, "user": "4242", "command": "java " + "x" * 155},
        {"pid": 200, "user": None, "command": "odd"},
        {"pid": 300, "user": None, "command": ""},
        {"pid": 991, "user": None, "command": "/usr/bin/python3"},
        {"pid": 992, "user": None, "command": "x"},
    ]


@pytest.mark.parametrize(
    "daemon",
    [
        "nvidia-persiste", "nv-fabricmanage", "nvidia-imex", "nv-hostengine", "dcgm-exporter",
        "nvidia-smi",
    ],
)  # fmt: skip
def test_a_daemon_that_holds_the_devices_is_nobodys_job(tmp_path: Path, daemon: str) -> None:
    tree(tmp_path, process(8, daemon), {"/proc/8/fd/3": "/dev/nvidia0"})
    tree(tmp_path, process(9, "python3"), {"/proc/9/fd/3": "/dev/nvidia0"})
    assert [process["pid"] for process in processes.processes(context(tmp_path))] == [9]


def test_an_nvidia_smi_that_has_answered_is_not_asked_again(tmp_path: Path) -> None:
    silent = asked(tmp_path, {})
    (process,) = processes.processes(silent, Result(0, "7, python3\n", ""))
    assert (process["pid"], process["command"]) == (7, "python3")


def test_an_nvidia_smi_that_fails_names_nobody(tmp_path: Path) -> None:
    here = asked(tmp_path, {COMPUTE_APPS: Result(9, "991, python3\n", "")})
    assert processes.processes(here) == []


def test_who_is_waited_for_in_vain_is_named(tmp_path: Path) -> None:
    """nvidia-smi is not asked: it may load the driver that is about to go."""
    tree(tmp_path, process(9, "python3"), {"/proc/9/fd/3": "/dev/nvidia0"})
    here = asked(tmp_path, {COMPUTE_APPS: Result(0, "991, python3\n", "")})
    found = free_gpus.ask(here, "reboot", 0, waited=False)
    assert [process["pid"] for process in found["processes"]] == [9]
    assert found["changed"] is False
    with pytest.raises(RefusalError, match=r"^Not going .*waited 30 s.: pid 9 of") as no:
        free_gpus.ask(here, "reboot", 30, waited=True)
    assert no.value.result == {"processes": found["processes"]}
    nobody = asked(tmp_path / "other", {})
    assert free_gpus.ask(nobody, "reboot", 30, waited=True)["processes"] == []


# the firmware and the kernel


def test_secure_boot_of_a_variable_that_is_empty_is_not_known(tmp_path: Path) -> None:
    name = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    tree(tmp_path, {name: b""})
    assert kernel_rules.secure_boot(context(tmp_path)) is None
    tree(tmp_path, {name: b"\x01\x00\x00\x00\x00", "/sys/firmware/efi/efivars/SetupMode-x": "\1"})
    assert kernel_rules.secure_boot(context(tmp_path)) is False
    assert kernel_rules.secure_boot(context(tmp_path / "bios")) is None


def test_headers_are_asked_for_by_the_kernels_name(tmp_path: Path) -> None:
    policy = ("apt-cache", "policy", f"linux-headers-{KERNEL}")
    text = f"linux-headers-{KERNEL}:\n  Installed: (none)\n  Candidate: {{0}}\n  Version table:\n"
    tree(tmp_path, {"/var/lib/apt/lists/deb_dists_bullseye_main_binary-amd64_Packages": ""})
    for candidate, state in (("5.10.262-1", "offered"), ("(none)", "absent")):
        here = asked(tmp_path, {policy: Result(0, text.format(candidate), "")})
        assert kernel_rules.headers(here, KERNEL) == state
    tree(tmp_path, {"/lib/modules/5.10.0-1-amd64/build/Makefile": ""})
    here = asked(tmp_path, {})
    assert kernel_rules.headers(here, KERNEL) == "absent"
    assert kernel_rules.headers(here, "5.10.0-1-amd64") == "installed"


def test_compilers_are_reported_by_their_major_versions_once_each(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {f"/usr/bin/x86_64-linux-gnu-gcc-{major}": "" for major in (9, 12, 16)}
        | {"/usr/bin/gcc-ar-wrapper": "", "/usr/bin/gcc-x": ""},
        {
            "/usr/bin/gcc-12": "x86_64-linux-gnu-gcc-12",
            "/usr/bin/gcc-16": "x86_64-linux-gnu-gcc-16",
            "/usr/bin/gcc-9": "x86_64-linux-gnu-gcc-9",
            "/usr/bin/gcc": "gcc-12",
            "/usr/bin/gcc-gone": "nothing",
        },
    )
    seen = kernel_rules.compilers(context(tmp_path))
    assert seen == {"kernel": None, "installed": [9, 12, 16], "default": 12}
    none = kernel_rules.compilers(context(tmp_path / "none"))
    assert none == {"kernel": None, "installed": [], "default": None}


# the disk


def test_room_is_looked_for_where_things_will_be(tmp_path: Path) -> None:
    """The nearest directory that is there already; an option moves a root."""
    tree(tmp_path, {"/usr/bin/env": "", "/data/x": ""})
    options = {"cudnn_root": "/data/deep/cudnn", "tensorflow_root": ""}
    here = context(tmp_path, options=options)
    asked_for: list[str] = []
    free = {"/usr": 5, "/data/deep/cudnn": 7}

    def disk_free(path: str) -> int | None:
        asked_for.append(path)
        return free.get(path)

    here.disk_free = disk_free
    device = tmp_path.stat().st_dev
    assert room.disk(here) == {
        "/usr": {"free": 5, "device": device},
        "/data/deep/cudnn": {"free": 7, "device": device},
    }
    assert set(asked_for) == places("/data/deep/cudnn")


def test_room_for_the_local_installer_is_looked_for_where_it_goes(tmp_path: Path) -> None:
    tree(tmp_path, {"/usr/bin/env": ""})
    here = context(tmp_path)
    here.disk_free = lambda _path: 1
    usual = set(room.disk(here))
    here.row = {"cuda": {"source": "network"}}
    assert set(room.disk(here)) == usual
    here.row = {"cuda": {"source": "local"}}
    assert set(room.disk(here)) - usual == {"/var/cache/provision", "/var"}
    here.options = {"cuda_installer_directory": "/big"}
    assert set(room.disk(here)) - usual == {"/big", "/var"}


def test_each_place_is_looked_at_on_its_own_file_system(tmp_path: Path) -> None:
    """/usr may be one disk and /var another: the device is that of the nearest directory."""
    tree(tmp_path, {"/usr/bin/env": "", "/var/cache/x": ""})
    here = context(tmp_path)
    here.disk_free = lambda _path: 1
    looked_at: list[str] = []
    stat = here.stat
    here.stat = lambda path: (looked_at.append(path), stat(path))[1]
    room.disk(here)
    used = [path for path in looked_at if stat(path) is not None]
    assert {"/usr", "/var/cache", "/"} <= set(used)


def test_a_host_without_a_root_has_no_room_to_tell(tmp_path: Path) -> None:
    here = context(tmp_path / "nothing")
    here.disk_free = lambda _path: 5
    assert room.disk(here) == {}


# generations


CARDS = {
    "Fermi": ("0x06cd", "0x0dc4", "0x1080", "0x1200"),  # GTX 470, GTS 450, GTX 580, GTX 560 Ti
    "Kepler": ("0x0fc6", "0x102d", "0x1180", "0x1287"),  # GTX 650, K80, GTX 680, GT 730
    "Maxwell": ("0x1380", "0x1617", "0x174d", "0x17c2"),  # GTX 750 Ti, 980M, MX130, Titan X
    "Pascal": ("0x15f8", "0x1b06"),  # P100, GTX 1080 Ti
    "Volta": ("0x1db4",),  # V100
    "Turing": ("0x1eb8", "0x2182"),  # T4, GTX 1660 Ti
    "Ampere": ("0x20b0", "0x2204", "0x2484"),  # A100, RTX 3090, RTX 3070
    "Hopper": ("0x2330",),  # H100
    "Ada": ("0x2684",),  # RTX 4090
    "Blackwell": ("0x2901", "0x2b85"),  # B200, RTX 5090
}


def test_generations_are_reported_in_the_order_of_their_names() -> None:
    gpus = [{"device": ids[0]} for ids in CARDS.values()]
    assert gpu_models.generations([*gpus, {"device": "0xffff"}]) == sorted(CARDS)


@pytest.mark.parametrize("name", sorted(CARDS))
def test_cards_of_every_range_are_known(name: str) -> None:
    assert [gpu_models.generation(card) for card in CARDS[name]] == [name] * len(CARDS[name])


def test_a_range_holds_its_first_and_its_last() -> None:
    for first, last, name in gpu_models.GENERATIONS:
        assert gpu_models.generation(hex(first)) == gpu_models.generation(hex(last)) == name


def test_a_device_that_is_no_number_has_no_generation() -> None:
    assert gpu_models.generation(None) is None
    assert gpu_models.generation("unknown") is None


def test_a_gpu_without_a_device_id_gives_no_reason() -> None:
    assert reasons({"gpus": [{}]}) == {}
