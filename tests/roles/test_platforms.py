"""Each platform a role serves: its tables agree with the catalog, its names with what is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from gpu_stack.components.cudnn import fetch, layout
from gpu_stack.components.nvidia_driver import module_kernels

from provision.catalog.rows import CudaRow, DriverRow
from provision.registry import LOCKED
from tests.collection import loaded
from tests.unit.generator import recorded

REPOSITORY = Path(__file__).parents[2]
ROLES = REPOSITORY / "roles"
CATALOG = REPOSITORY / "provision" / "catalog"
NAMES = LOCKED
RELEASES = {"11": "bullseye", "12": "bookworm", "13": "trixie"}
UBUNTU = {"20": "focal", "22": "jammy", "24": "noble"}
# On Ubuntu too. CUDA's packages are NVIDIA's there, of which one file tells for all platforms.
ON_UBUNTU = NAMES

role_tables = loaded(REPOSITORY / "scripts" / "role_tables.py")


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def variables(role: str, release: str) -> dict[str, Any]:
    values: dict[str, Any] = load(ROLES / role / "vars" / f"Debian_{release}.yml")
    return values


def rows(table: str, release: str) -> list[dict[str, Any]]:
    """Rows of the catalog for one release; read as they stand, without the catalog's own checks."""
    return [
        row
        for row in load(CATALOG / f"{table}.yml")[table]
        if row.get("platform", row.get("id")) == f"debian{release}"
    ]


def templated(expression: str, **names: Any) -> Any:
    """What Ansible makes of an expression."""
    try:
        from ansible.template import trust_as_template  # from ansible-core 2.19 on
    except ImportError:
        return Templar(DataLoader(), variables=names).template(expression)
    trusted = {
        name: trust_as_template(value) if isinstance(value, str) else value
        for name, value in names.items()
    }
    return Templar(DataLoader(), variables=trusted).template(trust_as_template(expression))


@pytest.mark.parametrize("role", [*NAMES, "gpu_state"])
def test_the_roles_say_which_releases_they_serve(role: str) -> None:
    platforms = load(ROLES / role / "meta" / "main.yml")["galaxy_info"]["platforms"]
    expected = [{"name": "Debian", "versions": list(RELEASES.values())}]
    if role in ON_UBUNTU:
        expected.append({"name": "Ubuntu", "versions": list(UBUNTU.values())})
    assert platforms == expected
    if role != "gpu_state":
        files = {path.stem for path in (ROLES / role / "vars").glob("*_*.yml")}
        ubuntu = UBUNTU if role in ON_UBUNTU and role != "cuda" else {}
        assert files == {f"Debian_{release}" for release in RELEASES} | {
            f"Ubuntu_{release}" for release in ubuntu
        }


@pytest.mark.parametrize("role", NAMES)
def test_every_release_sets_the_same_variables(role: str) -> None:
    """One that is missing is found on the first host of that release otherwise."""
    names = [set(variables(role, release)) for release in RELEASES]
    assert names[0] == names[1] == names[2]


@pytest.mark.parametrize("release", RELEASES)
def test_the_drivers_tables_are_the_catalogs_rows(release: str) -> None:
    tables = variables("nvidia_driver", release)["__nvidia_driver_packages_by_version"]
    values = rows("drivers", release)
    assert list(tables) == [row["version"] for row in values]
    for row in values:
        sets = tables[row["version"]]
        assert list(sets) == ["userspace", "kernel", "desktop"]
        for name in sets:
            assert set(sets[name]) >= set(row[name])
        assert sets["userspace"]["nvidia-smi"].startswith(row["version"] + "-")
        # A package in two sets could have two versions.
        assert sum(map(len, sets.values())) == len(
            {n for packages in sets.values() for n in packages}
        )


@pytest.mark.parametrize("release", RELEASES)
def test_the_tables_are_what_a_lock_would_name(release: str) -> None:
    """`scripts/role_tables.py` writes them; these are the indices of the same day, cut."""
    made = role_tables.tables(
        recorded.packages(f"debian{release}"),
        [DriverRow.model_validate(row) for row in rows("drivers", release)],
        CudaRow.model_validate(rows("cuda", release)[0]),
    )
    for role, wanted in made.items():
        values = variables(role, release)
        assert {name: values[name] for name in wanted} == wanted


def test_a_table_is_replaced_and_nothing_else() -> None:
    path = ROLES / "nvidia_driver" / "vars" / "Debian_12.yml"
    text = path.read_text(encoding="utf-8")
    name = "__nvidia_driver_packages_by_version"
    assert role_tables.replaced(text, name, load(path)[name]) == text
    new = role_tables.replaced(text, name, {"1.0": {"userspace": {"a": "1.0-1"}}})
    assert yaml.safe_load(new) == {**load(path), name: {"1.0": {"userspace": {"a": "1.0-1"}}}}
    assert set(re.findall(r"^#.*", new, re.MULTILINE)) == set(
        re.findall(r"^#.*", text, re.MULTILINE)
    )
    with pytest.raises(SystemExit):
        role_tables.replaced(text, "__no_such_table", {})


@pytest.mark.parametrize("release", RELEASES)
def test_the_drivers_suites_are_the_catalogs(release: str) -> None:
    archives = rows("platforms", release)[0]["archives"]
    values = variables("nvidia_driver", release)
    assert values["__nvidia_driver_suites"] == [archive["suite"] for archive in archives]
    # What the platform's archives have beyond what every release's driver is in.
    more = [
        component
        for component in archives[0]["components"]
        if component not in ("contrib", "non-free")
    ]
    assert values["__nvidia_driver_kernel_components"] == more
    assert values["__nvidia_driver_headers"] == rows("platforms", release)[0]["headers"]


