"""nvidia_driver: the driver's libraries, and on machines that need it its kernel module."""

from __future__ import annotations

from typing import Any, Literal

from provision.roles.base import Options, Role, Row, option


class NvidiaDriverOptions(Options):
    """Public variables of the role."""

    nvidia_driver_state: Literal["present", "absent"] = option(
        "present",
        "absent: remove the driver's packages, pins and settings, and leave what was there before.",
        looked_at=True,
    )
    nvidia_driver_branch: str = option(
        "470", "Driver branch.", identity=True, wish='gpu_stack: {driver_branch: "470"}'
    )
    nvidia_driver_version: str = option(
        "470.256.02",
        "Exact driver version.",
        identity=True,
        wish='gpu_stack: {driver_branch: "470"}',
    )
    nvidia_driver_packages: dict[str, dict[str, str]] = option(
        {"userspace": {}, "kernel": {}},
        "Exact packages as {userspace: {name: version}, kernel: {...}, desktop: {...}}. "
        "Empty: the role's own table for the platform.",
        identity=True,
        wish='gpu_stack: {driver_branch: "470"}',
    )
    nvidia_driver_checksums: dict[str, str] = option(
        {},
        "SHA-256 of each package file, as {name: 64 hex digits}. Names without one are covered by "
        "apt's signed indices alone.",
        identity=True,
    )
    nvidia_driver_scope: Literal["auto", "userspace", "full"] = option(
        "auto",
        "userspace: the libraries and nvidia-smi only. full: also the kernel module (DKMS). "
        "auto: userspace in a container, full elsewhere.",
        looked_at=True,
    )
    nvidia_driver_profile: Literal["compute", "desktop"] = option(
        "compute",
        "compute: no X, no Recommends. desktop: also the X driver and OpenGL.",
        looked_at=True,
    )
    nvidia_driver_reboot: bool = option(
        False,
        "May the run reboot the host when the new driver needs it? One host at a time, and never "
        "while a GPU process runs.",
        looked_at=True,
    )
    nvidia_driver_reboot_timeout: int = option(
        600, "Seconds to wait for a host to come back from its reboot."
    )
    nvidia_driver_wait_for_gpu_processes: int = option(
        0,
        "Seconds to wait for GPU processes to end before the driver is changed. 0: refuse at once. "
        "None is ever ended by this role.",
        looked_at=True,
    )
    nvidia_driver_logged_in_users: Literal["refuse", "wait", "ignore"] = option(
        "refuse",
        "What to do while people are logged in at a terminal or a screen, before a reboot and "
        "before a loaded driver is changed. wait: for nvidia_driver_wait_for_users seconds, then "
        "refuse. Nobody is ever logged out. A first installation is in nobody's way.",
        looked_at=True,
    )
    nvidia_driver_wait_for_users: int = option(
        1800, "Seconds to wait for people to leave, where nvidia_driver_logged_in_users is wait."
    )
    nvidia_driver_announce: str = option(
        "GPU driver maintenance. Please save your work.",
        "Sent to everybody who is logged in (wall) before the run waits for them and before a "
        "reboot, with the time. Empty: nothing is sent.",
    )
    nvidia_driver_hold: bool = option(
        True,
        "Hold the packages and keep unattended upgrades away from them, so that library and kernel "
        "module can't drift apart.",
        looked_at=True,
    )
    nvidia_driver_persistence: bool = option(
        True, "Run the persistence daemon, where a GPU is there.", looked_at=True
    )
    nvidia_driver_mirror: str = option(
        "",
        "URL of a package archive that has the driver. Empty: the platform's own sources.",
        looked_at=True,
        example="http://mirror.example.org/debian",
    )
    nvidia_driver_apt_components: list[str] = option(
        ["contrib", "non-free"],
        "Archive components the driver's packages lie in; enabled where no source has them.",
        looked_at=True,
    )
    nvidia_driver_reinstall: list[str] = option(
        [],
        "Packages to install again though their version is right; the plan fills it where files "
        "of a package are gone or changed.",
        repair=True,
    )
    nvidia_driver_conffiles: list[str] = option(
        [],
        "Configuration files of these packages to take anew; what is there is kept as .dpkg-old. "
        "Only a deep look asks for it.",
        repair=True,
    )
    nvidia_driver_alternatives: list[str] = option(
        [],
        "Groups of update-alternatives whose links are to be made anew; the plan fills it where "
        "one is gone or leads elsewhere.",
        repair=True,
    )


def variables(_stack: str, row: Row) -> dict[str, Any]:
    """Identity of the driver in one stack."""
    driver = row["nvidia_driver"]
    return {
        "nvidia_driver_branch": driver["branch"],
        "nvidia_driver_version": driver["version"],
        "nvidia_driver_packages": driver["packages"],
    }


ROLE = Role("nvidia_driver", "NVIDIA driver", NvidiaDriverOptions, variables)
