"""Provisions and proves two bare hosts on this machine: `make demo`.

Writes an inventory, then runs `provision lock`, `render` and `apply`, as a person would. Only the
cuDNN tarball is packed here, from NVIDIA's PyPI wheel, because not every machine can reach NVIDIA's
site (as inventories/demo says).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from provision import locallab
from provision.errors import ProvisionError
from provision.locallab import cudnn_archive
from provision.locallab.machine import cache_directory

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent


def say(text: str) -> None:
    print(f"demo: {text}", flush=True)


def write_inventory(
    project: Path,
    lab: locallab.Lab,
    archive: cudnn_archive.CudnnArchive,
    *,
    group: str = "gpu_hosts",
) -> None:
    """Writes inventories/demo to `project`/lab, with the lab's addresses and the archive's hash."""
    target = project / "lab"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "inventories" / "demo", target)
    # The inventory holds no secret: it only names the key, which is in the lab's state.
    (target / "hosts.yml").write_text(
        yaml.safe_dump(lab.inventory(group), sort_keys=False), encoding="utf-8"
    )
    wish = target / "group_vars" / "gpu_hosts.yml"
    wish.write_text(
        wish.read_text(encoding="utf-8").replace("@CUDNN_SHA256@", archive.sha256), encoding="utf-8"
    )
    files = project / "files"
    files.mkdir(parents=True, exist_ok=True)
    link = files / archive.path.name
    link.unlink(missing_ok=True)
    link.symlink_to(archive.path)


def provision(*arguments: str, quiet: bool = False) -> int:
    """Runs `provision` with its output on the terminal; returns the exit code."""
    stdout = subprocess.DEVNULL if quiet else None
    return subprocess.run(
        [str(BIN / "provision"), *arguments], check=False, stdout=stdout
    ).returncode


def prepare(
    project: Path, name: str, hosts: Sequence[str], *, keep: bool, more: Path | None = None
) -> locallab.Lab:
    """Starts bare hosts and renders a project for them.

    `more` is a folder with further files of the inventory (host_vars), if it exists. Without `keep`
    `sweep` removes the hosts after the end of this process, or of the pid in PROVISION_LAB_OWNER.
    """
    locallab.sweep()
    project.mkdir(parents=True, exist_ok=True)
    owner_pid = os.environ.get("PROVISION_LAB_OWNER")
    lab = locallab.up(
        name,
        state_dir=project / ".lab",
        hosts=hosts,
        keep=keep and not owner_pid,
        owner_pid=int(owner_pid) if owner_pid else None,
        progress=say,
    )
    write_inventory(project, lab, cudnn_archive.pack(cache_directory(), progress=say))
    if more is not None and more.is_dir():
        shutil.copytree(more, project / "lab", dirs_exist_ok=True)
    for command in (["lock", "--project", str(project)], ["render", str(project)]):
        code = provision(*command)
        if code:
            raise SystemExit(code)
    return lab


def up(project: Path, name: str, hosts: Sequence[str]) -> int:
    """Runs the whole demo from bare to proven, and prints the next commands."""
    down(project, name)
    prepare(project, name, hosts, keep=True)
    code = provision("apply", "--project", str(project))
    shown = os.path.relpath(project, Path.cwd())
    page = f"{shown}/report/report.html"
    if provision("report", "--project", str(project), "--json", quiet=True):
        page = f"{shown}/report/latest/report.json"
    playbook = os.path.relpath(BIN / "ansible-playbook", project)
    print(f"\nreport:     {page}")
    print(f"run again:  cd {shown} && {playbook} site.yml -i lab")
    print("remove:     make demo-down")
    return code


def down(project: Path, name: str) -> None:
    if locallab.down(name, state_dir=project / ".lab"):
        say(f"the hosts of {name} are removed")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["up", "prepare", "down"])
    parser.add_argument("--project", type=Path, default=ROOT / "build" / "demo")
    parser.add_argument("--name", default="demo")
    parser.add_argument("--host", action="append", dest="hosts")
    parser.add_argument("--lab", type=Path, help="a folder with more files for the inventory")
    chosen = parser.parse_args(arguments)
    hosts = chosen.hosts or ["demo-gpu1", "demo-gpu2"]
    try:
        if chosen.command == "down":
            down(chosen.project, chosen.name)
            return 0
        if chosen.command == "prepare":
            down(chosen.project, chosen.name)
            prepare(chosen.project, chosen.name, hosts, keep=True, more=chosen.lab)
            return 0
        return up(chosen.project, chosen.name, hosts)
    except ProvisionError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
