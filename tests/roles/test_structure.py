"""Every Ansible role keeps the house's rules: names, probes, declared options, modules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.registry import COMPONENTS
from provision.roles import SERVING, all_options

ROLES = Path(__file__).parents[2] / "roles"
# gpu_state is no role to be used alone: it is one task around a module. Nor is apt, which others
# include; but its tasks are as theirs.
NAMES = [*(component.name for component in COMPONENTS), *(role.name for role in SERVING)]
TASK_FILES = [
    path for name in [*NAMES, "apt"] for path in sorted((ROLES / name / "tasks").rglob("*.yml"))
]
KEYWORDS = {
    *("name", "when", "register", "vars", "loop", "loop_control", "until", "retries", "delay"),
    *("block", "rescue", "always", "changed_when", "failed_when", "check_mode", "environment"),
    *("no_log", "become", "become_user", "delegate_to", "run_once", "args", "diff", "tags"),
    *("ignore_errors", "throttle", "notify", "async", "poll", "timeout", "module_defaults"),
}
# Fewer made a flat crowd of files that are included once; a contents page names what a role does.
MOST_TASKS = 25
COMMANDS = {
    "ansible.builtin.command",
    "ansible.builtin.shell",
    "ansible.builtin.script",
    "ansible.builtin.raw",
}
MAGIC_FACTS = {
    "ansible_facts",
    "ansible_check_mode",
    "ansible_playbook_python",
    "ansible_connection",
    "ansible_failed_result",
}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def tasks(found: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every task of a file, blocks and what is in them."""
    for task in found:
        yield task
        for section in ("block", "rescue", "always"):
            yield from tasks(task.get(section, []))


def module(task: dict[str, Any]) -> str | None:
    """The one key of a task that is no keyword; None for a block."""
    keys = [key for key in task if key not in KEYWORDS]
    assert len(keys) == (0 if "block" in task else 1), f"{task.get('name')}: {keys}"
    return keys[0] if keys else None


def label(path: Path) -> str:
    return str(path.relative_to(ROLES))


def options(role: str) -> dict[str, Any]:
    specification = load(ROLES / role / "meta" / "argument_specs.yml")
    declared = specification["argument_specs"]["main"]["options"]
    assert isinstance(declared, dict)
    return declared


def sources(role: str) -> list[Path]:
    """The files in which a role uses variables."""
    folder = ROLES / role
    return [
        *(folder / "tasks").rglob("*.yml"),
        *(folder / "vars").glob("*.yml"),
        *(path for path in (folder / "templates").rglob("*") if path.is_file()),
    ]


