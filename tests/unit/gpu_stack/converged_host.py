"""A Debian 11 host that is exactly as its lock says, written into a directory.

Small on purpose: two CUDA libraries, three cuDNN files, three wheels; every kind of thing that the
look looks at is there once or twice. Tests damage it and expect exactly the change that names the
damage.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gpu_stack.look
from gpu_stack.components import gpu_env
from gpu_stack.components.gpu_env.shell_startup import BEGIN, END
from gpu_stack.host.context import Result, run_nothing

from tests import host_tree
from tests.debian11 import stack

CUDART = "11.2.152~11.2.2-3+deb11u3"
CUSOLVER = "11.1.1+~11.1.0.152~11.2.2-3+deb11u3"
TOOLKIT = "11.2.2-3+deb11u3"
LIB = "/usr/lib/x86_64-linux-gnu"
ELF = b"\x7fELF" + b"\0" * 60
ARCHIVE = "d" * 64
REQUIREMENTS_TEXT = "absl-py==2.3.1\nnumpy==1.26.4\ntensorflow==2.9.3\n"
REQUIREMENTS = hashlib.sha256(REQUIREMENTS_TEXT.encode()).hexdigest()
CUDNN = "/opt/nvidia/cudnn/8.1.0.77-cuda11.2"
VENV = f"/opt/tensorflow/2.9.3-{REQUIREMENTS[:8]}"
SITE = VENV + "/lib/python3.9/site-packages"

# When the packages were built, and when they came to this host.
BUILT = 1_655_664_320
INSTALLED = 1_760_000_000

LIBRARY = "tensorflow/python/_pywrap_tensorflow_internal.so"

WISH = {"tensorflow": "2.9"}
LOCK: dict[str, Any] = {
    "format": 1,
    "digest": "sha256:" + "0" * 64,
    "rows": [
        {
            "platform": {"distribution": "debian", "release": "11", "architecture": "x86_64"},
            "wish": WISH,
            "stack": "debian11-small",
        }
    ],
    "stacks": {
        "debian11-small": stack(
            cuda={
                "packages": {
                    "runtime": {"libcudart11.0": CUDART, "libcusolver11": CUSOLVER},
                    "toolkit": {
                        "libcudart11.0": CUDART,
                        "libcusolver11": CUSOLVER,
                        "nvidia-cuda-toolkit": TOOLKIT,
                    },
                },
                "sonames": {
                    "libcudart.so.11.0": "libcudart11.0",
                    "libcusolver.so.11": "libcusolver11",
                },
                "files": {
                    "libdevice": {
                        "path": "/usr/lib/nvidia-cuda-toolkit/libdevice/libdevice.10.bc",
                        "package": "nvidia-cuda-toolkit",
                    },
                    "ptxas": {"path": "/usr/bin/ptxas", "package": "nvidia-cuda-toolkit"},
                },
            },
            cudnn={"sha256": ARCHIVE},
            gpu_env={},
            tensorflow={
                "wheels": {"absl-py": "2.3.1", "numpy": "1.26.4", "tensorflow": "2.9.3"},
                "requirements_sha256": REQUIREMENTS,
            },
        )
    },
}


class Host:
    """A recorded host below `root`: write, remove and link by the paths it has there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.packages: dict[str, dict[str, str]] = {}
        self.loader: dict[str, str] = {}

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def write(self, path: str, content: str | bytes) -> None:
        host_tree.put(self.root, path, content)

    def link(self, path: str, target: str) -> None:
        host_tree.link(self.root, path, target)

    def remove(self, path: str) -> None:
        self.path(path).unlink()

    def package(self, name: str, version: str, files: Sequence[str], state: str = "") -> None:
        """An installed package; dpkg gives files the package's time, its list the day's."""
        self.packages[name] = {"version": version, "state": state or "hold ok installed"}
        sums = [
            f"{hashlib.md5(self.path(file).read_bytes()).hexdigest()}  {file.lstrip('/')}"  # noqa: S324  dpkg's own
            for file in files
            if self.path(file).is_file() and not self.path(file).is_symlink()
        ]
        record = f"/var/lib/dpkg/info/{name}:amd64"
        self.write(record + ".md5sums", "\n".join(sums) + "\n")
        self.write(record + ".list", "/.\n" + "\n".join(files) + "\n")
        for path in [*files, record + ".md5sums"]:
            self.date(path, BUILT)
        self.date(record + ".list", INSTALLED)
        self.write_status()

    def date(self, path: str, when: int) -> None:
        """Set a file's, or a link's own, time."""
        os.utime(self.path(path), (when, when), follow_symlinks=False)

    def alter(self, path: str, content: bytes) -> None:
        """Other content in the same file at the same time, as a failing disk writes it."""
        info = self.path(path).stat()
        self.path(path).write_bytes(content)
        os.utime(self.path(path), ns=(info.st_atime_ns, info.st_mtime_ns))

    def wheel(self, name: str, files: dict[str, bytes]) -> None:
        """An installed wheel: its files and its RECORD, with what pip compiled of them."""
        lines = []
        for path, content in files.items():
            self.write(f"{SITE}/{path}", content)
            self.date(f"{SITE}/{path}", INSTALLED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
            lines.append(f"{path},sha256={digest.rstrip('=')},{len(content)}")
            if path.endswith(".py"):
                compiled = path.replace(".py", ".cpython-39.pyc")
                self.write(f"{SITE}/{compiled}", b"compiled")
                self.date(f"{SITE}/{compiled}", INSTALLED)
                # numpy's wheel brings compiled files, with hashes, which pip then compiles anew
                lines.append(f"{compiled},sha256=abc,3")
        record = f"{SITE}/{name}.dist-info/RECORD"
        self.write(f"{SITE}/{name}.dist-info/METADATA", "Name: x\n")
        self.write(record, "\n".join([*lines, f"{name}.dist-info/RECORD,,"]) + "\n")
        self.date(record, INSTALLED)

    def write_status(self) -> None:
        self.write(
            "/var/lib/dpkg/status",
            "".join(
                f"Package: {name}\nStatus: {package['state']}\nArchitecture: amd64\n"
                f"Version: {package['version']}\nDescription: text\n more text\n\n"
                for name, package in self.packages.items()
            ),
        )

    def run(self, argv: Sequence[str]) -> Result:
        """What the host's programs would answer."""
        if list(argv) == ["/sbin/ldconfig", "-p"]:
            lines = [f"\t{name} (libc6,x86-64) => {path}" for name, path in self.loader.items()]
            return Result(0, f"{len(lines)} libs found in cache\n" + "\n".join(lines) + "\n", "")
        return Result(127, "", "no such program")

    def plan(self, **changed: Any) -> dict[str, Any]:
        """The plan for this host; any argument of `gpu_stack.look.examine` may be given."""
        arguments: dict[str, Any] = {
            "lock": copy.deepcopy(LOCK),
            "wish": WISH,
            "options": {},
            "only": ["all"],
            "skip": [],
            **changed,
        }
        result: dict[str, Any] = gpu_stack.look.examine(
            root=str(self.root), runner=self.run, **arguments
        )
        return result

    def items(self, **changed: Any) -> list[tuple[str, str, str | None]]:
        """(component, item, from) of every change in the plan."""
        changes = self.plan(**changed)["changes"]
        return [(change["component"], change["item"], change["from"]) for change in changes]


def _cuda(host: Host) -> None:
    host.write(LIB + "/libcudart.so.11.2.152", ELF)
    host.link(LIB + "/libcudart.so.11.0", "libcudart.so.11.2.152")
    host.write(LIB + "/libcusolver.so.11.1.0.152", ELF)
    host.link(LIB + "/libcusolver.so.11", "libcusolver.so.11.1.0.152")
    host.write("/usr/bin/ptxas", ELF)
    host.write("/usr/lib/nvidia-cuda-toolkit/libdevice/libdevice.10.bc", b"BC")
    host.link("/usr/lib/cuda/nvvm/libdevice", "../../nvidia-cuda-toolkit/libdevice")
    host.package(
        "libcudart11.0", CUDART, [LIB + "/libcudart.so.11.2.152", LIB + "/libcudart.so.11.0"]
    )
    host.package(
        "libcusolver11", CUSOLVER, [LIB + "/libcusolver.so.11.1.0.152", LIB + "/libcusolver.so.11"]
    )
    host.package(
        "nvidia-cuda-toolkit",
        TOOLKIT,
        ["/usr/bin/ptxas", "/usr/lib/nvidia-cuda-toolkit/libdevice/libdevice.10.bc"],
    )
    host.write(
        "/etc/apt/sources.list", "deb http://deb.debian.org/debian bullseye main contrib non-free\n"
    )
    host.write(
        "/etc/apt/preferences.d/provision-cuda",
        "# ours\n"
        + "".join(
            f"\nPackage: {name}\nPin: version {package['version']}\nPin-Priority: 1001\n"
            for name, package in host.packages.items()
        ),
    )
    host.loader["libcudart.so.11.0"] = LIB + "/libcudart.so.11.0"
    host.loader["libcusolver.so.11"] = LIB + "/libcusolver.so.11"


def _cudnn(host: Host) -> None:
    header = "#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n"
    host.write(CUDNN + "/include/cudnn_version.h", header)
    host.write(CUDNN + "/lib64/libcudnn.so.8.1.0", ELF)
    host.link(CUDNN + "/lib64/libcudnn.so.8", "libcudnn.so.8.1.0")
    host.link("/opt/nvidia/cudnn/current", "8.1.0.77-cuda11.2")

    def entry(content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        return {"size": len(content), "sha256": digest, "mode": "0644"}

    manifest = {
        "format": 1,
        "version": "8.1.0.77",
        "cuda": "11.2",
        "archive_sha256": ARCHIVE,
        "files": {
            "include/cudnn_version.h": entry(header.encode()),
            "lib64/libcudnn.so.8.1.0": entry(ELF),
            "lib64/libcudnn.so.8": {"link": "libcudnn.so.8.1.0"},
        },
    }
    host.write(CUDNN + "/.provision-manifest.json", json.dumps(manifest))
    host.write("/etc/ld.so.conf.d/00-provision-cudnn.conf", "/opt/nvidia/cudnn/current/lib64\n")
    host.loader["libcudnn.so.8"] = "/opt/nvidia/cudnn/current/lib64/libcudnn.so.8"


def _gpu_env(host: Host) -> None:
    row = LOCK["stacks"]["debian11-small"]["gpu_env"]
    for path, text in gpu_env.files({}, row).items():
        if text is not None:
            host.write(path, text)
    block = gpu_env.block({}, row)
    host.write("/etc/environment", f"LANG=C\n{BEGIN}\n{block}{END}\n")


def _tensorflow(host: Host) -> None:
    host.write("/usr/bin/python3.9", ELF)
    host.link(VENV + "/bin/python", "/usr/bin/python3.9")
    host.write(
        VENV + "/pyvenv.cfg",
        "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.9.2\n",
    )
    host.write(VENV + "/requirements.txt", REQUIREMENTS_TEXT)
    host.link("/opt/tensorflow/current", VENV.rsplit("/", 1)[-1])
    host.wheel("absl_py-2.3.1", {"absl/flags.py": b"x = 1\n"})
    host.wheel("numpy-1.26.4", {"numpy/core.cpython-39-x86_64-linux-gnu.so": ELF})
    host.wheel("tensorflow-2.9.3", {LIBRARY: ELF, "tensorflow/__init__.py": b"y = 1\n"})
    host.wheel("pip-20.3.4", {"pip/__init__.py": b""})
    marker = {
        "format": 1,
        "version": "2.9.3",
        "requirements_sha256": REQUIREMENTS,
        "python": "3.9",
    }
    host.write(VENV + "/.provision.json", json.dumps(marker))


def make(root: Path) -> Host:
    """A converged host below `root`."""
    host = Host(root)
    release = 'ID=debian\nVERSION_ID="11"\nPRETTY_NAME="Debian GNU/Linux 11 (bullseye)"\n'
    host.write("/etc/os-release", release)
    host.write("/var/lib/provision/receipt.json", json.dumps({"lock_digest": LOCK["digest"]}))
    host.write("/proc/sys/kernel/osrelease", "5.10.0-32-amd64\n")
    host.write("/proc/sys/kernel/arch", "x86_64\n")
    _cuda(host)
    _cudnn(host)
    _gpu_env(host)
    _tensorflow(host)
    return host


def bare(lock: dict[str, Any] = LOCK, release: str = "11") -> dict[str, Any]:
    """What is found on a host of Debian that has nothing."""
    found: dict[str, Any] = gpu_stack.look.look(lock, WISH, root="/nonexistent", runner=run_nothing)
    found["platform"].update(distribution="debian", release=release, architecture="x86_64")
    return found
