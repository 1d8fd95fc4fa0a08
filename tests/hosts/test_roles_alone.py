"""Each role in a three-line playbook of someone else's, on a host that has nothing."""

from __future__ import annotations

import json

import pytest
from conftest import Project

from tests.collection import one_role

# In an order in which none can lean on an earlier one: the driver and CUDA come last.
# Those that install longest are of `make test-all`; in `make test` test_spine.py shows them.
SLOW = ("tensorflow", "cuda", "nvidia_driver")
PROOF = {
    "gpu_env": ("cat /etc/profile.d/provision-gpu.sh", "XLA_FLAGS"),
    "cudnn": ("/sbin/ldconfig -p", "libcudnn.so.8"),
    "tensorflow": (
        "CUDA_VISIBLE_DEVICES=-1 /opt/tensorflow/current/bin/python -c"
        " 'import tensorflow; print(tensorflow.__version__)' 2>/dev/null",
        "2.9.3",
    ),
    "cuda": ("nvcc --version", "release 11.2"),
    "nvidia_driver": ("nvidia-smi --query-gpu=driver_version --format=csv,noheader", "470.256.02"),
}


def write_book(project: Project, role: str) -> None:
    (project.path / "alone.yml").write_text(one_role(role), "utf-8")


@pytest.mark.parametrize(
    "role",
    [pytest.param(role, marks=pytest.mark.slow if role in SLOW else ()) for role in PROOF],
)
def test_role_works_alone(bare: Project, role: str) -> None:
    """Installs, proves, and changes nothing when run again."""
    # The project's inventory names its own cuDNN archive; a role alone is told which version it is.
    wish = (bare.path / "lab/group_vars/gpu_hosts.yml").read_text("utf-8")
    sha = wish.split('sha256: "')[1][:64]
    arguments = ["-e", f"cudnn_version=8.5.0.96 cudnn_sha256={sha}"] if role == "cudnn" else []
    write_book(bare, role)
    first = bare.playbook(*arguments, book="alone.yml")
    assert first.returncode == 0, first.stdout[-6000:] + first.stderr
    command, expected = PROOF[role]
    assert expected in bare.ssh("bare1", command)
    second = bare.playbook(*arguments, book="alone.yml")
    assert second.returncode == 0, second.stdout[-6000:] + second.stderr
    assert "changed=0" in second.stdout, second.stdout[-6000:]


@pytest.mark.slow
def test_holds_are_released_when_holding_is_switched_off(bare: Project) -> None:
    """Both roles that hold packages let go of them again, and the second run has nothing to do."""
    for role in ("nvidia_driver", "cuda"):
        write_book(bare, role)
        off = ["-e", '{"nvidia_driver_hold": false, "cuda_hold": false}']
        for _ in range(2):
            done = bare.playbook(*off, book="alone.yml")
            assert done.returncode == 0, done.stdout[-6000:] + done.stderr
        assert "changed=0" in done.stdout, done.stdout[-6000:]
    assert bare.ssh("bare1", "apt-mark showhold") == ""


@pytest.mark.slow
def test_both_roles_can_name_one_mirror(bare: Project) -> None:
    """apt refuses all work where two entries of one archive name different keys.

    Nothing is missing on the host, so the archive need not be there.
    """
    mirror = "http://mirror.invalid/debian"
    options = {"cuda_mirror": mirror, "cuda_hold": False}
    options |= {"nvidia_driver_mirror": mirror, "nvidia_driver_hold": False}
    for expected in ("changed=1", "changed=0"):
        for role in ("cuda", "nvidia_driver"):
            write_book(bare, role)
            done = bare.playbook("-e", json.dumps(options), book="alone.yml")
            assert done.returncode == 0, done.stdout[-6000:] + done.stderr
            assert expected in done.stdout, done.stdout[-6000:]
    bare.ssh("bare1", "apt-get indextargets >/dev/null")
    named = bare.ssh("bare1", "grep -l mirror.invalid /etc/apt/sources.list.d/*").split()
    keys = bare.ssh("bare1", f"grep -h ^Signed-By: {' '.join(named)}").splitlines()
    assert len(named) == len(keys) == 2
    assert len(set(keys)) == 1
