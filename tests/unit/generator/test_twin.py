"""`lock --from-host`: a host that works, read once, and locked as it is or not at all."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from provision.catalog import load
from provision.errors import HostError, InputError, UnsatisfiableError
from provision.lock import Lock, from_host, update
from provision.lock.keep import Upgrade
from provision.lock.pin import Twin
from provision.models import Platform
from tests.unit.generator import test_kept
from tests.unit.generator.test_kept import DEBIAN12, NEW, OLD, Upstream, drivers, fleet

upstream = test_kept.upstream  # the fixture
TEXT = """\
os debian 11
machine x86_64
deb installed nvidia-smi 470.256.02-2
deb config-files libcuda1 535.1-1
wheel /opt/tensorflow/current/lib/python3.9/site-packages/tensorflow-2.9.3.dist-info
wheel /opt/tensorflow/current/lib/python3.9/site-packages/nvidia_cublas_cu12-12.5.3.2.dist-info
cudnn 8
cudnn 1
cudnn 0
end
"""


def test_what_a_host_says_is_read() -> None:
    assert from_host.parse("gpu01", TEXT) == Twin(
        "gpu01",
        Platform("debian", "11", "x86_64"),
        {"nvidia-smi": "470.256.02-2"},
        {"nvidia-cublas-cu12": "12.5.3.2", "tensorflow": "2.9.3"},
        "3.9",
        "8.1.0",
    )


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("tensorflow-", "torch-"),
        "os debian 11\nend\n",
        TEXT + "wheel /opt/tensorflow/current/lib/python3.11/site-packages/a-1.dist-info\n",
    ],
)
def test_a_host_without_one_environment_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no environment with TensorFlow") as caught:
        from_host.parse("gpu01", text)
    assert caught.value.where == "gpu01"
    assert "tensorflow_root" in caught.value.hint


def inventory(folder: Path, variables: str) -> str:
    file = folder / "lab.yml"
    file.write_text(f"all: {{hosts: {{gpu01: {{{variables}}}}}}}\n")
    return str(file)


def test_a_host_is_read_with_ansible(tmp_path: Path) -> None:
    """This machine, over Ansible's local connection, with the directories the host says."""
    site = tmp_path / "tf root" / "current" / "lib" / "python3.9" / "site-packages"
    (site / "tensorflow-2.9.3.dist-info").mkdir(parents=True)
    header = tmp_path / "cudnn" / "current" / "include" / "cudnn_version.h"
    header.parent.mkdir(parents=True)
    header.write_text(
        "#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n"
        "#define CUDNN_VERSION (CUDNN_MAJOR * 1000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL)\n"
    )
    where = inventory(
        tmp_path,
        f"ansible_connection: local, tensorflow_root: '{tmp_path / 'tf root'}', "
        f"cudnn_root: '{tmp_path / 'cudnn'}'",
    )
    twin = from_host.read("gpu01", [where], cwd=tmp_path)
    assert twin.wheels == {"tensorflow": "2.9.3"}
    assert (twin.python, twin.cudnn) == ("3.9", "8.1.0")
    assert twin.platform.distribution
    assert twin.packages.get("dpkg")


def test_a_host_that_does_not_answer_is_said(tmp_path: Path) -> None:
    where = inventory(tmp_path, "ansible_host: 127.0.0.1, ansible_port: 9")
    with pytest.raises(HostError, match="could not be looked at") as caught:
        from_host.read("gpu01", [where], cwd=tmp_path)
    assert caught.value.where == "gpu01"
    assert "refused" in caught.value.got
    assert caught.value.exit_code == 4


# locking it


def of(made: Lock, platform: str = "debian11", **more: Any) -> Twin:
    """A host that is just what a lock says for a platform."""
    (name,) = [n for n in made.stacks if n.startswith(platform)]
    part = made.stacks[name]
    packages = {n: p["version"] for n, p in made.details["packages"][name].items()}
    release = platform.removeprefix("debian")
    twin = Twin(
        "gpu01",
        Platform("debian", release, "x86_64"),
        packages,
        dict(part["tensorflow"]["wheels"]),
        part["tensorflow"]["python"],
        part["cudnn"]["version"].rpartition(".")[0],
    )
    return dataclasses.replace(twin, **more)


def lock(host: Twin, wish: Any = None, **more: Any) -> Lock:
    made = update.make(
        more.pop("facts", load()), {}, fleet(gpu01=wish or {"tensorflow": "2.9"}), None, Upgrade(),
        twin=host, **more,
    ).lock  # fmt: skip
    assert made is not None
    return made


def test_a_twin_is_locked_as_it_is(upstream: Upstream) -> None:
    """Not the newest: what the host has."""
    first = test_kept.lock()
    host = of(first)
    upstream.add("nvidia-persistenced", "470.103.01-2~deb11u2")
    upstream.wheels["numpy"].append("1.26.5")
    made = lock(host)
    assert made.stacks == first.stacks
    assert test_kept.lock().stacks != first.stacks
    (asked,) = [a for a in upstream.asked if "numpy==1.26.4" in a["constraints"]]
    assert asked["wanted"] == ("tensorflow==2.9.3",)


