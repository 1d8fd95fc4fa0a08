"""Cases of apt and dpkg: keys, contradicting entries, holds, leftovers."""

from __future__ import annotations

from .. import host_rules, transaction
from ..components import cuda
from ..components.nvidia_driver import driver_packages, method_rules
from ..type_checking import TYPE_CHECKING
from . import keys
from .case import LINES, RUN, Case, clue, run_of

if TYPE_CHECKING:
    from typing import Any

    from ..shapes import Facts


# So many packages on hold, besides the stack's, mean that the whole host is frozen.
MANY_HELD = 20

# NVIDIA's keyring package by platform, and its SHA-256.
KEYRINGS = {
    "ubuntu2004": "cf5ca9853118b9fb2b78dd2708786e1eb5ab14e39d8738539281429428eb4efe",
    "ubuntu2204": "d93190d50b98ad4699ff40f4f7af50f16a76dac3bb8da1eaaf366d47898ff8df",
    "debian11": "dfc6e5cdbfc9b4cd1ca8bf6b6eda5d8582ca50d51b7e64ba049b935d52325d58",
    "debian12": "e7f219eab6fe4819cdb5c15b98233dc3420302d9c00883219cd3d896857cf48d",
}

_KEYRING_FILE = "cuda-keyring_1.1-1_all.deb"
INSTALL_KEYRING = (
    "curl -fLO https://developer.download.nvidia.com/compute/cuda/repos/{platform}/x86_64/"
    + _KEYRING_FILE
    + " && echo '{sha256}  "
    + _KEYRING_FILE
    + "' | sha256sum -c && sudo dpkg -i "
    + _KEYRING_FILE
)

CASES = (
    Case(
        "key-missing",
        "apt has no key for one of NVIDIA's repositories",
        ("NVIDIA/nvidia-docker#1631", "NVIDIA/cuda-repo-management#4"),
        "install NVIDIA's keyring package, checked by its hash, and name its key in the entry",
        (INSTALL_KEYRING,),
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
        (INSTALL_KEYRING,),
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
        "this release has no apt-key any more, and something still calls it",
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
        ),
        "",
    ),
    Case(
        "unmet-dependencies",
        "an installed package lacks what it depends on, and apt refuses all other work",
        (),
        "let apt install what is missing; where no repository has it, apt proposes to remove the "
        "package that needs it: read that before you agree",
        ("sudo apt-get --fix-broken install",),
        (r"E: Unmet dependencies\.",),
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
)


def _unknown_key(facts: Facts, rotated: bool) -> list[dict[str, Any]]:
    """NVIDIA's entries whose signer apt doesn't know: with the former key, or with none."""
    clues = []
    platform = facts["distribution"]
    # An entry beside one with the key contradicts it, which is a case of its own.
    trusted = {
        (repository["uri"], repository["suite"])
        for repository in facts["keys"]
        if repository["signer"] in (repository["keys"] or {})
    }
    for repository in facts["keys"]:
        if (
            repository["signer"] is None
            or repository["keys"] is None
            or (repository["uri"], repository["suite"]) in trusted
        ):
            continue
        old = repository["signer"] == keys.CUDA and keys.CUDA_OLD in repository["keys"]
        if old is rotated:
            where = (
                repository["missing"]
                if repository["named"] and repository["missing"]
                else repository["files"]
            )
            lack = "is not there" if repository["named"] and repository["missing"] else "has it not"
            evidence = "{0} is signed by {1}; {2} ({3}) {4}".format(
                repository["uri"], repository["signer"][-16:], " ".join(where[:3]) or "no keyring",
                "named by " + repository["file"] if repository["named"] else "named by no entry",
                lack,
            )  # fmt: skip
            clues.append(clue(evidence, platform=platform, sha256=KEYRINGS.get(platform or "")))
    return clues


def key_missing(facts: Facts) -> list[dict[str, Any]]:
    return _unknown_key(facts, False)


def key_rotated(facts: Facts) -> list[dict[str, Any]]:
    return _unknown_key(facts, True)


def key_sha1(facts: Facts) -> list[dict[str, Any]]:
    if not facts["sqv"]:
        return []
    return [
        clue(
            "{0} is signed by {1}, whose own signature is SHA-1, and apt asks sqv here".format(
                repository["uri"], _refused(repository)
            ),
            file=repository["file"],
        )
        for repository in facts["keys"]
        if _refused(repository) is not None
    ]


def _refused(repository: dict[str, Any]) -> str | None:
    """The key of a repository whose own signatures are SHA-1, by its last 16 digits; else None.

    Where the signer is not known, as of a local repository, no other key may be there.
    """
    fingerprints = repository["keys"] or {}
    if repository["signer"] is None and fingerprints and all(fingerprints.values()):
        return str(sorted(fingerprints)[0][-16:])
    return str(repository["signer"][-16:]) if fingerprints.get(repository["signer"]) else None