@pytest.mark.parametrize("release", RELEASES)
def test_cudas_tables_are_the_catalogs_rows(release: str) -> None:
    values = variables("cuda", release)
    (row,) = rows("cuda", release)
    assert values["__cuda_table_version"] == row["version"]
    assert values["__cuda_suites"][0] == RELEASES[release]
    assert values["__cuda_sonames"] == row["sonames"]
    files = {file["path"] for file in row["files"].values()}
    assert {file["path"] for file in values["__cuda_tools_files"]} == files
    table = values["__cuda_package_table"]
    assert set(table["runtime"]) >= {*row["runtime"], *row["sonames"].values()}
    assert set(table["toolkit"]) >= {*table["runtime"], *row["toolkit"]}
    # All of one build of one source package: a table that was half updated would not install.
    ends = {version.rsplit("-", 1)[1] for version in table["toolkit"].values()}
    assert len(ends) == 1
    assert all(f"{row['version']}-" in version for version in table["toolkit"].values())


@pytest.mark.parametrize("release", RELEASES)
def test_the_toolkit_alone_takes_the_releases_own_driver_libraries(release: str) -> None:
    """Those stay in the archive; a security suite drops its own when the next comes."""
    libraries = variables("cuda", release)["__cuda_driver_libraries"]
    own = rows("drivers", release)[0]
    assert own["suite"] == RELEASES[release]
    tables = variables("nvidia_driver", release)["__nvidia_driver_packages_by_version"]
    userspace = tables[own["version"]]["userspace"]
    assert libraries == {name: userspace[name] for name in libraries}
    assert {name for name in libraries if name == "libnvidia-pkcs11-openssl3"} == (
        set() if release == "11" else {"libnvidia-pkcs11-openssl3"}
    )


@pytest.mark.parametrize("release", RELEASES)
def test_tensorflows_pythons_are_the_releases(release: str) -> None:
    values = variables("tensorflow", release)["__tensorflow_pythons"]
    assert list(values) == rows("platforms", release)[0]["pythons"]
    for python, row in values.items():
        assert row["executable"] == f"/usr/bin/python{python}"
        assert row["packages"][:2] == [f"python{python}", f"python{python}-venv"]


@pytest.mark.parametrize("release", RELEASES)
def test_xla_is_told_where_the_releases_libdevice_is(release: str) -> None:
    (row,) = rows("cuda", release)
    values = variables("gpu_env", release)
    assert values["__gpu_env_platform_xla_cuda_data_dir"] == row["xla_cuda_data_dir"]


@pytest.mark.parametrize(
    ("release", "scope", "asked", "expected"),
    [
        ("11", "full", ["contrib", "non-free"], ["contrib", "non-free"]),
        ("12", "userspace", ["contrib", "non-free"], ["contrib", "non-free"]),
        ("12", "full", ["contrib", "non-free"], ["contrib", "non-free", "non-free-firmware"]),
        ("13", "full", ["main"], ["main", "non-free-firmware"]),
        ("13", "full", ["non-free-firmware", "main"], ["non-free-firmware", "main"]),
    ],
)
def test_the_kernels_part_brings_its_archive_component(
    release: str, scope: str, asked: list[str], expected: list[str]
) -> None:
    expression = load(ROLES / "nvidia_driver" / "vars" / "main.yml")["__nvidia_driver_components"]
    values = templated(
        expression,
        nvidia_driver_apt_components=asked,
        __nvidia_driver_scope=scope,
        **variables("nvidia_driver", release),
    )
    assert list(values) == expected


@pytest.mark.parametrize(
    ("kernel", "flavour"),
    [
        ("5.10.0-46-amd64", "amd64"),
        ("5.10.0-46-cloud-amd64", "cloud-amd64"),
        ("6.1.0-0.deb11.21-rt-amd64", "rt-amd64"),
        ("6.1.0-44-cloud-amd64", "cloud-amd64"),
        ("6.12.107+deb13-amd64", "amd64"),
        ("6.12.107+deb13-cloud-amd64", "cloud-amd64"),
    ],
)
def test_the_headers_follow_the_kernels_flavour(kernel: str, flavour: str) -> None:
    assert module_kernels.flavour_headers(kernel) == "linux-headers-" + flavour


CUDNN = [row for row in load(CATALOG / "cudnn.yml")["cudnn"] if row["architecture"] == "x86_64"]


@pytest.mark.parametrize("row", CUDNN, ids=lambda row: f"{row['version']}-cuda{row['cuda']}")
def test_the_default_address_is_that_of_the_wished_cudnn(row: dict[str, Any]) -> None:
    default = load(ROLES / "cudnn" / "defaults" / "main.yml")["cudnn_urls"]
    assert fetch.addresses(default, row["version"], row["cuda"]) == row["urls"]
    mine = ["https://mirror.example.org/cudnn.tgz"]
    assert fetch.addresses(mine, row["version"], row["cuda"]) == mine
    assert fetch.addresses([], row["version"], row["cuda"]) == []


@pytest.mark.parametrize(
    ("version", "library"), [("8.1.0.77", "lib64"), ("8.2.4.15", "lib64"), ("8.10.0.1", "lib")]
)
def test_the_libraries_directory_is_known_before_the_archive_is(version: str, library: str) -> None:
    assert layout.expected_library_directory(version) == library
