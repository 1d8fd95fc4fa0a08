"""Which code is broken on purpose, and which tests must notice.

What judges a host is here in full: the checks, their diagnoses, the preflight rules with the look
they rest on. Tests stand in the order in which they are tried.
"""

from __future__ import annotations

from farm import ROOT, Target
from gpu_stack.components import COMPONENTS, NAMES

GPU_STACK = "plugins/module_utils/gpu_stack"
OF_CHECKS = tuple(
    path.relative_to(ROOT).as_posix()
    for path in sorted((ROOT / "tests/unit/verify").glob("test_checks*.py"))
)
STATES = "tests/mutants/test_mutants_states.py"
CURES = "tests/mutants/test_mutants_cures.py"

# In the order in which they are read; __init__ holds imports alone.
CHECKS = (
    *("check", "beside", "answers", "places", "packages"),
    *("host", *NAMES, "receipt"),
)

# The preflight rules and the look that they rest on, by file below gpu_stack.
RULES = (
    *("preflight.py", "rules.py", "host_rules.py", "room.py", "host/processes.py"),
    *("apt_rules.py", "bundle_rules.py", "cache_rules.py"),
    *(f"components/{each.name}/{part}.py" for each in COMPONENTS for part in each.rules),
)
# Rules whose look and judgement are in one file, and the test of both.
LOOKS_AND_RULES = {
    "host/surroundings.py": "test_stack_surroundings.py",
    "apt_rules.py": "test_stack_apt_rules.py",
    "bundle_rules.py": "test_stack_bundle.py",
    "cache_rules.py": "test_stack_cache.py",
    "host/bundle.py": "test_stack_bundle.py",
    "host/code_users.py": "test_stack_code_users.py",
    "host/cache.py": "test_stack_cache.py",
    "components/tensorflow/venv_use.py": "test_stack_venvs.py",
}
# Tests of files with rules, besides those of all rules.
OWN_TESTS = {
    "components/nvidia_driver/kernel_rules.py": (
        "tests/unit/driver/test_built_modules.py",
        "tests/unit/driver/test_running_driver.py",
        "tests/unit/gpu_stack/test_stack_bundle.py",
    ),
    "components/nvidia_driver/method_rules.py": ("tests/unit/driver/test_built_modules.py",),
    "components/slurm/rules.py": ("tests/unit/slurm/test_slurm_share.py",),
    "host/gpu_models.py": ("tests/unit/gpu_stack/test_stack_gpu_models.py",),
}
# Of a bundle's manifest, in bytes and seconds: round numbers that no real one comes near.
LIMITS = ("LIMIT", "SILENCE", "LONGEST")
# What judges GPUs for an acceptance, by file below gpu_stack/acceptance.
ACCEPTANCE = (
    *("checks/presence.py", "checks/links.py", "checks/memory.py", "checks/condition.py"),
    *("checks/recovery.py", "checks/kernel.py", "checks/surroundings.py"),
    *("topology.py", "xids.py"),
)
OF_GPUS = ("words", "judge", "xids", "topology", "schema")
# What judges what TensorFlow did.
WORK = ("checks/computing.py", "checks/copying.py", "checks/training.py", "checks/kept.py")
# What the host itself says and does for its cards: a judge of both parts.
FEEDING = "checks/feeding.py"

# What judges figures on the controller, below gpu_stack/acceptance/teaching: file -> its tests.
TEACHING = {
    "bounds": ("teaching",),
    "counters": ("teaching",),
    "history": ("history", "teaching"),
    "judgement": ("teaching",),
    "power_limits": ("teaching",),
    "rates": ("teaching",),
    "retrial": ("retrial",),
    "subjects": ("subjects", "teaching"),
}


def _module(path: str) -> str:
    """The name by which a file below gpu_stack is imported."""
    return "gpu_stack." + path.removesuffix(".py").replace("/", ".")


def _rules(path: str, without_numbers: tuple[str, ...] = ()) -> Target:
    """`without_numbers`: a bound between two generations is a round number that no card has."""
    return Target(
        f"{GPU_STACK}/{path}",
        _module(path),
        (
            "tests/unit/driver/test_preflight.py",
            "tests/unit/driver/test_preflight_look.py",
            "tests/unit/driver/test_preflight_machine.py",
            "tests/unit/driver/test_preflight_rules.py",
            "tests/unit/driver/test_preflight_software.py",
            "tests/unit/gpu_stack/test_stack_releases.py",
            "tests/unit/gpu_stack/test_stack_room.py",
            "tests/unit/gpu_stack/test_stack_container_toolkit.py",
            STATES,
            *OWN_TESTS.get(path, ()),
            # These wait for processes that they start.
            "tests/unit/gpu_stack/test_stack_people.py",
            "tests/unit/gpu_stack/test_stack_running.py",
        ),
        without_numbers=without_numbers,
    )


def _acceptance(path: str, *tests: str) -> Target:
    """`tests`: the files test_NAME.py that see its faults."""
    return Target(
        f"{GPU_STACK}/acceptance/{path}",
        _module(f"acceptance/{path}"),
        tuple(f"tests/unit/acceptance/test_{name}.py" for name in tests),
    )


TARGETS = (
    *(
        Target(
            f"provision/verify/checks/{name}.py",
            f"provision.verify.checks.{name}",
            (*OF_CHECKS, STATES, CURES),
        )
        for name in CHECKS
    ),
    Target(
        "provision/verify/diagnose.py",
        "provision.verify.diagnose",
        ("tests/unit/verify/test_diagnose.py", "tests/unit/verify/test_checks.py", STATES),
    ),
    *(_rules(path) for path in RULES if path not in LOOKS_AND_RULES),
    _rules("host/gpu_models.py", without_numbers=("GENERATIONS",)),
    *(
        Target(
            f"{GPU_STACK}/{path}",
            _module(path),
            (f"tests/unit/gpu_stack/{test}", STATES),
            without_numbers=LIMITS if path == "host/bundle.py" else (),
        )
        for path, test in LOOKS_AND_RULES.items()
    ),
    *(_acceptance(path, *OF_GPUS) for path in ACCEPTANCE),
    # A verdict has what TensorFlow did as well.
    _acceptance("judge.py", *OF_GPUS, "work_words", "work", "recorded", "runner", "judge_numbers"),
    *(
        _acceptance(path, "work_words", "training", "computing", "work", "training_work")
        for path in WORK
    ),
    _acceptance(FEEDING, "words", "work_words", "judge", "computing"),
    *(_acceptance(f"teaching/{name}.py", *tests) for name, tests in TEACHING.items()),
)
