"""The look that preflight's rules rest on: on recorded trees, and everything at once."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from gpu_stack import preflight
from gpu_stack.components.cuda import rules as cuda_rules
from gpu_stack.components.nvidia_driver import kernel_rules
from gpu_stack.components.tensorflow import rules as tensorflow_rules
from gpu_stack.host import processes
from gpu_stack.host.context import SILENT, Result

from .odd_hosts import CUDA_LIST, asked, process
from .test_preflight import GOOD, ROW
from .trees import KERNEL, context, places, status, tree

# the look, on recorded trees


def test_avx_is_read_from_the_processors_flags(tmp_path: Path) -> None:
    tree(tmp_path, {"/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu sse4_2 avx avx2\n"})
    assert preflight.look(context(tmp_path))["avx"] is True
    tree(tmp_path, {"/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu sse4_2 avxish\n"})
    assert preflight.look(context(tmp_path))["avx"] is False
    assert preflight.look(context(tmp_path / "none"))["avx"] is None


def test_processes_are_found_by_their_open_device_files(tmp_path: Path) -> None:
    """The persistence daemon holds the devices too, and is not anybody's job."""
    tree(
        tmp_path,
        {
            "/proc/77/comm": "python\n",
            "/proc/77/cmdline": "python\0train.py\0",
            "/proc/77/status": "Name:\tpython\nUid:\t1001\t1001\t1001\t1001\n",
            "/proc/88/comm": "nvidia-persiste\n",
            "/etc/passwd": "root:x:0:0::/root:/bin/sh\nada:x:1001:1001::/home/ada:/bin/bash\n",
        },
        {
            "/proc/77/fd/3": "/dev/nvidia-uvm",
            "/proc/77/fd/0": "/dev/null",
            "/proc/88/fd/4": "/dev/nvidiactl",
        },
    )
    expected = {"pid": 77, "user": "ada", "command": "python train.py"}
    assert processes.processes(context(tmp_path)) == [expected]


def test_processes_that_only_nvidia_smi_sees_are_added(tmp_path: Path) -> None:
    answer = {"nvidia-smi": Result(0, "991, /usr/bin/python3\n", "")}
    (process,) = processes.processes(context(tmp_path, answers=answer))
    assert (process["pid"], process["command"]) == (991, "/usr/bin/python3")
    broken = {"nvidia-smi": Result(9, "NVIDIA-SMI has failed because it couldn't communicate", "")}
    assert processes.processes(context(tmp_path, answers=broken)) == []


@pytest.mark.parametrize(("value", "expected"), [(b"\x01", True), (b"\x00", False)])
def test_secure_boot_is_the_variables_fifth_byte(
    tmp_path: Path, value: bytes, expected: bool
) -> None:
    name = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    tree(tmp_path, {name: b"\x06\x00\x00\x00" + value})
    assert kernel_rules.secure_boot(context(tmp_path)) is expected


def test_headers_are_installed_offered_absent_or_unknown(tmp_path: Path) -> None:
    offered = Result(
        0, f"linux-headers-{KERNEL}:\n  Installed: (none)\n  Candidate: 5.10.262-1\n", ""
    )
    gone = Result(0, "", "")
    assert kernel_rules.headers(context(tmp_path, answers={"apt-cache": gone}), KERNEL) == "unknown"
    tree(tmp_path, {"/var/lib/apt/lists/deb.debian.org_x_Packages.lz4": ""})
    assert kernel_rules.headers(context(tmp_path, answers={"apt-cache": gone}), KERNEL) == "absent"
    assert (
        kernel_rules.headers(context(tmp_path, answers={"apt-cache": offered}), KERNEL) == "offered"
    )
    tree(tmp_path, {f"/lib/modules/{KERNEL}/build/Makefile": ""})
    assert kernel_rules.headers(context(tmp_path), KERNEL) == "installed"


@pytest.mark.parametrize(
    ("version", "major"),
    [
        ("Linux version 5.10.0-46-amd64 (debian-kernel@lists.debian.org) (gcc-10 (Debian 10.2.1-6) "
         "10.2.1 20210110, GNU ld (GNU Binutils for Debian) 2.35.2) #1 SMP", 10),
        ("Linux version 6.5.0-14-generic (buildd@lcy02) (x86_64-linux-gnu-gcc-12 (Ubuntu "
         "12.3.0-1ubuntu1~22.04) 12.3.0, GNU ld", 12),
        ("Linux version 4.19.0-20-amd64 (x) (gcc version 8.3.0 (Debian 8.3.0-6)) #1 SMP", 8),
        ("Linux version 6.18.44 (builder@x) (gcc (GCC) 15.3.0, GNU ld (GNU Binutils) 2.46) #1", 15),
        ("Linux version 6.1 (x) (clang version 17.0.6) #1", None),
    ],
)  # fmt: skip
def test_the_kernels_compiler(tmp_path: Path, version: str, major: int | None) -> None:
    tree(tmp_path, {"/proc/version": version, "/usr/bin/x86_64-linux-gnu-gcc-10": ""},
         {"/usr/bin/gcc-10": "x86_64-linux-gnu-gcc-10", "/usr/bin/gcc": "gcc-10"})  # fmt: skip
    seen = kernel_rules.compilers(context(tmp_path))
    assert seen == {"kernel": major, "installed": [10], "default": 10}


