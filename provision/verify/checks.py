"""What must be true of a proven host: each check judges one probe and answers with a diagnosis.

Pure functions of what was seen and what the lock promises, so that every one of them is tested on
recorded good and bad outputs. A check answers `passed`, `failed` (what is wrong, what cures it) or
`not_applicable` with a reason: a host that can't show something is never counted as passed. What
can't be judged because something before it failed is not applicable too: one cause, one failure.
"""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from . import cures, diagnose
from .diagnose import Diagnosis

# What nvidia-smi is asked for, by the probe.
SMI_CELLS = 6
# So many packages or wheels are named in a diagnosis; all of them stand in its detail.
NAMED = 5
AGAIN = cures.RUN


@dataclass(frozen=True)
class Seen:
    """One host: the probe's answer, the lock's stack for it, and the options that matter here.

    `error` says why there is no probe. `simulated` and `container` come from the probe or the run.
    `planned`: (component, item) of what the plan has for this host; None where nobody looked.
    """

    row: dict[str, Any]
    options: dict[str, Any]
    probe: dict[str, Any]
    lock_digest: str | None = None
    error: str = ""
    planned: tuple[tuple[str, str], ...] | None = None

    @property
    def simulated(self) -> bool:
        return bool(self.probe.get("simulated_gpu"))

    @property
    def container(self) -> bool:
        return bool(self.probe.get("container"))


@dataclass(frozen=True)
class Verdict:
    """A check's answer; `detail` is what was seen."""

    result: str
    detail: str
    diagnosis: str = ""
    hint: str = ""


def passed(detail: str) -> Verdict:
    return Verdict("passed", detail)


def not_applicable(reason: str) -> Verdict:
    return Verdict("not_applicable", reason)


def failed(diagnosis: str | Diagnosis, hint: str = "", detail: str = "") -> Verdict:
    if isinstance(diagnosis, Diagnosis):
        return Verdict("failed", detail, diagnosis.message, diagnosis.hint or hint)
    return Verdict("failed", detail, diagnosis, hint)


@dataclass(frozen=True)
class Check:
    """A check with the name it has in reports."""

    id: str
    title: str
    judge: Callable[[Seen], Verdict] = field(repr=False)
    # Of hosts with another kind of stack it is not asked: to say so would be no news there.
    only: Callable[[Seen], bool] = field(default=lambda _seen: True, repr=False)

    def __call__(self, seen: Seen) -> Verdict:
        """The verdict; without a probe only the first check says so, once."""
        if seen.error and self.id != "host.answers":
            return not_applicable("the host did not answer")
        component = self.id.partition(".")[0]
        # The inventory's, and in no lock.
        if component == "gpu_workspace" and not workspaces(seen):
            return not_applicable("nobody has a workspace here")
        if component == "gpu_front_door" and not front_door(seen):
            return not_applicable("there is no front door here")
        unlocked = ("host", "receipt", "gpu_workspace", "gpu_front_door")
        if component not in unlocked and not seen.row.get(component):
            if component in ("cuda", "cudnn") and cuda_as_wheels(seen):
                return not_applicable("CUDA comes with TensorFlow's wheels")
            return not_applicable(f"the stack has no {component}")
        if seen.options.get(f"{component}_state") == "absent":
            return not_applicable("it was wished away")
        verdict = self.judge(seen)
        if verdict.result != "failed":
            return verdict
        return replace(verdict, hint=cures.told(self.id, verdict.hint, seen.planned))


CHECKS: list[Check] = []


def beside(seen: Seen) -> list[Check]:
    """TensorFlow's checks once more for each environment beside the current one."""
    made = []
    for index, part in enumerate(seen.row.get("beside") or []):
        own = ("cuda", "cudnn") if part.get("cuda_source") == "wheels" else ()
        row = {name: value for name, value in seen.row.items() if name not in own}
        row["tensorflow"] = part
        for one in CHECKS:
            if one.id.startswith("tensorflow.") and one.only(replace(seen, row=row)):
                identifier = f"{one.id}@{part['version']}"
                title = f"{one.title} ({part['version']})"
                made.append(Check(identifier, title, _of_beside(one, index, row)))
    return made


def _of_beside(one: Check, index: int, row: dict[str, Any]) -> Callable[[Seen], Verdict]:
    def judge(seen: Seen) -> Verdict:
        probe = {**seen.probe, "tensorflow": seen.probe["beside"][index]}
        return one(replace(seen, row=row, probe=probe))

    return judge


def check(
    identifier: str, title: str, only: Callable[[Seen], bool] = lambda _seen: True
) -> Callable[[Callable[[Seen], Verdict]], Check]:
    """Adds a function to CHECKS, in the order in which they are read."""

    def register(judge: Callable[[Seen], Verdict]) -> Check:
        made = Check(identifier, title, judge, only)
        CHECKS.append(made)
        return made

    return register


def cuda_as_wheels(seen: Seen) -> bool:
    """Do CUDA and cuDNN lie in TensorFlow's own environment?"""
    return (seen.row.get("tensorflow") or {}).get("cuda_source") == "wheels"


