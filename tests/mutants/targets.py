"""Which code is broken on purpose, and which tests must notice.

What judges a host is here in full: the checks, their diagnoses, the preflight rules with the look
they rest on. Tests stand in the order in which they are tried.
"""

from __future__ import annotations

from farm import Target

GPU_STACK = "plugins/module_utils/gpu_stack"
WHEELS = "tests/unit/verify/test_checks_wheels.py"
EDGES = "tests/unit/verify/test_checks_edges.py"
TOOLKIT = "tests/unit/verify/test_checks_toolkit.py"
WORKSPACES = "tests/unit/verify/test_checks_workspaces.py"
FRONT_DOOR = "tests/unit/verify/test_checks_front_door.py"
OF_PEOPLE = "tests/unit/verify/test_checks_of_people.py"
STATES = "tests/mutants/test_mutants_states.py"
CURES = "tests/mutants/test_mutants_cures.py"

# In the order in which they are read; __init__ holds imports alone.
CHECKS = (
    *("check", "beside", "answers", "places", "packages"),
    *("host", "nvidia_driver", "cuda", "cudnn", "gpu_env", "nvidia_container_toolkit"),
    *("tensorflow", "gpu_workspace", "gpu_front_door", "receipt"),
)

# The preflight rules and the look that they rest on, by file below gpu_stack.
RULES = (
    *("preflight.py", "rules.py", "host_rules.py", "room.py", "host/processes.py"),
    "components/nvidia_driver/rules.py",
    "components/nvidia_driver/kernel_rules.py",
    "components/nvidia_driver/method_rules.py",
    "components/cuda/rules.py",
    "components/cudnn/rules.py",
    "components/gpu_env/rules.py",
    "components/nvidia_container_toolkit/rules.py",
    "components/tensorflow/rules.py",
    "components/gpu_workspace/rules.py",
    "components/gpu_front_door/rules.py",
)


def _rules(path: str, without_numbers: tuple[str, ...] = ()) -> Target:
    """`without_numbers`: a bound between two generations is a round number that no card has."""
    return Target(
        f"{GPU_STACK}/{path}",
        "gpu_stack." + path.removesuffix(".py").replace("/", "."),
        (
            "tests/unit/driver/test_preflight.py",
            "tests/unit/driver/test_preflight_edges.py",
            "tests/unit/gpu_stack/test_stack_releases.py",
            "tests/unit/gpu_stack/test_stack_room.py",
            "tests/unit/gpu_stack/test_stack_container_toolkit.py",
            STATES,
            # These wait for processes that they start.
            "tests/unit/gpu_stack/test_stack_people.py",
            "tests/unit/gpu_stack/test_stack_running.py",
        ),
        without_numbers=without_numbers,
    )


TARGETS = (
    *(
        Target(
            f"provision/verify/checks/{name}.py",
            f"provision.verify.checks.{name}",
            (
                "tests/unit/verify/test_checks.py",
                "tests/unit/verify/test_checks_wheels.py",
                EDGES,
                TOOLKIT,
                WORKSPACES,
                FRONT_DOOR,
                OF_PEOPLE,
                STATES,
                CURES,
            ),
        )
        for name in CHECKS
    ),
    Target(
        "provision/verify/diagnose.py",
        "provision.verify.diagnose",
        ("tests/unit/verify/test_diagnose.py", "tests/unit/verify/test_checks.py", STATES),
    ),
    *(_rules(path) for path in RULES),
    _rules("host/gpu_models.py", without_numbers=("GENERATIONS",)),
    # Rules whose look and judgement are in one file.
    Target(
        f"{GPU_STACK}/host/surroundings.py",
        "gpu_stack.host.surroundings",
        ("tests/unit/gpu_stack/test_stack_surroundings.py", STATES),
    ),
    Target(
        f"{GPU_STACK}/components/tensorflow/venv_use.py",
        "gpu_stack.components.tensorflow.venv_use",
        ("tests/unit/gpu_stack/test_stack_venvs.py", STATES),
    ),
)