def test_packages_from_elsewhere_and_half_way(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "/var/lib/dpkg/status": status(
                ("cuda-drivers", "535.54-1"),
                ("nvidia-driver-535-server", "535.54-1"),
                ("nvidia-smi", "470.256.02-2"),
                ("nvidia-driver", "470.256.02-2"),
                ("libc6", "2.31-13", "install", "half-configured"),
            )
        },
    )
    seen = preflight.look(context(tmp_path))
    assert seen["foreign"] == ["cuda-drivers", "nvidia-driver-535-server"]
    assert seen["unfinished"] == [["libc6", "half-configured"]]


def test_a_dpkg_at_work_is_seen(tmp_path: Path) -> None:
    tree(tmp_path, {"/proc/7/comm": "dpkg-deb\n", "/proc/8/comm": "apt-get\n"})
    assert preflight.look(context(tmp_path))["dpkg_at_work"] is False
    tree(tmp_path, {"/proc/9/comm": "dpkg\n", "/proc/9/status": "Uid:\t0\t0\t0\t0\n"})
    assert preflight.look(context(tmp_path))["dpkg_at_work"] is True


def test_a_killed_dpkg_left_a_journal(tmp_path: Path) -> None:
    """Its last steps, in order: the newest counts, and what they finished is finished."""
    steps = [("slow", "unpacked"), ("slow", "half-configured"), ("libc6", "installed")]
    journal = {
        f"/var/lib/dpkg/updates/{number:04}": f"Package: {name}\nStatus: install ok {state}\n"
        for number, (name, state) in enumerate(steps)
    }
    old = status(("libc6", "2.31-13", "install", "half-configured"))
    tree(tmp_path, {"/var/lib/dpkg/status": old, **journal})
    assert preflight.look(context(tmp_path))["unfinished"] == [["slow", "half-configured"]]


def test_one_repository_with_two_keys(tmp_path: Path) -> None:
    """apt stops altogether, and its message names no file."""
    tree(
        tmp_path,
        {
            "/etc/apt/sources.list.d/a.list": (
                "deb [signed-by=/usr/share/keyrings/cuda.gpg] https://nvidia.example/x86_64/ /\n"
            ),
            "/etc/apt/sources.list.d/b.list": "deb https://nvidia.example/x86_64 /\n",
            "/etc/apt/sources.list": "deb https://nvidia.example/other /\n",
        },
    )
    assert preflight.look(context(tmp_path))["signed_by"] == [
        [
            "https://nvidia.example/x86_64",
            "/",
            ["/etc/apt/sources.list.d/a.list", "/etc/apt/sources.list.d/b.list"],
        ]
    ]


def test_a_cuda_of_nobody_and_one_of_a_package(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "/usr/local/cuda-10.1/bin/nvcc": "",
            "/etc/profile.d/cuda.sh": "export PATH=/usr/local/cuda/bin:$PATH\n",
        },
        {"/usr/local/cuda": "cuda-10.1"},
    )
    expected = {"path": "/usr/local/cuda-10.1", "named_in": ["/etc/profile.d/cuda.sh"]}
    assert cuda_rules.usr_local_cuda(context(tmp_path)) == expected
    tree(
        tmp_path,
        {
            "/var/lib/dpkg/status": status(("cuda-toolkit-10-1", "10.1.243-1")),
            "/var/lib/dpkg/info/cuda-toolkit-10-1.list": "/.\n/usr/local\n/usr/local/cuda-10.1\n",
        },
    )
    assert cuda_rules.usr_local_cuda(context(tmp_path)) is None


def test_conda_in_a_login_file(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "/root/.bashrc": "# >>> conda initialize >>>\n",
            "/root/.profile": "# PATH=/opt/miniconda3/bin is what others write\n",
        },
    )
    assert tensorflow_rules.conda(context(tmp_path)) == ["/root/.bashrc"]
    tree(tmp_path, {"/root/.profile": "export PATH=/opt/miniconda3/bin:$PATH\n"})
    assert tensorflow_rules.conda(context(tmp_path)) == ["/root/.bashrc", "/root/.profile"]


def test_every_place_something_goes_to_has_its_room(tmp_path: Path) -> None:
    seen = preflight.look(context(tmp_path, options={"cudnn_root": "/data/cudnn"}))
    assert set(seen["disk"]) == places("/data/cudnn")


def test_the_installer_of_the_run_file(tmp_path: Path) -> None:
    tree(tmp_path, {"/usr/bin/nvidia-uninstall": ""})
    assert preflight.look(context(tmp_path))["installer"] == ["/usr/bin/nvidia-uninstall"]


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
    seen = preflight.look(context(tmp_path))
    day, minute = seen.pop("clock")
    assert 0 <= day <= 6
    assert 0 <= minute < 24 * 60
    assert set(seen.pop("disk")) == {
        "/usr",
        "/var/cache/apt",
        "/var/lib/dkms",
        "/var/tmp",
        "/opt/nvidia/cudnn",
        "/opt/tensorflow",
    }
    folder = "/etc/apt/sources.list.d/"
    assert seen == {
        "bundle": None,
        "cache": None,
        "avx": True,
        "boot": None,
        "gpus_of_people": {},
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
    seen = kernel_rules.boot(context(tmp_path))
    assert seen is not None
    assert seen["needed"] == 3000 + (1 << 26)
    assert seen["free"] > 0


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
