"""nvidia_driver: the driver's libraries, and on machines that need it its kernel module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from provision.roles import packages
from provision.roles.base import Options, Role, Row, State, option, state


class NvidiaDriverOptions(Options):
    """Public variables of the role."""

    nvidia_driver_state: State = state()
    """absent: remove the driver's packages, pins and settings, and leave what was there before."""
    nvidia_driver_branch: str = option(
        "470", identity=True, wish='gpu_stack: {driver_branch: "470"}'
    )
    """Driver branch."""
    nvidia_driver_version: str = option(
        "470.256.02", identity=True, wish='gpu_stack: {driver_branch: "470"}'
    )
    """Exact driver version."""
    nvidia_driver_source: Literal["distribution", "network", "runfile"] = option(
        "distribution", identity=True, wish="gpu_stack: {driver_source: runfile}"
    )
    """distribution: the platform's own packages. network: NVIDIA's repository. runfile: NVIDIA's
    .run installer, with DKMS.
    """
    nvidia_driver_packages: dict[str, dict[str, str]] = option(
        {"userspace": {}, "kernel": {}}, identity=True, wish='gpu_stack: {driver_branch: "470"}'
    )
    """Exact packages as {userspace: {name: version}, kernel: {...}, desktop: {...}}. Empty: the
    role's own table for the platform.
    """
    nvidia_driver_checksums: dict[str, str] = packages.checksums("indices")
    nvidia_driver_repository: dict[str, Any] = option(
        {}, identity=True, wish="gpu_stack: {driver_source: network}"
    )
    """NVIDIA's repository for source network, as {url, suite, key, fingerprints}; `key` is the
    armored public key itself. With `shared: true` CUDA comes from it too, and both use one apt
    source.
    """
    nvidia_driver_runfile: dict[str, str] = option(
        {}, identity=True, wish="gpu_stack: {driver_source: runfile}"
    )
    """The .run file for source runfile, as {url, sha256}. `url` may be an absolute path on the
    machine that runs Ansible.
    """
    nvidia_driver_repository_url: str = option(
        "",
        looked_at=True,
        example="https://mirror.example.org/compute/cuda/repos/ubuntu2004/x86_64/",
    )
    """URL of a mirror of NVIDIA's repository, signed by the same key. Empty: NVIDIA's own."""
    nvidia_driver_runfile_url: str = option(
        "", example="https://mirror.example.org/NVIDIA-Linux-x86_64-470.256.02.run"
    )
    """Another URL for the .run file, or an absolute path on the machine that runs Ansible; the
    checksum stays the same. Empty: NVIDIA's own URL.
    """
    nvidia_driver_ca_bundle: str = option("")
    """CA bundle on the host, for the download and for NVIDIA's repository. Empty: the host's own.
    """
    nvidia_driver_switch: Literal["refuse", "switch"] = option("refuse", looked_at=True)
    """What to do if the driver was installed another way (packages, NVIDIA's repository, .run
    file). refuse: stop and name the remedy. switch: remove that driver, and nothing else, then
    install.
    """
    nvidia_driver_fabric_manager: Literal["auto", "true", "false"] = option("auto", looked_at=True)
    """Run the fabric manager, at the driver's version and held with it. auto: if an NVSwitch is on
    the PCI bus.
    """
    nvidia_driver_scope: Literal["auto", "userspace", "full"] = option("auto", looked_at=True)
    """userspace: the libraries and nvidia-smi only. full: also the kernel module (DKMS). auto:
    userspace in a container, full elsewhere.
    """
    nvidia_driver_profile: Literal["compute", "desktop"] = option("compute", looked_at=True)
    """compute: no X, no Recommends. desktop: also the X driver and OpenGL."""
    nvidia_driver_reboot: bool = option(False, looked_at=True)
    """Allow the run to reboot the host if the new driver needs it, one host at a time and never
    while a GPU process runs.
    """
    nvidia_driver_reboot_timeout: int = option(600)
    """Seconds to wait for a host to come back from its reboot."""
    nvidia_driver_wait_for_gpu_processes: int = option(0, looked_at=True)
    """Seconds to wait for GPU processes to end before the driver is changed. 0: refuse at once.
    This role never ends one.
    """
    nvidia_driver_logged_in_users: Literal["refuse", "wait", "ignore"] = option(
        "refuse", looked_at=True
    )
    """What to do if people are logged in at a terminal or a screen, before a reboot and before a
    loaded driver is changed. wait: for nvidia_driver_wait_for_users seconds, then refuse. Nobody is
    ever logged out. A first installation disturbs nobody.
    """
    nvidia_driver_wait_for_users: int = option(1800)
    """Seconds to wait for people to log out, if nvidia_driver_logged_in_users is wait."""
    nvidia_driver_announce: str = option("GPU driver maintenance. Please save your work.")
    """Message to everybody who is logged in (wall), sent with the time before the run waits for
    them and before a reboot. Empty: no message.
    """
    nvidia_driver_hold: bool = option(True, looked_at=True)
    """Hold the packages and keep unattended upgrades away from them, so that library and kernel
    module can't drift apart.
    """
    nvidia_driver_persistence: bool = option(True, looked_at=True)
    """Run the persistence daemon, where the host has a GPU."""
    nvidia_driver_mirror: str = option(
        "", looked_at=True, example="http://mirror.example.org/debian"
    )
    """URL of a package archive that has the driver. Empty: the platform's own sources."""
    nvidia_driver_apt_components: list[str] = option(["contrib", "non-free"], looked_at=True)
    """Archive components that contain the driver's packages; enabled if no source has them."""
    nvidia_driver_signing_key_file: str = option(
        "", looked_at=True, example="/srv/keys/module-signing.key"
    )
    """For Secure Boot: the private key (PEM, no password) that DKMS signs the module with, a file
    on the machine that runs Ansible; readable only by its owner, or encrypted with Ansible Vault.
    Each machine must trust its certificate (mokutil --import). Empty: DKMS's default.
    """
    nvidia_driver_signing_certificate_file: str = option(
        "", looked_at=True, example="/srv/keys/module-signing.pem"
    )
    """The certificate of that key, PEM."""
    nvidia_driver_reinstall: list[str] = packages.reinstall()
    nvidia_driver_conffiles: list[str] = packages.conffiles()
    nvidia_driver_modes: list[str] = packages.modes()
    nvidia_driver_alternatives: list[str] = option([], repair=True)
    """update-alternatives groups whose links to set again; the plan sets it if a link is missing or
    points elsewhere.
    """


def variables(_stack: str, row: Row) -> dict[str, Any]:
    """Identity of the driver in one stack."""
    driver = row["nvidia_driver"]
    values = {
        "nvidia_driver_branch": driver["branch"],
        "nvidia_driver_version": driver["version"],
        "nvidia_driver_packages": driver.get("packages") or {"userspace": {}, "kernel": {}},
    }
    # A lock without the key takes the platform's own packages, and names no other source.
    for name in ("source", "repository", "runfile"):
        if name in driver:
            values[f"nvidia_driver_{name}"] = driver[name]
    if "repository" in driver and _url(driver) == _url(row.get("cuda", {})):
        values["nvidia_driver_repository"] = {**driver["repository"], "shared": True}
    return values


def _url(part: Mapping[str, Any]) -> str | None:
    repository = part.get("repository")
    return repository["url"].rstrip("/") if repository else None


ROLE = Role("nvidia_driver", NvidiaDriverOptions, variables)
