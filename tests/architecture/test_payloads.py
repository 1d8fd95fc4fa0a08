"""How much of the collection a module carries to a host, at each task that calls it.

AnsiballZ packs every module that an import names, and the `__init__` of each package above it. One
import too much, and a task that writes a line of text carries all components.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.collection import IMPORTABLE, ROOT

# The collection's own part of the archive, in compressed kilobytes; Ansible's is 110 more.
BOUND = 97
# Those that are called once, and only where a plan says so or a person asks.
LARGE = {
    "cuda_installer": 100,
    "cuda_tree": 104,
    "gpu_acceptance": 98,
    "servings": 114,
    "slurm": 100,
}
# Those that several tasks of a run call.
SMALL = {
    "apt_sources": 25,
    "archive_keys": 33,
    "debian_components": 35,
    "exact_packages": 39,
    "gpu_processes": 22,
    "gpu_users": 27,
    "loader_cache": 20,
    "managed_files": 30,
    "manager_environment": 20,
    "named_packages": 32,
    "package_holds": 23,
    "package_lists": 27,
    "repository_key": 27,
    "repository_trial": 29,
    "shell_startup": 34,
    "unfinished_packages": 25,
}
PACK = """
import base64, io, json, re, sys, zipfile
from ansible.executor.module_common import modify_module
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader, module_loader
from ansible.template import Templar

init_plugin_loader()
sizes = {}
for name in sys.argv[1:]:
    full = "provision.gpu." + name
    packed = modify_module(
        module_name=full,
        module_path=module_loader.find_plugin(full),
        module_args={},
        templar=Templar(loader=DataLoader()),
        task_vars={"ansible_python_interpreter": "/usr/bin/python3"},
        module_compression="ZIP_DEFLATED",
    )
    text = max(re.findall(rb"[A-Za-z0-9+/=]+", packed.b_module_data), key=len)
    files = zipfile.ZipFile(io.BytesIO(base64.b64decode(text))).infolist()
    sizes[name] = sum(file.compress_size for file in files if "provision/gpu" in file.filename)
json.dump(sizes, sys.stdout)
"""
# Their action plugins send no module of the collection's own.
PIPED = {"gpu_acceptance_judge", "gpu_hold", "gpu_state", "gpu_training_plan"}


@pytest.fixture(scope="module")
def sizes() -> dict[str, int]:
    """{module: compressed bytes of the collection's that it carries}."""
    names = {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")} - PIPED
    packed = subprocess.run(
        [sys.executable, "-c", PACK, *sorted(names)],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(IMPORTABLE)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert packed.returncode == 0, packed.stderr
    result: dict[str, int] = json.loads(packed.stdout)
    assert result.keys() == names
    return result


def test_modules_carry_no_more_than_they_need(sizes: dict[str, int]) -> None:
    assert sizes.keys() >= SMALL.keys()
    assert min(sizes.values()) > 1000
    bounds = {**SMALL, **LARGE}
    large = {name: size for name, size in sizes.items() if size > 1000 * bounds.get(name, BOUND)}
    assert not large, f"bytes of the collection that these carry: {large}"
