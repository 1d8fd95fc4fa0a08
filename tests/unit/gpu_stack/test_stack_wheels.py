"""A stack whose CUDA and cuDNN are wheels of TensorFlow's: nothing of them is planned or set."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import converged_host as made
import gpu_stack.plan
import pytest
import yaml
from gpu_stack import room
from gpu_stack.components import gpu_env
from gpu_stack.components.gpu_env.shell_startup import BEGIN, END
from gpu_stack.components.tensorflow import cuda_links
from jinja2.nativetypes import NativeEnvironment

ROLES = Path(__file__).parents[3] / "roles"
GIB = 1 << 30


def lock() -> dict[str, Any]:
    """The small lock, with CUDA and cuDNN in TensorFlow's venv."""
    changed: dict[str, Any] = copy.deepcopy(made.LOCK)
    stack = changed["stacks"]["debian11-small"]
    del stack["cuda"], stack["cudnn"]
    stack["gpu_env"] = {"xla_cuda_data_dir": "", "path": [], "library": []}
    stack["tensorflow"]["cuda_source"] = "wheels"
    return changed


def test_a_bare_host_is_planned_without_them() -> None:
    result = gpu_stack.plan.plan(lock(), made.WISH, {}, made.bare(lock()))
    assert result["components"] == ["gpu_env", "tensorflow", "receipt"]
    assert result["blockers"] == []


def test_what_a_former_stack_left_is_not_touched(tmp_path: Path) -> None:
    """CUDA's packages and cuDNN's directory may serve others; damage to them is nobody's here."""
    host = made.make(tmp_path)
    host.remove("/usr/bin/ptxas")
    host.link("/opt/nvidia/cudnn/current", "elsewhere")
    items = {(component, item) for component, item, _old in host.items(lock=lock())}
    assert items == {
        ("gpu_env", "/etc/environment"),
        ("gpu_env", gpu_env.MANAGER),
        ("gpu_env", gpu_env.PROFILE),
        ("gpu_env", gpu_env.UNITS),
    }


def test_a_host_that_is_as_wished_has_no_xla_flags(tmp_path: Path) -> None:
    host = made.make(tmp_path)
    row = lock()["stacks"]["debian11-small"]["gpu_env"]
    for path, text in gpu_env.files({}, row).items():
        if text is not None:
            assert "XLA" not in text
            host.write(path, text)
    for environment in ("LANG=C\n", f"LANG=C\n{BEGIN}\n{END}\n"):
        host.write("/etc/environment", environment)
        assert host.items(lock=lock()) == []


def test_the_users_own_directory_and_variables_are_still_set() -> None:
    row = lock()["stacks"]["debian11-small"]["gpu_env"]
    options = {"gpu_env_xla_cuda_data_dir": "/opt/cuda", "gpu_env_variables": {"A": "1"}}
    assert gpu_env.block(options, row) == 'A="1"\nXLA_FLAGS="--xla_gpu_cuda_data_dir=/opt/cuda"\n'


def test_the_receipt_tells_versions_of_what_is_there(tmp_path: Path) -> None:
    """The state has all components, so that a receipt can be compared with an older one."""
    state = made.make(tmp_path).plan(lock=lock())["state"]
    assert list(state) == [component.NAME for component in gpu_stack.plan.COMPONENTS]


@pytest.mark.parametrize(("source", "free", "fits"), [
    ("wheels", 9 * GIB, False),
    ("wheels", 10 * GIB, True),
    (None, 3 * GIB, True),
])  # fmt: skip
def test_the_disk_must_hold_the_wheels(source: str | None, free: int, fits: bool) -> None:
    row = {"tensorflow": {"cuda_source": source} if source else {}}
    seen = {
        "preflight": {"disk": {"/opt/tensorflow": {"free": free, "device": 1}}},
        "state": {"tensorflow": {"version": None}},
    }
    changes = [{"component": "tensorflow"}]
    assert (room.disk_full(seen, changes, {}, row) == []) is fits


def role_variables(**given: Any) -> dict[str, str]:
    """What the role gpu_env exports, by the expressions of its vars."""
    texts = yaml.safe_load((ROLES / "gpu_env/vars/main.yml").read_text(encoding="utf-8"))
    environment = NativeEnvironment()
    environment.filters["combine"] = lambda first, other: {**first, **other}
    values = {
        "gpu_env_xla_cuda_data_dir": "",
        "gpu_env_stack_xla_cuda_data_dir": "auto",
        "gpu_env_variables": {},
        "__gpu_env_platform_xla_cuda_data_dir": "/usr/lib/cuda",
        **given,
    }
    values["__gpu_env_xla"] = environment.from_string(texts["__gpu_env_xla"]).render(values)
    found: dict[str, str] = environment.from_string(texts["__gpu_env_variables"]).render(values)
    return found


@pytest.mark.parametrize(("stack", "own", "directory"), [
    ("auto", "", "/usr/lib/cuda"),
    ("/usr/local/cuda-11.2", "", "/usr/local/cuda-11.2"),
    ("", "", None),
    ("", "/opt/cuda", "/opt/cuda"),
])  # fmt: skip
def test_the_role_sets_what_the_look_wants(stack: str, own: str, directory: str | None) -> None:
    exported = role_variables(
        gpu_env_stack_xla_cuda_data_dir=stack,
        gpu_env_xla_cuda_data_dir=own,
        gpu_env_variables={"A": "1"},
    )
    # Where the role stands alone there is no lock; the platform's own directory is meant.
    row = {"xla_cuda_data_dir": "/usr/lib/cuda" if stack == "auto" else stack}
    options = {"gpu_env_xla_cuda_data_dir": own, "gpu_env_variables": {"A": "1"}}
    assert exported == dict(gpu_env.variables(options, row))
    assert exported.get("XLA_FLAGS") == (
        None if directory is None else f"--xla_gpu_cuda_data_dir={directory}"
    )


CUSOLVER = made.SITE + "/nvidia/cusolver/lib/libcusolver.so.11"
RUNTIME = made.SITE + "/nvidia/cuda_runtime/lib/libcudart.so.12"
LINK = made.SITE + "/nvidia/cuda_runtime/lib/libcusolver.so.11"


def test_the_libraries_lie_where_tensorflow_looks(tmp_path: Path) -> None:
    """The plan names what does not, and the module puts it right."""
    host = made.make(tmp_path)
    wanted = lock()
    part = wanted["stacks"]["debian11-small"]["tensorflow"]
    part["sonames"] = {
        "libcudart.so.12": "nvidia-cuda-runtime-cu12",
        "libcusolver.so.11": "nvidia-cusolver-cu12",
        "libgone.so.1": "nvidia-gone",
    }
    wanted["stacks"]["debian11-small"].pop("gpu_env")
    host.write(CUSOLVER, made.ELF)
    host.write(RUNTIME, made.ELF)
    expected = [("tensorflow", "nvidia/cuda_runtime/lib/libcusolver.so.11", "missing")]
    assert host.items(lock=wanted) == expected
    for elsewhere in ("../../cusolver/lib/elsewhere.so.11", "/usr/bin/ptxas"):
        host.link(LINK, elsewhere)
        assert host.items(lock=wanted) == expected
    assert cuda_links.bring(str(host.path(made.SITE))) == [
        "nvidia/cuda_runtime/lib/libcusolver.so.11"
    ]
    assert host.items(lock=wanted) == []
    assert cuda_links.bring(str(host.path(made.SITE))) == []
    assert host.path(LINK).readlink() == Path("../../cusolver/lib/libcusolver.so.11")