def words(role: str) -> set[str]:
    """Every identifier in a role's files that may be a variable of its own."""
    found: set[str] = set()
    for path in sources(role):
        text = re.sub(r"^\s*#.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        text = re.sub(r"\bprovision\.gpu\.\w+", "", text)  # modules
        text = re.sub(r"\$\w+", "", text)  # nginx's own
        # A role's one list may be its name in the plural.
        found |= set(re.findall(rf"\b(?:__)?{role}(?:_\w+|s\b)", text))
    return found


@pytest.mark.parametrize("path", TASK_FILES, ids=label)
def test_a_file_holds_few_tasks_and_only_builtin_modules_or_our_own(path: Path) -> None:
    listed = list(tasks(load(path)))
    assert sum("block" not in task for task in listed) <= MOST_TASKS
    for task in listed:
        name = module(task)
        ours = ("ansible.builtin.", "provision.gpu.")
        assert name is None or name.startswith(ours), task["name"]


@pytest.mark.parametrize("path", TASK_FILES, ids=label)
def test_what_may_not_fail_is_not_asked_whether_it_failed(path: Path) -> None:
    """Ansible asks `until` after `failed_when`: with `false` there, nothing is tried again."""
    for task in tasks(load(path)):
        asked = re.search(r"\bis (?:not )?(?:success|failed)", str(task.get("until", "")))
        assert task.get("failed_when") is not False or asked is None, task["name"]


@pytest.mark.parametrize(
    "path", [path for path in TASK_FILES if path.name != "main.yml"], ids=label
)
def test_a_task_is_named_step_and_imperative_sentence(path: Path) -> None:
    step = r" \| ".join(path.with_suffix("").relative_to(ROLES).parts[2:])
    for task in tasks(load(path)):
        assert re.fullmatch(rf"{step} \| [A-Z][a-z]+\b.*(?<!\.)", task.get("name", "")), task.get(
            "name"
        )


@pytest.mark.parametrize(
    "path", [path for path in TASK_FILES if path.name == "main.yml"], ids=label
)
def test_main_is_a_contents_page(path: Path) -> None:
    for task in tasks(load(path)):
        assert module(task) in {
            "ansible.builtin.import_tasks",
            "ansible.builtin.include_tasks",
            "ansible.builtin.meta",
        }, task["name"]


@pytest.mark.parametrize("path", TASK_FILES, ids=label)
def test_a_file_of_tasks_is_named_from_the_top_and_there_is_but_one_of_that_name(
    path: Path,
) -> None:
    """Ansible looks for it in the includer's own folder too, and there before or after the top."""
    top = ROLES / path.relative_to(ROLES).parts[0] / "tasks"
    for task in tasks(load(path)):
        name = module(task)
        if name not in {"ansible.builtin.import_tasks", "ansible.builtin.include_tasks"}:
            continue
        target = task[name]
        if isinstance(target, str):
            # Ansible reads a word with an equals sign as an option of the include.
            assert "=" not in target, target
        else:
            target = target["file"]
        if "{{" in target:
            continue
        assert (top / target).is_file(), target
        assert path.parent == top or not (path.parent / target).exists(), target


@pytest.mark.parametrize("path", TASK_FILES, ids=label)
def test_a_command_says_whether_it_changes_something_and_a_probe_runs_in_check_mode(
    path: Path,
) -> None:
    """A probe without check_mode: false is skipped in check mode and registers rc 0."""
    for task in tasks(load(path)):
        name = module(task)
        if name not in COMMANDS:
            continue
        declared = (
            "changed_when" in task
            or "creates" in (task[name] or {})
            or "creates" in task.get("args", {})
        )
        assert declared, f"{task['name']}: no changed_when"
        if task.get("changed_when") is False:
            assert task.get("check_mode") is False, (
                f"{task['name']}: a probe without check_mode: false"
            )


@pytest.mark.parametrize("path", TASK_FILES, ids=label)
def test_no_failure_is_ignored_and_no_handler_is_told(path: Path) -> None:
    for task in tasks(load(path)):
        assert "ignore_errors" not in task, task["name"]
        assert "notify" not in task, task["name"]


@pytest.mark.parametrize("role", NAMES)
def test_facts_are_read_from_ansible_facts_alone(role: str) -> None:
    for path in sources(role):
        text = path.read_text(encoding="utf-8")
        magic = set(re.findall(r"\bansible_(?!role|builtin)[a-z_]+\b", text)) - MAGIC_FACTS
        assert not magic, f"{label(path)}: {magic}"


@pytest.mark.parametrize("role", NAMES)
def test_the_defaults_are_those_of_the_specification(role: str) -> None:
    """Ansible never applies the defaults of argument_specs: two lists drift apart."""
    defaults = load(ROLES / role / "defaults" / "main.yml")
    declared = {name: spec["default"] for name, spec in options(role).items()}
    # What a plan says instead, where there is one.
    planned = {name for name, option in all_options().items() if option.planned}
    assert declared.keys() == defaults.keys()
    for name in declared.keys() - planned:
        assert defaults[name] == declared[name]


@pytest.mark.parametrize("role", NAMES)
def test_an_option_is_described_and_its_default_has_its_type(role: str) -> None:
    types = {"str": str, "path": str, "int": int, "bool": bool, "list": list, "dict": dict}
    types["raw"] = object
    for name, spec in options(role).items():
        text = spec["description"]
        assert (text if isinstance(text, str) else text[0]).strip(), name
        assert isinstance(spec["default"], types[spec["type"]]), name
        assert spec["type"] != "list" or "elements" in spec, name


@pytest.mark.parametrize("role", NAMES)
def test_public_variables_are_declared_and_used(role: str) -> None:
    used = {name for name in words(role) if not name.startswith("__")}
    declared = set(options(role))
    assert declared - used == set(), "declared, but nothing reads them"
    # What looks like a variable of the role and is none: file names, members.
    assert used - declared == set(), "used, but not declared"


@pytest.mark.parametrize("role", NAMES)
def test_internal_variables_are_set_and_used_in_the_role(role: str) -> None:
    setting: set[str] = set()
    for path in (ROLES / role / "vars").glob("*.yml"):
        setting |= set(load(path) or {})
    for path in (ROLES / role / "tasks").rglob("*.yml"):
        for task in tasks(load(path)):
            setting |= set(task.get("vars", {})) | {task.get("register", "")}
            setting |= set(task.get("ansible.builtin.set_fact", {}))
            setting |= {task.get("loop_control", {}).get("loop_var", "")}
    for path in (ROLES / role / "templates").rglob("*"):
        if path.is_file():
            setting |= set(re.findall(r"{%-? set (\w+)", path.read_text(encoding="utf-8")))
    internal = {name for name in words(role) if name.startswith("__")}
    assert internal - setting == set(), "used, but set nowhere"
    text = "".join(path.read_text(encoding="utf-8") for path in sources(role))
    unread = {
        name
        for name in setting
        if name.startswith("__") and len(re.findall(rf"\b{name}\b", text)) < 2
    }
    assert unread == set(), "set, but read nowhere"


@pytest.mark.parametrize("role", NAMES)
def test_the_readme_tells_every_option(role: str) -> None:
    text = (ROLES / role / "README.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert rows == set(options(role))


@pytest.mark.parametrize("role", NAMES)
def test_a_role_stands_alone(role: str) -> None:
    folder = ROLES / role
    assert load(folder / "meta" / "main.yml")["dependencies"] == []
    assert not (folder / "handlers").exists()
    others = [name for name in NAMES if name != role]
    for path in sources(role):
        # A directory of NVIDIA's wheels, and no variable.
        text = path.read_text(encoding="utf-8").replace("nvidia/cuda_runtime", "")
        for other in others:
            assert not re.search(rf"\b(?:__)?{other}_[a-z]\w*", text), (
                f"{label(path)} reads {other}'s"
            )
        assert "gpu_lock" not in text
        assert "gpu_plan" not in text


@pytest.mark.parametrize("role", NAMES)
def test_a_template_lies_where_its_file_will(role: str) -> None:
    for path in (ROLES / role / "templates").rglob("*.j2"):
        assert path.relative_to(ROLES / role / "templates").parts[0] in {"etc", "usr", "lib", "var"}
