"""The look that preflight's rules rest on, on odd hosts, and the edges of the rules."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from gpu_stack import host_rules, preflight, room, rules
from gpu_stack.change import change
from gpu_stack.components import gpu_env
from gpu_stack.components.cuda import rules as cuda_rules
from gpu_stack.components.cudnn import rules as cudnn_rules
from gpu_stack.components.gpu_env import rules as env_rules
from gpu_stack.components.gpu_front_door import rules as front_door_rules
from gpu_stack.components.gpu_workspace import rules as workspace_rules
from gpu_stack.components.nvidia_driver import kernel_rules
from gpu_stack.components.tensorflow import rules as tensorflow_rules
from gpu_stack.host import gpu_models, other_sources, processes, surroundings
from gpu_stack.host.context import SILENT, Context, Result

from .test_preflight import CHANGES, GB, GOOD, JOB, ROW, held, reasons, rule_states
from .trees import KERNEL, context, places, status, tree

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "mutants"))

from states.rules.gpu_workspace import shared

USERS = (
    "# a comment, as NIS leaves them\n"
    "+::::::\n"
    "root:x:0:0:root:/root:/bin/bash\n"
    "toor:x:0:0:root:/root:/bin/sh\n"
    "ada:x:1001:100:Ada:/home/alice:/bin/bash\n"
)
STATUS = "Name:\tx\nState:\tS\nUid:\t{0}\t{0}\t{0}\t{0}\nGid:\t7\t7\t7\t7\n"
CUDA_LIST = "deb [signed-by=/usr/share/keyrings/cuda.gpg] https://nvidia.example/x86_64/ /\n"


def asked(root: Path, answers: Mapping[tuple[str, ...], Result]) -> Context:
    """The host, whose programs answer only to exactly these arguments."""
    here = context(root)
    here.run = lambda argv: answers.get(tuple(argv), Result(127, "", "not asked so"))
    return here


def process(pid: int, comm: str, uid: int = 0, command: str = "") -> dict[str, str]:
    return {
        f"/proc/{pid}/comm": comm + "\n",
        f"/proc/{pid}/cmdline": command,
        f"/proc/{pid}/status": STATUS.format(uid),
    }


# who uses a GPU


def test_what_a_user_called_a_process_does_nothing_to_a_terminal(tmp_path: Path) -> None:
    tree(tmp_path, process(7, "evil\x1b[2J", command="train\0\x1b]0;x\x07\0--y"))
    found = processes.process(context(tmp_path), "7", "evil\x1b[2J")
    assert found["command"] == "train ?]0;x? --y"
    tree(tmp_path, {"/proc/7/cmdline": ""})
    assert processes.process(context(tmp_path), "7", "evil\x1b[2J")["command"] == "evil?[2J"


COMPUTE_APPS = ("nvidia-smi", "--query-compute-apps=pid,name", "--format=csv,noheader")


def test_jobs_are_told_by_number_with_their_users_and_commands(tmp_path: Path) -> None:
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
    "daemon", ["nvidia-persiste", "nv-hostengine", "dcgm-exporter", "nvidia-smi"]
)
def test_a_daemon_that_holds_the_devices_is_nobodys_job(tmp_path: Path, daemon: str) -> None:
    tree(tmp_path, process(8, daemon), {"/proc/8/fd/3": "/dev/nvidia0"})
    tree(tmp_path, process(9, "python3"), {"/proc/9/fd/3": "/dev/nvidia0"})
    assert [process["pid"] for process in processes.processes(context(tmp_path))] == [9]


def test_an_nvidia_smi_that_has_answered_is_not_asked_again(tmp_path: Path) -> None:
    silent = asked(tmp_path, {})
    (found,) = processes.processes(silent, Result(0, "7, python3\n", ""))
    assert (found["pid"], found["command"]) == (7, "python3")


def test_an_nvidia_smi_that_fails_names_nobody(tmp_path: Path) -> None:
    here = asked(tmp_path, {COMPUTE_APPS: Result(9, "991, python3\n", "")})
    assert processes.processes(here) == []


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


def test_compilers_are_told_by_their_major_versions_once_each(tmp_path: Path) -> None:
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
    found = kernel_rules.compilers(context(tmp_path))
    assert found == {"kernel": None, "installed": [9, 12, 16], "default": 12}
    none = kernel_rules.compilers(context(tmp_path / "none"))
    assert none == {"kernel": None, "installed": [], "default": None}


# conda, another CUDA


@pytest.fixture
def ssh_user(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SUDO_USER", "ada")
    return "ada"


def test_the_home_is_that_of_who_came_by_ssh(
    tmp_path: Path, ssh_user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, {"/etc/passwd": USERS + "ada:x:9:9:again:/elsewhere:/bin/sh\nada\n"})
    assert tensorflow_rules.home(context(tmp_path)) == "/home/alice"
    monkeypatch.setenv("SUDO_USER", "eve")
    assert tensorflow_rules.home(context(tmp_path)) is None
    monkeypatch.delenv("SUDO_USER")
    assert tensorflow_rules.home(context(tmp_path)) is None
    assert tensorflow_rules.home(context(tmp_path / "none")) is None
    # A line that is cut off, or has a field too many, is no user's.
    monkeypatch.setenv("SUDO_USER", "eve")
    tree(tmp_path, {"/etc/passwd": "eve:x:5:5:Eve:/home/alice\neve:x:5:5:Eve:/b:/c:/d\n"})
    assert tensorflow_rules.home(context(tmp_path)) is None


@pytest.mark.parametrize(
    "path",
    [
        "/etc/profile.d/conda.sh",
        "/root/.bashrc",
        "/root/.bash_profile",
        "/root/.profile",
        "/home/alice/.bashrc",
        "/home/alice/.bash_profile",
        "/home/alice/.profile",
    ],
)
def test_conda_is_seen_in_every_file_of_a_login(tmp_path: Path, ssh_user: str, path: str) -> None:
    """Also where so many people have a home that not all of theirs are read."""
    crowd = "".join(
        f"a{number}:x:{2000 + number}:100::/home/a{number}:/bin/bash\n"
        for number in range(surroundings.PEOPLE)
    )
    tree(tmp_path, {"/etc/passwd": crowd + USERS, path: "x\n# >>> conda initialize >>>\n"})
    assert tensorflow_rules.conda(context(tmp_path)) == [path]


def test_conda_of_others_than_who_came_by_ssh_is_seen(tmp_path: Path) -> None:
    tree(tmp_path, {"/etc/passwd": USERS, "/home/alice/.zshrc": "# >>> conda initialize >>>\n"})
    assert tensorflow_rules.conda(context(tmp_path)) == ["/home/alice/.zshrc"]


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("# !! Contents within this block are managed by 'conda init'\n", False),
        ("conda initialize\n", True),
        ("export PATH=/opt/anaconda3/bin:$PATH\n", True),
        ("export PATH=/opt/miniconda3/bin:$PATH\n", True),
        ("export PATH=/opt/mambaforge/bin:$PATH\n", True),
        ("export PATH=/opt/miniforge3/bin:$PATH\n", True),
        ("x\n  PATH=$HOME/anaconda3/bin:$PATH\n", True),
        ("# export PATH=/opt/anaconda3/bin:$PATH\n", False),
        ("export PATH=/opt/conda-tools/bin:$PATH\n", False),
        ("export PATH=/usr/bin:$PATH\n", False),
        ("", False),
    ],
)
def test_lines_that_put_conda_first(tmp_path: Path, line: str, seen: bool) -> None:
    tree(tmp_path, {"/root/.profile": line, "/etc/profile.d/conda.sh": ""})
    assert tensorflow_rules.conda(context(tmp_path)) == (["/root/.profile"] if seen else [])


def test_condas_own_script_counts_whatever_is_in_it(tmp_path: Path) -> None:
    tree(tmp_path, {"/etc/profile.d/conda.sh": "true\n"})
    assert tensorflow_rules.conda(context(tmp_path)) == ["/etc/profile.d/conda.sh"]


@pytest.mark.parametrize(
    "file",
    [
        "/etc/environment",
        "/etc/profile",
        "/etc/bash.bashrc",
        "/root/.bashrc",
        "/etc/profile.d/cuda.sh",
        "/etc/ld.so.conf.d/cuda.conf",
    ],
)
def test_a_cuda_of_nobody_is_named_by_every_such_file(tmp_path: Path, file: str) -> None:
    text = "x=/usr/local/cuda/bin\n"
    others = {"/etc/profile.d/other.sh": "true\n", "/etc/profile.d/cuda.txt": text}
    tree(tmp_path, {"/usr/local/cuda/bin/nvcc": "", file: text, **others})
    expected = {"path": "/usr/local/cuda", "named_in": [file]}
    assert cuda_rules.usr_local_cuda(context(tmp_path)) == expected


def test_no_cuda_there_is_none(tmp_path: Path) -> None:
    tree(tmp_path, {"/etc/environment": "PATH=/usr/local/cuda/bin\n"})
    assert cuda_rules.usr_local_cuda(context(tmp_path)) is None


@pytest.mark.parametrize(
    ("package", "path", "owned"),
    [
        ("cuda-toolkit-10-1-config-common", "/usr/local/cuda", True),
        ("cuda-toolkit-10-1", "/usr/local/cuda-10.1", True),
        ("cuda-toolkit-10-1", "/usr/local/cuda-11.0", False),
        # Anybody's package may have a file there; CUDA's own have the directory.
        ("my-cuda-tools", "/usr/local/cuda-10.1", False),
    ],
)
def test_a_cuda_of_a_package_is_nothing_to_tell(
    tmp_path: Path, package: str, path: str, owned: bool
) -> None:
    info = f"/var/lib/dpkg/info/{package}.list"
    files = {
        "/usr/local/cuda-10.1/bin/nvcc": "",
        "/var/lib/dpkg/status": status(("apt", "2.2"), (package, "1"), ("zlib1g", "1")),
        info: f"/.\n/usr\n{path}\n",
    }
    tree(tmp_path, files, {"/usr/local/cuda": "cuda-10.1"})
    assert (cuda_rules.usr_local_cuda(context(tmp_path)) is None) is owned


# apt and dpkg


@pytest.mark.parametrize(
    ("keys", "refused"),
    [
        ([], False),
        ([""], False),
        (["a"], False),
        (["", ""], False),
        (["a", "a"], False),
        (["", "a"], False),
        (["", "", "a", "a"], False),
        (["a", ""], True),
        (["a", "b"], True),
        (["", "a", ""], True),
        (["a", "a", "b"], True),
        (["", "a", "a", "b"], True),
    ],
)
def test_apt_refuses_a_key_that_is_followed_by_another_or_by_none(
    keys: list[str], refused: bool
) -> None:
    assert host_rules._contradicts(keys) is refused


def test_all_files_of_a_conflict_are_told_in_order(tmp_path: Path) -> None:
    folder = "/etc/apt/sources.list.d/"
    files = {f"{folder}{name}.list": CUDA_LIST.replace("cuda", name) for name in "ebdacfg"}
    tree(tmp_path, files)
    (found,) = host_rules.signed_by_conflicts(context(tmp_path))
    assert found[2] == sorted(files)


def test_repositories_are_compared_by_address_and_suite(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "/etc/apt/sources.list": "deb https://b.example/debian stable main\n",
            "/etc/apt/sources.list.d/a.list": CUDA_LIST,
            "/etc/apt/sources.list.d/b.sources": "Types: deb\nURIs: https://nvidia.example/x86_64\n"
            "Suites: / other\nSigned-By: /usr/share/keyrings/old.gpg\n",
            "/etc/apt/sources.list.d/c.list": "deb [Signed-By=/k] https://a.example/x y main\n"
            "deb https://a.example/x/ y main\ndeb [arch=amd64] https://a.example/x z main\n",
        },
    )
    folder = "/etc/apt/sources.list.d/"
    assert host_rules.signed_by_conflicts(context(tmp_path)) == [
        ["https://a.example/x", "y", [folder + "c.list"]],
        ["https://nvidia.example/x86_64", "/", [folder + "a.list", folder + "b.sources"]],
    ]


@pytest.mark.parametrize(
    ("state", "listed"),
    [
        ("installed", False),
        ("triggers-pending", False),
        ("triggers-awaited", False),
        ("config-files", False),
        ("not-installed", False),
        ("half-installed", True),
        ("half-configured", True),
        ("unpacked", True),
    ],
)
def test_what_dpkg_has_not_finished(tmp_path: Path, state: str, listed: bool) -> None:
    """Triggers that are pending run with the next package; nobody needs to do anything."""
    whole = status(("apt", "2.2", "install", "installed"))
    journal = f"Package: slow\nStatus: install ok {state}\n"
    tree(tmp_path, {"/var/lib/dpkg/status": whole, "/var/lib/dpkg/updates/0001": journal})
    expected = [["slow", state]] if listed else []
    assert host_rules.unfinished(context(tmp_path)) == expected
    files = {
        "/var/lib/dpkg/status": status(("slow", "1", "install", state)),
        "/var/lib/dpkg/updates/0001": "",
        "/var/lib/dpkg/updates/tmp.i": journal,
    }
    tree(tmp_path, files)
    assert host_rules.unfinished(context(tmp_path)) == expected


def test_a_journal_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    for text in ("Package: slow\n", "Status: install ok unpacked\n"):
        tree(tmp_path, {"/var/lib/dpkg/updates/0001": text, "/var/lib/dpkg/updates/0002/x": ""})
        assert host_rules.unfinished(context(tmp_path)) == []


def test_unfinished_packages_are_told_in_order(tmp_path: Path) -> None:
    names = ["e", "b", "d", "a", "c"]
    rows = [(name, "1", "install", "unpacked") for name in names]
    tree(tmp_path, {"/var/lib/dpkg/status": status(*rows)})
    found = host_rules.unfinished(context(tmp_path))
    assert [name for name, _state in found] == sorted(names)


def test_a_dpkg_at_work_is_a_process_of_roots_of_that_name(tmp_path: Path) -> None:
    """Anybody could keep a half-installed package out of the plan by a process named dpkg."""
    tree(tmp_path, process(7, "dpkg-query") | process(8, "bash") | {"/proc/5/comm/x": ""})
    tree(tmp_path, process(6, "dpkg") | {"/proc/6/status": "Uid:\t1000\t0\t0\t0\n"})
    assert host_rules.dpkg_at_work(context(tmp_path)) is False
    tree(tmp_path, process(9, "dpkg") | {"/proc/9/status": "Uid:\t0\t0\t0\t0\n"})
    assert host_rules.dpkg_at_work(context(tmp_path)) is True


@pytest.mark.parametrize(
    "name",
    [
        "cuda-drivers",
        "cuda-drivers-535",
        "nvidia-open",
        "nvidia-open-570",
        "nvidia-driver-535",
        "nvidia-driver-535-server",
        "nvidia-driver-535-open",
        "nvidia-driver-535-server-open",
        "libnvidia-compute-535",
        "libnvidia-compute-535-server",
        "nvidia-tesla-470-driver",
        "nvidia-legacy-390xx-driver",
    ],
)
def test_drivers_from_elsewhere(tmp_path: Path, name: str) -> None:
    names = ("nvidia-driver", "nvidia-smi", "libcuda1", "cuda-toolkit-12-4", "xnvidia-open", name)
    tree(tmp_path, {"/var/lib/dpkg/status": status(*[(name, "1") for name in names])})
    assert preflight.look(context(tmp_path))["foreign"] == [name]


def test_cudas_library_for_older_drivers_is_no_driver(tmp_path: Path) -> None:
    """As on a real host, beside a driver of no package: it stopped the run there."""
    tree(tmp_path, {"/var/lib/dpkg/status": status(("cuda-compat-13-0", "580.95.05-0ubuntu1"))})
    assert preflight.look(context(tmp_path))["foreign"] == []


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


# everything in one look


def test_one_look_sees_it_all(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu avx\nprocessor\t: 1\nflags\t\t: fpu\n",
            "/proc/version": "Linux version 5.10 (x) (gcc-10 (Debian 10.2.1-6) 10.2.1, GNU ld",
            "/sys/firmware/efi/efivars/SecureBoot-x": b"\x06\x00\x00\x00\x01",
            "/var/lib/dkms/mok.key": "",
            f"/boot/vmlinuz-{KERNEL}": "",
            f"/lib/modules/{KERNEL}/build/Makefile": "",
            "/usr/bin/nvidia-uninstall": "",
            "/usr/bin/nvidia-installer": "",
            "/usr/local/cuda/bin/nvcc": "",
            "/etc/apt/sources.list.d/a.list": CUDA_LIST,
            "/etc/apt/sources.list.d/b.list": "deb https://nvidia.example/x86_64 /\n",
            "/root/.bashrc": "conda initialize",
            "/var/lib/dpkg/status": status(
                ("nvidia-open", "1"), ("cuda-drivers", "1"), ("x", "1", "install", "unpacked")
            ),
            **process(7, "python3"),
            **process(8, "dpkg"),
        },
        {"/proc/7/fd/3": "/dev/nvidia0"},
    )
    found = preflight.look(context(tmp_path))
    day, minute = found.pop("clock")
    assert 0 <= day <= 6
    assert 0 <= minute < 24 * 60
    assert set(found.pop("disk")) == {
        "/usr",
        "/var/cache/apt",
        "/var/lib/dkms",
        "/var/tmp",
        "/opt/nvidia/cudnn",
        "/opt/tensorflow",
    }
    folder = "/etc/apt/sources.list.d/"
    assert found == {
        "bundle": None,
        "cache": None,
        "avx": True,
        "boot": None,
        "processes": [{"pid": 7, "user": "0", "command": "python3"}],
        "secure_boot": True,
        "module_key": False,
        "signing": {
            "certificate": "/var/lib/dkms/mok.pub",
            "enrolled": False,
            "given": False,
            "made": False,
        },
        "headers": {KERNEL: "installed"},
        "compilers": {"kernel": 10, "installed": [], "default": None},
        "boot_words": "",
        "module_signers": {},
        "offered_modules": {},
        "unfinished": [["x", "unpacked"]],
        "dpkg_at_work": True,
        "driver_hangs": None,
        "foreign": ["cuda-drivers", "nvidia-open"],
        "signed_by": [
            ["https://nvidia.example/x86_64", "/", [folder + "a.list", folder + "b.list"]]
        ],
        "installer": ["/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer"],
        "usr_local_cuda": {"path": "/usr/local/cuda", "named_in": []},
        "conda": ["/root/.bashrc"],
        "sshd_without_pam": None,
        "system_tensorflow": [],
        "trusted_gpg": False,
        "apt_sources": [],
        "apt_config": None,
        "running": None,
        "users": [],
    }


def test_an_nvidia_smi_that_does_not_end_is_reported_in_its_words(tmp_path: Path) -> None:
    """One that fails for another reason is no driver that hangs."""
    silence = "nvidia-smi did not answer within 120 s"
    asks = tuple(processes.COMPUTE_APPS)
    hangs = asked(tmp_path, {asks: Result(SILENT, "", silence)})
    assert preflight.look(hangs)["driver_hangs"] == silence
    fails = asked(tmp_path, {asks: Result(9, "", "no devices")})
    assert preflight.look(fails)["driver_hangs"] is None


def test_packages_from_before_the_first_run_are_named_where_their_component_goes(
    tmp_path: Path,
) -> None:
    tree(tmp_path, {"/var/lib/dpkg/status": status(("libcuda1", "470.1"))})
    facts = copy.deepcopy(GOOD)
    preflight.survey(context(tmp_path), facts, {"changes": [], "absent": ["nvidia_driver"]})
    _, notices = preflight.judge(facts, [], {}, ROW, ["nvidia_driver"])
    assert [(notice["id"], notice["message"]) for notice in notices] == [
        (
            "there-before",
            "libcuda1 470.1 stay on the host: they were there before this program came",
        ),
    ]


def test_room_for_an_initramfs_is_that_of_the_largest(tmp_path: Path) -> None:
    initramfs = {f"/boot/initrd.img-{KERNEL}": "x" * 3000, "/boot/initrd.img-5.10.0-9-amd64": "x"}
    tree(tmp_path, initramfs)
    found = kernel_rules.boot(context(tmp_path))
    assert found is not None
    assert found["needed"] == 3000 + (1 << 26)
    assert found["free"] > 0


def test_an_initramfs_that_is_not_there_needs_no_room(tmp_path: Path) -> None:
    assert kernel_rules.boot(context(tmp_path)) is None
    tree(tmp_path, {f"/boot/initrd.img-{KERNEL}": "x" * 3000})
    (tmp_path / "boot" / "initrd.img-old").symlink_to("nowhere")
    here = context(tmp_path)
    assert (kernel_rules.boot(here) or {})["needed"] == 3000 + (1 << 26)
    here.disk_free = lambda _path: None
    assert kernel_rules.boot(here) is None


def test_the_first_processor_speaks_for_all(tmp_path: Path) -> None:
    tree(tmp_path, {"/proc/cpuinfo": "model : x avx\nflags : fpu sse\nflags : fpu avx\n"})
    assert preflight.look(context(tmp_path))["avx"] is False


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


def test_generations_are_told_in_the_order_of_their_names() -> None:
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


# the rules


def test_reasons_are_told_in_the_order_of_generations() -> None:
    """Two cards that are too new, and the same one twice."""
    gpus = [{"device": "0x2b85"}, {"device": "0x2684"}, {"device": "0x2684"}]
    arguments = (copy.deepcopy(GOOD) | {"gpus": gpus}, CHANGES, {}, ROW)
    told = [
        blocker
        for blocker in preflight.blockers(*arguments)
        if blocker["id"] == "gpu-driver-window"
    ]
    assert [reason["message"].split()[1] for reason in told] == ["Ada", "Blackwell"]


def test_a_branch_may_have_more_numbers() -> None:
    row = {**ROW, "nvidia_driver": {**ROW["nvidia_driver"], "branch": "470.256"}}
    assert reasons({"row": row}) == {}
    row = {**ROW, "nvidia_driver": {**ROW["nvidia_driver"], "branch": 390}}
    assert "gpu-driver-window" in reasons({"row": row})


def test_a_candidate_of_a_release_is_of_that_release() -> None:
    case = {"gpus": [{"device": "0x2330"}], "row": {**ROW, "tensorflow": {"version": "2.12.0rc1"}}}
    assert "gpu-translated" not in reasons(case)


def test_kernels_without_headers_are_told_in_order() -> None:
    found = copy.deepcopy(GOOD)
    names = [f"5.10.0-{number}-amd64" for number in (13, 11, 14, 12)]
    found["preflight"]["headers"] = dict.fromkeys(names, "absent")
    told = [
        blocker["message"].split()[4] for blocker in preflight.blockers(found, CHANGES, {}, ROW)
    ]
    assert told == sorted(names)


def test_both_programs_of_a_run_file_are_named() -> None:
    both = ["/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer"]
    message = reasons({"preflight.installer": both})["runfile-driver"]["message"]
    assert "(/usr/bin/nvidia-uninstall, /usr/bin/nvidia-installer)" in message


def test_cudas_profile_changes_nothing_for_the_driver() -> None:
    """Runtime needs more room in /usr than the driver: a disk for the driver will do."""
    rooms = {"/usr": {"free": room.NEEDS["nvidia_driver"]["/usr"], "device": 1}}
    case = {"preflight.disk": rooms, "options": {"cuda_profile": "runtime"}}
    driver = [change for change in CHANGES if change["component"] == "nvidia_driver"]
    assert reasons(case, driver) == {}


def test_full_disks_are_told_each_in_order() -> None:
    rooms = {
        "/usr": {"free": 1, "device": 9},
        "/opt/tensorflow": {"free": 2 * GB, "device": 3},
        "/var/cache/apt": {"free": 50 * GB, "device": 4},
    }
    arguments = (copy.deepcopy(GOOD), CHANGES, {}, ROW)
    arguments[0]["preflight"]["disk"] = rooms
    messages = [blocker["message"] for blocker in preflight.blockers(*arguments)]
    assert [message.split("(")[1] for message in messages] == [
        "tensorflow in /opt/tensorflow)",
        "cuda in /usr, nvidia_driver in /usr)",
    ]
    assert "2.0 GB are free where 2.7 GB are needed" in messages[0]
    assert "0.0 GB are free where 4.3 GB are needed" in messages[1]


def test_a_component_of_which_nothing_is_known_needs_its_room() -> None:
    """And one that installs nothing needs none."""
    found = copy.deepcopy(GOOD)
    found["preflight"]["disk"] = {"/usr": {"free": 1, "device": 1}}
    del found["state"]["cuda"]
    cuda = [change for change in CHANGES if change["component"] == "cuda"]
    assert [blocker["id"] for blocker in preflight.blockers(found, cuda, {}, ROW)] == ["disk"]
    other = [change("gpu_env", "/etc/environment", None, "x", "y")]
    assert preflight.blockers(found, other, {}, ROW) == []


def test_a_reboot_that_is_not_allowed_disturbs_no_job() -> None:
    """Nor does one that is owed by another component."""
    case = {"preflight.processes": [JOB], "options": {"nvidia_driver_reboot": True}}
    other = [change("cuda", "libcudart11.0", None, "x", "y", reboot=True)]
    assert reasons(case, other) == {}
    hold = change("nvidia_driver", "libcuda1 hold", "not held", "held", "x")
    assert reasons(case, [hold]) == {}
    assert reasons(case, [hold, *other]) == {}
    package = [change("nvidia_driver", "nvidia-driver", None, "470.256.02-2", "x")]
    assert "gpu-processes" in reasons({"preflight.processes": [JOB]}, package)


def test_one_change_that_reboots_is_enough_to_disturb_a_job() -> None:
    case = {"preflight.processes": [JOB], "options": {"nvidia_driver_reboot": True}}
    hold = change("nvidia_driver", "libcuda1 hold", "not held", "held", "x")
    module = change("nvidia_driver", "module in the kernel", "a", "b", "x", reboot=True)
    assert "gpu-processes" in reasons(case, [hold, module])


@pytest.mark.parametrize(
    ("item", "to", "disturbs"),
    [
        ("nvidia-driver-535", None, True),
        ("nvidia-driver-535", "535.1", False),
        ("/etc/modprobe.d/x.conf", None, False),
        ("driver (.run)", "470.256.02", True),
        ("libcuda1", "470.256.02-2", True),
    ],
)
def test_a_driver_that_goes_is_changed_under_its_jobs(
    item: str, to: str | None, disturbs: bool
) -> None:
    one = [change("nvidia_driver", item, "1", to, "x")]
    assert ("gpu-processes" in reasons({"preflight.processes": [JOB]}, one)) is disturbs
    other = [change("cuda", item, "1", to, "x")]
    assert "gpu-processes" not in reasons({"preflight.processes": [JOB]}, other)


def test_a_driver_that_the_plan_removes_is_no_foreign_one() -> None:
    case = {"preflight.foreign": ["nvidia-driver-535"]}
    gone = change("nvidia_driver", "nvidia-driver-535", "535", None, "x")
    moved = change("nvidia_driver", "nvidia-driver-535", "535", "535.1", "x")
    assert "foreign-driver" not in reasons(case, [gone])
    assert "foreign-driver" in reasons(case, [moved])


def test_holds_are_told_in_order_and_with_the_way_out() -> None:
    versions = {"nvidia-smi": "535", "libcuda1": "535", "nvidia-persistenced": "535"}
    packages = {
        name: {"version": version, "want": "hold", "status": "installed"}
        for name, version in versions.items()
    }
    packages["somebodys"] = packages["libcuda1"]
    found = reasons({"state.nvidia_driver.packages": packages})["held"]
    assert found["message"].endswith("libcuda1 535, nvidia-persistenced 535, nvidia-smi 535")
    assert found["hint"].endswith("apt-mark unhold libcuda1 nvidia-persistenced nvidia-smi")


def test_a_host_whose_driver_was_not_looked_at_has_no_holds() -> None:
    found = copy.deepcopy(GOOD)
    found["state"]["nvidia_driver"] = {"kernels": [KERNEL]}
    assert preflight.blockers(found, CHANGES, {}, ROW) == []
    assert reasons({"state.nvidia_driver.packages": None}) == {}
    assert held("x")


def test_a_strangers_half_package_is_named_beside_ours() -> None:
    case = {"preflight.unfinished": [["libcuda1", "half-installed"], ["b", "half-installed"],
                                     ["a", "unpacked"]]}  # fmt: skip
    found = copy.deepcopy(GOOD)
    found["preflight"].update({"unfinished": case["preflight.unfinished"]})
    told = preflight.blockers(found, CHANGES, {}, ROW)
    assert [entry["id"] for entry in told] == ["dpkg-broken"]
    assert "the package b in state half-installed" in told[0]["message"]


def test_a_lock_without_driver_or_cuda_is_no_fault() -> None:
    """A stack may be TensorFlow alone; what it locks is then nothing of the two."""
    found = copy.deepcopy(GOOD)
    found["preflight"].update({"unfinished": [["libcuda1", "half-installed"]]})
    only = [change for change in CHANGES if change["component"] == "tensorflow"]
    row = {"tensorflow": ROW["tensorflow"]}
    told = preflight.blockers(found, only, None, row)
    assert [entry["id"] for entry in told] == ["dpkg-broken"]
    row["cuda"] = {}
    assert [blocker["id"] for blocker in preflight.blockers(found, only, None, row)] == [
        "dpkg-broken"
    ]


def test_a_conflict_of_keys_is_told_for_every_repository() -> None:
    conflicts = [["https://a", "x", ["/1", "/2"]], ["https://b", "y", ["/3"]]]
    found = copy.deepcopy(GOOD)
    found["preflight"]["signed_by"] = conflicts
    told = preflight.blockers(found, CHANGES, {}, ROW)
    assert [reason["message"].split(": ")[1] for reason in told] == [
        "https://a x is named with different keys (Signed-By) in /1 and /2",
        "https://b y is named with different keys (Signed-By) in /3",
    ]


@pytest.mark.parametrize(
    ("aside", "told"),
    [
        ([], ["a", "b", "c"]),
        # What is left of the first agrees with itself; the second is not touched by it.
        (["/1"], ["b", "c"]),
        # Two of the last are left, and they may contradict each other.
        (["/5"], ["a", "b", "c"]),
        (["/4", "/5"], ["a", "b"]),
    ],
)
def test_a_conflict_that_the_run_puts_aside_is_none(aside: list[str], told: list[str]) -> None:
    found = copy.deepcopy(GOOD)
    found["preflight"]["signed_by"] = [
        ["a", "x", ["/1", "/2"]], ["b", "x", ["/3"]], ["c", "x", ["/4", "/5", "/6"]],
    ]  # fmt: skip
    changes = [change("cuda", file, "there", other_sources.ASIDE, "x") for file in aside]
    changes.append(change("cuda", "/2", "there", "written", "x"))
    reasons_told = preflight.blockers(found, changes, {}, ROW)
    words = [reason["message"].split(": ")[1].split()[0] for reason in reasons_told]
    assert words == told


@pytest.mark.parametrize(
    ("cuda", "told"),
    [
        ({"source": "network"}, []),
        ({"source": "local"}, []),
        ({"source": "distribution"}, ["unowned-cuda"]),
        # What of CUDA is there goes, and the stack has none.
        (None, ["unowned-cuda"]),
    ],
)
def test_a_cuda_of_nobody_is_in_nobodys_way_where_the_place_is_nvidias(
    cuda: Any, told: list[str]
) -> None:
    found = copy.deepcopy(GOOD)
    found["preflight"]["usr_local_cuda"] = {"path": "/usr/local/cuda", "named_in": ["/f"]}
    changes = [change("cuda", "libcudart11.0", "11.2", None, "x")]
    row = {**ROW, "cuda": {**(ROW.get("cuda") or {}), **cuda} if cuda else None}
    assert [blocker["id"] for blocker in preflight.blockers(found, changes, {}, row)] == told


def test_a_proof_that_is_owed_is_stopped_by_another_run_alone() -> None:
    """Nothing is installed for it: a full disk is not in its way."""
    proof = [change("receipt", "proof", "unfinished", "proven", "x")]
    found = copy.deepcopy(GOOD)
    found["preflight"].update({"signed_by": [["u", "s", ["/f"]]], "running": {"who": "a"}})
    (told,) = preflight.blockers(found, proof, {}, ROW)
    assert (told["id"], told["component"]) == ("run-in-progress", None)


def test_users_of_bash_are_told_in_order() -> None:
    left = dict.fromkeys(("eve", "bob"), gpu_env.NO_USER)
    left |= dict.fromkeys(("dan", "ada"), "it is not a regular file")
    found = {"state": {"gpu_env": {"left": left}}}
    ((message, _hint),) = env_rules.bashrc_user(found, [], {}, ROW)
    assert message.startswith("gpu_env_bashrc_users names bob, eve:")
    told = [message.split("/")[0] for message, _hint in env_rules.bashrc_left(found, [], {}, ROW)]
    assert told == ["~ada", "~dan"]


@pytest.mark.parametrize("state", [{}, {"gpu_env": {}}, {"gpu_env": {"left": None}}])
def test_a_host_where_nobodys_file_is_left_gives_no_reason(state: dict[str, Any]) -> None:
    assert env_rules.bashrc_user({"state": state}, [], {}, ROW) == []
    assert env_rules.bashrc_left({"state": state}, [], {}, ROW) == []


def test_people_are_told_in_order_of_their_names() -> None:
    options = {"gpu_workspaces": [{"name": name, "user": "7"} for name in ("bob", "ada")]}
    for rule, key in (
        (workspace_rules.workspace_user, "users"),
        (workspace_rules.workspace_volume, "volumes"),
    ):
        found: dict[str, Any] = {"preflight": {"workspaces": {key: {"bob": "b", "ada": "a"}}}}
        first, second = (message for message, _hint in rule(found, [], options, ROW))
        assert "ada" in first
        assert "bob" in second
        for seen in ({}, {key: None}):
            assert rule({"preflight": {"workspaces": seen}}, [], options, ROW) == []


def test_a_workspace_without_a_limit_takes_nothing_from_the_sum_of_the_others() -> None:
    """To the byte: ada alone may use more than this host has."""
    data = shared()
    _ada, bob = data["options"]["gpu_workspaces"]
    del bob["memory"]
    for memory, ids in (((3 << 30) - 1, ["workspace-memory"]), (3 << 30, [])):
        data["found"]["preflight"]["workspaces"]["memory"] = memory
        told = rule_states.reasons(data, ("gpu_workspace",))
        assert list(told) == ids


def test_terms_are_nobodys_where_no_door_is_wished_for() -> None:
    options = {"gpu_front_door_tls": "acme"}
    assert front_door_rules.front_door_terms({}, [], options, ROW) == []
    options["gpu_front_door_name"] = "gpu01.example.org"
    assert len(front_door_rules.front_door_terms({}, [], options, ROW)) == 1


def test_links_of_cudnn_need_no_archive() -> None:
    options = {"cudnn_archive_absent": "/srv/cudnn.tgz"}
    row = {"cudnn": {"version": "8.1.0.77", "cuda": "11.2", "sha256": "d" * 64}}
    for item, count in (("current", 0), ("8.1.0.77-cuda11.2", 1)):
        changes = [change("cudnn", item, None, "present", "the lock says so")]
        assert len(cudnn_rules.cudnn_archive_absent({}, changes, options, row)) == count


def test_all_reasons_why_a_package_would_go_are_told() -> None:
    why = ["needs libcublas11", "conflicts with libcuda1"]
    assert rules.some_packages([["solver", "1.0", why], ["tool", "2", []]]) == (
        "solver 1.0 (needs libcublas11; conflicts with libcuda1), tool 2"
    )