def apt_key_gone(facts: Facts) -> list[dict[str, Any]]:
    if facts["apt_key"]:
        return []
    return [
        clue(
            "{0} names no key, and its key is in /etc/apt/trusted.gpg, which only apt-key "
            "writes".format(repository["file"]),
            file=repository["file"],
        )
        for repository in facts["keys"]
        if not repository["named"] and "/etc/apt/trusted.gpg" not in repository["missing"]
    ]


def signed_by_conflict(facts: Facts) -> list[dict[str, Any]]:
    look = dict(facts["found"], preflight=facts["found"].get("preflight") or {})
    conflicts = look["preflight"].get("signed_by") or []
    reasons = host_rules.signed_by_conflict(look, [], {}, facts["row"])
    return [
        clue(message, file=conflicts[index][2][-1])
        for index, (message, _hint) in enumerate(reasons)
    ]


def held_broken(facts: Facts) -> list[dict[str, Any]]:
    # A driver of NVIDIA's .run file has no packages.
    if not ((facts["row"] or {}).get("nvidia_driver") or {}).get("packages"):
        return []
    reasons = method_rules.held_elsewhere(facts["found"], [], facts["options"], facts["row"])
    return [
        clue(message, package=hint.rpartition("unhold ")[2].split()) for message, hint in reasons
    ]


def dpkg_interrupted(facts: Facts) -> list[dict[str, Any]]:
    preflight = facts["found"].get("preflight") or {}
    if preflight.get("dpkg_at_work"):
        return []
    return [
        clue("{0} is {1}".format(name, status))
        for name, status in preflight.get("unfinished") or []
    ]


def cuda_repo_pin(facts: Facts) -> list[dict[str, Any]]:
    row = (facts["row"] or {}).get("nvidia_driver")
    state = facts["found"]["state"].get("nvidia_driver") or {}
    if not row or row.get("source", "distribution") != "distribution" or state.get("pins"):
        return []
    if not any(entry["signer"] == keys.CUDA for entry in facts["keys"]):
        return []
    return [
        clue("{file} gives `{pin}` priority {priority}".format(**entry))
        for entry in facts["preferences"]
        if entry["priority"] > 500
    ]


def local_repo_gone(facts: Facts) -> list[dict[str, Any]]:
    return [
        clue("{file} names {path}, which is not there".format(**entry), package=entry["package"])
        for entry in facts["gone_repositories"]
    ]


def everything_held(facts: Facts) -> list[dict[str, Any]]:
    ours = transaction.locked(facts["row"] or {})
    names = [name for name in facts["held"] if name not in ours]
    if len(names) < MANY_HELD:
        return []
    some = names[:LINES]
    evidence = "{0} packages are held, {1} among them".format(len(names), " ".join(some))
    return [clue(evidence, package=some)]


def _from_nvidia(facts: Facts, clues: list[dict[str, Any]]) -> dict[str, Any]:
    """Runs the components that the lock takes from NVIDIA's repository: the lock has its key."""
    row = facts["row"] or {}
    names = [n for n in ("nvidia_driver", "cuda") if (row.get(n) or {}).get("source") == "network"]
    return run_of(*names)(facts, clues)


def _finish_dpkg(facts: Facts, _clues: list[dict[str, Any]]) -> dict[str, Any]:
    """Lets dpkg finish; a run installs the dependencies that packages of ours lack."""
    row = facts["row"] or {}
    left = {name for name, _status in facts["found"]["preflight"].get("unfinished") or []}
    ours = {
        "nvidia_driver": set(driver_packages.all_packages(row.get("nvidia_driver") or {})),
        "cuda": set(cuda.profile_packages(row.get("cuda") or {}, facts["options"])),
    }
    broken = [name for name in sorted(ours, reverse=True) if ours[name] & left]
    return {"dpkg": True, "components": broken} if broken else {"dpkg": True}


CHECKS = {
    "key-missing": key_missing,
    "key-rotated": key_rotated,
    "key-sha1": key_sha1,
    "apt-key-gone": apt_key_gone,
    "signed-by-conflict": signed_by_conflict,
    "held-broken": held_broken,
    "dpkg-interrupted": dpkg_interrupted,
    "cuda-repo-pin": cuda_repo_pin,
    "local-repo-gone": local_repo_gone,
    "everything-held": everything_held,
}
FIXES = {
    "key-missing": _from_nvidia,
    "key-rotated": _from_nvidia,
    "signed-by-conflict": lambda facts, _clues: (
        {"files": facts["settled"]} if facts["settled"] else {}
    ),
    "dpkg-interrupted": _finish_dpkg,
    "cuda-repo-pin": run_of("nvidia_driver"),
}