def numbers(version: str) -> tuple[int, ...]:
    """ "8.1.0" as (8, 1, 0); anything behind the digits is left out."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def smi_rows(seen: Seen) -> list[list[str]]:
    """`nvidia-smi --query-gpu=driver_version,name,uuid,pci.bus_id,mig.mode.current,memory.total`
    as cells. Lines that are no GPU's ("WARNING: infoROM is corrupted at gpu ...") are left out.
    """
    answer = seen.probe["nvidia_smi"]
    if answer["rc"] != 0:
        return []
    rows = [[cell.strip() for cell in line.split(",")] for line in answer["stdout"].splitlines()]
    return [row for row in rows if len(row) == SMI_CELLS]


def usable_gpus(seen: Seen) -> int:
    """GPUs that NVML reports, by `nvidia-smi -L`; MIG instances have lines of their own."""
    answer = seen.probe["nvidia_smi_list"]
    if answer["rc"] != 0:
        return 0
    return len(re.findall(r"^GPU \d+:", answer["stdout"], re.MULTILINE))


def loaded_module(seen: Seen) -> str | None:
    """The version of the kernel module that runs now."""
    module = seen.probe["module"]
    if module.get("sys"):
        return str(module["sys"])
    proc = module["proc"]
    match = proc and re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", proc)
    return match.group(1) if match else None


@check("host.answers", "The host answers the probe")
def host_answers(seen: Seen) -> Verdict:
    if seen.error:
        return failed(seen.error, "`ansible -m ping` tells whether Ansible reaches the host")
    return passed(f"as {seen.probe.get('user')}")


@check("nvidia_driver.answers", "nvidia-smi answers")
def nvidia_smi_answers(seen: Seen) -> Verdict:
    answer = seen.probe["nvidia_smi"]
    names = collections.Counter(row[1] for row in smi_rows(seen))
    if names:
        what = " (simulated GPU)" if seen.simulated else ""
        return passed(", ".join(f"{names[name]} x {name}" for name in sorted(names)) + what)
    said = answer["stdout"] + answer["stderr"]
    found = diagnose.nvidia_smi(answer["rc"], said)
    if seen.probe["module"].get("nouveau"):
        return failed(
            "nouveau is loaded and holds the GPU, so NVIDIA's module can't",
            "the role blacklists nouveau and rebuilds the initramfs; reboot the host",
            found.message,
        )
    if not seen.probe["pci"] and not seen.container:
        return failed(
            "there is no NVIDIA GPU on this host's PCI bus",
            "the card is not seated or not powered, is switched off in the firmware, or was not "
            "given to this virtual machine",
            found.message,
        )
    return failed(found)


@check("nvidia_driver.version", "The driver that answers is the lock's")
def nvidia_driver_version(seen: Seen) -> Verdict:
    wanted = seen.row["nvidia_driver"]["version"]
    if seen.simulated:
        return not_applicable("the version nvidia-smi tells here is the simulation's own")
    rows = smi_rows(seen)
    if not rows:
        return not_applicable("nvidia-smi does not answer")
    versions = sorted({row[0] for row in rows})
    if versions == [wanted]:
        return passed(wanted)
    return failed(
        f"the driver in use is {', '.join(versions)}, the lock's is {wanted}",
        "if the locked packages are installed, the old module is still loaded: reboot the host",
    )


@check("nvidia_driver.module", "The loaded kernel module is the lock's")
def nvidia_kernel_module(seen: Seen) -> Verdict:
    wanted = seen.row["nvidia_driver"]["version"]
    found = loaded_module(seen)
    if found is None and seen.simulated:
        return not_applicable("a simulated GPU has no kernel module")
    if found is None and seen.container:
        return not_applicable("a container has no kernel module of its own")
    if found == wanted:
        return passed(wanted)
    if found is not None:
        return failed(
            f"module {found} is loaded, the lock's driver is {wanted} "
            "(this ends in Driver/library version mismatch)",
            "reboot the host, so that the module of the installed version is loaded",
        )
    if seen.probe["module"].get("nouveau"):
        return failed(
            "nouveau is loaded instead of NVIDIA's module",
            "the role blacklists nouveau and rebuilds the initramfs; reboot the host",
        )
    kernel = seen.probe["platform"]["kernel"]
    return failed(
        "no NVIDIA module is loaded",
        f"`dkms status` must show it built for kernel {kernel}; `dmesg | grep -i nvidia` shows a "
        "refusal (Secure Boot, unknown GPU); otherwise a reboot is owed",
    )


@check("nvidia_driver.library", "libcuda.so.1 is the driver's own")
def driver_library(seen: Seen) -> Verdict:
    wanted, library = seen.row["nvidia_driver"]["version"], seen.probe["libcuda"]
    if library["loaded"] is None:
        return failed(f"libcuda.so.1 can't be loaded: {reason(library)}", AGAIN)
    if seen.simulated:
        return not_applicable(f"the simulation's own library answers ({library['real']})")
    if str(library["real"]).endswith(f".so.{wanted}"):
        return passed(str(library["real"]))
    return failed(
        f"libcuda.so.1 is {library['real']}, not of driver {wanted}",
        "another driver lies before the locked one: a .run installer's or a CUDA compat library",
    )


@check("nvidia_driver.packages", "The driver's packages are the locked versions")
def driver_packages(seen: Seen) -> Verdict:
    if seen.row["nvidia_driver"].get("source") == "runfile":
        return not_applicable("the driver came by NVIDIA's .run file, not as packages")
    groups = seen.row["nvidia_driver"].get("packages") or {}
    wanted = dict(groups.get("userspace") or {})
    scope = seen.options.get("nvidia_driver_scope", "auto")
    if scope == "full" or (scope == "auto" and not seen.container):
        wanted.update(groups.get("kernel") or {})
        if seen.options.get("nvidia_driver_profile") == "desktop":
            wanted.update(groups.get("desktop") or {})
    # Canonical's signed modules have the kernel's version, and follow it.
    modules = [name for name in wanted if name.startswith("linux-modules-nvidia-")]
    return judge_packages(seen, {name: wanted[name] for name in wanted if name not in modules})


@check("nvidia_driver.gpus", "Every GPU on the PCI bus answers")
def gpus_answer(seen: Seen) -> Verdict:
    # 0x0300: VGA controller; 0x0302: 3D controller. The rest are audio and USB functions.
    on_bus = [f for f in seen.probe["pci"] if f["class"][:6] in ("0x0300", "0x0302")]
    usable = usable_gpus(seen)
    if not smi_rows(seen) and usable == 0:
        return not_applicable("nvidia-smi does not answer")
    if not on_bus and usable and seen.container:
        return not_applicable("this container does not show its PCI bus")
    if usable == 0:
        return failed(
            f"the driver shows no GPU, the PCI bus has {len(on_bus)}",
            "`dmesg | grep -i nvrm` says why",
        )
    if usable < len(on_bus):
        shown = {gpu["pci"] for gpu in gpu_devices(seen)}
        dark = [f"{f['address']} ({f['device']})" for f in on_bus if f["address"] not in shown]
        return failed(
            f"{usable} of {len(on_bus)} GPUs answer; the driver does not show {', '.join(dark)}",
            "a GPU of another generation than this driver branch supports, a display card, one "
            "given to a virtual machine (vfio), or one that fell off the bus: "
            "`lspci -k -d 10de:` and `dmesg | grep -i xid`",
        )
    if usable > len(on_bus):
        return failed(
            f"the driver shows {usable} GPUs, the PCI bus only {len(on_bus)}",
            "the PCI tree this host shows is not the whole one (a container or a virtual machine)",
        )
    mig = [row for row in smi_rows(seen) if row[4] == "Enabled"]
    return passed(f"{usable} GPUs" + (f", {len(mig)} in MIG mode" if mig else ""))


@check("cuda.packages", "CUDA's packages are the locked versions")
def cuda_packages(seen: Seen) -> Verdict:
    profile = seen.options.get("cuda_profile", "toolkit")
    return judge_packages(seen, (seen.row["cuda"].get("packages") or {}).get(profile))


@check("cuda.nvcc_login", "nvcc in a login shell is the lock's release")
def nvcc_in_a_login_shell(seen: Seen) -> Verdict:
    return judge_nvcc(seen, "login")


@check("cuda.nvcc_ssh", "nvcc over `ssh host nvcc` is the lock's release")
def nvcc_over_ssh(seen: Seen) -> Verdict:
    return judge_nvcc(seen, "ssh")


@check("cuda.nvcc_cron", "nvcc in a cron job is the lock's release")
def nvcc_in_cron(seen: Seen) -> Verdict:
    return judge_nvcc(seen, "cron")


@check("cuda.nvcc_systemd", "nvcc in a systemd unit is the lock's release")
def nvcc_in_systemd(seen: Seen) -> Verdict:
    if seen.probe["nvcc"].get("systemd") is None:
        return not_applicable("an ordinary user can't see the environment of systemd's units here")
    return judge_nvcc(seen, "systemd")


@check("cuda.libraries", "Each library TensorFlow opens is the locked package's")
def cuda_libraries(seen: Seen) -> Verdict:
    wrong, detail = [], []
    for soname, package in (seen.row["cuda"].get("sonames") or {}).items():
        library = seen.probe["libraries"].get(soname) or {}
        problem = judge_library(soname, package, library)
        if problem:
            wrong.append(problem)
        detail.append(f"{soname}: {library.get('real')} ({library.get('owner')})")
    if not detail:
        return not_applicable("the lock names no libraries")
    if wrong:
        return failed("; ".join(wrong), AGAIN, "; ".join(detail))
    return passed(f"{len(detail)} libraries")


@check("cuda.files", "libdevice and ptxas are where XLA looks for them")
def cuda_files(seen: Seen) -> Verdict:
    wanted = seen.row["cuda"].get("files")
    if not wanted:
        return not_applicable("the lock names no such files")
    # Profile runtime takes these files out of the package without installing it.
    owned = seen.options.get("cuda_profile") != "runtime"
    wrong = []
    for name, file in wanted.items():
        found = seen.probe["files"].get(name) or {}
        if not found.get("exists"):
            wrong.append(f"{name} is missing ({file['path']})")
        elif not found.get("usable", True):
            wrong.append(f"{name} can't be used by {seen.probe.get('user')} ({file['path']})")
        elif owned and found.get("owner") != file["package"]:
            wrong.append(
                f"{name} ({file['path']}) belongs to {found.get('owner') or 'no package'}, "
                f"not to {file['package']}"
            )
    if wrong:
        return failed("; ".join(wrong), AGAIN)
    return passed(", ".join(wanted))


@check("cudnn.library", "The cuDNN that is loaded lies in the locked directory")
def cudnn_library(seen: Seen) -> Verdict:
    row, library = seen.row["cudnn"], seen.probe["cudnn"]
    folder = f"{library['root']}/{row['version']}-cuda{row['cuda']}/"
    if library["loaded"] is None:
        return failed(f"{row['soname']} can't be loaded: {reason(library)}", AGAIN)
    if not str(library["real"]).startswith(folder):
        return failed(
            f"{row['soname']} is taken from {library['real']}, not from {folder}",
            "another cuDNN comes first: LD_LIBRARY_PATH, conda, or a libcudnn8 package",
        )
    if library.get("cached_real") != library["real"]:
        return failed(
            f"{row['soname']} is not in the loader's cache (`ldconfig -p` shows "
            f"{library.get('cached') or 'nothing'}); it is found by LD_LIBRARY_PATH only",
            AGAIN,
        )
    return passed(str(library["real"]))


@check("cudnn.version", "cuDNN is the lock's, and new enough for TensorFlow")
def cudnn_version(seen: Seen) -> Verdict:
    row, library, found = seen.row["cudnn"], seen.probe["cudnn"], cudnn_loaded(seen)
    if library["loaded"] is None:
        return not_applicable("no cuDNN can be loaded")
    if found is None:
        said = str(library.get("error") or "it says nothing")
        for soname in (seen.row.get("cuda") or {}).get("sonames") or {}:
            if f" {soname}:" in said:
                return not_applicable(
                    f"it can't be asked without {soname}, one of CUDA's libraries"
                )
        return failed(f"cuDNN does not tell its version: {said}", AGAIN)
    least = numbers(row["minimum"])
    if numbers(found)[0] != least[0] or numbers(found) < least:
        return failed(
            f"cuDNN {found} is loaded; TensorFlow was built with {row['minimum']} and takes "
            f"the same major version, that or newer",
            AGAIN,
        )
    if numbers(found) != numbers(row["version"])[:3]:
        return failed(f"cuDNN {found} is loaded, the lock's is {row['version']}", AGAIN)
    return passed(found)


@check("cudnn.headers", "cuDNN's headers are readable and of the same version")
def cudnn_headers(seen: Seen) -> Verdict:
    wanted = ".".join(str(part) for part in numbers(seen.row["cudnn"]["version"])[:3])
    found = seen.probe["cudnn"].get("headers")
    if found == wanted:
        return passed(wanted)
    if found is None:
        return failed("cudnn_version.h can't be read behind the `current` link", AGAIN)
    return failed(f"the headers are of cuDNN {found}, the lock's is {wanted}", AGAIN)


# Neither a run nor a check can change that: sshd's configuration is the administrator's, and a
# mistake in it locks everybody out. Preflight and the doctor say what can be done.
NO_PAM = "sshd has UsePAM no, and reads no /etc/environment"


def without_pam(seen: Seen) -> bool:
    """Is sshd known not to use PAM?"""
    return seen.probe.get("sshd_uses_pam") is False


# How programs are started, and what a person calls that.
PLACES = {
    "ssh": "a command over ssh",
    "login": "a login shell",
    "cron": "a cron job",
    "systemd": "a systemd unit",
}


@check("gpu_env.variables", "Shells, ssh commands, cron jobs and units have the environment")
def environment_is_everywhere(seen: Seen) -> Verdict:
    row, options = seen.row["gpu_env"], seen.options
    directory = options.get("gpu_env_xla_cuda_data_dir") or row.get("xla_cuda_data_dir")
    wanted = {"XLA_FLAGS": f"--xla_gpu_cuda_data_dir={directory}"} if directory else {}
    wanted.update(options.get("gpu_env_variables") or {})
    paths = [*row["path"], *(options.get("gpu_env_path") or [])]
    if not wanted and not paths:
        return not_applicable("nothing is set for all: TensorFlow finds its CUDA by itself")
    wrong, judged = [], []
    for place, title in PLACES.items():
        found = seen.probe["environment"].get(place)
        if found is None or (place == "ssh" and without_pam(seen)):
            continue
        judged.append(title)
        lacking = [name for name in wanted if found.get(name) is None]
        other = [name for name in wanted if found.get(name) not in (None, str(wanted[name]))]
        # A login shell may put its own directories in front, so only presence counts.
        front = str(found.get("PATH")).split(":")
        lacking += [f"{path} in PATH" for path in paths if path not in front]
        if lacking:
            wrong.append(f"{title} lacks {', '.join(lacking)}")
        if other:
            wrong.append(f"{title} has another {', '.join(other)}")
    if wrong:
        cure = "a login or a unit that already runs keeps the environment it began with"
        return failed("; ".join(wrong), f"{AGAIN}; {cure}")
    left = f"; not in a command over ssh: {NO_PAM}" if without_pam(seen) else ""
    return passed(f"{', '.join([*wanted, *paths])} in {', '.join(judged)}{left}")


def containers(seen: Seen) -> bool:
    """Has the stack NVIDIA's container toolkit?"""
    return bool(seen.row.get("nvidia_container_toolkit"))


