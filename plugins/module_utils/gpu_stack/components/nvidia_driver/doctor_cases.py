"""The cases of the driver: versions apart, no module for the kernel, nouveau, Secure Boot."""

from __future__ import annotations

from ...doctor.case import RUN, Case

CASES = (
    Case(
        "driver-mismatch",
        "the loaded kernel module and the driver's libraries are of different versions",
        ("lyulyul/shine-cluster#30", "pando85/homelab#4110", "NVIDIA/deepops#1186"),
        "reboot when no GPU job runs, so that the module of the installed version is loaded; where "
        "the loaded one is the lock's, a run of nvidia_driver brings the libraries back to it",
        ("sudo systemctl reboot",),
        (
            r"Failed to initialize NVML: Driver/library version mismatch",
            r"NVRM: API mismatch:",
            r"kernel version \S+ does not match DSO version \S+",
            r"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        ),
        RUN + " where the loaded module is the lock's",
    ),
    Case(
        "unattended-upgrades",
        "unattended-upgrades moves the driver's packages, and nothing keeps it from that",
        ("lyulyul/shine-cluster#30", "lyulyul/shine-cluster#50", "pando85/homelab#4110"),
        "keep the GPU stack out of unattended-upgrades: a run of nvidia_driver writes the "
        "exclusion, the pins and the holds; leave unattended-upgrades installed for the rest",
        ("provision apply --limit {host} --tags nvidia_driver",),
        (),
        RUN,
    ),
    Case(
        "nouveau-loaded",
        "nouveau, the kernel's own driver, has taken the GPU",
        ("NVIDIA/ansible-role-nvidia-driver#44", "NVIDIA/ansible-role-nvidia-driver#51"),
        "a run of nvidia_driver writes the blacklist and builds the initramfs anew; then reboot "
        "when no job runs",
        ("provision apply --limit {host} --tags nvidia_driver", "sudo systemctl reboot"),
        (
            r"The Nouveau kernel driver is currently in use",
            r"NVRM: .*nouveau",
        ),
        "",
    ),
    Case(
        "nouveau-initramfs",
        "nouveau is blacklisted, but the initramfs is from before that and brings it up at boot",
        ("NVIDIA/ansible-role-nvidia-driver#44", "Azure/azhpc-images#523"),
        "build the initramfs anew; nouveau that is loaded already goes with a reboot",
        ("sudo update-initramfs -u -k all",),
        (),
        "builds these initramfs anew, each kept in /var/backups/provision-doctor before",
    ),
    Case(
        "headers-missing",
        "the headers of a kernel are missing, so that no module can be built for it",
        (
            "NVIDIA/ansible-role-nvidia-driver#20",
            "GoogleCloudPlatform/compute-gpu-installation#10",
            "GoogleCloudPlatform/compute-gpu-installation#25",
        ),
        "install them; where the archive no longer has them, install the current kernel with its "
        "headers and reboot into it",
        ("sudo apt-get install linux-headers-{kernel}",),
        (
            r"Your kernel headers for kernel (?P<kernel>\S+?) cannot be found",
            r"Module build for kernel (?P<kernel>\S+) was skipped since the.*headers",
            r"Unable to find the kernel source tree for the currently running kernel",
            r"Unable to locate package linux-headers-(?P<kernel>\S+)",
        ),
        RUN + " where the archive has the headers",
    ),
    Case(
        "headers-metapackage",
        "the next kernel will come without headers, and so without the driver",
        (
            "GoogleCloudPlatform/compute-gpu-installation#10",
            "GoogleCloudPlatform/compute-gpu-installation#25",
        ),
        "install the headers' metapackage beside the kernel's: it brings the headers of each "
        "kernel that an upgrade brings",
        ("sudo apt-get install {headers}",),
        (),
        "",
    ),
    Case(
        "driver-gone-after-kernel",
        "the running kernel has no NVIDIA module; the one for another kernel is there",
        (
            "GoogleCloudPlatform/compute-gpu-installation#10",
            "GoogleCloudPlatform/compute-gpu-installation#25",
        ),
        "build the module for this kernel; with the headers there, a run of nvidia_driver does it",
        ("sudo dkms autoinstall -k {kernel}",),
        (
            r"modprobe: FATAL: Module nvidia\S* not found in directory "
            r"/lib/modules/(?P<kernel>\S+)",
        ),
        RUN,
    ),
    Case(
        "dkms-gpl-symbol",
        "this kernel reserves a symbol for GPL modules that this driver uses",
        ("GoogleCloudPlatform/compute-gpu-installation#33",),
        "this driver can't be built for this kernel: take a newer release of the driver's branch "
        "(provision lock --upgrade nvidia_driver), or boot the kernel before",
        ("provision lock --upgrade nvidia_driver",),
        (
            r"(?:FATAL|ERROR): modpost: GPL-incompatible module (?P<module>\S+) uses GPL-only "
            r"symbol .(?P<symbol>\w+).",
        ),
        "",
    ),
    Case(
        "dkms-compiler",
        "the kernel was built by another gcc than the one that builds the module",
        ("GoogleCloudPlatform/compute-gpu-installation#34", "pop-os/pop#3117"),
        "install the gcc that the kernel was built by, then build again",
        ("sudo apt-get install gcc-{gcc}", "sudo dkms autoinstall -k {kernel}"),
        (
            r"The kernel was built by: +\S*gcc(?:-| \([^)]*\) )(?P<gcc>\d+)"
            r"[\s\S]*?unrecognized command.line option",
            r"gcc\S*: error: unrecognized command.line option .-(?:ftrivial-auto-var-init"
            r"|fmin-function-alignment|mharden-sls)",
        ),
        "",
    ),
    Case(
        "dkms-failed",
        "DKMS could not build the driver's module",
        (
            "NVIDIA/ansible-role-nvidia-driver#20",
            "GoogleCloudPlatform/compute-gpu-installation#33",
        ),
        "the compiler's line says why; a driver that is older than the kernel needs a newer "
        "release of its branch",
        ("sudo dkms autoinstall -k {kernel}", "provision lock --upgrade nvidia_driver"),
        (
            r"Bad return status for module build on kernel: (?P<kernel>\S+)",
            r"Building module(?::|\(s\)\.).*\(bad exit status: \d+\)",
            r"[\w./+-]{1,200}\.[ch]:\d+:\d+: (?:fatal )?error: ",
            r"ERROR: Unable to load the kernel module 'nvidia\.ko'",
        ),
        "",
    ),
    Case(
        "secure-boot",
        "Secure Boot is on, and the kernel refuses the driver's module: no trusted key signs it",
        (
            "GoogleCloudDataproc/initialization-actions#933",
            "NVIDIA/gpu-operator#1726",
            "MicrosoftDocs/azure-docs#111536",
        ),
        "on Ubuntu take the modules that Canonical signs (linux-modules-nvidia-<branch>-server-"
        "<flavour>); elsewhere enrol DKMS's key, which asks at the console on the next boot and "
        "can't be done over ssh, or switch Secure Boot off in the firmware",
        ("sudo mokutil --import {certificate}",),
        (
            r"Loading of (?:unsigned )?module (?:with unavailable key )?is rejected",
            r"could not insert 'nvidia\S*': (?:Required key not available|Key was rejected by "
            r"service|Operation not permitted)",
            r"Lockdown: \S+: unsigned module loading is restricted",
            r"PKCS#7 signature not signed with a trusted key",
        ),
        "",
    ),
    Case(
        "driver-silent",
        "the driver does not answer, and none of the reasons known here is seen",
        ("NVIDIA/ansible-role-nvidia-driver#20",),
        "these tell why: whether the module is built for the running kernel, and what the kernel "
        "said when it was loaded",
        ("dkms status", "sudo modprobe nvidia", "sudo dmesg | grep -iE 'nvrm|nvidia'"),
        (
            r"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
            r"Could not load dynamic library 'libcuda\.so\.1'",
            r"failed call to cuInit: CUDA_ERROR_(?!NO_DEVICE|SYSTEM_DRIVER)\w+",
            r"(?:nvidia-smi|TensorFlow) did not answer within \d+ s",
        ),
        "",
    ),
    Case(
        "gpu-silent",
        "the driver is loaded, and a GPU does not answer it",
        (),
        "the kernel's log says why; a card that has fallen off the bus comes back when the machine "
        "is powered off and on, not by a reboot: then look after its seat, its power cables and "
        "its slot",
        ("sudo dmesg | grep -iE 'nvrm|xid'", "lspci -nn -d 10de:"),
        (
            r"(?m)^No devices were found$",
            r"Unable to determine the device handle for (?:GPU|gpu)",
        ),
        "",
    ),
    Case(
        "transitional-branch",
        "a package named after one driver branch contains another",
        ("xnvme/aisio#67", "dstackai/dstack#3967"),
        "Ubuntu turns the packages of a branch that has ended into empty ones that bring the "
        "next: take the branch that is there into the lock, or one that is still served",
        ("apt-cache policy {package}", "provision lock --upgrade nvidia_driver"),
        (
            r"(?:Setting up|Unpacking) (?P<package>nvidia-driver-(?P<branch>\d{3})\S*) "
            r"(?:\S+ )?\((?:\d+:)?(?!(?P=branch)\.)\d{3}\.[^)]*\)",
            # in a line of dpkg -l or apt-cache search, or in the one below, as apt search has it
            r"(?P<package>nvidia-driver-\d{3}(?:-server|-open)*)[/ ][^\n]{0,300}(?:\n +)?"
            r"Transitional package for nvidia-driver-\d{3}",
        ),
        "",
    ),
    Case(
        "fabric-manager",
        "fabric manager and the driver are of different versions: NVSwitch machines have no GPUs",
        ("NVIDIA/gpu-operator#544", "Azure/azhpc-images#86"),
        "install the very version of the driver, and hold the two together",
        (
            "sudo apt-get install '{package}={driver}-*'",
            "sudo apt-mark hold {package}",
        ),
        (
            r"fabric manager NVIDIA GPU driver interface version (?P<fabric>\S+) do(?:es)?n't "
            r"match with driver version (?P<driver>[\d.]*\d)",
        ),
        "",
    ),
)
