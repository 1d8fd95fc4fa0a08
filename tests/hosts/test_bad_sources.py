"""What NVIDIA's own ways are fed with and should not be, on a host that says Ubuntu 20.04.

For each: one message that says where, what and what to do, the documented exit code, and a host as
it was before, or one that a single run brings to its lock. The tests build upon each other: the
host is bare at first, and the last ones install.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from focal import NETWORK, PACKAGES, RUNFILE, VERSION, Focal, focal

from tests.ground import Site
from tests.hosts.conftest import NEWEST, Project

pytestmark = [pytest.mark.slow]
# Rules of the preflight that something here trips: docs/mutants.md.
TRIPS = ("boot-full",)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Iterator[Focal]:
    with focal(tmp_path_factory.mktemp("bad"), "bad1", site) as made:
        yield made


@contextlib.contextmanager
def untouched(host: Focal) -> Iterator[None]:
    before = host.picture()
    yield
    after = host.picture()
    assert after == before, sorted(set(after) ^ set(before))[:40]


def refuse(
    host: Focal, name: str, tags: str, *expected: str, status: str = "failed", **options: Any
) -> dict[str, Any]:
    """`provision apply` ends with 4, says all of this, and leaves the host as it was."""
    with untouched(host):
        done, text = host.apply(name, tags, **options)
    assert done.returncode == 4, text[-6000:]
    for words in expected:
        assert words in text, f"{words!r} is not in: {text[-6000:]}"
    found: dict[str, Any] = host.report["hosts"][name]
    assert found["status"] == status, found
    return found


def blockers(host: Focal, name: str) -> list[str]:
    return [blocker["id"] for blocker in host.report["hosts"][name]["blockers"]]


# files that are something else


RUN = f"/NVIDIA-Linux-x86_64-{VERSION}.run"


@contextlib.contextmanager
def sent_instead(host: Focal, answer: tuple[int, str, bytes] | None) -> Iterator[None]:
    """The .run file's addresses answer with that (None: with a login page)."""
    web = host.site.web
    for path in (f"/tesla/{VERSION}{RUN}", f"/XFree86/Linux-x86_64/{VERSION}{RUN}"):
        if answer is None:
            web.login_wall(path)
        else:
            web.instead[path] = answer
    try:
        yield
    finally:
        web.instead.clear()


def test_a_run_file_with_another_hash(host: Focal) -> None:
    with sent_instead(host, (200, "application/octet-stream", b"#!/bin/sh\nexit 0\n")):
        refuse(
            host, RUNFILE, "nvidia_driver",
            f"{RUN}: the file has another SHA-256: ", ", expected ",
            "Give the right file with nvidia_driver_runfile_url. The driver was not touched.",
        )  # fmt: skip


def test_a_login_page_instead_of_the_run_file(host: Focal) -> None:
    with sent_instead(host, None):
        refuse(
            host, RUNFILE, "nvidia_driver",
            f"{RUN}: an HTML page came instead of the installer (a login page?)",
            "The driver was not touched.",
        )  # fmt: skip


def test_a_login_page_instead_of_the_cudnn_archive(host: Focal) -> None:
    url = str(host.site.cudnn()["url"])
    host.site.web.login_wall(host.site.path(url))
    try:
        refuse(
            host, NETWORK, "cudnn",
            f"No address in cudnn_urls gave the archive. {url}: ",
            "is a web page (", "not an archive", "Download it by hand and name it in",
            cudnn_controller_file="", cudnn_urls=[url],
        )  # fmt: skip
    finally:
        host.site.web.instead.clear()


def test_a_run_file_whose_server_vanishes(host: Focal) -> None:
    web = host.site.web
    web.vanish(after=1_000_000)
    try:
        refuse(
            host, RUNFILE, "nvidia_driver", "could not be fetched: ", "The driver was not touched."
        )
    finally:
        web.back()


# repositories that are signed by the wrong people, or by nobody of today

