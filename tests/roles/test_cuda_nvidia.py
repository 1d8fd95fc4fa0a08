"""What the role cuda works out where its packages are NVIDIA's: its variables' expressions."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_stack import tables
from gpu_stack.components.cuda import nvidia_cuda
from gpu_stack.host import repository_trial

from tests.roles.test_platforms import templated

ROLE = Path(__file__).parents[2] / "roles" / "cuda"
URL = "https://developer.download.nvidia.com/compute/cuda/repos"
LOCKED = {f"{name}-11-2": "1" for name in ("cuda-cudart", "libcublas", "libcusolver", "cuda-nvcc")}


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROLE / name).read_text("utf-8"))
    return found


def names(**given: Any) -> dict[str, Any]:
    """All variables of the role on a host with NVIDIA's packages."""
    facts = {
        "distribution": "Ubuntu",
        "distribution_version": "20.04",
        "distribution_major_version": "20",
    }
    return {
        **load("defaults/main.yml"),
        **load("vars/main.yml"),
        **load("vars/nvidia.yml"),
        "cuda_source": "network",
        "ansible_facts": facts,
        **given,
    }


def value(name: str, **given: Any) -> Any:
    every = names(**given)
    return templated(every.pop(name), **every)


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        (
            "11.2",
            {"libcudart.so.11.0", "libcublas.so.11", "libcublasLt.so.11", "libcusolver.so.11"},
        ),
        (
            "11.0",
            {"libcudart.so.11.0", "libcublas.so.11", "libcublasLt.so.11", "libcusolver.so.10"},
        ),
        ("12.4", {"libcudart.so.12", "libcublas.so.12", "libcublasLt.so.12", "libcusolver.so.11"}),
        ("10.1", set()),
    ],
)
def test_a_release_has_its_own_names_of_libraries(release: str, expected: set[str]) -> None:
    dashed = release.replace(".", "-")
    locked = {name.replace("11-2", dashed): "1" for name in LOCKED}
    found = value("__cuda_sonames", cuda_release=release, __cuda_locked=locked)
    assert set(found) == expected
    assert set(found.values()) <= set(locked)


def test_files_that_a_package_must_hold_are_looked_for_where_the_package_is_wished() -> None:
    found = value("__cuda_files", __cuda_locked=LOCKED)
    assert found["/usr/local/cuda-11.2/lib64/libcudart.so.11.0"] == "cuda-cudart-11-2"
    assert found["/usr/local/cuda-11.2/bin/ptxas"] == "cuda-nvcc-11-2"
    assert value("__cuda_files", __cuda_locked={}) == {}


@pytest.mark.parametrize("release", [*tables.NEWEST_GCC, "13.9"])
def test_the_newest_gcc_is_the_looks(release: str) -> None:
    found = value("__cuda_newest_gcc", cuda_release=release)
    assert int(found) == nvidia_cuda.newest_gcc(release)


@pytest.mark.parametrize(
    ("source", "given", "expected"),
    [
        ("network", {}, f"{URL}/ubuntu2004/x86_64"),
        ("network", {"cuda_repository": {"url": "https://a/b/"}}, "https://a/b"),
        (
            "network",
            {"cuda_repository": {"url": "https://a"}, "cuda_repository_url": "https://m//"},
            "https://m",
        ),
        ("local", {}, "file:///var/cuda-repo-ubuntu2004-11-2-local"),
        ("local", {"cuda_installer": {"directory": "/var/x"}}, "file:///var/x"),
    ],
)
def test_where_apt_takes_the_packages_from(
    source: str, given: dict[str, Any], expected: str
) -> None:
    assert value("__cuda_repository_from", cuda_source=source, **given) == expected


@pytest.mark.parametrize(
    ("source", "platform", "expected"),
    [
        ("network", ("Ubuntu", "22.04", "22"), "EB693B3035CD5710E231E123A4B469963BF863CC"),
        ("network", ("Debian", "13.1", "13"), "02182E60104FCDC26EAE1B8597A5D4CB8793F200"),
        ("local", ("Ubuntu", "20.04", "20"), "AE09FE4BBD223A84B2CCFCE3F60F4B3D7FA2AF80"),
    ],
)
def test_without_a_lock_the_key_has_to_be_nvidias(
    source: str, platform: tuple[str, str, str], expected: str
) -> None:
    keys = ("distribution", "distribution_version", "distribution_major_version")
    facts = dict(zip(keys, platform, strict=True))
    assert value("__cuda_fingerprints", cuda_source=source, ansible_facts=facts) == [expected]


