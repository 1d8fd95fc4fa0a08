"""Two bare hosts on this machine, provisioned and proven: what `make demo` does.

It does what a person would: makes an inventory, then runs `provision lock`, `render` and `apply`.
The one thing of its own is the cuDNN tarball, packed from NVIDIA's PyPI wheel, because NVIDIA's
site can't be reached from everywhere (inventories/demo says so too).
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
    """inventories/demo with this lab's addresses and this archive's hash, as `project`/lab."""
    target = project / "lab"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "inventories" / "demo", target)
    # The inventory is plain data and may be read by anyone; the key it names lies beside the lab.
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
    """Run the command line as a person would; its output goes to the terminal."""
    stdout = subprocess.DEVNULL if quiet else None
    return subprocess.run(
        [str(BIN / "provision"), *arguments], check=False, stdout=stdout
    ).returncode


def prepare(
    project: Path, name: str, hosts: Sequence[str], *, keep: bool, more: Path | None = None
) -> locallab.Lab:
    """Bare hosts, and a rendered project for them that was never run.

    `more` is a folder with further files of the inventory (host_vars), where it exists.
    Without `keep` the hosts are swept away once this process, or the one that PROVISION_LAB_OWNER
    names by its pid, is gone: a killed test run leaves nothing for long.
    """
    locallab.sweep()
    project.mkdir(parents=True, exist_ok=True)
    named = os.environ.get("PROVISION_LAB_OWNER")
    lab = locallab.up(
        name,
        state_dir=project / ".lab",
        hosts=hosts,
        keep=keep and not named,
        owner_pid=int(named) if named else None,
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
    """The demo: everything from bare to proven, and the commands to go on with."""
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
