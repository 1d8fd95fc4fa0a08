"""A red check advises a run where the plan has an item for it, and never where it has none.

docs/checks.md is written here from the same data: PROVISION_UPDATE_GOLDEN=1 pytest tests/mutants.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import check_states
import pytest
from check_states import State

from provision.verify import cures
from provision.verify.checks import CHECKS, Seen
from provision.verify.cures import CURES

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "hosts"))
import damage  # noqa: E402

PAGE = ROOT / "docs" / "checks.md"
AGAIN = re.compile(r"run the playbook|run again", re.IGNORECASE)

# What the plan names and one run cures, of the kind that turns the check red: rows of the damage
# catalogue, which are tried on hosts, or tests of the plan.
STACK = "tests/unit/gpu_stack/"
SHOWN: dict[str, tuple[str, ...]] = {
    "nvidia_driver.answers": ("driver-program-not-executable", "driver-program-truncated"),
    "nvidia_driver.version": ("driver-other-version",),
    "nvidia_driver.module": ("tests/unit/driver/test_nvidia_driver.py", "running driver"),
    "nvidia_driver.library": ("driver-library-deleted", "driver-library-empty"),
    "nvidia_driver.packages": ("driver-package-removed", "driver-other-version"),
    "nvidia_driver.gpus": ("driver-library-deleted",),
    "cuda.packages": ("cuda-package-removed", "cuda-half-configured", "cuda-downgraded"),
    "cuda.nvcc_login": ("cuda-nvcc-not-executable", "cuda-nvcc-closed", "env-profile-edited"),
    "cuda.nvcc_ssh": ("cuda-nvcc-not-executable", "cuda-nvcc-closed"),
    "cuda.nvcc_cron": ("cuda-nvcc-not-executable", "cuda-nvcc-closed"),
    "cuda.nvcc_systemd": ("cuda-nvcc-not-executable", "cuda-nvcc-closed"),
    "cuda.libraries": ("cuda-library-deleted", "cuda-link-moved", "env-cache-closed"),
    "cuda.files": ("cuda-ptxas-deleted", "cuda-ptxas-not-executable", "cuda-libdevice-link"),
    "cudnn.library": ("cudnn-link-moved", "env-cache-closed"),
    "cudnn.version": ("cudnn-link-moved",),
    "cudnn.headers": ("cudnn-library-same-size",),
    "gpu_env.variables": ("env-profile-edited", "env-units-closed", "env-profiles-closed"),
    "tensorflow.imports": ("tensorflow-numpy-2", "tensorflow-current-moved"),
    "tensorflow.version": ("tensorflow-current-moved",),
    "tensorflow.wheels": ("tensorflow-numpy-2", "tensorflow-dist-info-removed"),
    "tensorflow.cuda_wheels": (f"{STACK}test_stack_wheels.py", "missing"),
    "tensorflow.built_with_cuda": ("tensorflow-current-moved",),
    "tensorflow.gpus": ("cuda-library-deleted", "cudnn-link-moved"),
    "tensorflow.computes": ("cuda-library-deleted", "cuda-ptxas-not-executable"),
    "tensorflow.trains": ("tensorflow-numpy-2",),
    "receipt.lock": ("receipt-truncated", "receipt-closed"),
    "nvidia_container_toolkit.packages": (f"{STACK}test_stack_container_toolkit.py", "hold"),
    "nvidia_container_toolkit.docker": (f"{STACK}test_stack_container_toolkit.py", "docker"),
    "nvidia_container_toolkit.cdi": (f"{STACK}test_stack_cdi.py", "hostPath"),
    **dict.fromkeys(
        [cure for cure in CURES if cure.startswith("gpu_workspace.")],
        (f"{STACK}test_stack_workspaces.py", "workspace"),
    ),
    **dict.fromkeys(
        [cure for cure in CURES if cure.startswith("gpu_front_door.")],
        (f"{STACK}test_stack_front_door.py", "door"),
    ),
    **dict.fromkeys(
        [cure for cure in CURES if cure.startswith("slurm.")],
        (f"{STACK}test_stack_slurm.py", "slurm"),
    ),
    **dict.fromkeys(
        [cure for cure in CURES if cure.startswith("gpu_serving.")],
        (f"{STACK}test_stack_serving.py", "model mnist"),
    ),
}


def test_every_check_has_a_cure_and_no_cure_is_of_none() -> None:
    assert set(CURES) == {check.id for check in CHECKS}


@pytest.mark.parametrize("check", CURES)
def test_what_cures_a_check_where_the_plan_is_empty_is_no_run(check: str) -> None:
    """A run with --deep looks at more than the plan that was empty, and is named as such."""
    assert CURES[check].otherwise
    assert not AGAIN.search(CURES[check].otherwise)


@pytest.mark.parametrize("check", [name for name in CURES if CURES[name].components])
def test_what_the_plan_cures_was_shown(check: str) -> None:
    shown = SHOWN[check]
    if shown[0].startswith("tests/"):
        assert shown[1] in (ROOT / shown[0]).read_text("utf-8")
        return
    rows = {row.id: row for row in damage.ROWS}
    for name in shown:
        assert rows[name].tried
        assert not rows[name].undo
        assert {component for component, _ in rows[name].items} <= set(CURES[check].components)


def hint(state: State, planned: tuple[tuple[str, str], ...] | None) -> str:
    seen: Seen = replace(state.seen(), planned=planned)
    return check_states.verdicts(seen)[state.check].hint


STATES = check_states.states()


@pytest.mark.parametrize("check", CURES)
def test_each_state_that_turns_it_red_says_what_cures_it(check: str) -> None:
    """`chmod a-x nvcc`: verify said to run again, the plan was empty, and a run changed nothing."""
    states = [state for state in STATES if state.check == check]
    assert states
    for state in states:
        alone = hint(state, ())
        assert alone, state.fact
        assert not AGAIN.search(alone), (state.fact, alone)
        assert cures.RUN not in alone + hint(state, None), state.fact
        stranger = hint(state, (("nobody", "thing"),))
        assert stranger == alone or "all" in CURES[check].components, state.fact
        for component in CURES[check].components:
            planned = hint(state, ((component, "/the/thing"),))
            assert "run the playbook: it repairs /the/thing" in planned, state.fact


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def page() -> str:
    """docs/checks.md."""
    lines = [
        "# Checks: what `verify` tests, and how to fix a failed one",
        "",
        "Each check tests what programs really do. If one fails, `provision verify` says how to",
        "fix it, based on the plan for the same host. If the plan has an item of a component in",
        "the third column, a run repairs it, and the message names the item. If it has none, a run",
        "would change nothing, so `verify` does not suggest one: the last column says what to do",
        "instead.",
        "",
        "A test generates this page from the data beside the checks (`provision/verify/checks`):",
        "`PROVISION_UPDATE_GOLDEN=1 pytest tests/mutants`.",
        "",
        "| check | what must be true | fixed by a run that changes | otherwise |",
        "|---|---|---|---|",
    ]
    for check in CHECKS:
        cure = CURES[check.id]
        names = [f"`{name}`" for name in cure.components if name != "all"]
        planned = ", ".join(names) or "nothing: a run can't start"
        if "all" in cure.components:
            planned = "any component"
        lines.append(f"| `{check.id}` | {cell(check.title)} | {planned} | {cell(cure.otherwise)} |")
    return "\n".join(lines) + "\n" + NIGHTLY


NIGHTLY = """
## For a nightly job

`plan`, `doctor` and `verify` take the same look at a host, make the same plan, and change nothing.
`doctor` and `verify` also report what `plan` reports. Neither does the other's work, so run both:

| command | asks | exit code 0 means |
|---|---|---|
| `provision plan` | does the host differ from its lock? | no difference |
| `provision doctor` | does it differ, has it known problems? | no difference, no known problem |
| `provision verify` | does it differ, do all checks pass? | no difference, all checks passed |

All three exit with 5 if a host differs (`verify` with 6 if a check fails as well). If `plan` and
`doctor` exit with 0 and `verify` with 6, the cause is something that a run does not manage; the
message says what. They exit with 4 if a host could not be reached or its look failed. With several
hosts the worst code counts: 4 before 6 before 5.

    provision verify -i lab --json > verify.json || mail -s "GPU hosts: $?" admins < verify.json

Add `--deep` now and then. It reads every file, so it takes longer ([damage.md](damage.md)).
"""


def test_the_page_is_the_data() -> None:
    if os.environ.get("PROVISION_UPDATE_GOLDEN") == "1":
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