def test_the_driver_and_tensorflow_are_the_hosts(upstream: Upstream) -> None:
    first = test_kept.lock(fleet=fleet(gpu01=DEBIAN12), facts=drivers(OLD))
    made = lock(of(first, "debian12"), DEBIAN12)
    assert test_kept.driver(made) == OLD
    assert test_kept.driver(test_kept.lock(fleet=fleet(gpu01=DEBIAN12))) == NEW
    # And the next lock keeps it.
    again = test_kept.lock(made, fleet=fleet(gpu01=DEBIAN12))
    assert test_kept.driver(again) == OLD


def test_an_older_patch_of_tensorflow_is_the_hosts(upstream: Upstream) -> None:
    first = test_kept.lock(facts=test_kept.patches("2.9.1"))
    made = lock(of(first))
    assert [s["tensorflow"]["version"] for s in made.stacks.values()] == ["2.9.1"]


def test_each_thing_that_cannot_be_had_is_named(upstream: Upstream) -> None:
    host = of(test_kept.lock())
    packages = {**host.packages, "libcufft10": "1-1", "nvidia-persistenced": "2-2"}
    with pytest.raises(UnsatisfiableError, match="host's versions are not available") as caught:
        lock(dataclasses.replace(host, packages=packages))
    assert caught.value.where == "gpu01"
    assert caught.value.got == "libcufft10 1-1; nvidia-persistenced 2-2"
    assert caught.value.exit_code == 3
    assert "snapshot.debian.org" in caught.value.hint


def test_a_driver_that_is_in_no_index_is_named(upstream: Upstream) -> None:
    host = of(test_kept.lock(fleet=fleet(gpu01=DEBIAN12)), "debian12")
    upstream.drop("debian12", version=NEW)
    with pytest.raises(UnsatisfiableError, match="host's versions are not available") as caught:
        lock(host, DEBIAN12)
    assert f"libcuda1 {NEW}" in caught.value.got
    assert f"libnvidia-cfg1 {NEW}" in caught.value.got  # by what asks for what


def test_a_wheel_that_is_in_no_index_is_named(upstream: Upstream) -> None:
    host = of(test_kept.lock())
    upstream.wheels["numpy"] = ["1.26.5"]
    with pytest.raises(UnsatisfiableError, match="host's versions are not available") as caught:
        lock(host)
    assert caught.value.got == "numpy 1.26.4"


@pytest.mark.parametrize(
    ("wish", "changed", "got", "expected"),
    [
        ({"tensorflow": "2.8"}, {}, "tensorflow 2.9.3 on the host", 'tensorflow: "2.8"'),
        ({"tensorflow": "2.9"}, {"python": "3.8"}, "", ""),
        ({"tensorflow": "2.9", "python": "3.9"}, {"python": "3.8"}, "python 3.8", "3.9"),
        ({"tensorflow": "2.9", "cudnn": "8.1.0.77"}, {"cudnn": "8.2.0"}, "cudnn 8.2.0", "8.1.0.77"),
        (
            {"tensorflow": "2.9", "driver_branch": "470"},
            {"packages": {"nvidia-smi": "535.1-1"}},
            "driver_branch 535.1 on the host",
            'driver_branch: "470"',
        ),
    ],
)
def test_a_host_that_contradicts_its_wish_is_an_error(
    upstream: Upstream, wish: Any, changed: Any, got: str, expected: str
) -> None:
    host = dataclasses.replace(of(test_kept.lock()), **changed)
    error = InputError if got else UnsatisfiableError
    with pytest.raises(error) as caught:
        lock(host, wish)
    assert caught.value.where == "gpu01"
    assert got in caught.value.got
    assert expected in caught.value.expected


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"platform": Platform("debian", "10", "x86_64")}, "its platform can't have its gpu_stack"),
        ({"packages": {}}, "no driver of its platform's packages"),
        ({"packages": {"nvidia-smi": "390.1-1"}}, "has its nvidia_driver"),
        ({"cudnn": "7.6.5"}, "no archive of its cuDNN"),
        ({"packages": {"nvidia-smi": "470.256.02-2"}}, "is not what its gpu_stack says"),
        ({"wheels": {"tensorflow": "2.9.3"}}, "is not what its gpu_stack says"),
    ],
)
def test_a_host_that_no_twin_can_be_made_of_is_refused(
    upstream: Upstream, changed: Any, words: str
) -> None:
    host = dataclasses.replace(of(test_kept.lock()), **changed)
    with pytest.raises((InputError, UnsatisfiableError), match=words) as caught:
        lock(host)
    assert caught.value.where == "gpu01"
