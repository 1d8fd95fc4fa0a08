"""What goes wrong with the libraries of CUDA and cuDNN."""

from __future__ import annotations

from ...doctor.case import RUN, Case, clue, run_of
from ...host import debian_versions
from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from ...shapes import Clues, Facts

CASES = (
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
        "a library file is named after one version but is another",
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
)


def cuda_libraries(facts: Facts) -> Clues:
    row = facts["row"] or {}
    sonames = set((row.get("cuda") or {}).get("sonames") or {})
    sonames.add((row.get("cudnn") or {}).get("soname"))
    return [
        clue(f"{change['item']}: {change['from']} ({change['reason']})", library=change["item"])
        for change in facts["changes"]
        if change["component"] in ("cuda", "cudnn", "tensorflow")
        and change["item"].rpartition("/")[2] in sonames
    ]


def hand_made_link(facts: Facts) -> Clues:
    return [
        clue("{path} is {real}".format(**link), path=link["path"]) for link in facts["disguised"]
    ]


def cudnn_older(facts: Facts) -> Clues:
    minimum = ((facts["row"] or {}).get("cudnn") or {}).get("minimum")
    installed = facts["cudnn"]
    if (
        not minimum
        or installed is None
        or debian_versions.compare(installed["version"], minimum) >= 0
    ):
        return []
    evidence = "the loader finds {0} at {1}; TensorFlow was built with {2}"
    return [clue(evidence.format(installed["version"], installed["path"], minimum))]


def login_wall(facts: Facts) -> Clues:
    return [clue(f"{path} begins with <html", path=path) for path in facts["pages"]]


CHECKS = {
    "cuda-libraries": cuda_libraries,
    "hand-made-link": hand_made_link,
    "cudnn-older": cudnn_older,
    "login-wall": login_wall,
}
FIXES = {
    "cuda-libraries": run_of("cuda", "cudnn", "gpu_env", "tensorflow"),
    "hand-made-link": lambda facts, _clues: {
        "aside": [link["path"] for link in facts["disguised"]]
    },
    "cudnn-older": run_of("cudnn", "gpu_env"),
}