@check(
    "nvidia_container_toolkit.packages",
    "The container toolkit's packages are the locked version, and held",
    containers,
)
def toolkit_packages(seen: Seen) -> Verdict:
    wanted = seen.row["nvidia_container_toolkit"]["packages"]["toolkit"]
    verdict = judge_packages(seen, wanted)
    if verdict.result != "passed" or not seen.options.get("nvidia_container_toolkit_hold", True):
        return verdict
    # dpkg's first letter is what is wanted of a package: h, that it stays as it is.
    loose = [name for name in wanted if seen.probe["packages"][name]["status"][0] != "h"]
    if loose:
        return failed(f"not held: {', '.join(loose)}: an upgrade could move them", AGAIN)
    return verdict


@check("nvidia_container_toolkit.docker", "docker info knows NVIDIA's runtime", containers)
def docker_knows_the_runtime(seen: Seen) -> Verdict:
    wish, docker = seen.options.get("nvidia_container_toolkit_docker"), seen.probe["docker"]
    if wish == "none":
        return not_applicable("docker was wished to be left alone")
    if not docker["installed"]:
        if wish == "required":
            return failed("docker is not installed", "install docker.io or docker-ce")
        return not_applicable("docker is not installed")
    if not docker["running"]:
        return not_applicable("docker does not run")
    if not docker["allowed"]:
        return not_applicable(f"the user {seen.probe.get('user')} may not ask docker")
    known = runtimes(docker["runtimes"]["stdout"])
    if "nvidia" in known:
        return passed(f"runtimes {', '.join(known)}")
    if known:
        return failed(
            f"docker knows the runtimes {', '.join(known)} alone",
            f"{AGAIN}; where containers run it has to be allowed to restart docker",
        )
    said = diagnose.last_line(docker["runtimes"]["stderr"] or docker["runtimes"]["stdout"])
    return failed(f"docker does not answer: {said}", "`journalctl -u docker` says why")


