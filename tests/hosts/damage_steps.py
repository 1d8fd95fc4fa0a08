"""Damages a proven host row by row, and judges what look, plan and one run make of it."""

from __future__ import annotations

import fnmatch
import json
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import damage
from damage import Row

if TYPE_CHECKING:
    from conftest import Project

Items = set[tuple[str, str]]

PRELUDE = """\
set -eu
first() { ls -d "$@" 2>/dev/null || true; }
VENV=$(first /opt/tensorflow/[0-9]*-????????); SITE=$VENV/lib/python3.9/site-packages
CUDNN=$(first /opt/nvidia/cudnn/[0-9]*-cuda*[0-9]); LIB=/usr/lib/x86_64-linux-gnu
keep() { local f=$1 when; when=$(stat --format=%y "$f"); shift; "$@"; touch --date="$when" "$f"; }
stomp() { printf XXXXXXXX | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
fetch() { cd "$(mktemp -d)"; apt-get -qq -o APT::Sandbox::User=root download "$1"; }
other() { fetch "$1"; dpkg-deb -R ./*.deb x; sed -i "s/^Version: .*/Version: $2/" x/DEBIAN/control
dpkg-deb -b x other.deb; dpkg --install --force-all other.deb; rm -r x; }
KERNEL=$(ls /boot | sed -n s/^vmlinuz-//p | tail -1)
export DEBIAN_FRONTEND=noninteractive
"""
MANIFEST = Path(__file__).with_name("manifest.py")


def settled(row: Row, kernel: str) -> Row:
    """The row with the host's own kernel in its items."""
    return replace(row, names=tuple(name.replace("KERNEL", kernel) for name in row.names))


def judge(row: Row, before: Items, after: Items) -> list[str]:
    """What is wrong with the plan after a row's damage, of a host whose plan was `before`."""
    problems = []
    if there := sorted(row.items & before):
        problems.append(f"{row.id}: already in the plan before: {there}")
    if missing := sorted(row.items - after):
        problems.append(f"{row.id}: not in the plan: {missing}")
    if extra := sorted(after - before - row.items):
        problems.append(f"{row.id}: in the plan, and not of this damage: {extra}")
    if lost := sorted(before - after):
        problems.append(f"{row.id}: no longer in the plan: {lost}")
    return problems


def allowed(rows: Iterable[Row], owned: dict[str, list[str]]) -> list[str]:
    """Globs of the paths that the repair of these rows may touch."""
    found = list(damage.ALWAYS)
    for row in rows:
        for touch in row.touches:
            kind, colon, name = touch.partition(":")
            if kind != "package" or not colon:
                found.append(touch)
                continue
            found += [f"/var/lib/dpkg/info/{name}.*", f"/var/lib/dpkg/info/{name}:*"]
            # A name may hold what a glob reads as its own.
            found += [path.replace("[", "[[]") for path in owned.get(name, [])]
    return found


def strangers(changed: Sequence[str], globs: Sequence[str]) -> list[str]:
    """Lines "PATH: what changed" of paths that no glob allows."""
    exact = set(globs)
    wild = [glob for glob in globs if "*" in glob or "[" in glob or "?" in glob]
    found = []
    for line in changed:
        path, _, what = line.rpartition(": ")
        # dpkg and update-alternatives write their records anew without changing them.
        same = path.startswith("/var/lib/dpkg/") and what == "other time, inode"
        if not same and path not in exact and not any(fnmatch.fnmatch(path, g) for g in wild):
            found.append(line)
    return found


