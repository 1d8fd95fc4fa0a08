"""Everything that would make a run fail or hurt somebody, said before anything is touched.

Each rule is one small pure function over what was found; the table RULES gives it an id, the
component whose changes make it relevant (None: any; WORK: a proof that is owed as well), and
whether it stops the run. A host gets all
its reasons in one message, so that nobody repairs one and meets the next an hour later. The cases
come from public threads of people with GPU machines.
"""

import collections
import os
import re

from . import receipt, transaction
from .change import blocker
from .components import (
    cudnn,
    gpu_env,
    gpu_front_door,
    gpu_workspace,
    nvidia_container_toolkit,
    nvidia_driver,
    tensorflow,
)
from .components.cuda import nvidia_cuda
from .components.nvidia_container_toolkit import cdi, containerd, crio
from .components.nvidia_driver import driver_method
from .components.tensorflow import venv_use
from .host import dpkg, people, running, surroundings
from .host.context import SILENT

Rule = collections.namedtuple("Rule", "id component stops check")

WORK = "work"

GIB = 1 << 30

# Room for what one component installs, in bytes, by where it goes: {component: {path: bytes}}.
# The driver is 0.1 GB to fetch and 0.2 GB unpacked, and 0.4 GB with a DKMS build. CUDA's own size
# is CUDA_NEEDS'. cuDNN's archive beside its content; a TensorFlow 2.9 venv 2.5 GB.
NEEDS = {
    # The .run file is 0.4 GB to fetch and 1 GB unpacked, beside what it installs (estimated).
    "runfile": {"/usr": GIB, "/var/tmp": 3 * GIB // 2, "/var/lib/dkms": GIB // 4},  # noqa: S108
    "nvidia_driver": {"/usr": GIB // 2, "/var/cache/apt": GIB // 4, "/var/lib/dkms": GIB // 4},
    "cuda": {"/usr": 5 * GIB, "/var/cache/apt": 7 * GIB // 4},
    "cudnn": {"cudnn_root": 4 * GIB},
    "tensorflow": {"tensorflow_root": 5 * GIB // 2},
}
# Where a platform's CUDA is known, by profile. What the package indices say (2026-11-21), in GB to
# fetch and unpacked: Debian 11 toolkit 1.33 and 3.64, runtime 0.49 and 1.23; 12 toolkit 1.56 and
# 5.19, runtime 0.54 and 1.64; 13 toolkit 1.82 and 4.64, runtime 0.63 and 1.41. Profile runtime also
# fetches ptxas in a package of 0.06 to 0.09 GB.
CUDA_NEEDS = {
    ("debian", "11"): {
        "toolkit": {"/usr": 7 * GIB // 2, "/var/cache/apt": 5 * GIB // 4},
        "runtime": {"/usr": 5 * GIB // 4, "/var/cache/apt": GIB // 2},
    },
    ("debian", "12"): {
        "toolkit": {"/usr": 5 * GIB, "/var/cache/apt": 3 * GIB // 2},
        "runtime": {"/usr": 13 * GIB // 8, "/var/cache/apt": 5 * GIB // 8},
    },
    ("debian", "13"): {
        "toolkit": {"/usr": 9 * GIB // 2, "/var/cache/apt": 7 * GIB // 4},
        "runtime": {"/usr": 3 * GIB // 2, "/var/cache/apt": 3 * GIB // 4},
    },
}
# From NVIDIA's packages, as cuda-toolkit-11-2 and 11-8 are (estimated). The local installer is
# downloaded and unpacked beside, 2.2 GB each up to 11.8 and 3.3 GB later; apt then copies nothing.
CUDA_NVIDIA = {
    "toolkit": {"/usr": 7 * GIB, "/var/cache/apt": 7 * GIB // 2},
    "runtime": {"/usr": 3 * GIB, "/var/cache/apt": 3 * GIB // 2},
}
CUDA_INSTALLER = {"cuda_installer_directory": 7 * GIB // 2, "/var": 7 * GIB // 2}
CUDA_RUNTIME = {"/usr": 13 * GIB // 8, "/var/cache/apt": 3 * GIB // 4}
# With CUDA and cuDNN among the wheels; pip holds them packed and unpacked for a while (estimated).
CUDA_WHEELS = {"tensorflow_root": 19 * GIB // 2}
# What NVIDIA's modules add to an initramfs where they are put into it.
MODULES_IN_INITRAMFS = GIB // 16
ROOTS = {
    "cudnn_root": "/opt/nvidia/cudnn",
    "tensorflow_root": "/opt/tensorflow",
    "cuda_installer_directory": "/var/cache/provision",
}

# GPU generations by PCI device id (pci.ids): (first, last, generation).
GENERATIONS = (
    (0x06C0, 0x06DF, "Fermi"),
    (0x0DC0, 0x0F3F, "Fermi"),
    (0x0FC0, 0x0FFF, "Kepler"),
    (0x1001, 0x103F, "Kepler"),
    (0x1040, 0x1179, "Fermi"),
    (0x1180, 0x11FF, "Kepler"),
    (0x1200, 0x125F, "Fermi"),
    (0x1280, 0x130F, "Kepler"),
    (0x1340, 0x143F, "Maxwell"),
    (0x15C0, 0x15FF, "Pascal"),
    (0x1600, 0x167F, "Maxwell"),
    (0x174D, 0x179C, "Maxwell"),
    (0x17C0, 0x17FF, "Maxwell"),
    (0x1B00, 0x1D7F, "Pascal"),
    (0x1D80, 0x1DFF, "Volta"),
    (0x1E00, 0x1FFF, "Turing"),
    (0x2080, 0x20FF, "Ampere"),
    (0x2180, 0x21FF, "Turing"),
    (0x2200, 0x22FF, "Ampere"),
    (0x2300, 0x23FF, "Hopper"),
    (0x2400, 0x25FF, "Ampere"),
    (0x2680, 0x28FF, "Ada"),
    (0x2900, 0x29FF, "Blackwell"),
    (0x2B00, 0x31FF, "Blackwell"),
)
# Driver branches that drive a generation: first (of those from 418 on), last (None: not ended). The
# generator's catalog (generations.yml) has the same with their sources; a test compares them.
WINDOWS = {
    "Fermi": (390, 390),
    "Kepler": (418, 470),
    "Maxwell": (418, 580),
    "Pascal": (418, 580),
    "Volta": (418, 580),
    "Turing": (418, None),
    "Ampere": (450, None),
    "Ada": (525, None),
    "Hopper": (525, None),
    "Blackwell": (570, None),
}
# Newer than the code inside TensorFlow 2.9's wheel (up to compute capability 8.0 and its PTX).
TRANSLATED = ("Hopper",)
# No wheel up to 2.21 has machine code for it; what the driver would translate ends at the first
# operation on 12.0 (https://github.com/tensorflow/tensorflow/issues/89272); 10.0 is not reported.
WITHOUT_CODE = ("Blackwell",)
LAST_WITHOUT_CODE = [2, 21]

# Programs that hold the device files all day and lose nothing when the driver changes. Names as in
# /proc/<pid>/comm, which holds 15 characters.
DAEMONS = ("nvidia-persiste", "nv-hostengine", "dcgm-exporter", "nvidia-smi")

# The key that DKMS signs modules with, and its certificate as mokutil enrols it (DER).
MODULE_KEYS = (
    ("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub"),
    ("/var/lib/shim-signed/mok/MOK.priv", "/var/lib/shim-signed/mok/MOK.der"),
)
# What shim trusts, as it tells the kernel: certificates among EFI's own words. A long list is in
# the second place alone (Linux, drivers/firmware/efi/mokvar-table.c).
ENROLLED = ("/sys/firmware/efi/efivars/MokListRT*", "/sys/firmware/efi/mok-variables/MokListRT*")

# Drivers that come from elsewhere than the platform's nvidia-* packages of this stack.
FOREIGN = re.compile(
    r"^(cuda-drivers(-\d+)?|nvidia-open(-\d+)?|nvidia-driver-\d+(-server|-open)*"
    r"|libnvidia-compute-\d+(-server)?|nvidia-tesla-.*|nvidia-legacy-.*xx-.*|cuda-compat-.*)$"
)


# the look


# It opens every GPU, and waits for a driver that hangs.
COMPUTE_APPS = ["nvidia-smi", "--query-compute-apps=pid,name", "--format=csv,noheader"]


def _text(context, path):
    """A file's text; nothing where it can't be read, for a process may have ended meanwhile."""
    return context.read(path) or ""


def _users(context):
    """The seven fields of each user, passwd(5); lines of NIS and broken ones are left out."""
    lines = [line.split(":") for line in _text(context, "/etc/passwd").splitlines()]
    return [fields for fields in lines if len(fields) == 7]


def processes(context, asked=None):
    """Who uses a GPU: [{pid, user, command}] of processes that hold a /dev/nvidia* file.

    `asked`: the answer of COMPUTE_APPS.
    """
    found = {}
    for directory in context.glob("/proc/[0-9]*/fd"):
        pid = directory.split("/")[2]
        comm = _text(context, "/proc/{0}/comm".format(pid)).strip()
        if comm in DAEMONS:
            continue
        opened = [context.readlink(directory + "/" + name) for name in context.listdir(directory)]
        if any(target is not None and target.startswith("/dev/nvidia") for target in opened):
            found[pid] = _process(context, pid, comm)
    # A process of another container shows here though its files can't be read from this one.
    answer = context.run(COMPUTE_APPS) if asked is None else asked
    if answer.rc == 0:
        for line in answer.out.splitlines():
            pid, _comma, name = line.partition(",")
            pid = pid.strip()
            if pid.isdigit() and pid not in found:
                found[pid] = _process(context, pid, name.strip())
    return [found[pid] for pid in sorted(found, key=int)]


def _process(context, pid, comm):
    words = _text(context, "/proc/{0}/cmdline".format(pid)).replace("\0", " ").strip()
    # The user chooses them, and they are shown on somebody's terminal.
    command, comm = ("".join(c if c.isprintable() else "?" for c in text) for text in (words, comm))
    uid = re.search(r"^Uid:\s+(\d+)", _text(context, "/proc/{0}/status".format(pid)), re.M)
    user = None
    if uid is not None:
        names = [fields[0] for fields in _users(context) if fields[2] == uid.group(1)]
        user = names[0] if names else uid.group(1)
    return {"pid": int(pid), "user": user, "command": (command or comm)[:160]}


def secure_boot(context):
    """True or False as the firmware says; None where there is no such variable (BIOS, container).

    The variable's content is four bytes of attributes and one byte of value.
    """
    for path in context.glob("/sys/firmware/efi/efivars/SecureBoot-*"):
        data = context.read_bytes(path)
        if data:
            return data[-1] == 1
    return None


def module_key(context):
    """True where DKMS signs modules with a key that this machine's firmware trusts.

    Up to dkms 2 a key is there only because somebody made it. dkms 3 makes one by itself with the
    first module that it builds, so there the certificate must be seen among the enrolled ones.
    """
    certificates = [public for key, public in MODULE_KEYS if context.exists(key)]
    dkms = context.packages.get("dkms")
    if dkms is None or dpkg.compare(dkms["version"], "3~") < 0:
        return bool(certificates)
    enrolled = [context.read_bytes(path) for glob in ENROLLED for path in context.glob(glob)]
    wanted = [data for data in map(context.read_bytes, certificates) if data]
    return any(one in data for one in wanted for data in enrolled if data)


def headers(context, kernel):
    """Whether the module can be built for one kernel: "installed", "offered" or "absent"."""
    if context.exists("/lib/modules/{0}/build".format(kernel)):
        return "installed"
    package = "linux-headers-" + kernel
    answer = context.run(["apt-cache", "policy", package])
    if re.search(r"^  Candidate: [^(\s]", answer.out, re.M):
        return "offered"
    # An apt that has no lists yet knows nothing of any package.
    return "absent" if context.glob("/var/lib/apt/lists/*_Packages*") else "unknown"


def home(context):
    """Home directory of who came in by ssh; None when that is root."""
    user = os.environ.get("SUDO_USER")
    homes = [fields[5] for fields in _users(context) if fields[0] == user]
    return homes[0] if homes else None


def conda(context):
    """Login files that put conda's Python in front of the system's."""
    found = []
    files = ["/etc/profile.d/conda.sh", "/root/.bashrc", "/root/.bash_profile", "/root/.profile"]
    directory = home(context)
    if directory:
        files += [directory + "/.bashrc", directory + "/.bash_profile", directory + "/.profile"]
    files += surroundings.login_files(_users(context))
    for path in dict.fromkeys(files):
        text = _text(context, path)
        if (path.endswith("conda.sh") and text) or re.search(
            r"conda initialize|^[^#\n]*PATH=\S*(ana|mini|mambaf)\w*/bin", text, re.M
        ):
            found.append(path)
    return found


def usr_local_cuda(context):
    """{"path", "named_in"} of a /usr/local/cuda that no package owns; None otherwise."""
    path = "/usr/local/cuda"
    real = context.resolve(path)
    if real is None:
        return None
    for name in context.packages:
        if name.startswith("cuda-"):
            listed = dpkg.file_list(context, name)
            if path in listed or real in listed:
                return None
    files = ["/etc/environment", "/etc/profile", "/etc/bash.bashrc", "/root/.bashrc"]
    files += context.glob("/etc/profile.d/*.sh") + context.glob("/etc/ld.so.conf.d/*.conf")
    return {
        "path": real,
        "named_in": [file for file in files if path in _text(context, file)],
    }


def signed_by_conflicts(context):
    """[[uri, suite, [files]]] of one repository named twice with different keys.

    As apt sees it: an entry must agree with every earlier one that named a key; naming a key after
    an entry without one is fine.
    """
    seen = {}
    for entry in context.apt_entries:
        options = {name.lower(): value for name, value in entry["options"].items()}
        for uri in entry["uris"]:
            for suite in entry["suites"]:
                key = (uri.rstrip("/"), suite)
                seen.setdefault(key, []).append((options.get("signed-by"), entry["file"]))
    return [
        [uri, suite, sorted({file for _key, file in found})]
        for (uri, suite), found in sorted(seen.items())
        if _contradicts([key for key, _file in found])
    ]


def _contradicts(keys):
    """True when, in apt's reading order, a key is followed by another one or by none."""
    first = next((index for index, key in enumerate(keys) if key), len(keys))
    return any(key != keys[first] for key in keys[first:])


def unfinished(context):
    """[[package, status]] of packages that dpkg has not finished.

    A dpkg that was killed leaves its last steps in a journal, not yet in its status file.
    """
    states = {name: context.packages[name]["status"] for name in context.packages}
    for path in context.glob("/var/lib/dpkg/updates/[0-9]*"):
        text = _text(context, path)
        name = re.search(r"^Package: (\S+)", text, re.M)
        status = re.search(r"^Status: \S+ \S+ (\S+)", text, re.M)
        if name is not None and status is not None:
            states[name.group(1)] = status.group(1)
    done = ("installed", "triggers-pending", "triggers-awaited", "not-installed", "config-files")
    return [[name, states[name]] for name in sorted(states) if states[name] not in done]


def dpkg_at_work(context):
    """True while a dpkg of root's runs: what is half-installed now is whole in a moment.

    Anybody may call a process dpkg.
    """
    for path in context.glob("/proc/[0-9]*/comm"):
        if _text(context, path).strip() == "dpkg" and context.is_roots(path.split("/")[-2]):
            return True
    return False


def disk(context):
    """{path: {"free": bytes, "device": number}} for every place something is installed to."""
    found = {}
    local = context.part("cuda").get("source") == "local"
    for needs in [*NEEDS.values(), CUDA_INSTALLER if local else {}]:
        for place in needs:
            path = context.options.get(place) or ROOTS.get(place) or place
            here = path
            while here != "/" and not context.exists(here):
                here = os.path.dirname(here)
            info = context.stat(here)
            free = context.disk_free(path)
            if info is not None and free is not None:
                found[path] = {"free": free, "device": info.st_dev}
    return found


def boot(context):
    """{"free", "needed"} in bytes under /boot, where an initramfs is rebuilt; None without one.

    update-initramfs writes each image beside the old one before it takes its place, and the new
    one holds NVIDIA's modules.
    """
    sizes = [info.st_size for info in map(context.stat, context.glob("/boot/initrd.img-*")) if info]
    free = context.disk_free("/boot")
    if not sizes or free is None:
        return None
    return {"free": free, "needed": max(sizes) + MODULES_IN_INITRAMFS}


def compilers(context):
    """Major versions: of the compiler that built the running kernel, and of those installed."""
    version = _text(context, "/proc/version")
    built = re.search(r"\bgcc(?:-(\d+)| version (\d+)| \([^)]*\) (\d+))", version)
    return {
        "kernel": int(next(filter(None, built.groups()))) if built is not None else None,
        "installed": sorted({_major(context, p) for p in context.glob("/usr/bin/gcc*")} - {None}),
        "default": _major(context, "/usr/bin/gcc"),
    }


def _major(context, path):
    """The version of the compiler that `path` leads to; None where it leads to none."""
    target = context.resolve(path)
    match = target and re.search(r"gcc-(\d+)$", target)
    return int(match.group(1)) if match else None


def look(context, run=None):
    """Everything the rules need beside the components' own looks, in one pass.

    `run`: the id of the run that looks.
    """
    flags = re.findall(r"^flags\s*:(.*)$", _text(context, "/proc/cpuinfo"), re.M)
    asked = context.run(COMPUTE_APPS)
    found = {
        "driver_hangs": asked.err if asked.rc == SILENT else None,
        "avx": "avx" in flags[0].split() if flags else None,
        "disk": disk(context),
        "boot": boot(context),
        "processes": processes(context, asked),
        "secure_boot": secure_boot(context),
        "module_key": module_key(context),
        "headers": {kernel: headers(context, kernel) for kernel in nvidia_driver.kernels(context)},
        "compilers": compilers(context),
        "unfinished": unfinished(context),
        "dpkg_at_work": dpkg_at_work(context),
        "foreign": sorted(name for name in context.packages if FOREIGN.match(name)),
        "signed_by": signed_by_conflicts(context),
        "installer": [
            path
            for path in ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer")
            if context.exists(path)
        ],
        "usr_local_cuda": usr_local_cuda(context),
        "conda": conda(context),
        "running": running.look(context, run),
        "users": people.users(context),
        "clock": people.clock(),
    }
    found.update(surroundings.look(context))
    if context.part(nvidia_container_toolkit.NAME) and nvidia_container_toolkit.running(context):
        found["docker"] = nvidia_container_toolkit.containers(context)
    return found


# The way out of another way's driver that the run itself can take.
SWITCH_HINT = "; or let the run switch: nvidia_driver_switch: switch"


# the rules: (found, changes, options, row) -> [(message, hint)]


def generation(device):
    """The GPU generation of a PCI device id ("0x1eb8"); None when it is not in the table."""
    try:
        number = int(device, 16)
    except (TypeError, ValueError):
        return None
    for first, last, name in GENERATIONS:
        if first <= number <= last:
            return name
    return None


def generations(gpus):
    """The generations of these GPUs as far as the table knows them, sorted, without doubles."""
    return sorted({generation(gpu.get("device")) for gpu in gpus} - {None})


def _generations(found):
    return generations(found["gpus"])


def _scope(found, options):
    return nvidia_driver.resolve_scope(options, found["container"])


def avx_missing(found, _changes, _options, _row):
    if found["preflight"].get("avx") is not False:
        return []
    return [
        (
            "the processor has no AVX, which TensorFlow's wheels are built with "
            "(they end with 'Illegal instruction')",
            "in a virtual machine let the CPU model pass AVX on (host-passthrough); "
            "otherwise take another machine",
        )
    ]


def cuda_needs(platform, profile, source=None):
    """{path: bytes} of CUDA in one profile; on a platform without figures those of the largest."""
    profile = "runtime" if profile == "runtime" else "toolkit"
    if source == "network":
        return CUDA_NVIDIA[profile]
    if source == "local":
        return dict(CUDA_INSTALLER, **{"/usr": CUDA_NVIDIA[profile]["/usr"]})
    largest = CUDA_RUNTIME if profile == "runtime" else NEEDS["cuda"]
    sizes = CUDA_NEEDS.get((platform.get("distribution"), platform.get("release")))
    return largest if sizes is None else sizes[profile]


def _needs(found, changes, options, row):
    """[(component, {place: bytes})] of what is absent and will be installed."""
    needs = []
    venvs = found["preflight"].get("venvs") or {}
    for component in sorted({one["component"] for one in changes}):
        # A component that is there and only changed needs little; one that is absent all of it, and
        # so does an environment that is built beside the one in use.
        absent = found["state"].get(component, {}).get("version") is None
        part = row.get(component) or {}
        if absent or (component == tensorflow.NAME and _built(part, venvs)):
            needs.append((component, _size(found, component, options, row.get(component) or {})))
        if component != tensorflow.NAME:
            continue
        for part in row.get("beside") or []:
            seen = found["state"][component]["beside"][tensorflow.directory(part)]
            if not tensorflow.finished(part, seen) or _built(part, venvs):
                name = "{0} {1}".format(component, part["version"])
                needs.append((name, _size(found, component, options, part)))
    return needs


def _built(part, venvs):
    """True of an environment that this run makes."""
    name = tensorflow.directory(part) if part else None
    return (venvs.get(name) or {}).get("kind") in ("new", "anew")


def _size(found, component, options, part):
    if component == "cuda":
        return cuda_needs(found["platform"], options.get("cuda_profile"), part.get("source"))
    if part.get("cuda_source") == "wheels":
        return CUDA_WHEELS
    if driver_method.source(part) == driver_method.RUNFILE:
        return NEEDS["runfile"]
    return NEEDS.get(component, {})


def disk_full(found, changes, options, row):
    spaces = found["preflight"].get("disk") or {}
    needed = {}
    for name, needs in _needs(found, changes, options, row):
        for place, size in needs.items():
            path = options.get(place) or ROOTS.get(place) or place
            if path in spaces:
                space = spaces[path]
                entry = needed.setdefault(
                    space["device"], {"size": 0, "free": space["free"], "for": []}
                )
                entry["size"] += size
                entry["for"].append("{0} in {1}".format(name, path))
    return [
        (
            "the disk is too full: {0:.1f} GB are free where {1:.1f} GB are needed ({2})".format(
                entry["free"] / 1e9, entry["size"] / 1e9, ", ".join(entry["for"])
            ),
            "free some space (apt-get clean; old files under /opt), or move a root with "
            "cudnn_root or tensorflow_root",
        )
        for _device, entry in sorted(needed.items())
        if entry["free"] < entry["size"]
    ]


def boot_full(found, changes, options, row):
    space = found["preflight"].get("boot")
    if _scope(found, options) != "full" or not space or space["free"] >= space["needed"]:
        return []
    if not _replaces(changes, row):
        return []
    return [
        (
            "/boot is too full: {0:.0f} MB are free where {1:.0f} MB are needed to rebuild an "
            "initramfs".format(space["free"] / 1e6, space["needed"] / 1e6),
            "remove kernels that are not booted any more (apt-get autoremove --purge; dpkg -l "
            "'linux-image-*' lists them), then run again",
        )
    ]


def _touches_driver(one, row):
    """True of a change that puts other files in the place of the driver that a job uses."""
    files = [*nvidia_driver.all_packages(row["nvidia_driver"]), nvidia_driver.RUNFILE_ITEM]
    removed = one["to"] is None and driver_method.DRIVER.match(one["item"])
    return one["component"] == "nvidia_driver" and (one["item"] in files or bool(removed))


def gpu_processes(found, changes, options, row):
    running = found["preflight"].get("processes")
    # A missing hold or pin is put right without touching the driver that the job uses.
    reboot = options.get("nvidia_driver_reboot")
    ours = [one for one in changes if one["component"] == "nvidia_driver"]
    if not _replaces(ours, row) and not any(one["reboot"] and reboot for one in ours):
        return []
    # With a time to wait, the role waits before it touches anything, and refuses by itself.
    if not running or options.get("nvidia_driver_wait_for_gpu_processes"):
        return []
    who = "; ".join(
        "pid {0} of {1}: {2}".format(one["pid"], one["user"], one["command"]) for one in running
    )
    return [
        (
            "GPU processes run, and the driver would be changed under them: " + who,
            "run again when they have ended, or let the run wait with "
            "nvidia_driver_wait_for_gpu_processes (seconds); none is ever ended for you",
        )
    ]


def _reboots(changes, options):
    """True where this run would reboot the host: one that Ansible runs on can't be."""
    allowed = options.get("nvidia_driver_reboot") and options.get("ansible_connection") != "local"
    return bool(allowed and any(one["reboot"] for one in changes))


def _replaces(changes, row):
    """True where the driver's files are put there, exchanged, repaired or removed."""
    return any(_touches_driver(one, row) for one in changes)


def maintenance_window(found, changes, options, row):
    clock = found["preflight"].get("clock")
    given = options.get("gpu_maintenance_window")
    if clock is None or not (_reboots(changes, options) or _replaces(changes, row)):
        return []
    try:
        if people.is_open(given, clock):
            return []
    except ValueError as error:
        hint = "correct gpu_maintenance_window, a text or a list of texts"
        return [("gpu_maintenance_window: " + str(error), hint)]
    return [
        (
            "the driver would be changed, or the host rebooted, outside the maintenance window "
            "({0}); it is {1} on this host".format(
                people.window_words(given), people.clock_words(clock)
            ),
            "run again in the window, leave the driver out (--skip-tags nvidia_driver), or, for "
            "this run alone, -e gpu_maintenance_window=",
        )
    ]


def _disturbed(found, changes, options, row):
    """(those who are logged in, what would happen to them); nothing where they won't notice.

    A driver that nothing has loaded yet can be installed beside any shell.
    """
    present = found["preflight"].get("users") or []
    loaded = found["state"]["nvidia_driver"].get("loaded") is not None
    what = ""
    if _reboots(changes, options):
        what = "the host would be rebooted under them"
    elif loaded and _replaces(changes, row):
        what = "the loaded driver would be changed under them"
    return "; ".join(people.words(one) for one in present), what if present else ""


def logged_in(found, changes, options, row):
    who, what = _disturbed(found, changes, options, row)
    if not what or options.get("nvidia_driver_logged_in_users", "refuse") != "refuse":
        return []
    return [
        (
            "people are logged in, and {0}: {1}".format(what, who),
            "run again when they have left, or set nvidia_driver_logged_in_users: wait (for "
            "nvidia_driver_wait_for_users seconds) or ignore; nobody is ever logged out for you",
        )
    ]


def logged_in_told(found, changes, options, row):
    who, what = _disturbed(found, changes, options, row)
    mode = options.get("nvidia_driver_logged_in_users", "refuse")
    if not what or mode == "refuse":
        return []
    hint = "the run waits for them" if mode == "wait" else "nvidia_driver_logged_in_users is ignore"
    return [("people are logged in, and {0}: {1}".format(what, who), hint)]


def gpu_driver_window(found, _changes, _options, row):
    branch = int(str(row["nvidia_driver"]["branch"]).split(".")[0])
    reasons = []
    for name in _generations(found):
        first, last = WINDOWS[name]
        if branch < first:
            reasons.append(
                (
                    "a {0} GPU needs driver {1} or newer; the lock says {2}".format(
                        name, first, branch
                    ),
                    "wish for a newer stack for this host in gpu_stack",
                )
            )
        elif last is not None and branch > last:
            reasons.append(
                (
                    "driver {0} is the last for a {1} GPU; the lock says {2}".format(
                        last, name, branch
                    ),
                    "wish for an older driver_branch for this host in gpu_stack",
                )
            )
    return reasons


def gpu_without_code(found, _changes, _options, row):
    version = row["tensorflow"]["version"]
    if [int(part) for part in version.split(".")[:2]] > LAST_WITHOUT_CODE:
        return []
    return [
        (
            "TensorFlow {0} does not run on a {1} GPU: its wheel has no code for it "
            "(https://github.com/tensorflow/tensorflow/issues/89272)".format(version, name),
            "take this host out of the group; NVIDIA's own container of TensorFlow has code for it",
        )
        for name in _generations(found)
        if name in WITHOUT_CODE
    ]


def gpu_translated(found, _changes, _options, row):
    version = [int(part) for part in row["tensorflow"]["version"].split(".")[:2]]
    if version >= [2, 12]:
        return []
    return [
        (
            "TensorFlow {0} has no code for a {1} GPU: the first run translates for half an hour, "
            "and cuDNN and cuBLAS of CUDA {2} do not know it".format(
                row["tensorflow"]["version"], name, row["cuda"]["release"]
            ),
            "wish for TensorFlow 2.12 or newer on this host",
        )
        for name in _generations(found)
        if name in TRANSLATED
    ]


def secure_boot_unsigned(found, _changes, options, row):
    if driver_method.prebuilt(row["nvidia_driver"]):
        return []
    if _scope(found, options) != "full" or found["preflight"].get("secure_boot") is not True:
        return []
    if found["preflight"].get("module_key"):
        return []
    return [
        (
            "Secure Boot is on: the kernel will refuse the module that DKMS builds, for no key "
            "that the firmware trusts signs it",
            "switch Secure Boot off in the firmware, or enrol a key of your own (mokutil --import; "
            "it asks at the console on the next boot) and let DKMS sign with it; on Ubuntu take "
            "driver_source: distribution, whose modules Canonical signs",
        )
    ]


def _nouveau(found, options):
    return found["state"].get("nvidia_driver", {}).get("nouveau_loaded") and (
        _scope(found, options) == "full" and not found["container"]
    )


def nouveau_loaded(found, _changes, options, _row):
    local = options.get("ansible_connection") == "local"
    if not _nouveau(found, options) or (options.get("nvidia_driver_reboot") and not local):
        return []
    return [
        (
            "nouveau is loaded and drives the GPU; it goes only with a reboot, and this run may "
            "not do one",
            "set nvidia_driver_reboot: true, or reboot the host after this run and run again",
        )
    ]


def _image(found):
    """The metapackage of the platform's kernel."""
    ubuntu = found["platform"].get("distribution") == "ubuntu"
    return "linux-image-generic" if ubuntu else "linux-image-amd64"


def headers_absent(found, _changes, options, row):
    if _scope(found, options) != "full" or driver_method.prebuilt(row["nvidia_driver"]):
        return []
    return [
        (
            "the headers of kernel {0} are neither installed nor in the archive any more, so no "
            "module can be built for it".format(kernel),
            "install the current kernel (apt install {0}), reboot, then run again".format(
                _image(found)
            ),
        )
        for kernel, state in sorted((found["preflight"].get("headers") or {}).items())
        if state == "absent"
    ]


def no_kernel(found, _changes, options, _row):
    if _scope(found, options) != "full" or found["state"]["nvidia_driver"]["kernels"]:
        return []
    return [
        (
            "nvidia_driver_scope is full, but no kernel image is installed under /boot and the "
            "running kernel is not this system's",
            "install {0}, or set nvidia_driver_scope: userspace".format(_image(found)),
        )
    ]


def kernel_compiler(found, _changes, options, row):
    compilers_found = found["preflight"].get("compilers") or {}
    if driver_method.prebuilt(row["nvidia_driver"]):
        return []
    kernel, installed = compilers_found.get("kernel"), compilers_found.get("installed")
    if _scope(found, options) != "full" or found["container"]:
        return []
    if kernel is None or not installed or kernel in installed:
        return []
    return [
        (
            "the running kernel was built by gcc {0}, and only gcc {1} is installed: modules built "
            "by another compiler often fail".format(kernel, ", ".join(map(str, installed))),
            "apt install gcc-{0}".format(kernel),
        )
    ]


def _locked(row):
    packages = nvidia_driver.all_packages(row["nvidia_driver"]) if row.get("nvidia_driver") else {}
    names = set(packages)
    for name in ("cuda", nvidia_container_toolkit.NAME):
        for sets in ((row.get(name) or {}).get("packages") or {}).values():
            names.update(sets)
    return names


def dpkg_broken(found, _changes, _options, row):
    # What an unfinished run of ours left in the middle, a compiler that CUDA needs among it, apt
    # puts right by itself before it installs anything.
    if found.get("unfinished") or found["preflight"].get("dpkg_at_work"):
        return []
    ours = _locked(row)
    reasons = []
    for name, status in found["preflight"].get("unfinished") or []:
        if name not in ours and status == "half-installed":
            reasons.append(
                (
                    "dpkg holds the package {0} in state {1}, and it is none of this "
                    "stack's".format(name, status),
                    "apt-get install --reinstall {0}, or remove it; then run again".format(name),
                )
            )
    return reasons


def dpkg_interrupted(found, changes, _options, _row):
    names = [name for name, _status in found["preflight"].get("unfinished") or []]
    # The other roles install nothing, or one package of the platform's.
    finishing = {"nvidia_driver", "cuda", nvidia_container_toolkit.NAME}
    if not names or not {one["component"] for one in changes} & finishing:
        return []
    return [
        (
            "an installation was interrupted ({0}); it will be finished first".format(
                ", ".join(names)
            ),
            "nothing to do",
        )
    ]


def held_elsewhere(found, _changes, options, row):
    state = found["state"]["nvidia_driver"]
    if state.get("pins") is not None:
        return []
    wanted = nvidia_driver.wanted_packages(row["nvidia_driver"], _scope(found, options), options)
    held = [
        "{0} {1}".format(name, seen["version"])
        for name, seen in sorted((state.get("packages") or {}).items())
        if seen["want"] == "hold" and name in wanted and seen["version"] != wanted[name]
    ]
    if not held:
        return []
    return [
        (
            "held by somebody else at another version: " + ", ".join(held),
            "if the hold is not wanted any more: apt-mark unhold "
            + " ".join(one.split()[0] for one in held),
        )
    ]


def foreign_driver(found, changes, _options, row):
    # What the plan removes by itself is no reason to stop.
    ours = _locked(row) | {one["item"] for one in changes if one["to"] is None}
    if driver_method.source(row["nvidia_driver"]) == driver_method.RUNFILE:
        return []  # packaged_driver says it
    names = [name for name in found["preflight"].get("foreign") or [] if name not in ours]
    if not names:
        return []
    return [
        (
            "another NVIDIA driver is installed from packages: " + ", ".join(names),
            "remove it first: apt-get purge " + " ".join(names) + SWITCH_HINT,
        )
    ]


def unplanned_removals(found, changes, _options, _row):
    return transaction.reasons(found, changes)


def _way(found):
    state = found["state"]["nvidia_driver"]
    return state.get("method"), state.get("leftovers")


def packaged_driver(found, _changes, options, row):
    _method, leftovers = _way(found)
    if driver_method.source(row["nvidia_driver"]) != driver_method.RUNFILE or not leftovers:
        return []
    if options.get("nvidia_driver_switch") == "switch":
        return []
    return [
        (
            "the driver is installed from packages ({0}), and NVIDIA's .run file would be "
            "installed over their files".format(_some(sorted(leftovers))),
            "remove them first: apt-get remove " + " ".join(sorted(leftovers)) + SWITCH_HINT,
        )
    ]


def _some(names):
    more = " and {0} more".format(len(names) - 4) if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


def other_method(found, _changes, options, row):
    """Packages of one way on a host that our own pins say was made by another one."""
    method, leftovers = _way(found)
    way = driver_method.source(row["nvidia_driver"])
    packaged = (driver_method.DISTRIBUTION, driver_method.NETWORK)
    if method not in packaged or way not in packaged or method == way:
        return []
    if options.get("nvidia_driver_switch") == "switch":
        return []
    version = found["state"]["nvidia_driver"]["version"]
    if version is None and not leftovers:
        return []
    return [
        (
            "{0} came from source {1}, and the lock's driver comes from {2}".format(
                "the driver " + version if version else _some(sorted(leftovers)), method, way
            ),
            "keep driver_source: {0} in gpu_stack{1}".format(method, SWITCH_HINT),
        )
    ]


def signed_by_conflict(found, changes, _options, _row):
    # What is put aside first is in nobody's way then.
    aside = [one["item"] for one in changes if one["to"] == nvidia_cuda.ASIDE]

    def settled(files):
        left = [file for file in files if file not in aside]
        return left != files and len(left) < 2  # one file may contradict itself

    return [
        (
            "apt refuses all work: {0} {1} is named with different keys (Signed-By) in {2}".format(
                uri, suite, " and ".join(files)
            ),
            "keep one of the entries, with the key it needs",
        )
        for uri, suite, files in found["preflight"].get("signed_by") or []
        if not settled(files)
    ]


def runfile_driver(found, _changes, options, row):
    installer = found["preflight"].get("installer")
    if not installer or options.get("nvidia_driver_switch") == "switch":
        return []
    if driver_method.source(row["nvidia_driver"]) == driver_method.RUNFILE:
        return []
    return [
        (
            "a driver was installed by NVIDIA's .run file ({0}); its files would shadow the "
            "packages'".format(", ".join(installer)),
            "nvidia-uninstall (when no GPU process runs), then run again" + SWITCH_HINT,
        )
    ]


def unowned_cuda(found, _changes, _options, row):
    cuda = found["preflight"].get("usr_local_cuda")
    # Where the place is NVIDIA's packages', what is in it is kept beside, and the plan says so.
    if not cuda or not cuda["named_in"] or nvidia_cuda.mine(row.get("cuda") or {}):
        return []
    return [
        (
            "a CUDA that no package owns ({0}) is put in front by {1}".format(
                cuda["path"], ", ".join(cuda["named_in"])
            ),
            "take /usr/local/cuda out of {0}, or move the directory away".format(
                ", ".join(cuda["named_in"])
            ),
        )
    ]


def conda_first(found, _changes, _options, _row):
    files = found["preflight"].get("conda")
    if not files:
        return []
    return [
        (
            "conda stands first in PATH after login ({0}): 'python' and its CUDA libraries are "
            "conda's, not this stack's".format(", ".join(files)),
            "conda config --set auto_activate_base false, and call TensorFlow's Python by its path",
        )
    ]


def driver_hangs(found, _changes, _options, _row):
    why = found["preflight"].get("driver_hangs")
    if not why:
        return []
    return [
        (
            "the GPU driver hangs: {0}; whoever asks it waits, and so would the proof".format(why),
            "`dmesg | grep -E 'NVRM|Xid'` says why; reboot the host when nobody needs it, then run "
            "again",
        )
    ]


def _bashrc_left(found):
    """[(user, why)] of the gpu_env_bashrc_users whose file a run leaves alone, sorted."""
    return sorted((found["state"].get(gpu_env.NAME, {}).get("left") or {}).items())


def bashrc_user(found, _changes, _options, _row):
    names = [user for user, why in _bashrc_left(found) if why == gpu_env.NO_USER]
    if not names:
        return []
    return [
        (
            "gpu_env_bashrc_users names {0}: this host has no such user".format(", ".join(names)),
            "make the account first, or take the name out of gpu_env_bashrc_users",
        )
    ]


def bashrc_left(found, _changes, _options, _row):
    return [
        (
            "~{0}/.bashrc is left alone: {1}".format(user, why),
            "let {0} see to it, or add `. {1}` by hand".format(user, gpu_env.PROFILE),
        )
        for user, why in _bashrc_left(found)
        if why != gpu_env.NO_USER
    ]


def _docker(found, options):
    """What the look found of the docker that is to be configured; None where none is."""
    seen = found["state"][nvidia_container_toolkit.NAME]["docker"]
    none = nvidia_container_toolkit.docker_wish(options) == "none"
    return None if none or not seen["installed"] else seen


def docker_config(found, _changes, options, _row):
    seen = _docker(found, options)
    if seen is None or seen["fault"] is None:
        return []
    return [
        (
            "{0} is {1}; it is left as it is".format(
                nvidia_container_toolkit.CONFIG, seen["fault"]
            ),
            "repair it (python3 -m json.tool {0} shows where), or set "
            "nvidia_container_toolkit_docker: none".format(nvidia_container_toolkit.CONFIG),
        )
    ]


def docker_missing(found, _changes, options, _row):
    seen = found["state"][nvidia_container_toolkit.NAME]["docker"]
    if nvidia_container_toolkit.docker_wish(options) != "required" or seen["installed"]:
        return []
    if nvidia_container_toolkit.installs(seen, options) and not seen["snap"]:
        return []
    snap = " but from snap, whose configuration is another file" if seen["snap"] else ""
    return [
        (
            "nvidia_container_toolkit_docker is required, and docker is not installed" + snap,
            "install docker.io or docker-ce, or set nvidia_container_toolkit_docker: auto",
        )
    ]


def docker_other(found, _changes, options, _row):
    seen = found["state"][nvidia_container_toolkit.NAME]
    others = nvidia_container_toolkit.in_place(seen, options)
    if not others:
        return []
    return [
        (
            "nvidia_container_toolkit_docker_engine is docker-ce, and {0} is installed, which apt "
            "would remove for it".format(", ".join(others)),
            "remove it yourself when nobody needs it (images and volumes stay in /var/lib/docker), "
            "or set nvidia_container_toolkit_docker_engine: check, which uses what is there",
        )
    ]


def docker_snap(found, _changes, options, _row):
    seen = found["state"][nvidia_container_toolkit.NAME]["docker"]
    wish = nvidia_container_toolkit.docker_wish(options)
    # The rule above says it of one that is required.
    if not seen["snap"] or wish == "none" or (wish == "required" and not seen["installed"]):
        return []
    here = "from snap and from a package" if seen["installed"] else "from snap"
    return [
        (
            "docker is here {0}; the one of snap reads another file than {1}, and its containers "
            "would get no GPU".format(here, nvidia_container_toolkit.CONFIG),
            "move its containers to docker.io or docker-ce and `snap remove docker`, or leave "
            "docker alone with nvidia_container_toolkit_docker: none",
        )
    ]


def containerd_config(found, _changes, options, _row):
    toolkit = found["state"][nvidia_container_toolkit.NAME]
    seen = toolkit["containerd"]
    if containerd.wish(options) == "required" and not seen["installed"]:
        if nvidia_container_toolkit.installs(toolkit["docker"], options):
            return []  # the platform's docker brings it
        return [
            (
                "nvidia_container_toolkit_containerd is required, and containerd is not installed",
                "install it, or set nvidia_container_toolkit_containerd: auto",
            )
        ]
    if not seen["wanted"] or seen["fault"] is None:
        return []
    return [
        (
            "{0} is left as it is: {1}".format(containerd.CONFIG, seen["fault"]),
            "repair it (`containerd config dump` shows what containerd makes of it), or set "
            "nvidia_container_toolkit_containerd: none",
        )
    ]


def _lost(name, seen, option):
    """The blocker of a daemon that takes containers along; `seen` is what the look found of it."""
    if not seen["wanted"] or seen["loses"] is None:
        return []
    return [
        (
            "{0} would be restarted to know NVIDIA's runtime, and containers would be lost: "
            "{1}".format(name, seen["loses"]),
            "stop them when their users agree, then run again, or set {0}: none".format(option),
        )
    ]


def containerd_containers(found, _changes, _options, _row):
    seen = found["state"][nvidia_container_toolkit.NAME]["containerd"]
    return _lost("containerd", seen, "nvidia_container_toolkit_containerd")


def crio_config(found, _changes, options, _row):
    seen = found["state"][nvidia_container_toolkit.NAME]["crio"]
    if crio.wish(options) == "required" and not seen["installed"]:
        return [
            (
                "nvidia_container_toolkit_crio is required, and CRI-O is not installed",
                "install it, or set nvidia_container_toolkit_crio: auto",
            )
        ]
    if not seen["wanted"] or seen["fault"] is None:
        return []
    return [
        (
            "CRI-O's configuration is left as it is: {0}".format(seen["fault"]),
            "repair it (`crio config` shows what CRI-O makes of {0} and {1}), or set "
            "nvidia_container_toolkit_crio: none".format(crio.CONFIG, crio.PLACE),
        )
    ]


def crio_containers(found, _changes, _options, _row):
    seen = found["state"][nvidia_container_toolkit.NAME]["crio"]
    return _lost("CRI-O", seen, "nvidia_container_toolkit_crio")


def podman_too_old(found, _changes, options, _row):
    seen = found["state"][nvidia_container_toolkit.NAME]["cdi"]
    if cdi.wish(options) != "required" or cdi.reads(seen["podman"]) != ():
        return []
    since = ".".join(map(str, cdi.PODMAN_SINCE))
    return [
        (
            "nvidia_container_toolkit_cdi is required, and podman {0} reads no CDI specification; "
            "{1} is the first that does".format(seen["podman"], since),
            "install a newer podman, or set nvidia_container_toolkit_cdi: auto, which leaves this "
            "one alone",
        )
    ]


def docker_containers(found, changes, _options, _row):
    if not any(one["item"] == nvidia_container_toolkit.RESTART for one in changes):
        return []
    seen = found["preflight"].get("docker")
    if seen is None or seen["count"] == 0 or seen["live_restore"]:
        return []
    lost = "docker does not answer, so whether containers run can't be known"
    if seen["count"]:
        lost = "running containers would be lost ({0})".format(seen["count"])
    return [
        (
            "docker would be restarted to find NVIDIA's runtime: " + lost,
            'stop them when their users agree, or set "live-restore": true in {0} and '
            "`systemctl reload docker`, which restarts nothing; or leave docker alone with "
            "nvidia_container_toolkit_docker: none".format(nvidia_container_toolkit.CONFIG),
        )
    ]


def _workspaces(found, options):
    """(what stands in the way of workspaces, the people wished for)."""
    return found["preflight"].get("workspaces") or {}, gpu_workspace.wanted(options)


def workspace_docker(found, changes, options, _row):
    seen, people = _workspaces(found, options)
    names = [name for name in gpu_workspace.touched(changes) if name in people]
    if seen.get("docker") is not False or not names:
        return []
    if any(one["item"] in nvidia_container_toolkit.ENGINES.values() for one in changes):
        return []  # the same run brings it, before the workspaces
    return [
        (
            "docker does not answer, and workspaces are its containers ({0})".format(_some(names)),
            "install docker.io or docker-ce and start it; `systemctl status docker` says how it is",
        )
    ]


def workspace_port(found, _changes, options, _row):
    seen, people = _workspaces(found, options)
    names = {port: name for name in people for port in gpu_workspace.ports(people[name])}
    return [
        (
            "port {0} of {1} is in use by something else on this host".format(port, names[port]),
            "give {0} another port in gpu_workspaces; `ss -tlnp` says who listens".format(
                names[port]
            ),
        )
        for port in seen.get("ports") or []
    ]


def workspace_user(found, _changes, options, _row):
    seen, people = _workspaces(found, options)
    users = seen.get("users") or {}
    return [
        (
            "user {0} of {1} {2}".format(people[name]["user"], name, users[name]),
            "leave `user` of {0} out: the host gives each person a number of their own".format(
                name
            ),
        )
        for name in sorted(users)
    ]


def workspace_root(found, _changes, options, _row):
    seen, _people = _workspaces(found, options)
    if not seen.get("root"):
        return []
    return [
        (
            "the homes' root can't be root's alone: {0}".format(seen["root"]),
            "name a directory in gpu_workspace_root that holds homes of workspaces and nothing "
            "else, below directories that only root can write to",
        )
    ]


def workspace_volume(found, _changes, options, _row):
    seen, people = _workspaces(found, options)
    return [
        (
            "a volume of {0} can be swapped for a link, which docker would follow as root: "
            "{1}".format(name, why),
            "name a directory below directories that only root can write to, as "
            "/srv/data/{0}; itself it may be anybody's".format(name),
        )
        for name, why in sorted((seen.get("volumes") or {}).items())
        if name in people
    ]


def workspace_gpu(found, _changes, options, _row):
    _seen, people = _workspaces(found, options)
    there = len(found["gpus"])
    reasons = []
    for name in sorted(people):
        gpus = people[name]["gpus"]
        numbers = [one for one in gpus if isinstance(one, int)] if isinstance(gpus, list) else []
        lacking = [one for one in numbers if one >= there]
        if gpus == "all" and not there:
            lacking = ["all"]
        if isinstance(gpus, int) and gpus > there:
            lacking = [gpus]
        if lacking:
            message = (
                "{0} is to get GPU {1}" if isinstance(gpus, list) else "{0} is to get {1} GPUs"
            )
            reasons.append(
                (
                    (message + ", and this host has {2}").format(name, lacking[0], there),
                    "indices count from 0; `nvidia-smi -L` lists them. gpus: none is a workspace "
                    "without",
                )
            )
    return reasons


def workspace_memory(found, _changes, options, _row):
    seen, people = _workspaces(found, options)
    there = seen.get("memory")
    together = sum(gpu_workspace.size(people[name].get("memory")) for name in people)
    if there is None or together <= there:
        return []
    return [
        (
            "the workspaces may use {0} MiB together, and this host has {1} MiB".format(
                together >> 20, there >> 20
            ),
            "give less memory in gpu_workspaces; who is over the limit is ended by the kernel",
        )
    ]


def workspace_in_use(found, _changes, options, _row):
    seen, _people = _workspaces(found, options)
    users = seen.get("in_use")
    if not users or options.get("gpu_workspace_in_use") == "stop":
        return []
    told = ["{0} ({1})".format(name, users[name]) for name in sorted(users)]
    return [
        (
            "their containers would be stopped, and these people have kernels, terminals or SSH "
            "open: " + ", ".join(told),
            "let them save and end those, or -e gpu_workspace_in_use=stop",
        )
    ]


def front_door_port(found, _changes, _options, _row):
    ports = (found["preflight"].get("front_door") or {}).get("ports") or {}
    return [
        (
            "port {0} of the front door is in use by {1}".format(port, ", ".join(ports[port])),
            "give the door another port (gpu_front_door_port), or stop what listens there; "
            "`ss -tlnp` says who",
        )
        for port in sorted(ports, key=int)
    ]


def front_door_site(found, _changes, _options, _row):
    sites = (found["preflight"].get("front_door") or {}).get("sites") or []
    return [
        (
            "a site of nginx's is in the front door's way: {0}".format(one),
            "give the door another name or port; nobody's site is changed",
        )
        for one in sites
    ]


def front_door_nobody(_found, _changes, options, _row):
    # Else everybody's workspace is stopped before the door's role says it.
    if not options.get("gpu_front_door_name") or options.get("gpu_workspaces"):
        return []
    return [
        (
            "a front door is wished for, and gpu_workspaces has nobody who is behind it",
            'take the door away as well: -e \'{"gpu_workspaces": [], "gpu_front_door_name": '
            '""}\'; or name people in gpu_workspaces',
        )
    ]


def front_door_terms(_found, _changes, options, _row):
    # An inventory is refused when it is rendered; this is for what comes by -e or a template.
    acme = options.get("gpu_front_door_name") and options.get("gpu_front_door_tls") == "acme"
    if not acme or options.get("gpu_front_door_acme_agree"):
        return []
    return [
        (
            "gpu_front_door_tls is acme, and nobody has agreed to the terms of service of the "
            "ACME server",
            "if you do: gpu_front_door_acme_agree: true; nobody is asked without it",
        )
    ]


def cudnn_archive_absent(_found, changes, options, row):
    """The archive that the controller is to give is not there; known before the driver goes in."""
    path = options.get("cudnn_archive_absent")
    if not path or not cudnn.needs_archive(changes):
        return []
    return [
        (
            "cudnn_controller_file is {0}, and the machine that runs Ansible has no such file that "
            "can be read".format(path),
            "put cuDNN {version} for CUDA {cuda} there, the archive with SHA-256 {sha256}: from "
            "https://developer.nvidia.com/rdp/cudnn-archive, or from an address in cudnn_urls; or "
            "correct the option".format(**row[cudnn.NAME]),
        )
    ]


def run_in_progress(found, _changes, _options, _row):
    other = found["preflight"].get("running")
    if other is None or other.get("ended") or other.get("silent"):
        return []
    holder = other.get("holder")
    return [
        (
            "another run is at work on this host: " + running.who(other),
            "wait until it has ended, then run again"
            + ("; if it is gone, end process {0} on this host".format(holder) if holder else ""),
        )
    ]


def run_cut_off(found, _changes, _options, _row):
    other = found["preflight"].get("running")
    if other is None or not (other.get("ended") or other.get("silent")):
        return []
    what = other.get("finishing")
    return [
        (
            "a run was cut off here: {0}; {1}".format(
                running.who(other),
                "it waits for " + what if what else "nothing has been heard of it for a while",
            ),
            "nothing to do: a run waits until what was left behind has ended",
        )
    ]


RULES = (
    Rule("run-in-progress", WORK, True, run_in_progress),
    Rule("run-cut-off", WORK, False, run_cut_off),
    Rule("avx", "tensorflow", True, avx_missing),
    Rule("disk", None, True, disk_full),
    Rule("boot-full", "nvidia_driver", True, boot_full),
    Rule("driver-hangs", None, True, driver_hangs),
    Rule("gpu-processes", "nvidia_driver", True, gpu_processes),
    Rule("maintenance-window", "nvidia_driver", True, maintenance_window),
    Rule("logged-in", "nvidia_driver", True, logged_in),
    Rule("logged-in-told", "nvidia_driver", False, logged_in_told),
    Rule("gpu-driver-window", "nvidia_driver", True, gpu_driver_window),
    Rule("gpu-without-code", "tensorflow", True, gpu_without_code),
    Rule("venv-parents", "tensorflow", True, venv_use.parents),
    Rule("venv-in-use", "tensorflow", True, venv_use.in_use),
    Rule("venv-kept", "tensorflow", False, venv_use.kept),
    Rule("gpu-translated", "tensorflow", False, gpu_translated),
    Rule("secure-boot", "nvidia_driver", True, secure_boot_unsigned),
    Rule("nouveau", "nvidia_driver", False, nouveau_loaded),
    Rule("headers", "nvidia_driver", True, headers_absent),
    Rule("no-kernel", "nvidia_driver", True, no_kernel),
    Rule("kernel-compiler", "nvidia_driver", False, kernel_compiler),
    Rule("dpkg-broken", None, True, dpkg_broken),
    Rule("dpkg-interrupted", None, False, dpkg_interrupted),
    Rule("held", "nvidia_driver", True, held_elsewhere),
    Rule("unplanned-removal", None, True, unplanned_removals),
    Rule("foreign-driver", "nvidia_driver", True, foreign_driver),
    Rule("signed-by", None, True, signed_by_conflict),
    Rule("runfile-driver", "nvidia_driver", True, runfile_driver),
    Rule("packaged-driver", "nvidia_driver", True, packaged_driver),
    Rule("driver-method", "nvidia_driver", True, other_method),
    Rule("unowned-cuda", "cuda", True, unowned_cuda),
    Rule("conda", "tensorflow", False, conda_first),
    Rule("sshd-pam", gpu_env.NAME, False, surroundings.no_pam),
    Rule("trusted-gpg", None, False, surroundings.trusted_for_all),
    Rule("system-tensorflow", "tensorflow", False, surroundings.hidden_tensorflow),
    Rule("bashrc-user", gpu_env.NAME, True, bashrc_user),
    Rule("bashrc-left", None, False, bashrc_left),
    Rule("cudnn-archive", cudnn.NAME, True, cudnn_archive_absent),
    Rule("docker-config", nvidia_container_toolkit.NAME, True, docker_config),
    Rule("docker-missing", nvidia_container_toolkit.NAME, True, docker_missing),
    Rule("docker-other", nvidia_container_toolkit.NAME, True, docker_other),
    Rule("docker-snap", nvidia_container_toolkit.NAME, True, docker_snap),
    Rule("docker-containers", nvidia_container_toolkit.NAME, True, docker_containers),
    Rule("containerd-config", nvidia_container_toolkit.NAME, True, containerd_config),
    Rule("containerd-containers", nvidia_container_toolkit.NAME, True, containerd_containers),
    Rule("crio-config", nvidia_container_toolkit.NAME, True, crio_config),
    Rule("crio-containers", nvidia_container_toolkit.NAME, True, crio_containers),
    Rule("podman-too-old", nvidia_container_toolkit.NAME, True, podman_too_old),
    Rule("workspace-docker", gpu_workspace.NAME, True, workspace_docker),
    Rule("workspace-port", gpu_workspace.NAME, True, workspace_port),
    Rule("workspace-user", gpu_workspace.NAME, True, workspace_user),
    Rule("workspace-root", gpu_workspace.NAME, True, workspace_root),
    Rule("workspace-volume", gpu_workspace.NAME, True, workspace_volume),
    Rule("workspace-gpu", gpu_workspace.NAME, True, workspace_gpu),
    Rule("workspace-memory", gpu_workspace.NAME, True, workspace_memory),
    Rule("workspace-in-use", gpu_workspace.NAME, True, workspace_in_use),
    Rule("front-door-port", gpu_front_door.NAME, True, front_door_port),
    Rule("front-door-site", gpu_front_door.NAME, True, front_door_site),
    Rule("front-door-nobody", gpu_front_door.NAME, True, front_door_nobody),
    Rule("front-door-terms", gpu_front_door.NAME, True, front_door_terms),
)


def _reasons(found, changes, options, row, stops):
    # Nothing is installed for a proof that is owed.
    touching = [one for one in changes if one["component"] != receipt.NAME]
    components = {one["component"] for one in touching}
    reasons = []
    for rule in RULES:
        if rule.stops is not stops:
            continue
        if rule.component == WORK:
            relevant, named = changes, None
        elif rule.component is None or rule.component in components:
            relevant, named = touching, rule.component
        else:
            continue
        if not relevant:
            continue
        for message, hint in rule.check(found, relevant, options or {}, row):
            reasons.append(blocker(rule.id, named, message, hint))
    return reasons


def blockers(found, changes, options, row):
    """Reasons not to begin with these (selected) changes, all of them at once. Pure."""
    return _reasons(found, changes, options, row, True)


def warnings(found, changes, options, row):
    """What a person should know beforehand, and what does not stop the run. Pure."""
    return _reasons(found, changes, options, row, False)
