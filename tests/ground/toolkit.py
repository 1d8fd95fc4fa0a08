"""NVIDIA's repository of the container toolkit: stand-ins under the names of its four packages.

What docker and podman need of them is there, and hands over the host's simulated GPU: the hook,
which dockerd looks for when it starts and runs before a container of `--gpus` begins, the runtime,
and `nvidia-ctk`, which writes the CDI specification that podman reads (toolkit_simulated.py). Each
leaves a line that tells of it. The repository is signed as NVIDIA's is: SHA-512 sums alone, a date
that never changes, the key beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.ground import deb, repository, toolkit_simulated
from tests.ground.repository import Key
from tests.ground.server import Authority, WebServer

PLACE = "libnvidia-container/stable/deb/amd64"
GPGKEY = "libnvidia-container/gpgkey"
NAMES = (
    "libnvidia-container-tools",
    "libnvidia-container1",
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
)
# As NVIDIA's own packages depend on each other: in exactly their own version.
DEPENDS = {
    "libnvidia-container-tools": "libnvidia-container1 (= {v})",
    "nvidia-container-toolkit": "libnvidia-container-tools (= {v}), "
    "nvidia-container-toolkit-base (= {v})",
}
LOG = toolkit_simulated.LOG
PROGRAM = "usr/lib/nvidia-container-toolkit/simulated.py"
_CALLS = f"""\
#!/bin/sh
# A stand-in of a test's.
echo {{name}} "$*" 2>/dev/null >> {LOG}
exec python3 /{PROGRAM} {{name}} {{version}} "$@"
"""
PROGRAMS: dict[str, tuple[str, ...]] = {
    "libnvidia-container-tools": ("nvidia-container-cli",),
    "nvidia-container-toolkit": ("nvidia-container-runtime-hook",),
    "nvidia-container-toolkit-base": (
        *("nvidia-cdi-hook", "nvidia-container-runtime", "nvidia-ctk"),
    ),
}
# From 1.18.0 on, as NVIDIA's repository has them (deployments/systemd and packaging/debian), less
# the condition that a kernel module is there: no local host has one.
UNITS_SINCE = (1, 18)
UNIT = "nvidia-cdi-refresh"
UNITS = {
    f"etc/systemd/system/{UNIT}.service": """\
[Unit]
Description=Refresh NVIDIA CDI specification file
ConditionPathExists=|/usr/bin/nvidia-smi
ConditionPathExists=|/usr/sbin/nvidia-smi
ConditionPathExists=/usr/bin/nvidia-ctk

[Service]
Type=oneshot
Environment=NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/var/run/cdi/nvidia.yaml
EnvironmentFile=-/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env
ExecStart=/usr/bin/nvidia-ctk cdi generate

[Install]
WantedBy=multi-user.target
""",
    f"etc/systemd/system/{UNIT}.path": """\
[Unit]
Description=Trigger CDI refresh on NVIDIA driver or toolkit install / upgrade events

[Path]
PathChanged=/usr/bin/nvidia-ctk

[Install]
WantedBy=multi-user.target
""",
    f"etc/nvidia-container-toolkit/{UNIT}.env": "# NVIDIA_CTK_DEBUG=1\n",
}
POSTINST = f"""\
#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
case "$(systemctl is-system-running 2>/dev/null || true)" in
  running|degraded)
    systemctl daemon-reload || true
    systemctl enable --now {UNIT}.path || true
    systemctl enable --now {UNIT}.service || true
    systemctl start {UNIT}.service || true ;;
esac
"""
# A root file system for `docker import` and `podman import`, in /root/tiny of a host that has
# busybox-static: what a program of the host's needs to run, and no library of NVIDIA's.
TINY = """\
mkdir -p /root/tiny/bin /root/tiny/lib64 /root/tiny/lib/x86_64-linux-gnu /root/tiny/tmp
cp /bin/busybox /root/tiny/bin/
for name in sh cat sleep; do ln -sf busybox /root/tiny/bin/$name; done
cp -L /lib64/ld-linux-x86-64.so.2 /root/tiny/lib64/
for name in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1; do
  cp -L /lib/x86_64-linux-gnu/$name /root/tiny/lib/x86_64-linux-gnu/