SIGNED = {
    "wrong-key": ("NO_PUBKEY", "It has to be signed by "),
    "unsigned": ("is not signed", "It has to be signed by "),
    "expired": ("is expired", "compare the host's clock (timedatectl)"),
    "damaged": ("", "a mirror in the middle of its update"),
}


@pytest.mark.parametrize(
    ("component", "how"),
    [
        ("nvidia_driver", "wrong-key"),
        ("nvidia_driver", "unsigned"),
        ("cuda", "wrong-key"),
        ("cuda", "expired"),
        ("cuda", "damaged"),
    ],
)
def test_a_repository_that_cannot_be_believed(host: Focal, component: str, how: str) -> None:
    words, hint = SIGNED[how]
    host.site.spoil(how)
    try:
        refuse(
            host, NETWORK, component,
            f"apt cannot use NVIDIA's repository {host.site.cuda_url}: ", words, hint,
            "was not touched.",
        )  # fmt: skip
    finally:
        host.site.spoil("none")


@pytest.mark.parametrize("component", ["nvidia_driver", "cuda"])
def test_a_key_that_has_expired(host: Focal, component: str) -> None:
    """The lock is of the time when it was good."""
    host.site.spoil("expired-key")
    key = host.site.expired_key
    repository = {
        **host.site.cuda_repository(), "key": key.armored, "fingerprints": [key.fingerprint]
    }  # fmt: skip
    option = "cuda_repository" if component == "cuda" else "nvidia_driver_repository"
    try:
        refuse(
            host,
            NETWORK,
            component,
            "EXPKEYSIG",
            "The key that signs it has expired.",
            **{option: repository},
        )
    finally:
        host.site.spoil("none")


# a disk


def test_a_full_boot(host: Focal) -> None:
    """A kernel of its own it has not: /boot is a small disk with one kernel's files."""
    host.machine(
        "mount -t tmpfs -o size=12m,mode=755 tmpfs /boot; cd /boot\n"
        "echo simulated > vmlinuz-5.4.0-216-generic\n"
        "head -c 8000000 /dev/zero > initrd.img-5.4.0-216-generic"
    )
    try:
        entry = refuse(
            host, RUNFILE, "nvidia_driver",
            "/boot is too full: 5 MB are free where 75 MB are needed to rebuild an initramfs",
            "To do: remove kernels that are not booted any more",
            status="blocked", nvidia_driver_scope="full",
        )  # fmt: skip
        assert "boot-full" in [blocker["id"] for blocker in entry["blockers"]]
    finally:
        host.machine("umount /boot")


# another way's driver, half there


def installer(host: Focal, *arguments: str) -> str:
    """NVIDIA's .run file by hand, as somebody did before."""
    url = str(host.site.runfile("470")["url"])
    program = (
        "import shutil, ssl, sys, urllib.request as u;"
        f"c = ssl.create_default_context(cafile='/etc/ssl/lab-ca.pem');"
        f"shutil.copyfileobj(u.urlopen('{url}', context=c), open('/root/nvidia.run', 'wb'))"
    )
    host.root("apt-get -qq install kmod >/dev/null")
    host.root(f'[ -e /root/nvidia.run ] || python3 -c "{program}"')
    return host.root(" ".join(["sh /root/nvidia.run --silent --no-kernel-module", *arguments]))


def test_a_run_file_driver_whose_record_is_gone(host: Focal) -> None:
    """Half of it is there; the packages don't come over it, and the way out is told."""
    installer(host)
    host.root("mv /var/lib/nvidia /root/nvidia-record")
    refuse(
        host, NETWORK, "nvidia_driver", "a driver was installed by NVIDIA's .run file",
        "nvidia_driver_switch: switch", status="blocked",
    )  # fmt: skip
    assert blockers(host, NETWORK) == ["runfile-driver"]

    done, text = host.apply(NETWORK, "nvidia_driver", nvidia_driver_switch="switch")
    assert done.returncode == 4, text
    assert "nvidia-uninstall ended with 1" in text
    assert (
        "Where its record is gone (/var/lib/nvidia), install that .run file once more over" in text
    )
    assert "libnvidia-compute-470" not in host.root("dpkg-query -W -f '${Package}\\n'")

    installer(host, "--no-backup")
    host.cured(NETWORK, "nvidia_driver", nvidia_driver_switch="switch")
    host.root("test ! -e /usr/bin/nvidia-uninstall && nvidia-smi")