@dataclass
class Host:
    """One host of a project, and the plan for it."""

    project: Project
    name: str
    options: tuple[str, ...] = ()

    def root(self, text: str) -> str:
        """What a shell text prints, run as root."""
        return self.project.ssh(self.name, "sudo bash -c " + shlex.quote(PRELUDE + text))

    def run(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        arguments = ["-i", "lab", "--limit", self.name, *self.options, *options]
        return self.project.provision(command, *arguments)

    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = self.project.report["hosts"][self.name]
        return found

    def plan(self, *, deep: bool = False) -> Items:
        """(component, item) of the plan; its exit code must say the same."""
        done = self.run("plan", *(["--deep"] if deep else []))
        assert done.returncode in {0, 5}, done.stdout + done.stderr
        found = {(change["component"], change["item"]) for change in self.report()["changes"]}
        assert done.returncode == (5 if found else 0), (found, done.stdout)
        return found

    def manifest(self, *arguments: str) -> list[str]:
        text = MANIFEST.read_text(encoding="utf-8")
        command = "sudo /usr/bin/python3 -c " + shlex.quote(text) + " " + " ".join(arguments)
        lines: list[str] = json.loads(self.project.ssh(self.name, command))
        return lines

    def owned(self, rows: Iterable[Row]) -> dict[str, list[str]]:
        """{package: paths} of the packages that the rows' repairs install again."""
        names = {t.partition(":")[2] for row in rows for t in row.touches if t[:8] == "package:"}
        return {name: self.root(f"dpkg -L {name}").splitlines() for name in sorted(names)}


def damage_and_repair(
    project: Project, name: str, rows: Sequence[Row], options: tuple[str, ...] = ()
) -> None:
    """Damage a host by each row in turn, then repair it by one run; fails with every problem.

    Each row must be the only news in the plan; what a deep look sees must be news to no other;
    and when all is repaired nothing may differ but what the repairs are allowed to touch.
    """
    host = Host(project, name, options)
    kernel = host.root("echo $KERNEL").strip()
    rows = [settled(row, kernel) for row in rows]
    deep = any(row.seen_by == "deep" for row in rows)
    seen = host.plan(deep=deep)
    if seen:  # what an earlier batch left
        host.run("apply", *(["--deep"] if deep else []))
        seen = host.plan(deep=deep)
    assert not seen, f"the host is not as locked to begin with: {sorted(seen)}"
    host.manifest("write", "/var/tmp/manifest.json")
    owned = host.owned(rows)

    problems: list[str] = []
    expected: Items = set()
    for row in [row for row in rows if row.seen_by == "look"]:
        assert judge(row, seen, seen), f"{row.id} could not fail"
        host.root(row.damage)
        after = host.plan()
        problems += judge(row, seen, after)
        seen = after
        expected |= row.items
    for row in [row for row in rows if row.seen_by == "deep"]:
        assert judge(row, seen, seen), f"{row.id} could not fail"
        host.root(row.damage)
        expected |= row.items
    if deep:
        after = host.plan()
        if after != seen:
            problems.append(f"the ordinary look sees what the docs leave to --deep: {after - seen}")
        after = host.plan(deep=True)
        if after != expected:
            missing, extra = sorted(expected - after), sorted(after - expected)
            problems.append(f"--deep: not in the plan: {missing}; not of these damages: {extra}")
        seen = after

    problems += repair(host, rows, seen, deep=deep)
    globs = allowed(rows, owned)
    left = strangers(host.manifest("compare", "/var/tmp/manifest.json"), globs)
    if left:
        problems.append("touched without need:\n    " + "\n    ".join(left[:40]))
    assert not problems, "\n".join(problems)


def repair(host: Host, rows: Sequence[Row], planned: Items, *, deep: bool) -> list[str]:
    """One run that repairs, and what is wrong with it."""
    problems = []
    options = ["--deep"] if deep else []
    for_people = [row for row in rows if row.undo]
    if for_people:
        refused = host.run("apply", *options)
        output = refused.stdout + refused.stderr
        if refused.returncode not in {4, 6}:
            problems.append(f"a run should leave this to a person, exit {refused.returncode}")
        for row in for_people:
            problems += [f"{row.id}: not said: {i}" for _, i in row.items if i not in output]
            host.root(row.undo)
    done = host.run("apply", *options)
    report = host.report()
    if done.returncode != 0 or report["status"] != "proven":
        problems.append(f"one run did not repair it: {done.stdout}{done.stderr}")
    ran = set(report["components"])
    if not for_people and ran != {component for component, _ in planned} - {"receipt"}:
        problems.append(f"the run was of {sorted(ran)}, the plan of {sorted(planned)}")
    left = host.plan(deep=deep)
    if left:
        problems.append(f"left after one run: {sorted(left)}")
    return problems
