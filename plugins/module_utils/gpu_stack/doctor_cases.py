"""What is known to go wrong on GPU machines, as data: one row per case.

Most cases come from public threads of people who met them. A row says what is wrong, what cures it
and the sentences by which programs tell it. `doctor.CHECKS` has, by the same id, the small function
that sees it on a host; a case without one can only be told from a log.

Words in braces in a cure are filled in with what was found; what was not found stays as <word>.
"""

import collections

# title: what is wrong. threads: where it is known from. cure: what to do, in words. commands: the
# same for a shell, on the host or (provision ...) on the controller. says: patterns of what
# programs print, found in any line (so none begins with what matches anything: a line may be a
# megabyte long); named groups fill in the cure. fix: what `--fix` does about it, "" for nothing.
Case = collections.namedtuple("Case", "id title threads cure commands says fix")

RUN = "a run of the components concerned"

CASES = (
    # the driver
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
            r"Building module:.*\(bad exit status: \d+\)",
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
        ),
        "",
    ),
    Case(
        "transitional-branch",
        "a package is named after one driver branch and holds another",
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
    # apt
    Case(
        "key-missing",
        "apt has no key for one of NVIDIA's repositories",
        ("NVIDIA/nvidia-docker#1631", "NVIDIA/cuda-repo-management#4"),
        "install NVIDIA's keyring package, checked by its hash, and name its key in the entry",
        ("{keyring}",),
        (
            r"NO_PUBKEY (?P<key>A4B469963BF863CC|DDCAE044F796ECB0)",
            r"Missing key EB693B3035CD5710E231E123A4B469963BF863CC",
        ),
        RUN + " where the lock takes its packages from that repository",
    ),
    Case(
        "key-rotated",
        "apt has the CUDA repository's old key 7fa2af80 only; it was replaced on 2022-04-27",
        ("NVIDIA/cuda-repo-management#4", "fgci-org/ansible-role-cuda#42"),
        "install NVIDIA's keyring package with the new key 3bf863cc, checked by its hash; the old "
        "one may go",
        ("{keyring}",),
        (r"NO_PUBKEY F60F4B3D7FA2AF80", r"apt-key adv .*7fa2af80\.pub"),
        RUN + " where the lock takes its packages from that repository",
    ),
    Case(
        "key-sha1",
        "apt refuses the repository's key: its own signature is made with SHA-1",
        ("NVIDIA/cuda-repo-management#39", "NVIDIA/cuda-repo-management#34"),
        "take the repository of a newer release, whose key is signed anew (Debian 13's is "
        "8793F200), or the platform's own packages; an entry that nothing needs can be disabled. "
        "Moving the date in apt's policy makes every repository weaker: not done here",
        ("sudoedit {file}",),
        (
            r"SHA1 is not considered secure since",
            r"Policy rejected non-revocation signature",
            r"Policy will reject signature within a year",
        ),
        "",
    ),
    Case(
        "apt-key-gone",
        "apt-key is gone from this release, and keys are wanted by it",
        ("debops/debops#2615", "geerlingguy/ansible-role-docker#344"),
        "put each key into /etc/apt/keyrings and name it in its entry with signed-by",
        (
            "sudo install -m 0644 KEY.asc /etc/apt/keyrings/",
            "sudoedit {file}  # deb [signed-by=/etc/apt/keyrings/KEY.asc] ...",
        ),
        (
            r"apt-key: (?:command )?not found",
            r"[Ff]ailed to find required executable .*apt-key",
            r"No such file or directory: b?'?apt-key",
        ),
        "",
    ),
    Case(
        "signed-by-conflict",
        "one repository is named twice with different keys, and apt refuses all work",
        (
            "NVIDIA/nvidia-docker#1631",
            "NVIDIA/nvidia-container-toolkit#170",
            "NVIDIA/libnvidia-container#194",
        ),
        "keep one of the entries, with the key it needs",
        ("sudoedit {file}",),
        (r"Conflicting values set for option Signed-By regarding source (?P<uri>\S+ \S+?):",),
        "keeps the entry whose key is there (of several, a package's) and switches off the "
        "others in a copy with a backup beside it",
    ),
    Case(
        "held-broken",
        "packages are held or pinned where others need them moved: apt can't go on",
        (
            "NVIDIA/ansible-role-nvidia-driver#11",
            "NVIDIA/ansible-role-nvidia-driver#28",
            "NVIDIA/ansible-role-nvidia-driver#33",
        ),
        "a driver moves as a whole: all its packages to one version in one step, which a run of "
        "nvidia_driver does; a hold of somebody else's must go first",
        ("apt-mark showhold", "sudo apt-mark unhold {package}"),
        (
            r"[Yy]ou have held broken packages",
            r"Held packages were changed and -y was used",
            r"pkgProblemResolver::Resolve generated breaks",
            r"E: Unmet dependencies\.",
        ),
        "",
    ),
    Case(
        "dpkg-interrupted",
        "dpkg was interrupted, and apt refuses all work until it has finished",
        (),
        "let dpkg finish",
        ("sudo dpkg --configure -a",),
        (r"dpkg was interrupted, you must manually run",),
        "dpkg --configure -a, keeping configuration files",
    ),
    Case(
        "cuda-repo-pin",
        "NVIDIA's repository is preferred to the platform's, and would replace the locked driver",
        ("NVIDIA/ansible-role-nvidia-driver#28",),
        "pin the driver's packages above it, which a run of nvidia_driver does; or take the "
        "preference away",
        ("provision apply --limit {host} --tags nvidia_driver",),
        (),
        RUN,
    ),
    Case(
        "local-repo-gone",
        "an entry names a local CUDA repository whose directory is gone",
        (),
        "remove the package that brought it, or the entry",
        ("sudo apt-get purge {package}",),
        (r"File not found - (?P<path>/var/cuda-repo-[^/ ]+)",),
        "",
    ),
    Case(
        "package-not-offered",
        "the repository of this release does not have that CUDA",
        ("Jimver/cuda-toolkit#183",),
        "NVIDIA's repositories begin where a release began (ubuntu2204 with CUDA 11.7, debian11 "
        "with 11.5): `provision catalog` shows what this platform can have",
        ("provision catalog",),
        (
            r"E: Unable to locate package (?P<package>(?:cuda|libcudnn)\S*)",
            r"E: Package '(?P<package>(?:cuda|libcudnn|nvidia)\S*)' has no installation candidate",
        ),
        "",
    ),
    Case(
        "everything-held",
        "so many packages are held that security updates no longer reach this host",
        ("Azure/azhpc-images#372", "lyulyul/shine-cluster#50"),
        "hold the GPU stack alone, which a run does with exactly its packages, and release the "
        "rest",
        ("apt-mark showhold", "sudo apt-mark unhold {package}"),
        (),
        "",
    ),
    # CUDA and cuDNN
    Case(
        "cuda-libraries",
        "TensorFlow can't open a CUDA or cuDNN library that it needs, and runs without GPUs",
        (
            "tensorflow/tensorflow#49167",
            "tensorflow/tensorflow#47874",
            "tensorflow/tensorflow#45930",
            "tensorflow/text#554",
        ),
        "install the CUDA and cuDNN that this TensorFlow was built for; a link under the old name "
        "to another version is no cure",
        ("provision apply --limit {host} --tags cuda,cudnn,gpu_env",),
        (
            r"Could not load dynamic library '(?P<library>(?!libnvinfer|libcuda\.so)[^']+)'",
            r"Cannot dlopen some GPU libraries",
        ),
        RUN,
    ),
    Case(
        "hand-made-link",
        "a library has the name of one version and is another",
        ("tensorflow/tensorflow#58910", "tensorflow/tensorflow#49167"),
        "take it away: the program that asked for the old version gets one of other functions and "
        "sizes, and fails later and worse; then install the version that is asked for",
        ("sudo mv {path} /var/backups/", "sudo ldconfig"),
        (
            r"(?:cp|ln)\s.{0,200}libcud(?:art|nn)\.so\.(?P<old>\d+)\S* "
            r".{0,200}libcud(?:art|nn)\.so\.(?!(?P=old))\d+",
            r"version .libcud(?:art|nn)\.so\.\d+.* not found",
        ),
        "moves it to /var/backups/provision-doctor where no package owns it",
    ),
    Case(
        "cudnn-older",
        "the cuDNN that is loaded is older than the one TensorFlow was built with",
        ("tensorflow/tensorflow#45930", "tensorflow/tensorflow#47874"),
        "another cuDNN comes first in the loader's order (LD_LIBRARY_PATH, conda, a package): "
        "take it out of the way, or run cudnn",
        ("ldconfig -p | grep libcudnn", "provision apply --limit {host} --tags cudnn"),
        (
            r"Loaded runtime CuDNN library: (?P<loaded>[\d.]+) but source was compiled with: "
            r"(?P<wanted>[\d.]*\d)",
        ),
        RUN,
    ),
    Case(
        "login-wall",
        "a downloaded archive is a web page: NVIDIA's login page, saved under the archive's name",
        (
            "deeplearningparis/dl-machine#12",
            "gridhead/nvidia-auto-installer-for-fedora-linux#153",
            "spack/spack#9400",
        ),
        "download it again from the address that needs no login, and check its SHA-256",
        (
            "curl -fLO https://developer.download.nvidia.com/compute/redist/cudnn/v8.1.0/"
            "cudnn-11.2-linux-x64-v8.1.0.77.tgz",
            "sha256sum {path}",
        ),
        (
            r"gzip: stdin: not in gzip format",
            r"(?:tar: )?This does not look like a tar archive",
            r"xz: \(stdin\): File format not recognized",
            r"<!DOCTYPE html",
        ),
        "",
    ),
    # Python
    Case(
        "numpy-2",
        "this TensorFlow was built for NumPy 1, and its environment has NumPy 2",
        ("tensorflow/tensorflow#90245",),
        "a run of tensorflow makes the environment what the lock says; by hand, below",
        (
            "provision apply --limit {host} --tags tensorflow",
            "python -m pip install 'numpy<2'",
        ),
        (
            r"_ARRAY_API not found",
            r"A module that was compiled using NumPy 1\.x cannot be run in",
            r"Unable to convert function return value to a Python type",
            r"numpy\.core\.multiarray failed to import",
        ),
        RUN,
    ),
    Case(
        "protobuf",
        "the environment's protobuf is newer than this TensorFlow's generated code",
        ("tensorflow/tensorflow#56266",),
        "a run of tensorflow makes the environment what the lock says; by hand, below",
        (
            "provision apply --limit {host} --tags tensorflow",
            "python -m pip install 'protobuf{bound}'",
        ),
        (
            r"Descriptors cannot (?:not )?be created directly",
            r"cannot import name 'builder' from 'google\.protobuf",
        ),
        RUN,
    ),
    Case(
        "ptx-jit",
        "this TensorFlow has no code for this GPU: its first run translates for half an hour",
        ("tensorflow/tensorflow#60739", "tensorflow/tensorflow#62320"),
        "wish for TensorFlow 2.12 or newer for this host; the wait comes back whenever the cache "
        "(~/.nv/ComputeCache) is lost or too small",
        ("provision catalog --gpu '{gpu}'", "export CUDA_CACHE_MAXSIZE=4294967296"),
        (
            r"CUDA kernels will be jit-compiled from PTX, which could take 30 minutes or longer",
            r"not built with CUDA kernel binaries compatible with compute capability",
        ),
        "",
    ),
    Case(
        "no-code-for-gpu",
        "this TensorFlow has no code for this GPU, and the driver can't translate what it has",
        (
            "tensorflow/tensorflow#89272",
            "tensorflow/tensorflow#101746",
            "tensorflow/tensorflow#111958",
        ),
        "no wheel up to TensorFlow 2.21 runs on it: take the host out of the group; NVIDIA's own "
        "container of TensorFlow has code for it",
        ("provision catalog --gpu '{gpu}'",),
        (
            r"CUDA_ERROR_INVALID_PTX",
            r"PTX version [\d.]+ does not support target 'sm_\d+",
        ),
        "",
    ),
    # containers
    Case(
        "containers-lose-gpus",
        "running containers lose their GPUs at the next `systemctl daemon-reload`",
        ("NVIDIA/nvidia-container-toolkit#48",),
        "systemd looks devices up in /dev/char: make the links, and have them made at each boot; "
        "a container that has lost its GPUs needs a restart",
        ("sudo nvidia-ctk system create-dev-char-symlinks --create-all",),
        (r"Failed to initialize NVML: Unknown Error",),
        "makes the missing links, which last until the next boot",
    ),
    Case(
        "container-runtime",
        "Docker knows no nvidia runtime: the toolkit is missing, or its configuration overwritten",
        ("kubernetes-sigs/kubespray#12277",),
        "configure it again and restart Docker when no container is needed",
        ("sudo nvidia-ctk runtime configure --runtime=docker",),
        (
            r"could not select device driver \S* with capabilities: \[\[gpu\]\]",
            r"[Uu]nknown or invalid runtime name: nvidia",
        ),
        "a run of the components concerned where the lock has the container toolkit",
    ),
    Case(
        "cdi-specification",
        "podman finds no GPUs: the CDI specification is of another driver, or newer than podman",
        ("NVIDIA/nvidia-container-toolkit#1860", "NVIDIA/nvidia-container-toolkit#146"),
        "make it anew after each change of the driver; for a podman before 5.1 without additional "
        "groups",
        (
            "sudo nvidia-ctk cdi generate --feature-flag no-additional-gids-for-device-nodes "
            "--output=/var/run/cdi/nvidia.yaml",
        ),
        (
            r"unresolvable CDI devices \S*nvidia\.com/gpu",
            r"failed to unmarshal CDI Spec.*additionalGids",
            r"stat nvidia\.com/gpu=\S+: no such file or directory",
        ),
        "a run of the component where the lock has the container toolkit",
    ),
    Case(
        "cri-runtime",
        "pods find no runtime nvidia: containerd or CRI-O does not name it, or was not restarted "
        "since",
        ("NVIDIA/gpu-operator#432", "cri-o/cri-o#10202"),
        "let it be written, and restart the one that pods come from when that ends no container: "
        "containerd reads its file when it starts, and CRI-O's reload shows what no pod is made of",
        (
            "sudo nvidia-ctk runtime configure --runtime={runtime}",
            "sudo systemctl restart {runtime}",
        ),
        (
            r"no runtime for \\?\"nvidia\\?\" is configured",
            r"failed to find runtime handler nvidia from runtime list",
        ),
        "a run of the component where the lock has the container toolkit",
    ),
    Case(
        "crio-monitor",
        "CRI-O does not start: its runtime nvidia names no monitor, and conmon is in no PATH",
        ("NVIDIA/nvidia-container-toolkit#681",),
        "give the runtime the monitor_path that the default one has; nvidia-ctk takes it from "
        "crio.conf alone, and CRI-O's packages have it in crio.conf.d",
        (
            "grep -r monitor_path /etc/crio",
            "sudoedit /etc/crio/crio.conf.d/99-nvidia.toml",
            "sudo systemctl restart crio",
        ),
        (r"failed to translate monitor fields for runtime nvidia",),
        "",
    ),
)

BY_ID = {case.id: case for case in CASES}