SOURCE = (
    f"# Written by x\nTypes: deb\nURIs: {URL}\nSuites: /\nSigned-By: /keys/provision-cuda.asc\n"
)
OWN = "apt/sources.list.d/provision-nvidia-driver-repository.sources"


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A host whose driver takes its packages by CUDA's source."""
    for name, text in {
        "apt/sources.list.d/provision-cuda.sources": SOURCE,
        "apt/preferences.d/provision-nvidia-driver": "# Written by provision\n# Source: network\n",
        "apt/apt.conf.d/90provision-cuda": '// x\nAcquire::https::a::CaInfo "/ca";\n',
        "keys/provision-cuda.asc": "key\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def hand_over(root: Path, to: str) -> str:
    (task,) = (
        task
        for task in yaml.safe_load((ROLE / "tasks/nvidia/sources.yml").read_text("utf-8"))
        if "ansible.builtin.shell" in task
    )
    script = task["ansible.builtin.shell"].replace("/usr/share/keyrings", f"{root}/keys")
    done = subprocess.run(
        ["sh", "-c", script.replace("/etc/apt", f"{root}/apt")],
        env={"CUDA_FROM": to, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_a_driver_that_shared_the_source_is_left_one(shared: Path) -> None:
    """Once; with its key, and the certificate that the address needs."""
    assert hand_over(shared, "file:///var/cuda-repo") == "left"
    text = (shared / OWN).read_text()
    assert f"URIs: {URL}\n" in text
    assert f"Signed-By: {shared}/keys/provision-nvidia-driver.asc\n" in text
    assert (shared / "keys/provision-nvidia-driver.asc").read_text() == "key\n"
    conf = (shared / "apt/apt.conf.d/90provision-nvidia-driver").read_text()
    assert conf == 'Acquire::https::a::CaInfo "/ca";\n'
    assert not (shared / "apt/sources.list.d/provision-cuda.sources").exists()
    assert hand_over(shared, "file:///var/cuda-repo") == ""


@pytest.mark.parametrize("why", ["same address", "driver of the platform", "its own is there"])
def test_otherwise_the_source_stays(shared: Path, why: str) -> None:
    if why == "driver of the platform":
        (shared / "apt/preferences.d/provision-nvidia-driver").write_text(
            "# Written by provision\n"
        )
    if why == "its own is there":
        (shared / OWN).write_text("mine\n")
    assert hand_over(shared, URL if why == "same address" else "file:///var/x") == ""
    assert (shared / "apt/sources.list.d/provision-cuda.sources").read_text() == SOURCE
    assert not (shared / "keys/provision-nvidia-driver.asc").exists()


def test_every_key_of_nvidias_has_a_file_of_its_own() -> None:
    rows = yaml.safe_load(
        (ROLE.parents[1] / "provision" / "catalog" / "sources.yml").read_text("utf-8")
    )
    known = {row["fingerprint"] for row in rows["nvidia_keys"]}
    assert set(load("vars/nvidia.yml")["__cuda_nvidia_keys"]) <= known


@pytest.mark.parametrize(
    "name",
    [
        *("cuda", "cuda-11-2", "cuda-drivers", "cuda-drivers-470", "cuda-runtime-11-2"),
        *("nvidia-driver-470", "libnvidia-compute-470", "libcuda1", "cuda-demo-suite-11-2"),
    ],
)
def test_what_brings_a_driver_is_refused_by_name(name: str) -> None:
    expression = load("tasks/nvidia/preflight.yml")[0]["vars"]["__cuda_bringing"]  # type: ignore[index]
    every = names(__cuda_locked={name: "1", "cuda-toolkit-11-2": "1", "libcublas-11-2": "1"})
    assert templated(expression, **every) == [name]


@pytest.mark.parametrize(
    ("name", "brings"),
    [
        ("nvidia-driver-470", True),
        ("nvidia-dkms-470", True),
        ("cuda-drivers", True),
        ("cuda-drivers-470", True),
        ("cuda-11-2", True),
        ("libcuda1", True),
        ("libnvidia-compute-470", True),
        ("libcublas-11-2", False),
        ("cuda-nvcc-11-2", False),
        ("nvidia-container-toolkit", False),
    ],
)
def test_what_brings_a_driver_is_known_by_its_name(name: str, brings: bool) -> None:
    pattern = templated("{{ __cuda_drivers }}", **names())
    assert (re.fullmatch(pattern, name) is not None) is brings


SHA1 = """\
W: OpenPGP signature verification failed: https://x/InRelease: Sub-process /usr/bin/sqv returned \
an error code (1), error message is: Signing key on EB693B3035CD5710E231E123A4B469963BF863CC \
is not bound:
            No binding signature at time 2026-01-29T20:38:48Z
  because: Policy rejected non-revocation signature (PositiveCertification) requiring second
  because: SHA1 is not considered secure since 2026-02-01T00:00:00Z
E: The repository 'https://x  InRelease' is not signed.
"""
NO_KEY = """\
W: GPG error: https://x  InRelease: The following signatures couldn't be verified: NO_PUBKEY A4B4
E: The repository 'https://x  InRelease' is not signed.
"""
AWAY = "E: Failed to fetch https://x/InRelease  Could not connect to x:443\n"
OLD_KEY = """\
W: GPG error: https://x  InRelease: The following signatures were invalid: EXPKEYSIG A4B4 cudatools
E: The repository 'https://x  InRelease' is not signed.
"""
OLD_INDEX = """\
E: Release file for https://x/InRelease is expired (invalid since 1780d 3h 2min 9s). Updates for \
this repository will not be applied.
"""
OTHER_INDEX = """\
E: Failed to fetch https://x/Packages.gz  File has unexpected size (17 != 12). Mirror sync in \
progress? [IP: 10.88.0.1 443]
E: Some index files failed to download. They have been ignored, or old ones used instead.
"""


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [
        (SHA1, "apt-sequoia.config"),
        (NO_KEY, "EB693B3035"),
        (OLD_KEY, "The key that signs it has expired."),
        (OLD_INDEX, "timedatectl"),
        (OTHER_INDEX, "cuda_repository_url"),
        (AWAY, "cuda_ca_bundle"),
    ],
)
def test_a_repository_that_apt_refuses_has_its_own_way_out(stderr: str, expected: str) -> None:
    assert expected in value("__cuda_reach_hint", __cuda_reached={"stderr": stderr})
    for rc in (0, 100):
        answer = repository_trial.judge(rc, stderr)
        assert answer["usable"] is False
        assert any("x" in word for word in answer["reasons"])
    assert ("because" in str(answer["reasons"])) is (stderr is SHA1)
    assert "because" not in str(answer["errors"])
    assert "Some index files" not in str(answer["reasons"])


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [
        (NO_KEY, "It has to be signed by EB693B3035"),
        (OLD_KEY, "The key that signs it has expired."),
        (OLD_INDEX, "timedatectl"),
        (OTHER_INDEX, "nvidia_driver_repository_url"),
        (AWAY, "nvidia_driver_ca_bundle"),
    ],
)
def test_the_drivers_role_says_the_same_of_its_repository(stderr: str, expected: str) -> None:
    text = (ROLE.parent / "nvidia_driver" / "vars" / "main.yml").read_text("utf-8")
    every = yaml.safe_load(text) | {
        "nvidia_driver_repository": {"fingerprints": ["EB693B3035CD5710E231E123A4B469963BF863CC"]},
        "__nvidia_driver_reached": {"stderr": stderr},
    }
    assert expected in templated(every["__nvidia_driver_reach_hint"], **every)
    assert repository_trial.judge(0, stderr)["usable"] is False


POLICY = """\
g++-10:
  Installed: (none)
  Candidate: 10.2.1-6
  Version table:
     10.2.1-6 500
g++-9:
  Installed: (none)
  Candidate: (none)
  Version table:
"""


@pytest.mark.parametrize(
    ("asked", "release", "expected"),
    [("auto", "11.2", "10"), ("auto", "11.0", ""), ("10", "11.8", "10"), ("9", "11.2", "")],
)
def test_the_newest_gcc_that_apt_has_is_taken(asked: str, release: str, expected: str) -> None:
    found = value(
        "__cuda_gcc_chosen",
        cuda_host_compiler=asked,
        cuda_release=release,
        __cuda_gcc_policy={"stdout": POLICY},
    )
    assert str(found or "") == expected


@pytest.mark.parametrize(
    ("asked", "default", "named", "expected"),
    [
        ("auto", "10", 0, False),
        ("auto", "11", 0, True),
        ("auto", "", 0, True),
        ("auto", "11", 10, False),
        ("auto", "11", 11, True),
        ("9", "10", 0, True),
        ("9", "10", 9, False),
    ],
)
def test_another_host_compiler_is_given_where_nvcc_needs_one(
    asked: str, default: str, named: int, expected: bool
) -> None:
    found = value(
        "__cuda_other_compiler",
        cuda_host_compiler=asked,
        __cuda_in_use={"gcc": default, "host_compiler": named},
    )
    assert str(found) == str(expected)


def test_the_tools_name_the_table_of_the_role() -> None:
    table = load("vars/nvidia.yml")["__cuda_package_table"]
    assert set(table["runtime"]) < set(table["toolkit"])
    assert all(name.endswith("-11-2") for name in table["toolkit"])