# The newest CDI that podman reads, from its release on.
PODMAN_READS = (((5, 1), (0, 7, 0)), ((4, 1), (0, 5, 0)))
GPUS = "nvidia.com/gpu=all"


@check("nvidia_container_toolkit.cdi", "podman finds the GPUs by CDI", containers)
def podman_finds_the_gpus(seen: Seen) -> Verdict:
    wish, found = seen.options.get("nvidia_container_toolkit_cdi"), seen.probe["cdi"]
    if wish == "none":
        return not_applicable("the CDI specification was wished to be left alone")
    told = found["podman"]["stdout"].strip() if found["podman"]["rc"] == 0 else None
    if told is None and wish != "required":
        return not_applicable("podman is not installed")
    newest = None
    if told is not None and numbers(told):
        newest = next((cdi for since, cdi in PODMAN_READS if numbers(told) >= since), ())
    if newest == ():
        reason = f"{told} reads no CDI specification, 4.1 is the first that does"
        if wish == "required":
            return failed(reason, "install a newer podman")
        return not_applicable(reason)
    if GPUS not in found["devices"]["stdout"].split():
        said = diagnose.last_line(found["devices"]["stderr"] or found["devices"]["stdout"])
        return failed(f"no CDI specification names {GPUS}: {said}", AGAIN)
    path, version = found["path"], found["version"]
    if newest and version and numbers(version) > newest:
        reads = ".".join(map(str, newest))
        return failed(f"{path} is of CDI {version}, and {told} reads {reads} at most", AGAIN)
    if found["missing"]:
        count = len(found["missing"])
        return failed(
            f"{path} names {count} files that are not there, such as {found['missing'][0]}", AGAIN
        )
    return passed(f"{GPUS} in {path}, {told or 'for whoever reads CDI'}")


