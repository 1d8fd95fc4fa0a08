"""The look's text of the environment files is, byte for byte, what the role's templates write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
from gpu_stack.components import gpu_env
from gpu_stack.components.gpu_env.shell_startup import BEGIN, END

TEMPLATES = Path(__file__).parents[3] / "roles" / "gpu_env" / "templates"


def rendered(name: str, options: dict[str, Any], row: dict[str, Any]) -> str:
    """A template as ansible.builtin.template renders it: blocks trimmed, last newline kept."""
    environment = jinja2.Environment(  # noqa: S701  no HTML
        loader=jinja2.FileSystemLoader(TEMPLATES), trim_blocks=True, keep_trailing_newline=True
    )
    return environment.get_template(name).render(
        __gpu_env_variables=dict(gpu_env.variables(options, row)),
        __gpu_env_assignments=gpu_env.assignments(options, row),
        __gpu_env_path=gpu_env.paths(options, row),
        __gpu_env_library=gpu_env.libraries(options, row),
        __gpu_env_ld_library=gpu_env.ld_library(options, row),
    )


CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"xla_cuda_data_dir": "/usr/lib/cuda", "path": [], "library": []}),
    (
        {
            "gpu_env_path": ["/opt/bin", "/usr/local/cuda-11.2/bin"],
            "gpu_env_library": ["/opt/lib"],
            "gpu_env_variables": {"TF_CPP_MIN_LOG_LEVEL": "1", "a_percent": "50%", "Zed": "x y"},
            "gpu_env_xla_cuda_data_dir": "/opt/cuda",
        },
        {
            "xla_cuda_data_dir": "/usr/lib/cuda",
            "path": ["/usr/local/cuda-11.2/bin"],
            "library": ["/usr/local/cuda-11.2/lib64"],
        },
    ),
]


CASES += [
    ({**options, "gpu_env_ld_library_path": True}, row)
    for options, row in [
        *CASES,
        ({}, {"path": ["/usr/local/cuda-11.2/bin"], "library": [], "xla_cuda_data_dir": "/x"}),
    ]
]


@pytest.mark.parametrize(("options", "row"), CASES)
def test_files_are_the_templates(options: dict[str, Any], row: dict[str, Any]) -> None:
    for path, text in gpu_env.files(options, row).items():
        if text is not None:
            assert text == rendered(path.lstrip("/") + ".j2", options, row), path
    assert gpu_env.block(options, row) == rendered("etc/environment.j2", options, row)


def test_no_directories_mean_no_loader_file() -> None:
    options, row = CASES[0]
    assert gpu_env.files(options, row)[gpu_env.LOADER] is None
    assert rendered("etc/ld.so.conf.d/01-provision-cuda.conf.j2", options, row) == ""


def test_the_block_is_found_between_its_markers() -> None:
    text = f"A=1\n{BEGIN}\nB=2\n{END}\nC=3\n"
    assert gpu_env.between_markers(text) == "B=2\n"
    assert gpu_env.between_markers("A=1\n") is None
    assert gpu_env.between_markers(None) is None


def test_a_manager_that_has_not_read_its_settings_is_seen() -> None:
    options, row = CASES[0]
    found = {
        "files": gpu_env.files(options, row),
        "block": gpu_env.block(options, row),
        "bashrc": {},
        "manager": "LANG=C",
    }
    assert [change["item"] for change in gpu_env.differ({"gpu_env": row}, found, options)] == [
        "systemd manager"
    ]
    found["manager"] = "LANG=C XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/lib/cuda"
    assert gpu_env.differ({"gpu_env": row}, found, options) == []


def test_a_managers_setting_is_compared_as_a_whole() -> None:
    """MODE=12 is not MODE=1; systemctl quotes a setting with blanks, and leaves a percent sign."""
    words = "two words, 100% plain"
    options, row = {"gpu_env_variables": {"MODE": "1", "MOTTO": words}}, CASES[0][1]
    found = {
        "files": gpu_env.files(options, row),
        "block": gpu_env.block(options, row),
        "bashrc": {},
        "manager": f'MODE=12 "MOTTO={words}" XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/lib/cuda',
    }
    assert [change["to"] for change in gpu_env.differ({"gpu_env": row}, found, options)] == ["MODE"]
    found["manager"] = found["manager"].replace("MODE=12", "MODE=1")
    assert gpu_env.differ({"gpu_env": row}, found, options) == []
    manager = found["files"][gpu_env.MANAGER]
    assert f'DefaultEnvironment="MOTTO={words}"\n' in manager


@pytest.mark.parametrize(
    ("options", "row", "expected"),
    [
        ({}, {"library": ["/l"], "path": ["/a/bin"]}, []),
        ({"gpu_env_ld_library_path": True}, {"library": ["/l"], "path": ["/a/bin"]}, ["/l"]),
        ({"gpu_env_ld_library_path": True}, {"path": ["/a/bin", "/b"]}, ["/a/lib64"]),
        ({"gpu_env_ld_library_path": True}, {}, []),
        (
            {"gpu_env_ld_library_path": True, "gpu_env_variables": {"LD_LIBRARY_PATH": "/mine"}},
            {"library": ["/l"]},
            [],
        ),
    ],
)
def test_the_loaders_variable_is_set_where_it_is_asked_for(
    options: dict[str, Any], row: dict[str, Any], expected: list[str]
) -> None:
    assert gpu_env.ld_library(options, row) == expected
    named = dict(gpu_env.assignments(options, row)).get("LD_LIBRARY_PATH")
    mine = (options.get("gpu_env_variables") or {}).get("LD_LIBRARY_PATH")
    assert named == (":".join(expected) or mine)
    text = gpu_env.files(options, row)[gpu_env.PROFILE] or ""
    assert ("${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" in text) is bool(expected)
