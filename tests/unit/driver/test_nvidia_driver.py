"""The look and the differ of nvidia_driver, on recorded trees."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from gpu_stack.components import nvidia_driver
from gpu_stack.components.nvidia_driver import driver_packages, persistence

from .trees import DRIVER, KERNEL, age, context, settled, status, tree

ROLE = Path(__file__).parents[3] / "roles" / "nvidia_driver"
VARS = yaml.safe_load((ROLE / "vars" / "main.yml").read_text())

ALL = (
    ("libcuda1", "470.256.02-2"),
    ("nvidia-smi", "470.256.02-2"),
    ("nvidia-persistenced", "470.103.01-2~deb11u1"),
    ("nvidia-kernel-dkms", "470.256.02-2"),
    ("nvidia-modprobe", "470.182.03-1"),
    ("dkms", "2.8.4-3", "install"),
)
PERSISTENCED = """\
[Unit]
Description=NVIDIA Persistence Daemon

[Service]
Type=forking
ExecStart=/usr/bin/nvidia-persistenced --user nvpd

[Install]
WantedBy=multi-user.target
"""


def converged(root: Path) -> Path:
    """A machine on which everything is as the row says, the module loaded."""
    tree(
        root,
        {
            **settled(DRIVER, *ALL),
            "/boot/vmlinuz-5.10.0-9-amd64": "",
            f"/boot/initrd.img-{KERNEL}": "",
            "/usr/sbin/update-initramfs": "",
            f"/lib/modules/{KERNEL}/updates/dkms/nvidia-current.ko": "",
            "/sys/bus/pci/devices/0000:00:05.0/vendor": "0x10de\n",
            "/sys/bus/pci/devices/0000:00:05.0/class": "0x030200\n",
            "/sys/bus/pci/devices/0000:00:05.0/device": "0x1eb8\n",
            "/lib/systemd/system/nvidia-persistenced.service": PERSISTENCED,
        },
        {
            f"/var/lib/dkms/nvidia-current/kernel-{KERNEL}-x86_64": (f"470.256.02/{KERNEL}/x86_64"),
            "/etc/systemd/system/multi-user.target.wants/nvidia-persistenced.service": (
                "/lib/systemd/system/nvidia-persistenced.service"
            ),
        },
    )
    age(root, nvidia_driver.BLACKLIST, 1000)
    age(root, f"/boot/initrd.img-{KERNEL}", 2000)
    return root


def changes(root: Path, *, container: bool = False, **options: Any) -> list[dict[str, Any]]:
    here = context(root, container=container, options=options)
    return list(nvidia_driver.differ({"nvidia_driver": DRIVER}, nvidia_driver.look(here), options))


def items(listed: list[dict[str, Any]]) -> list[str]:
    return [change["item"] for change in listed]


def test_a_converged_machine_has_no_change(tmp_path: Path) -> None:
    assert changes(converged(tmp_path)) == []


def test_the_version_is_libcudas(tmp_path: Path) -> None:
    assert nvidia_driver.look(context(converged(tmp_path)))["version"] == "470.256.02"
    assert nvidia_driver.look(context(tmp_path / "bare"))["version"] is None


def test_a_bare_container_gets_the_userspace_set_and_nothing_of_the_kernel(tmp_path: Path) -> None:
    tree(tmp_path, {"/var/lib/dpkg/status": "", "/sys/module/nouveau/initstate": "live"})
    planned = changes(tmp_path, container=True)
    assert items(planned) == [
        "libcuda1",
        "nvidia-persistenced",
        "nvidia-smi",
        nvidia_driver.PINS,
        nvidia_driver.UPGRADES,
    ]
    assert not any(change["reboot"] for change in planned)


@pytest.mark.parametrize(
    ("path", "content", "item"),
    [
        (
            "/var/lib/dpkg/status",
            status(("libcuda1", "535.309.01-0+deb11u1"), *ALL[1:]),
            "libcuda1",
        ),
        (
            "/var/lib/dpkg/status",
            status(
                *ALL[:3],
                ("nvidia-kernel-dkms", "470.256.02-2", "hold", "half-configured"),
                *ALL[4:],
            ),
            "nvidia-kernel-dkms",
        ),
        (
            "/var/lib/dpkg/status",
            status(("libcuda1", "470.256.02-2", "install"), *ALL[1:]),
            "libcuda1 hold",
        ),
        ("/var/lib/dpkg/status", status(*ALL[:5]), "dkms"),
        (nvidia_driver.PINS, "Package: *\n", nvidia_driver.PINS),
        (nvidia_driver.UPGRADES, "", nvidia_driver.UPGRADES),
        (nvidia_driver.BLACKLIST, "blacklist nouveau\n", nvidia_driver.BLACKLIST),
        (persistence.CONDITION, "[Service]\nExecCondition=\n", persistence.CONDITION),
        ("/boot/vmlinuz-5.10.0-47-amd64", "", "module for kernel 5.10.0-47-amd64"),
        ("/sys/module/nvidia/version", "535.309.01\n", "running driver"),
        ("/sys/module/nouveau/initstate", "live\n", "running driver"),
    ],
)
def test_each_drift_is_one_named_change(tmp_path: Path, path: str, content: str, item: str) -> None:
    """One thing goes wrong on a converged machine; the plan names that and nothing else."""
    tree(converged(tmp_path), {path: content})
    age(tmp_path, nvidia_driver.BLACKLIST, 1000)
    assert items(changes(tmp_path)) == [item]


def test_a_loaded_nouveau_or_another_module_asks_for_a_reboot(tmp_path: Path) -> None:
    tree(converged(tmp_path), {"/sys/module/nvidia/version": "460.91.03\n"})
    (change,) = changes(tmp_path)
    assert (change["reboot"], change["from"]) == (True, "460.91.03")
    tree(tmp_path, {"/sys/module/nouveau/initstate": "live\n"})
    (change,) = changes(tmp_path)
    assert (change["reboot"], change["from"]) == (True, "nouveau")


def test_a_module_that_is_not_loaded_needs_no_reboot(tmp_path: Path) -> None:
    (converged(tmp_path) / "sys/module/nvidia/version").unlink()
    (change,) = changes(tmp_path)
    assert (change["item"], change["reboot"]) == ("running driver", False)


def test_a_module_of_another_version_or_taken_away_is_seen(tmp_path: Path) -> None:
    link = converged(tmp_path) / f"var/lib/dkms/nvidia-current/kernel-{KERNEL}-x86_64"
    link.unlink()
    link.symlink_to(f"470.223.02/{KERNEL}/x86_64")
    (change,) = changes(tmp_path)
    assert (change["item"], change["from"]) == (f"module for kernel {KERNEL}", "470.223.02")
    (tmp_path / f"lib/modules/{KERNEL}/updates/dkms/nvidia-current.ko").unlink()
    assert changes(tmp_path)[0]["from"] is None


def test_an_initramfs_older_than_the_blacklist_is_seen(tmp_path: Path) -> None:
    age(converged(tmp_path), f"/boot/initrd.img-{KERNEL}", 500)
    assert items(changes(tmp_path)) == [f"/boot/initrd.img-{KERNEL}"]
    (tmp_path / "usr/sbin/update-initramfs").unlink()
    assert changes(tmp_path) == []


@pytest.mark.parametrize("image", [f"{KERNEL}.orig", f"{KERNEL}.new", "5.10.0-1-amd64"])
def test_an_older_image_of_no_installed_kernel_is_left_alone(tmp_path: Path, image: str) -> None:
    """update-initramfs would not rebuild it, and no run would come to an end."""
    tree(converged(tmp_path), {f"/boot/initrd.img-{image}": ""})
    age(tmp_path, f"/boot/initrd.img-{image}", 500)
    assert changes(tmp_path) == []


def test_the_next_boot_kernel_is_the_newest_by_version_not_by_name(tmp_path: Path) -> None:
    """5.10.0-9 sorts after 5.10.0-46 as a string."""
    assert nvidia_driver.kernels(context(converged(tmp_path), container=True)) == [KERNEL]


def test_full_scope_in_a_container_without_kernels_is_a_change_not_a_success(
    tmp_path: Path,
) -> None:
    planned = changes(
        tree(tmp_path, {"/var/lib/dpkg/status": status(*ALL)}),
        container=True,
        nvidia_driver_scope="full",
    )
    assert "kernel module" in items(planned)


def test_the_persistence_daemon_is_wished_where_it_can_run(tmp_path: Path) -> None:
    unit = "nvidia-persistenced.service"
    (converged(tmp_path) / "etc/systemd/system/multi-user.target.wants" / unit).unlink()
    assert items(changes(tmp_path)) == [unit]
    assert items(changes(tmp_path, nvidia_driver_persistence=False)) == [persistence.CONDITION]
    (tmp_path / "dev/nvidiactl").unlink()
    assert items(changes(tmp_path, container=True)) == []


def test_a_persistence_daemon_that_udev_starts_is_not_to_be_enabled(tmp_path: Path) -> None:
    """A plan that asks for what `systemctl enable` can't do would never be empty."""
    unit = "nvidia-persistenced.service"
    (converged(tmp_path) / "etc/systemd/system/multi-user.target.wants" / unit).unlink()
    udevs = PERSISTENCED.partition("[Install]")[0]
    tree(tmp_path, {f"/lib/systemd/system/{unit}": udevs})
    assert changes(tmp_path) == []
    assert items(changes(tmp_path, nvidia_driver_persistence=False)) == [persistence.CONDITION]
    tree(tmp_path, {f"/etc/systemd/system/{unit}": PERSISTENCED})
    assert items(changes(tmp_path)) == [unit]