@check("tensorflow.imports", "TensorFlow can be imported")
def tensorflow_imports(seen: Seen) -> Verdict:
    found = seen.probe["tensorflow"]
    if found.get("missing"):
        return failed(f"there is no TensorFlow: {found['python']} does not exist", AGAIN)
    gpus = found["gpus"]
    if gpus.get("version") and not gpus.get("error"):
        return passed(f"{found['python']}, {found.get('seconds')} s")
    return failed(diagnose.tensorflow_import(gpus.get("rc"), gpus.get("error", ""), gpus["log"]))


@check("tensorflow.version", "TensorFlow and its Python are the lock's")
def tensorflow_version(seen: Seen) -> Verdict:
    row, found = seen.row["tensorflow"], tensorflow_answer(seen)
    if not found.get("version"):
        return not_applicable("TensorFlow can't be imported")
    if found["version"] != row["version"]:
        return failed(
            f"TensorFlow {found['version']} answers, the lock's is {row['version']}", AGAIN
        )
    python = found["python"]
    if not f"{python}.".startswith(f"{row['python']}."):
        return failed(f"its Python is {python}, the lock's is {row['python']}", AGAIN)
    return passed(f"{found['version']}, Python {python}")


@check("tensorflow.wheels", "The environment's wheels are the locked versions")
def tensorflow_wheels(seen: Seen) -> Verdict:
    wanted = seen.row["tensorflow"].get("wheels")
    if seen.probe["tensorflow"].get("missing"):
        return not_applicable("there is no TensorFlow environment")
    if not wanted:
        return not_applicable("the lock names no wheels")
    wrong = []
    for name, version in sorted(wanted.items()):
        versions = seen.probe["tensorflow"]["wheels"].get(name)
        if not versions:
            wrong.append(f"{name} is missing")
        elif versions != [version]:
            wrong.append(f"{name} is {' and '.join(versions)}, the lock's is {version}")
    if wrong:
        return failed(some_of(wrong), AGAIN, "; ".join(wrong))
    return passed(f"{len(wanted)} wheels")


@check(
    "tensorflow.cuda_wheels",
    "The CUDA libraries in TensorFlow's environment can be loaded",
    cuda_as_wheels,
)
def tensorflow_cuda_wheels(seen: Seen) -> Verdict:
    if not cuda_as_wheels(seen):
        return not_applicable("CUDA does not come with TensorFlow's wheels")
    wanted = seen.row["tensorflow"].get("sonames")
    if seen.probe["tensorflow"].get("missing"):
        return not_applicable("there is no TensorFlow environment")
    if not wanted:
        return not_applicable("the lock names no libraries")
    answer = seen.probe["tensorflow"]["cuda_wheels"]
    if not answer["libraries"]:
        said = diagnose.last_line(answer["log"]) or f"its process ended with {answer['rc']}"
        return failed(f"the environment's Python can't load libraries: {said}", AGAIN)
    wrong = []
    for soname, wheel in sorted(wanted.items()):
        library = answer["libraries"].get(soname) or {}
        if library.get("error"):
            said = library["error"].removeprefix(f"{soname}: ")
            wrong.append(f"{soname} (wheel {wheel}) can't be loaded: {said}")
        elif not library.get("path"):
            wrong.append(f"{soname} (wheel {wheel}) is missing")
    if wrong:
        return failed(some_of(wrong), AGAIN, "; ".join(wrong))
    return passed(f"{len(wanted)} libraries")


@check("tensorflow.built_with_cuda", "TensorFlow was built for this CUDA and cuDNN")
def tensorflow_built_with_cuda(seen: Seen) -> Verdict:
    found = tensorflow_answer(seen)
    if not found.get("version"):
        return not_applicable("TensorFlow can't be imported")
    if not found.get("built_with_cuda"):
        return failed(
            "this TensorFlow was built without CUDA",
            f"it is the CPU wheel (tensorflow-cpu): {AGAIN}",
        )
    build, cuda, cudnn = found.get("build"), seen.row.get("cuda"), seen.row.get("cudnn")
    if not build:
        return not_applicable("this TensorFlow does not tell what it was built for")
    told = build.get("cuda_version")
    if cuda and told and told != cuda["release"]:
        return failed(
            f"TensorFlow was built for CUDA {told}, the lock's is {cuda['release']}",
            "make the lock again: this stack does not fit together",
        )
    told, major = build.get("cudnn_version"), cudnn and cudnn["version"].partition(".")[0]
    if major and told and told.partition(".")[0] != major:
        return failed(
            f"TensorFlow was built for cuDNN {told}, the lock's is {major}",
            "make the lock again: this stack does not fit together",
        )
    return passed(f"CUDA {build.get('cuda_version')}, cuDNN {build.get('cudnn_version')}")