def test_the_former_driver_stays_until_the_new_one_can_be_had(host: Focal) -> None:
    """A switch to a .run file that is no .run file takes nothing away."""
    with sent_instead(host, None):
        refuse(
            host, RUNFILE, "nvidia_driver", "an HTML page came instead of the installer",
            nvidia_driver_switch="switch",
        )  # fmt: skip
    host.root("nvidia-smi")


def test_packages_of_another_way_in_half_state(host: Focal) -> None:
    """Canonical's package, unpacked and never configured, on a host without a driver."""
    host.root(
        "apt-get -qq remove --allow-change-held-packages -y '^(lib)?nvidia-.*470$' >/dev/null;"
        "rm -f /etc/apt/preferences.d/provision-nvidia-driver;"
        "cd /root && apt-get -qq download nvidia-utils-470-server && "
        "dpkg --unpack nvidia-utils-470-server_*.deb >/dev/null 2>&1; "
        "dpkg-query -W -f '${Status}' nvidia-utils-470-server | grep unpacked"
    )
    refuse(
        host, RUNFILE, "nvidia_driver", "the driver is installed from packages (",
        "nvidia-utils-470-server", "nvidia_driver_switch: switch", status="blocked",
    )  # fmt: skip
    assert blockers(host, RUNFILE) == ["packaged-driver"]

    host.cured(RUNFILE, "nvidia_driver", nvidia_driver_switch="switch")
    left = (
        "dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' | grep -E '^.[^cn].*nvidia-' || true"
    )
    assert host.root(left) == ""
    host.root("nvidia-smi && test -e /usr/bin/nvidia-uninstall")


# the compiler

BROKEN = """\
MAKE[0]="gcc -c /opt/lab-module/broken.c -o nvidia.ko"
CLEAN="true"
"""
WHOLE = """\
MAKE[0]="sh -e /opt/lab-module/make"
CLEAN="true"
"""
MAKE = """\
for name in nvidia nvidia-modeset nvidia-drm nvidia-uvm nvidia-peermem; do
  gcc -c /opt/lab-module/module.c -o "$name.ko"
done
"""
MODULE = """\
__attribute__((section(".modinfo"), used)) static const char v[] = "version=%s";
__attribute__((section(".modinfo"), used)) static const char l[] = "license=none";
"""


def test_a_module_that_the_compiler_refuses(host: Focal) -> None:
    """NVIDIA's installer leaves the driver without its module; one run builds it."""
    host.root("nvidia-uninstall --silent; rm /etc/apt/preferences.d/provision-nvidia-driver")
    kernel = host.root(
        "apt-cache depends linux-headers-amd64 | sed -n 's/.*Depends: linux-headers-//p' | head -1"
    ).strip()
    for path, text in {
        f"/boot/vmlinuz-{kernel}": "simulated\n",
        f"/lib/modules/{kernel}/modules.order": "",
        f"/lib/modules/{kernel}/modules.builtin": "",
        "/opt/lab-module/broken.c": "int nv_probe(void)\n{\n  return NV_UNKNOWN;\n}\n",
        "/opt/lab-module/module.c": MODULE % VERSION,
        "/opt/lab-module/make": MAKE,
        "/etc/dkms/nvidia.conf": BROKEN,
    }.items():
        host.root(f"mkdir -p $(dirname {path}); cat > {path}", stdin=text)

    done, text = host.apply(RUNFILE, "nvidia_driver", nvidia_driver_scope="full")
    assert done.returncode == 4, text[-6000:]
    assert "NVIDIA's installer ended with 1: The kernel module was not built: " in text
    assert "/opt/lab-module/broken.c:3:10: error: 'NV_UNKNOWN' undeclared" in text
    assert f"/var/lib/dkms/nvidia/{VERSION}/build/make.log" in text
    assert "Failed to install the kernel module through DKMS" in text
    assert "The driver's files are there, its module is not: the next run builds it" in text
    host.root("test -e /usr/bin/nvidia-uninstall && nvidia-smi")

    # As long as the compiler refuses it, so does the next run, with the same line.
    done, text = host.apply(RUNFILE, "nvidia_driver", nvidia_driver_scope="full")
    assert done.returncode == 4, text[-6000:]
    assert "broken.c:3:10: error: " in text
    assert f"Kernel: {kernel}." in text

    host.root("cat > /etc/dkms/nvidia.conf", stdin=WHOLE)
    host.cured(RUNFILE, "nvidia_driver", nvidia_driver_scope="full")
    assert host.root(f"modinfo -F version -k {kernel} nvidia").strip() == VERSION
    host.root("rm -r /boot/vmlinuz-*")


