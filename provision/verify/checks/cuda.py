"""CUDA: packages, nvcc in each kind of process, and the libraries and files TensorFlow opens."""

from __future__ import annotations

from typing import Any

from .. import diagnose
from ..cures import CURES, DEEP, LOADER, PACKAGES, SHELLS, Cure
from .answers import nvcc_release, reason
from .check import AGAIN, Seen, Verdict, check, failed, not_applicable, passed
from .packages import judge_packages
from .places import NO_PAM, PLACES, without_pam

CURES.update(
    {
        "cuda.packages": Cure(("cuda",), PACKAGES),
        "cuda.nvcc_login": Cure(("cuda", "gpu_env"), f"{SHELLS}; otherwise {DEEP}"),
        "cuda.nvcc_ssh": Cure(("cuda", "gpu_env"), f"{SHELLS}; otherwise {DEEP}"),
        "cuda.nvcc_cron": Cure(("cuda", "gpu_env"), f"{SHELLS}; otherwise {DEEP}"),
        "cuda.nvcc_systemd": Cure(("cuda", "gpu_env"), f"{SHELLS}; otherwise {DEEP}"),
        "cuda.libraries": Cure(("cuda", "cudnn", "gpu_env"), LOADER),
        "cuda.files": Cure(("cuda",), DEEP),
    }
)


@check("cuda.packages", "CUDA's packages are the locked versions")
def cuda_packages(seen: Seen) -> Verdict:
    profile = seen.options.get("cuda_profile", "toolkit")
    return judge_packages(seen, (seen.row["cuda"].get("packages") or {}).get(profile))


@check("cuda.nvcc_login", "nvcc in a login shell is the locked release")
def nvcc_in_a_login_shell(seen: Seen) -> Verdict:
    return judge_nvcc(seen, "login")


@check("cuda.nvcc_ssh", "nvcc over `ssh host nvcc` is the locked release")
def nvcc_over_ssh(seen: Seen) -> Verdict:
    return judge_nvcc(seen, "ssh")


@check("cuda.nvcc_cron", "nvcc in a cron job is the locked release")
def nvcc_in_cron(seen: Seen) -> Verdict:
    if seen.probe["nvcc"].get("cron") is None:
        return not_applicable("an ordinary user can't read /etc/environment here")
    return judge_nvcc(seen, "cron")


@check("cuda.nvcc_systemd", "nvcc in a systemd unit is the locked release")
def nvcc_in_systemd(seen: Seen) -> Verdict:
    if seen.probe["nvcc"].get("systemd") is None:
        return not_applicable("an ordinary user can't see the environment of systemd's units here")
    return judge_nvcc(seen, "systemd")


@check("cuda.libraries", "Each library TensorFlow opens is from its locked package")
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
    files = seen.row["cuda"].get("files")
    if not files:
        return not_applicable("the lock names no such files")
    # Profile runtime takes these files out of the package without installing it.
    owned = seen.options.get("cuda_profile") != "runtime"
    wrong = []
    for name, file in files.items():
        answer = seen.probe["files"].get(name) or {}
        if not answer.get("exists"):
            wrong.append(f"{name} is missing ({file['path']})")
        elif not answer.get("usable", True):
            wrong.append(f"{name} can't be used by {seen.probe.get('user')} ({file['path']})")
        elif owned and answer.get("owner") != file["package"]:
            wrong.append(
                f"{name} ({file['path']}) belongs to {answer.get('owner') or 'no package'}, "
                f"not to {file['package']}"
            )
    if wrong:
        return failed("; ".join(wrong), AGAIN)
    return passed(", ".join(files))


def judge_nvcc(seen: Seen, where: str) -> Verdict:
    """Is the nvcc in PATH of one of PLACES the lock's release?"""
    place = PLACES[where]
    if seen.options.get("cuda_profile") == "runtime":
        return not_applicable("cuda_profile: runtime installs no nvcc")
    answer, release = seen.probe["nvcc"][where], seen.row["cuda"]["release"]
    if where == "ssh" and answer["rc"] == 127 and without_pam(seen):
        return not_applicable(NO_PAM)
    if answer["rc"] != 0:
        message = diagnose.last_line(answer["stderr"] or answer["stdout"])
        if answer["rc"] == 127:
            return failed(
                f"{place} does not find nvcc", f"its PATH lacks CUDA's bin; {AGAIN}", message
            )
        return failed(f"nvcc fails in {place}: {message}", AGAIN)
    answered = nvcc_release(answer["stdout"])
    if answered == release:
        return passed(f"release {answered}")
    return failed(
        f"nvcc in {place} is release {answered or 'unknown'}, the lock's is {release}",
        "another CUDA comes first in PATH (conda, /usr/local/cuda)",
    )


def judge_library(soname: str, package: str, library: dict[str, Any]) -> str | None:
    """What is wrong with a library; None for a good one."""
    if library.get("loaded") is None:
        return f"{soname} (package {package}) can't be loaded: {reason(library)}"
    if library.get("owner") != package:
        owner = library.get("owner") or "no package"
        return f"{soname} is {library['real']} of {owner}, not of {package}"
    if library.get("cached_real") != library["real"]:
        cached = library.get("cached") or "nothing"
        return f"{soname} is not in the loader's cache (`ldconfig -p` shows {cached})"
    return None