@check("tensorflow.gpus", "TensorFlow lists every GPU the driver shows")
def tensorflow_lists_gpus(seen: Seen) -> Verdict:
    expected, found = usable_gpus(seen), tensorflow_answer(seen)
    if "gpus" not in found:
        return not_applicable("TensorFlow can't be imported")
    count = len(found["gpus"])
    if expected == 0:
        return not_applicable(f"nvidia-smi shows no GPU to compare TensorFlow's {count} with")
    if count == expected:
        return passed(f"{count} GPUs" + (" (simulated)" if seen.simulated else ""))
    return failed(diagnose.tensorflow_gpus(found["log"], count, expected))


@check("tensorflow.trains", "A small Keras model learns on the CPU")
def tensorflow_trains(seen: Seen) -> Verdict:
    if seen.probe["tensorflow"].get("missing"):
        return not_applicable("there is no TensorFlow to train with")
    found = seen.probe["tensorflow"]["trains"]
    if "last" not in found:
        # Two processes imported it: where the other one could not either, it has been said.
        if not tensorflow_answer(seen).get("version"):
            return not_applicable("TensorFlow can't be imported")
        if found.get("error"):
            return failed(f"a Keras model can't be trained on the CPU: {found['error']}", AGAIN)
        return failed(diagnose.tensorflow_import(found.get("rc"), "", found["log"]))
    detail = f"loss {found['first']:.3g} -> {found['last']:.3g}"
    # NaN compares false with everything: written so that it fails.
    if not found["last"] < found["first"] / 2:
        return failed(f"the model does not learn: {detail}", "the numeric libraries are broken")
    return passed(detail)


@check("tensorflow.computes", "TensorFlow computes on every GPU that it lists")
def tensorflow_computes(seen: Seen) -> Verdict:
    if seen.simulated:
        return not_applicable("a simulated GPU computes nothing")
    listed = tensorflow_answer(seen).get("gpus")
    if seen.probe["tensorflow"].get("missing") or listed is None:
        return not_applicable("TensorFlow can't be imported")
    if not listed or len(listed) != usable_gpus(seen):
        return not_applicable("TensorFlow does not list the GPUs that the driver shows")
    found = seen.probe["tensorflow"]["computes"]
    if diagnose.memory_taken(found):
        return not_applicable("the GPU's memory is taken, and nothing could be computed on it")
    if found.get("error") or found.get("rc") != 0:
        return failed(diagnose.tensorflow_computes(found))
    wrong = [
        f"{name} gave a wrong answer (off by {one['error']:.3g})"
        if "GPU" in one["on"]
        else f"what was meant for {name} ran on {one['on']}"
        for name, one in sorted(found["devices"].items())
        # NaN compares false with everything: written so that it fails.
        if not (one["error"] < 0.5 and "GPU" in one["on"])
    ]
    if len(found["devices"]) < len(listed):
        wrong.append(f"it computed on {len(found['devices'])} of {len(listed)} GPUs")
    if wrong:
        return failed("; ".join(wrong), "`nvidia-smi -q` and `dmesg | grep -i xid` tell of defects")
    return passed(f"{len(listed)} GPUs: a matrix product and a convolution")


def workspaces(seen: Seen) -> bool:
    """Has anybody a workspace on this host?"""
    return bool(seen.options.get("gpu_workspaces"))


@check("gpu_workspace.runs", "Everybody's workspace runs", workspaces)
def workspaces_run(seen: Seen) -> Verdict:
    def fault(_one: dict[str, Any], found: dict[str, Any]) -> str | None:
        if found["error"]:
            return f"docker could not start it: {diagnose.last_line(found['error'])}"
        return None if found["unit"] == "active" else f"its unit is {found['unit'] or 'not there'}"

    return judge_people(seen, fault, "active")


@check("gpu_workspace.jupyter", "Jupyter answers, and lets nobody in without a token", workspaces)
def jupyter_refuses_strangers(seen: Seen) -> Verdict:
    def fault(_one: dict[str, Any], found: dict[str, Any]) -> str | None:
        if found["status"] is None:
            return "nothing answers at its port"
        if found["status"] in (401, 403):
            return None
        return f"it answers without a token, with status {found['status']}"

    if not any("port" in one for one in seen.options["gpu_workspaces"]):
        return not_applicable("nobody's workspace has Jupyter")
    return judge_people(seen, fault, "refused without a token", "port")


@check("gpu_workspace.ssh", "sshd of the workspaces takes keys, and wished passwords", workspaces)
def sshd_takes_keys_alone(seen: Seen) -> Verdict:
    people = [one["name"] for one in seen.options["gpu_workspaces"] if "ssh_port" in one]
    if not people:
        return not_applicable("nobody's workspace has SSH")
    if all(seen.probe["workspaces"][name]["ssh"] is None for name in people):
        return not_applicable("this host has no ssh to ask with, or no workspace runs")

    def fault(_one: dict[str, Any], found: dict[str, Any]) -> str | None:
        if found["ssh"] == (found.get("ssh_ways") or "publickey"):
            return None
        if found["ssh"]:
            return f"it lets in by {found['ssh']}"
        return "sshd does not answer at its port"

    return judge_people(seen, fault, "by key, or by a wished password", "ssh_port")


@check("gpu_workspace.tensorboard", "TensorBoard of the workspaces answers", workspaces)
def tensorboard_answers(seen: Seen) -> Verdict:
    if not any("tensorboard_port" in one for one in seen.options["gpu_workspaces"]):
        return not_applicable("nobody's workspace has TensorBoard")

    def fault(_one: dict[str, Any], found: dict[str, Any]) -> str | None:
        if found["tensorboard"] == 200:
            return None
        if found["tensorboard"] is None:
            return "nothing answers at its port"
        return f"it answers with status {found['tensorboard']}"

    return judge_people(seen, fault, "answers", "tensorboard_port")