def test_a_daemon_without_persistence_mode_keeps_nothing_initialised(tmp_path: Path) -> None:
    """Ubuntu's unit; one of our own comes before it."""
    unit = "nvidia-persistenced.service"
    converged(tmp_path)
    idle = PERSISTENCED.replace("--user nvpd", "--user nvpd --no-persistence-mode --verbose")
    tree(tmp_path, {f"/lib/systemd/system/{unit}": idle})
    (change,) = changes(tmp_path)
    assert (change["item"], change["from"], change["to"]) == (
        unit,
        "without persistence mode",
        "enabled",
    )
    assert items(changes(tmp_path, nvidia_driver_persistence=False)) == [persistence.CONDITION]
    tree(tmp_path, {f"/etc/systemd/system/{unit}": PERSISTENCED})
    assert changes(tmp_path) == []


def test_a_persistence_daemon_that_is_not_wished_is_disabled(tmp_path: Path) -> None:
    """Debian's package enables it, so that leaving it alone would be no answer."""
    converged(tmp_path)
    change, _drop_in = changes(tmp_path, nvidia_driver_persistence=False)
    assert (change["item"], change["from"], change["to"]) == (
        "nvidia-persistenced.service", "enabled", "disabled",
    )  # fmt: skip


def test_without_hold_neither_holds_nor_blacklist_are_wished(tmp_path: Path) -> None:
    tree(converged(tmp_path), {"/var/lib/dpkg/status": status(*[(*p[:2], "install") for p in ALL])})
    assert items(changes(tmp_path, nvidia_driver_hold=False)) == [nvidia_driver.UPGRADES]
    (tmp_path / nvidia_driver.UPGRADES.lstrip("/")).unlink()
    assert changes(tmp_path, nvidia_driver_hold=False) == []
    assert "libcuda1 hold" in items(changes(tmp_path))