# a repository that goes away in the middle of a run, and a second run meanwhile


def test_a_repository_that_vanishes_in_mid_run(host: Focal) -> None:
    web = host.site.web
    before = {name: count for name, count in web.sent.items() if name.endswith(".deb")}
    over = threading.Event()

    def vanish() -> None:
        while not over.wait(0.02):
            now = {name: n for name, n in web.sent.copy().items() if name.endswith(".deb")}
            if sum(now.values()) - sum(before.values()) > 3_000_000:
                web.vanish()
                return

    packages = "dpkg-query -W -f '${db:Status-Abbrev}${Package}=${Version}\\n' 'cuda-*' 'libcu*'"
    was = host.root(f"{packages} 2>/dev/null || true")
    watcher = threading.Thread(target=vanish, daemon=True)
    watcher.start()
    try:
        done, text = host.apply(NETWORK, "cuda")
        assert web.gone, "it was over before the server went"
        assert done.returncode == 4, text[-6000:]
        assert "Failed to fetch " in text
        assert host.site.cuda_url in text
        assert "Nothing was installed: run again when that address answers." in text
    finally:
        over.set()
        watcher.join()
        web.back()
    # apt installs nothing before everything is there.
    assert host.root(f"{packages} 2>/dev/null || true") == was
    assert host.root("dpkg --audit") == ""


def test_the_next_run_goes_on_and_nobody_works_beside_it(host: Focal) -> None:
    other = Project(host.path.with_name("other"), host.lab)
    shutil.copytree(host.path, other.path, symlinks=True, ignore=shutil.ignore_patterns(".lab"))
    events = host.path / "report" / "latest" / "events.jsonl"
    (host.path / "report" / "latest").unlink()
    first = subprocess.Popen(
        [str(NEWEST), "site.yml", "-i", "lab", "--limit", NETWORK, "--tags", "cuda"],
        cwd=host.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 300
        while not events.exists() or "Install the exact versions" not in events.read_text("utf-8"):
            assert first.poll() is None, first.communicate()
            assert time.monotonic() < deadline, "the first run never came to its work"
            time.sleep(0.5)
        second = other.provision("apply", "-i", "lab", "--limit", PACKAGES, "--tags", "cudnn")
        assert first.poll() is None, "the first run was over before the second: nothing was shown"
    finally:
        output, _ = first.communicate(timeout=900)
    text = " ".join((second.stdout + second.stderr).split())
    assert second.returncode == 4, text
    assert "another run is at work on this host" in text
    assert f"(pid {first.pid})" in text
    assert [blocker["id"] for blocker in other.report["hosts"][PACKAGES]["blockers"]] == [
        "run-in-progress"
    ]
    assert first.returncode == 0, output[-6000:]
    assert host.left(NETWORK, "cuda") == []
