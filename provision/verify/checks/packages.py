"""Whether packages are installed in the versions of the lock."""

from __future__ import annotations

from .check import AGAIN, Seen, Verdict, failed, not_applicable, passed, some_of


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
