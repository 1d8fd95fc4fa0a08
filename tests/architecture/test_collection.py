"""The repository's root is the collection `provision.gpu`: it can be built, installed and run.

What is built is for people who have no `provision`: it must hold all of the collection and nothing
of the generator.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

import provision
from provision import collection
from provision.render import collection as rendered
from provision.roles import ALL
from tests.collection import NAME, ROOT

BIN = Path(sys.executable).parent
GALAXY = yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))


def ansible(
    folder: Path, program: str, *arguments: str, collections: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """One of Ansible's programs, without the network and without anybody's own collections."""
    return subprocess.run(
        [str(BIN / program), *arguments],
        cwd=folder,
        env={
            **os.environ,
            "ANSIBLE_HOME": str(folder / "home"),
            "ANSIBLE_COLLECTIONS_PATH": str(collections or folder / "nothing"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_GALAXY_SERVER": "https://galaxy.invalid",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection, built from the checkout and installed into an empty folder."""
    folder = tmp_path_factory.mktemp("collection")
    built = ansible(
        folder, "ansible-galaxy", "collection", "build", str(ROOT), "--output-path", str(folder)
    )
    assert built.returncode == 0, built.stdout + built.stderr
    tarball = folder / f"provision-gpu-{provision.__version__}.tar.gz"
    target = folder / "collections"
    arguments = ["collection", "install", str(tarball), "--offline", "-p", str(target)]
    done = ansible(folder, "ansible-galaxy", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_its_version_is_provisions() -> None:
    assert (GALAXY["namespace"] + "." + GALAXY["name"], GALAXY["version"]) == (
        NAME,
        provision.__version__,
    )


def test_what_is_generated_of_it_is_in_sync() -> None:
    """`python -m provision roles sync` writes them; edit provision/render/ instead of them."""
    for path, data in rendered.generated().items():
        assert (ROOT / path).read_bytes() == data, path


def test_a_wheel_carries_the_same_parts_as_a_tree() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    included = re.findall(r'^"(.+)" = "provision/_collection/(.+)"$', project, re.M)
    assert included == [(part, part) for part in collection.PARTS]


def test_what_is_built_is_the_collection_and_nothing_else(installed: Path) -> None:
    (tarball,) = installed.glob("*.tar.gz")
    with tarfile.open(tarball) as archive:
        files = {member.name for member in archive if member.isfile()}
    made = {"MANIFEST.json", "FILES.json", "README.md", "CHANGELOG.md", "LICENSE"}
    carried = {
        path.removeprefix(collection.IN_TREE)
        for path in collection.read()
        if path.startswith(collection.IN_TREE)
    }
    assert files == made | carried - {"galaxy.yml"}
    assert len([name for name in files if name.startswith("roles/")]) > 200


def test_ansible_knows_each_plugin_and_role_of_it(installed: Path) -> None:
    collections = installed / "collections"
    asked = {
        "module": [
            *("apt_sources", "archive_keys", "cache_directory", "cdi", "container_runtime"),
            "cuda_installer",
            *("cuda_tree", "cudnn_archive", "debian_components", "driver_kernels"),
            *(
                "driver_loaded",
                "driver_make_log",
                "driver_module",
                "driver_packages",
                "driver_signed_module",
                "driver_signing",
                "driver_surroundings",
                "exact_packages",
            ),
            *(
                "front_door",
                "gpu_hold",
                "gpu_processes",
                "gpu_proof",
                "gpu_state",
                "gpu_users",
                "gpu_venv",
                "loader_cache",
            ),
            *(
                "managed_files",
                "manager_environment",
                "named_packages",
                "other_driver",
                "package_holds",
                "package_lists",
            ),
            *(
                "repository_key",
                "repository_trial",
                "servings",
                "shell_startup",
                "slurm_node",
                "unfinished_packages",
            ),
            *("workspace_image", "workspaces"),
        ],
        "filter": ["canary_first", "canary_alone", "proves_something"],
        "lookup": ["host_options", "run_steps"],
        "callback": ["report", "doctor"],
        "role": ["apt", "gpu_state", "verify", *(role.name for role in ALL)],
    }
    for kind, names in asked.items():
        full = [f"{NAME}.{name}" for name in names]
        done = ansible(
            installed, "ansible-doc", "-t", kind, "--json", *full, collections=collections
        )
        assert done.returncode == 0, done.stderr
        # ansible-core 2.21 warns of a collection of its own that has no version.
        warnings = [line for line in done.stderr.splitlines() if "WARNING" in line]
        assert [line for line in warnings if "/ansible/_protomatter" not in line] == []
        assert set(json.loads(done.stdout)) == set(full)
    shipped_roles = {path.name for path in (ROOT / "roles").iterdir()}
    assert shipped_roles == set(asked["role"])


def test_its_roles_work_by_their_full_names_in_somebodys_playbook(installed: Path) -> None:
    names = [f"{NAME}.{role.name}" for role in ALL]
    (installed / "book.yml").write_text(json.dumps([{"hosts": "all", "roles": names}]), "utf-8")
    for book in ("book.yml", f"{NAME}.site", f"{NAME}.doctor"):
        done = ansible(
            installed,
            "ansible-playbook",
            *("--syntax-check", "-i", "localhost,", book),
            collections=installed / "collections",
        )
        assert done.returncode == 0, done.stdout + done.stderr