done
"""
# What a podman needs that runs on a local lab's host, by the file: overlay, its own choice, can't
# lie on a container's overlay; its own network, 10.88.0.0/16, is that of the lab, whose host would
# not be reached while a container of its own is there.
NESTED = {
    "/etc/containers/storage.conf": """\
[storage]
driver = "vfs"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
""",
    "/etc/containers/containers.conf": """\
[network]
default_subnet = "172.30.88.0/24"
""",
}
FIELDS = {
    "Codename": "stable",
    "Components": "main",
    "Date": "Fri, 27 Apr 2018 21:29:25 +0000",
    "Label": "NVIDIA CORPORATION <cudatools@nvidia.com>",
    "Origin": "https://nvidia.github.io/libnvidia-container/stable",
}


def package(folder: Path, name: str, version: str) -> Path:
    """One of the four, or another name with nothing in it but a text."""
    fields = {
        "Package": name,
        "Version": version,
        "Architecture": "amd64",
        "Maintainer": "NVIDIA CORPORATION <cudatools@nvidia.test>",
    }
    if name in DEPENDS:
        fields["Depends"] = DEPENDS[name].format(v=version)
    base = name == "nvidia-container-toolkit-base"
    refreshes = base and tuple(map(int, re.findall(r"\d+", version)[:2])) >= UNITS_SINCE
    made = deb.Writer(
        folder / f"{name}_{version}_amd64.deb",
        {**fields, "Description": "a stand-in of a test's"},
        {"postinst": POSTINST} if refreshes else None,
    )
    made.file(f"usr/share/doc/{name}/stand-in", f"{name} {version}\n")
    for program in PROGRAMS.get(name, ()):
        text = _CALLS.format(name=program, version=version.rsplit("-", 1)[0])
        made.file(f"usr/bin/{program}", text, 0o755)
    if base:
        made.file(PROGRAM, Path(toolkit_simulated.__file__).read_text("utf-8"))
        made.file("etc/nvidia-container-runtime/config.toml", "# a stand-in of a test's\n")
    for path, text in UNITS.items() if refreshes else ():
        made.file(path, text)
    return made.close()


def lay_out(root: Path, signer: Key, versions: Sequence[str]) -> None:
    """The repository of these versions and its key, below `root`, as NVIDIA lays them out."""
    top = root / PLACE
    top.mkdir(parents=True)
    made = [package(top, name, f"{version}-1") for version in versions for name in NAMES]
    repository.write_indices(top, repository.index({f"./{path.name}": path for path in made}))
    repository.sign(top, {**FIELDS, "Architectures": "amd64"}, signer, sums=("SHA512",))
    (root / GPGKEY).write_text(signer.armored, "ascii")


@dataclass
class ToolkitSite:
    """What a test passes on."""

    web: WebServer
    key: Key

    @property
    def ca(self) -> Path:
        """The bundle a host needs, to be copied there."""
        return self.web.authority.bundle

    def repository(self) -> dict[str, object]:
        """The role's option nvidia_container_toolkit_repository (and a lock's `repository`)."""
        return {
            "url": f"{self.web.url}/{PLACE}",
            "suite": "/",
            "key": self.key.armored,
            "fingerprints": [self.key.fingerprint],
        }


@contextmanager
def serve(directory: Path, versions: Sequence[str] = ("1.17.8", "1.20.1")) -> Iterator[ToolkitSite]:
    """The repository, served to podman's hosts until the block ends."""
    root = directory / "toolkit-www"
    signer = repository.key("toolkit")
    lay_out(root, signer, versions)
    with WebServer(root, Authority(directory / "toolkit-tls")) as web:
        yield ToolkitSite(web, signer)