def test_desktop_adds_its_set_only_in_full_scope() -> None:
    desktop = {"nvidia_driver_profile": "desktop"}
    assert "nvidia-driver" in driver_packages.wanted_packages(DRIVER, "full", desktop)
    assert "nvidia-driver" not in driver_packages.wanted_packages(DRIVER, "userspace", desktop)
    assert "nvidia-driver" not in driver_packages.wanted_packages(DRIVER, "full", {})


# The texts have two homes: the role's templates (used alone) and the look.


def rendered(template: str, row: dict[str, Any] = DRIVER, **more: str) -> str:
    environment = jinja2.Environment(
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  not HTML
    )
    environment.tests["match"] = lambda text, pattern: re.match(pattern, text) is not None
    return environment.from_string((ROLE / "templates" / template).read_text()).render(
        nvidia_driver_version=row["version"],
        nvidia_driver_source=row.get("source", "distribution"),
        __nvidia_driver_all=driver_packages.all_packages(row),
        __nvidia_driver_source_version=driver_packages.main_version(row),
        __nvidia_driver_of_kernel_pattern=VARS["__nvidia_driver_of_kernel_pattern"],
        __nvidia_driver_runfile_pinned=VARS["__nvidia_driver_runfile_pinned"],
        **more,
    )


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("etc/apt/preferences.d/provision-nvidia-driver.j2", driver_packages.pins_text(DRIVER)),
        ("etc/apt/apt.conf.d/51provision-gpu-stack.j2", nvidia_driver.UPGRADES_TEXT),
        ("etc/modprobe.d/provision-nouveau.conf.j2", nvidia_driver.BLACKLIST_TEXT),
        (persistence.CONDITION.lstrip("/") + ".j2", persistence.CONDITION_TEXT),
    ],
)
def test_the_looks_text_is_the_roles_template(template: str, text: str) -> None:
    assert rendered(template) == text


def test_the_roles_table_names_its_own_default_version() -> None:
    table = yaml.safe_load((ROLE / "vars" / "Debian_11.yml").read_text())
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    packages = table["__nvidia_driver_packages_by_version"]
    assert defaults["nvidia_driver_version"] in packages
    assert table["__nvidia_driver_module"] == nvidia_driver.MODULE


def test_a_container_is_never_asked_to_reboot(tmp_path: Path) -> None:
    """/sys/module there is the carrying machine's; building for its own kernel image is not."""
    tree(converged(tmp_path), {"/sys/module/nouveau/initstate": "live\n"})
    assert changes(tmp_path, container=True, nvidia_driver_scope="full") == []