@check("gpu_workspace.gpus", "The workspaces' containers list the GPUs promised", workspaces)
def workspaces_list_gpus(seen: Seen) -> Verdict:
    people = sorted(one["name"] for one in seen.options["gpu_workspaces"])
    promised = any(one["gpus"] != "none" for one in seen.options["gpu_workspaces"])
    handed = seen.probe.get("handed")
    if not promised and not handed:
        return not_applicable("nobody's workspace has GPUs")
    if handed is None:
        return not_applicable("docker answers root alone, and the verify play asks it")
    if "error" in handed:
        hint = "`sudo gpu-workspace gpus` on the host asks the containers again"
        return failed(f"the containers could not be asked: {handed['error']}", hint)
    unknown: dict[str, Any] = {"wrong": "it was not asked"}
    answers = {name: handed["people"].get(name, unknown) for name in people}
    wrong = [f"{name}: {answers[name]['wrong']}" for name in people if answers[name]["wrong"]]
    wrong += [handed["tensorflow"]["wrong"]] if handed["tensorflow"]["wrong"] else []
    if wrong:
        hint = (
            "`docker exec gpu-workspace-NAME nvidia-smi -L` asks it again; nvidia-smi on the host"
        )
        return failed(some_of(wrong), f"{hint} must list them too", "; ".join(wrong))
    listed = ", ".join(f"{name} {len(answers[name]['gpus'])}" for name in people)
    count = handed["tensorflow"]["gpus"]
    more = "the image has no TensorFlow" if count is None else f"TensorFlow {count}"
    return passed(f"nvidia-smi: {listed}; {more}" + (" (simulated)" if seen.simulated else ""))


@check("gpu_workspace.limits", "The limits of the workspaces are in force", workspaces)
def workspace_limits(seen: Seen) -> Verdict:
    if not any(one.get("memory") or one.get("cpus") for one in seen.options["gpu_workspaces"]):
        return not_applicable("nobody's workspace has a limit")

    def fault(one: dict[str, Any], found: dict[str, Any]) -> str | None:
        wanted = {}
        if one.get("memory"):
            wanted["memory"] = str(size(one["memory"]))
        if one.get("cpus"):
            wanted["cpu"] = str(int(one["cpus"] * 100000))
        for key, value in wanted.items():
            there = (found["limits"].get(key) or ["nothing"])[0]
            if there != value:
                return f"{key} is limited to {there}, not {value}"
        return None

    return judge_people(seen, fault, "as wished")


def front_door(seen: Seen) -> bool:
    """Is there to be a front door on this host?"""
    return bool(seen.options.get("gpu_front_door_name"))


@check("gpu_front_door.answers", "The front door answers by HTTPS, and by nothing else", front_door)
def front_door_answers(seen: Seen) -> Verdict:
    found = seen.probe["front_door"]
    page = found["page"]
    hint = f"`journalctl -u nginx` and /var/log/nginx say why; {AGAIN}"
    if page["error"]:
        return failed(f"the front door does not answer: {page['error']}", hint)
    if page["tls"] not in ("TLSv1.2", "TLSv1.3"):
        return failed(f"the front door answers, but it speaks {page['tls']}", hint)
    if found["plain"] == 200:
        return failed("the front door answers in plain HTTP", hint)
    return passed(f"{page['tls']}, a certificate for {seen.options['gpu_front_door_name']}")


@check("gpu_front_door.page", "The front door's page lists who has what", front_door)
def front_door_lists(seen: Seen) -> Verdict:
    page = seen.probe["front_door"]["page"]
    wanted = sorted(one["name"] for one in seen.options["gpu_workspaces"])
    if page["status"] == 200 and sorted(page["names"]) == wanted:
        return passed(f"lists {', '.join(wanted)}")
    if page["status"] != 200:
        return failed(f"the front door's page has status {page['status']}", AGAIN)
    listed = ", ".join(page["names"]) or "nobody"
    return failed(f"the front door's page lists {listed}, not {', '.join(wanted)}", AGAIN)


@check("gpu_front_door.strangers", "The front door leads nobody in without a token", front_door)
def front_door_refuses_strangers(seen: Seen) -> Verdict:
    paths = seen.probe["front_door"]["paths"]
    wrong = []
    for path in sorted(paths):
        # A path of Jupyter's, a board behind Jupyter's login, and somebody with SSH alone.
        good = {"api/status": (401, 403), "tensorboard/": (302,)}.get(path.split("/", 2)[2], (404,))
        if paths[path] not in good:
            wrong.append(f"{path} answers with status {paths[path] or 'nothing'}")
    if wrong:
        hint = f"a status of 502 is a workspace that does not run; {AGAIN}"
        return failed(some_of(wrong), hint, "; ".join(wrong))
    return passed(f"refused: {', '.join(sorted(paths))}")


@check("receipt.lock", "The receipt on the host names this lock")
def receipt_names_the_lock(seen: Seen) -> Verdict:
    found = seen.probe["receipt"]
    if found.get("error"):
        return failed(str(found["error"]), f"a finished run writes it: {AGAIN}")
    if seen.lock_digest is None:
        return not_applicable("there is no lock here to compare with")
    if found.get("lock_digest") == seen.lock_digest:
        return passed(f"written {found.get('written')}")
    return failed(
        f"the host was last finished with another lock ({found.get('lock_digest')})",
        AGAIN,
    )


def judge_packages(seen: Seen, wanted: dict[str, str] | None) -> Verdict:
    """Are these packages installed in exactly these versions?"""
    if not wanted:
        return not_applicable("the lock names no packages")
    wrong = []
    for name, version in sorted(wanted.items()):
        found = seen.probe["packages"].get(name)
        # dpkg's second letter: i installed, n not installed, c only its configuration is left. A
        # third is R, for a package that must be installed again.
        if found is None or found["status"][1:] in ("n", "c"):
            wrong.append(f"{name} is not installed")
        elif found["status"][1:] != "i":
            wrong.append(f"{name} is half installed ({found['status']})")
        elif found["version"] != version:
            wrong.append(f"{name} is {found['version']}, the lock's is {version}")
    if wrong:
        return failed(some_of(wrong), AGAIN, "; ".join(wrong))
    return passed(f"{len(wanted)} packages")


