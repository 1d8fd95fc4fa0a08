"""What a driver's kernel modules need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from check_states import mutated
from rule_states import DRIVER, KERNEL, PRE, State, container

# What DKMS 2 signs with where nobody has told it.
SIGNING = {"certificate": "", "made": False, "enrolled": False, "given": False}
# The lock takes modules that the distribution built and signed.
PREBUILT = {"row/nvidia_driver/packages/kernel": {"linux-modules-nvidia-470-server-generic": "1"}}


def bare(found: dict[str, Any]) -> None:
    driver = found["state"]["nvidia_driver"]
    driver.update(reboot_in_vain="", signing={}, signatures={})
    found["preflight"].update(boot_words="", signing=SIGNING)
    found["preflight"].update(module_signers={}, offered_modules={})


USERSPACE = {"options": {"nvidia_driver_scope": "userspace"}}
FULL = {"options": {"nvidia_driver_scope": "full"}}


def states() -> Iterator[State]:
    yield from boot_states()
    yield from secure_boot_states()
    yield from nouveau_states()
    yield from reboot_states()
    yield from header_states()
    yield from offered_states()
    yield from kernel_states()
    yield from compiler_states()


def boot_states() -> Iterator[State]:
    rule = "boot-full"
    full_boot = {PRE + "boot": {"free": 99_000_000, "needed": 100_000_000}}
    words = ("99 MB are free where 100 MB are needed", "apt-get autoremove --purge")
    yield State(rule, "a byte too little", full_boot, words)
    yield State(rule, "just enough", {PRE + "boot": {"free": 1, "needed": 1}})
    yield State(rule, "no module is built", {**full_boot, **USERSPACE})
    yield State(rule, "only a pin is written", full_boot, only=("cuda",))
    image = "/boot/initrd.img-" + KERNEL
    yield State(rule, "the blacklist is written, and pins", full_boot, words,
                only=("/etc/modprobe.d/provision-nouveau.conf",
                      "/etc/apt/preferences.d/provision-nvidia-driver"))  # fmt: skip
    yield State(rule, "an image is old", {**full_boot, DRIVER + "initramfs_older": [image]}, words,
                only=(image,))  # fmt: skip


def secure_boot_states() -> Iterator[State]:
    rule, on = "secure-boot", {PRE + "secure_boot": True}
    yield State(rule, "Secure Boot is on", on, ("Secure Boot is on", "mokutil --import"))
    key = {**SIGNING, "certificate": "/var/lib/dkms/mok.pub", "made": True}
    yield State(rule, "DKMS's key is not enrolled", {**on, PRE + "signing": key},
                ("signed with /var/lib/dkms/mok.pub, which is not among",
                 "mokutil --import /var/lib/dkms/mok.pub", "Enroll MOK"))  # fmt: skip
    lacking = {**key, "made": False}
    yield State(rule, "DKMS's key is not there", {**on, PRE + "signing": lacking},
                ("(/var/lib/dkms/mok.pub is not there)", "openssl req -new -x509"))  # fmt: skip
    own = {**key, "given": True}
    yield State(rule, "the lab's key is not enrolled", {**on, PRE + "signing": own},
                ("nvidia_driver_signing_certificate_file is not among", "Enroll MOK"))  # fmt: skip
    built = {DRIVER + "modules": {KERNEL: "470.256.02"},
             DRIVER + "signatures": {KERNEL: "trusted"}}  # fmt: skip
    yield State(rule, "the module is there, signed by a trusted key", {**on, **built})
    yield State(rule, "the module is there, unsigned",
                {**on, **built, DRIVER + "signatures": {KERNEL: "unsigned"}},
                ("Secure Boot is on",))  # fmt: skip
    yield State(rule, "another version's module is signed",
                {**on, **built, DRIVER + "modules": {KERNEL: "1"}},
                ("Secure Boot is on",))  # fmt: skip
    yield State(rule, "the firmware does not say", {PRE + "secure_boot": None})
    yield State(rule, "it is on, and there is a key", {**on, PRE + "module_key": True})
    yield State(rule, "it is on, and no module is built", {**on, **USERSPACE})
    yield State(rule, "it is on, in a container", on, base=container)
    yield from signed_states(on)


def nouveau_states() -> Iterator[State]:
    rule, loaded = "nouveau", {DRIVER + "nouveau_loaded": True}
    yield State(rule, "nouveau is loaded", loaded, ("nouveau is loaded and drives the GPU",
                                                    "nvidia_driver_reboot: true"))  # fmt: skip
    may = {"options": {"nvidia_driver_reboot": True}}
    yield State(rule, "nouveau is loaded, the run may reboot", {**loaded, **may})
    local = {"options": {"nvidia_driver_reboot": True, "ansible_connection": "local"}}
    yield State(rule, "this very machine can't be rebooted", {**loaded, **local}, ("nouveau is",))
    yield State(rule, "the carrying machine's nouveau", loaded, base=container)
    whole = dict(mutated(container(), {})["found"]["state"]["nvidia_driver"])
    built = {DRIVER[:-1]: {**whole, "nouveau_loaded": True, "kernels": [KERNEL]}}
    yield State(rule, "modules for a container's own kernel", {**built, **FULL}, base=container)
    yield State(rule, "userspace alone needs no reboot", {**loaded, **USERSPACE})


def reboot_states() -> Iterator[State]:
    rule, vain = "rebooted-in-vain", {DRIVER + "reboot_in_vain": "nouveau is loaded"}
    yield State(rule, "nouveau came back", {**vain, PRE + "boot_words": "[ 1.2] nouveau: NV164"},
                ("rebooted for it, and still nouveau is loaded. The kernel said: [ 1.2] nouveau",
                 "lsinitramfs"))  # fmt: skip
    version = {DRIVER + "reboot_in_vain": "module 1 is loaded, 2 is installed"}
    yield State(rule, "the old module came back", version, ("The kernel's log says nothing of it",
                                                            "modinfo -n nvidia"))  # fmt: skip
    yield State(rule, "no reboot is noted", {DRIVER + "reboot_in_vain": ""})
    yield State(rule, "what a boot brings up changes", {**vain, DRIVER + "nouveau_loaded": True,
                "options": {"nvidia_driver_reboot": True},
                DRIVER + "initramfs_older": ["/boot/initrd.img-1"]})  # fmt: skip


def header_states() -> Iterator[State]:
    rule = "headers"
    yield State(
        rule,
        "the archive has no headers for this kernel any more",
        {PRE + "headers": {KERNEL: "absent", "5.10.0-33-amd64": "offered"}},
        (f"headers of kernel {KERNEL} are neither installed nor", "linux-image-amd64"),
    )
    for state in ("installed", "offered", "unknown"):
        yield State(rule, f"headers are {state}", {PRE + "headers": {KERNEL: state}})
    gone = {PRE + "headers": {KERNEL: "absent"}}
    yield State(rule, "no module is built", {**gone, **USERSPACE})


def kernel_states() -> Iterator[State]:
    rule, none = "no-kernel", {DRIVER + "kernels": []}
    yield State(rule, "no kernel is installed", none, ("no kernel image is installed under /boot",
                                                       "linux-image-amd64"))  # fmt: skip
    yield State(rule, "a container has none", none, base=container)
    yield State(rule, "no module is built", {**none, **USERSPACE})
    yield State(rule, "full in a container", FULL, ("no kernel image",), base=container)


def compiler_states() -> Iterator[State]:
    rule = "kernel-compiler"

    def gcc(kernel: int | None, *installed: int) -> dict[str, Any]:
        return {PRE + "compilers": {"kernel": kernel, "installed": list(installed),
                                    "default": None}}  # fmt: skip

    yield State(
        rule,
        "the kernel's compiler is not the installed one",
        gcc(12, 10, 11),
        ("built by gcc 12, and only gcc 10, 11 is installed", "apt install gcc-12"),
    )
    yield State(rule, "it is one of the installed ones", gcc(12, 11, 12))
    yield State(rule, "no compiler is installed yet", gcc(12))
    yield State(rule, "the kernel does not say", gcc(None, 11))
    yield State(rule, "no module is built", {**gcc(12, 11), **USERSPACE})
    theirs = {**gcc(12, 11), **FULL, DRIVER + "kernels": [KERNEL]}
    yield State(rule, "the carrying machine's kernel", theirs, base=container)


def signed_states(on: dict[str, Any]) -> Iterator[State]:
    """Modules that the distribution should have signed; `on`: Secure Boot is."""
    rule, there = "secure-boot", {DRIVER + "modules": {KERNEL: "470.256.02"}}

    def by(signer: str, file: str, verdict: str) -> dict[str, Any]:
        path = f"/lib/modules/{KERNEL}/{file}/nvidia.ko"
        return {**on, **PREBUILT, **there, DRIVER + "signatures": {KERNEL: verdict},
                PRE + "module_signers": {KERNEL: {"signer": signer, "file": path}}}  # fmt: skip

    strange = by("Eve", "kernel/nvidia-470srv", "signed by an untrusted key")
    yield State(rule, "a stranger signed the distribution's module", strange,
                (f"kernel {KERNEL} will refuse the module", '"Eve" signed it', "apt-cache policy",
                 "mokutil --import"))  # fmt: skip
    yield State(rule, "DKMS's unsigned module is before the distribution's",
                by("", "updates/dkms", "unsigned"), ("it is unsigned", "dkms status"))  # fmt: skip
    yield State(rule, "somebody's module is before the distribution's",
                by("", "updates", "signed by an untrusted key"),
                ("signed by a key that is not among", "move it away"))  # fmt: skip
    yield State(rule, "the kernel takes the distribution's module",
                {**strange, DRIVER + "signatures": {KERNEL: "trusted"}})  # fmt: skip
    yield State(rule, "nobody can tell which keys the kernel has",
                {**strange, PRE + "module_signers": {}})  # fmt: skip
    yield State(rule, "another version's module is replaced",
                {**strange, DRIVER + "modules": {KERNEL: "1"}})  # fmt: skip
    yield State(rule, "the distribution's module is to come", {**on, **PREBUILT})


def offered_states() -> Iterator[State]:
    """What apt has of the modules that the distribution builds."""
    rule, newer = "signed-module", "5.10.0-33-amd64"

    def offered(**kernels: str) -> dict[str, Any]:
        return {**PREBUILT, PRE + "offered_modules": kernels}

    package = f"no linux-modules-nvidia-470-server-{KERNEL}"
    yield State(rule, "the running kernel has none", offered(**{KERNEL: "absent"}),
                (package, "apt install linux-image-amd64", "driver_modules: dkms"))  # fmt: skip
    yield State(rule, "that is of another driver", offered(**{KERNEL: "470.999.01"}),
                ("is of driver 470.999.01, and the lock has 470.256.02",
                 "provision lock --upgrade"))  # fmt: skip
    yield State(rule, "a kernel that waits has none", offered(**{newer: "absent"}),
                (f"or remove linux-image-{newer}, which is not running",))  # fmt: skip
    for state in ("offered", "unknown"):
        yield State(rule, f"it is {state}", offered(**{KERNEL: state}))
    none = {PRE + "offered_modules": {KERNEL: "absent"}}
    yield State(rule, "DKMS builds it", none)
    yield State(rule, "no module is wanted", {**PREBUILT, **none, **USERSPACE})
