"""A lock says what it assumed, and what of it will not work well."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from provision import cli
from provision.catalog import load
from provision.cli import projects
from provision.inventory import Fleet, parse_wish
from provision.lock import update
from provision.models import HostFacts
from provision.resolve import explain
from tests.unit.generator import test_kept
from tests.unit.generator.test_kept import Upstream

upstream = test_kept.upstream  # the fixture
DEBIAN11, DEBIAN12 = HostFacts("debian11"), HostFacts("debian12")
TORCH = {"tensorflow": "2.9", "packages": ["torch"]}


def fleet(*hosts: tuple[dict[str, Any], HostFacts | None]) -> Fleet:
    names = [f"gpu{number:02}" for number in range(1, len(hosts) + 1)]
    return Fleet(
        {n: parse_wish(wish, where="lab") for n, (wish, _) in zip(names, hosts, strict=True)},
        facts={n: facts for n, (_, facts) in zip(names, hosts, strict=True) if facts is not None},
    )


def made(*hosts: tuple[dict[str, Any], HostFacts | None]) -> update.Result:
    return test_kept.make(fleet=fleet(*hosts))


Texts = Callable[..., None]


@pytest.fixture
def wheels(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> Texts:
    """Gives uv's answer these wheels besides."""
    answer = upstream.requirements

    def give(**versions: str) -> None:
        more = "".join(
            f"{name.replace('_', '-')}=={version} \\\n    --hash=sha256:{'0' * 64}\n"
            for name, version in versions.items()
        )
        monkeypatch.setattr(
            "provision.upstream.wheels.requirements", lambda *a, **k: answer(*a, **k) + more
        )

    return give


# what hosts are


def test_hosts_of_unknown_systems_are_named_with_what_was_assumed(upstream: Upstream) -> None:
    """A lab on Ubuntu 20.04 learned it from a refusal in the first run."""
    wish = {"tensorflow": "2.9"}
    (note,) = (note for note in made((wish, None), (wish, DEBIAN11), (wish, None)).notes)
    assert note.startswith(
        "the system of gpu01, gpu03 is not known; this lock is for them if it is Debian 11"
    )
    assert "`provision discover`" in note
    assert "gpu_platform" in note


def test_several_platforms_are_all_named(upstream: Upstream) -> None:
    (note,) = made(({"tensorflow": "2.12"}, None)).notes
    rows = explain(load(), fleet(({"tensorflow": "2.12"}, None)), "gpu01")
    for row in rows:
        assert row.choice.platform.title in note


def test_hosts_whose_system_is_known_are_not_talked_of(upstream: Upstream) -> None:
    assert made(({"tensorflow": "2.9"}, DEBIAN11)).notes == ()


# what explain warns of


H100 = HostFacts("debian12", gpus=("H100",), models=("H100",))


@pytest.mark.parametrize(("release", "cuda"), [("2.14", "11.8"), ("2.12", "11.8")])
def test_a_lock_warns_of_what_explain_warns_of(upstream: Upstream, release: str, cuda: str) -> None:
    """An H100 with 2.14 translates PTX for many minutes, which `explain` alone said."""
    wish = {"tensorflow": release}
    warnings = made((wish, H100)).warnings
    explained = explain(load(), fleet((wish, H100)), "gpu01")
    texts = [text for stack in explained for text in stack.warnings]
    assert list(warnings) == [f"Debian 12 (bookworm): {text}" for text in texts]
    (text,) = (warning for warning in warnings if "only PTX" in warning)
    # CUDA 11.8 compiles for Hopper, as the catalog's own row says.
    assert "were not made for it" not in text
    assert "H100" in text


# wheels that the driver never runs


def test_wheels_for_a_newer_cuda_than_the_driver_are_warned_of(
    upstream: Upstream, wheels: Texts
) -> None:
    """torch on Debian 11 was locked with CUDA 12.8 for driver 470, and found no GPU."""
    wheels(torch="2.8.0", nvidia_cublas_cu12="12.8.4.1", nvidia_cuda_runtime_cu12="12.8.90")
    (text,) = made((TORCH, DEBIAN11)).warnings
    assert "nvidia-cublas-cu12, nvidia-cuda-runtime-cu12 (by packages: [torch])" in text
    assert "CUDA 12, which needs driver 525.60.13 or newer, and the driver is 470.256.02" in text
    assert "driver_branch" in text


@pytest.mark.parametrize(
    ("versions", "named"),
    [
        ({"xgboost": "3.0", "nvidia_nccl_cu12": "2.27.3"}, "nvidia-nccl-cu12"),
        ({"cupy_cuda12x": "13.4.0"}, "cupy-cuda12x"),
        ({"jax_cuda12_plugin": "0.6.0"}, "jax-cuda12-plugin"),
        ({"nvidia_cuda_runtime": "13.0.48"}, "nvidia-cuda-runtime"),
    ],
)
def test_the_cuda_of_a_wheel_is_known_by_its_name_or_version(
    upstream: Upstream, wheels: Texts, versions: dict[str, str], named: str
) -> None:
    wheels(**versions)
    (text,) = made((TORCH, DEBIAN11)).warnings
    assert named in text


@pytest.mark.parametrize(
    "versions",
    [{"nvidia_cuda_runtime_cu11": "11.7.99"}, {"cupy_cuda11x": "13.4.0"}, {"accuracy_cu": "12"}],
)
def test_wheels_that_the_driver_runs_are_not_warned_of(
    upstream: Upstream, wheels: Texts, versions: dict[str, str]
) -> None:
    wheels(**versions)
    assert made((TORCH, DEBIAN11)).warnings == ()


def test_a_newer_driver_runs_them(upstream: Upstream, wheels: Texts) -> None:
    wheels(nvidia_cuda_runtime_cu12="12.8.90")
    warnings = made(({"tensorflow": "2.12", "packages": ["torch"]}, DEBIAN12)).warnings
    assert not [warning for warning in warnings if "finds no GPU" in warning]


# the command


def run(monkeypatch: pytest.MonkeyPatch, project: Path, *arguments: str) -> Result:
    hosts = fleet(({"tensorflow": "2.14"}, H100), ({"tensorflow": "2.9"}, None))
    monkeypatch.setattr(projects, "read_fleet", lambda *_a, **_k: hosts)
    return CliRunner().invoke(cli.app, ["lock", "--project", str(project), *arguments])


def test_the_command_says_it(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = run(monkeypatch, tmp_path)
    assert done.exit_code == 0, done.output
    assert "note: the system of gpu02 is not known" in done.output
    assert "warning: Debian 12 (bookworm): H100" in done.output
    # A lock that is unchanged says it again.
    assert "only PTX" in run(monkeypatch, tmp_path).output
    answer = json.loads(run(monkeypatch, tmp_path, "--json").stdout)
    assert any("only PTX" in warning for warning in answer["warnings"])
    assert any("gpu02" in note for note in answer["notes"])