def some_of(wrong: list[str]) -> str:
    """The first few of many faults, and how many more there are."""
    more = f"; and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
    return "; ".join(wrong[:NAMED]) + more


def runtimes(output: str) -> list[str]:
    """The names in docker's JSON of its runtimes; none of anything else."""
    try:
        found = json.loads(output)
    except ValueError:
        return []
    return sorted(found) if isinstance(found, dict) else []


def judge_people(
    seen: Seen,
    fault: Callable[[dict[str, Any], dict[str, Any]], str | None],
    good: str,
    word: str = "name",
) -> Verdict:
    """The workspaces that have `word` by one question: `fault` says what is wrong with one."""
    people = [one for one in seen.options["gpu_workspaces"] if word in one]
    answers = {one["name"]: fault(one, seen.probe["workspaces"][one["name"]]) for one in people}
    wrong = [f"{name}: {answers[name]}" for name in sorted(answers) if answers[name]]
    if wrong:
        hint = "`journalctl -u 'gpu-workspace@*'` and `docker logs gpu-workspace-NAME` say why"
        return failed(some_of(wrong), f"{hint}; {AGAIN}", "; ".join(wrong))
    return passed(f"{good}: {', '.join(sorted(answers))}")


def size(text: str) -> int:
    """Bytes of "16g"; the role has refused what is no size."""
    plain = text.lower().rstrip("b")
    return int(plain[:-1]) << {"k": 10, "m": 20, "g": 30}[plain[-1]]


def judge_nvcc(seen: Seen, where: str) -> Verdict:
    """Does nvcc, found in that environment, tell the lock's release?"""
    place = PLACES[where]
    if seen.options.get("cuda_profile") == "runtime":
        return not_applicable("cuda_profile: runtime installs no nvcc")
    answer, release = seen.probe["nvcc"][where], seen.row["cuda"]["release"]
    if where == "ssh" and answer["rc"] == 127 and without_pam(seen):
        return not_applicable(NO_PAM)
    if answer["rc"] != 0:
        said = diagnose.last_line(answer["stderr"] or answer["stdout"])
        if answer["rc"] == 127:
            return failed(
                f"{place} does not find nvcc", f"its PATH lacks CUDA's bin; {AGAIN}", said
            )
        return failed(f"nvcc fails in {place}: {said}", AGAIN)
    found = nvcc_release(answer["stdout"])
    if found == release:
        return passed(f"release {found}")
    return failed(
        f"nvcc in {place} is release {found or 'unknown'}, the lock's is {release}",
        "another CUDA comes first in PATH (conda, /usr/local/cuda)",
    )


def judge_library(soname: str, package: str, library: dict[str, Any]) -> str | None:
    """What is wrong with a library; None when nothing is."""
    if library.get("loaded") is None:
        return f"{soname} (package {package}) can't be loaded: {reason(library)}"
    if library.get("owner") != package:
        owner = library.get("owner") or "no package"
        return f"{soname} is {library['real']} of {owner}, not of {package}"
    if library.get("cached_real") != library["real"]:
        cached = library.get("cached") or "nothing"
        return f"{soname} is not in the loader's cache (`ldconfig -p` shows {cached})"
    return None


def reason(library: dict[str, Any]) -> str:
    """The loader's words, without the exception's name and the soname that is said already."""
    error = str(library.get("error") or "the loader says nothing")
    return error.rpartition("Error: ")[2].partition(": ")[2] or error


def nvcc_release(output: str) -> str | None:
    """ "release 11.2, V11.2.152" -> "11.2"."""
    match = re.search(r"release (\d+\.\d+)", output)
    return match.group(1) if match else None


def cudnn_loaded(seen: Seen) -> str | None:
    """cudnnGetVersion()'s number as a version: 8100 is 8.1.0, from cuDNN 9 on 90100 is 9.1.0."""
    answer = (seen.probe.get("cudnn") or {}).get("answer")
    if not answer:
        return None
    value = int(answer)
    if value >= 90000:
        return f"{value // 10000}.{value // 100 % 100}.{value % 100}"
    return f"{value // 1000}.{value // 100 % 10}.{value % 100}"


def gpu_devices(seen: Seen) -> list[dict[str, str]]:
    """Each GPU that NVML reports: name, uuid, address on the PCI bus, memory ("16384 MiB")."""
    return [
        {"name": row[1], "uuid": row[2], "pci": row[3].lower()[-12:], "memory": row[5]}
        for row in smi_rows(seen)
    ]


def tensorflow_answer(seen: Seen) -> dict[str, Any]:
    """What TensorFlow said of itself and its GPUs."""
    answer: dict[str, Any] = (seen.probe.get("tensorflow") or {}).get("gpus") or {}
    return answer


def found(seen: Seen) -> dict[str, Any]:
    """The versions that really answered, for the report."""
    if seen.error:
        return {}
    tensorflow = tensorflow_answer(seen)
    rows = smi_rows(seen)
    values = {
        "nvidia_driver": rows[0][0] if rows else None,
        "gpus": usable_gpus(seen),
        "gpu_names": sorted({row[1] for row in rows}),
        "gpu_devices": gpu_devices(seen),
        "nvcc": nvcc_release(seen.probe["nvcc"]["ssh"]["stdout"]),
        "cudnn": cudnn_loaded(seen),
        "tensorflow": tensorflow.get("version"),
        "tensorflow_gpus": len(tensorflow["gpus"]) if "gpus" in tensorflow else None,
        "python": tensorflow.get("python"),
    }
    return {key: value for key, value in values.items() if value not in (None, [])}
