"""Compares installed packages with the lock."""

from __future__ import annotations

from .check import AGAIN, Seen, Verdict, failed, not_applicable, passed, some_of


def judge_packages(seen: Seen, packages: dict[str, str] | None) -> Verdict:
    """Are these packages installed in exactly these versions?"""
    if not packages:
        return not_applicable("the lock names no packages")
    wrong = []
    for name, version in sorted(packages.items()):
        installed = seen.probe["packages"].get(name)
        # dpkg's second letter: i installed, n not installed, c only configuration files. The third
        # is R where the package needs reinstalling.
        if installed is None or installed["status"][1:] in ("n", "c"):
            wrong.append(f"{name} is not installed")
        elif installed["status"][1:] != "i":
            wrong.append(f"{name} is half installed ({installed['status']})")
        elif installed["version"] != version:
            wrong.append(f"{name} is {installed['version']}, the lock's is {version}")
    if wrong:
        return failed(some_of(wrong), AGAIN, "; ".join(wrong))
    return passed(f"{len(packages)} packages")
