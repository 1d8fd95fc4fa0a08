"""What is rendered says what the Python roles and the lock say, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import example as case
from hypothesis import given
from hypothesis import strategies as st

from provision import collection
from provision.inventory import Sources, Words, parse
from provision.render import ansible_cfg, example, playbooks, render, spec, stacks
from provision.roles import PREFIXES, ROLES, SITE, all_options, cuda, nvidia_driver
from provision.yaml_text import dump
from tests.collection import ROOT, tasks_of
from tests.unit.generator import recorded

SCALARS = st.none() | st.booleans() | st.integers() | st.text()
DATA = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(DATA)
@case({"\n\x85": "a\n\x85"})
def test_dumped_yaml_reads_back_as_it_was(data: Any) -> None:
    assert yaml.safe_load(dump(data)) == data


WORDS_LIKE = st.sampled_from(
    [
        "yes", "no", "on", "y", "n", "null", "~", "2.10", "1e3", "0x1", "11:30", "- a",
        "2026-11-21", "2026-13-21",
    ]
)  # fmt: skip


@given(st.dictionaries(WORDS_LIKE, WORDS_LIKE | st.lists(WORDS_LIKE), max_size=5))
def test_words_that_yaml_would_take_for_something_else_stay_text(data: Any) -> None:
    assert yaml.safe_load(dump(data)) == data


@given(st.lists(st.text(alphabet="ab {}|'\"#:%\\", min_size=50, max_size=200), max_size=3))
def test_long_expressions_survive_their_folding(data: list[str]) -> None:
    assert yaml.safe_load(dump(data)) == data


def test_a_header_is_only_comments() -> None:
    assert dump({"a": 1}, header="one\n\ntwo") == b"# one\n#\n# two\n---\na: 1\n"


@pytest.mark.parametrize("name", ["site", "doctor"])
def test_a_projects_playbook_imports_the_collections(name: str) -> None:
    text = playbooks.render()[f"{name}.yml"].decode()
    (play,) = yaml.safe_load(text)
    assert play["ansible.builtin.import_playbook"] == f"provision.gpu.{name}"
    assert len(text.splitlines()) <= 15


def test_rendering_is_a_function_of_the_lock() -> None:
    files = collection.read()
    assert render(recorded.lock(), files) == render(recorded.lock(), files)


CACHE, STACK, VERIFY, ACCEPT = yaml.safe_load((ROOT / "playbooks" / "site.yml").read_text("utf-8"))


def tasks() -> list[dict[str, Any]]:
    return tasks_of(STACK)


def names() -> list[str]:
    return [task["name"] for task in tasks()]


def test_the_order_of_a_run() -> None:
    phases = [name.split(" | ")[0] for name in names()]
    order = [p for n, p in enumerate(phases) if n == 0 or phases[n - 1] != p]
    # A batch and its canary are judged before a host is; the batch's proof comes last.
    assert order[:2] == ["End", "Preflight"]
    assert order[2:] == ["End", "Look", "End", "Preflight", "Apply", "Proof", "Receipt", "Verify"]


def test_tags_choose_in_the_plan_and_nowhere_else() -> None:
    """With --tags cuda every step of the playbook runs, and the plan has cuda's changes alone."""
    for task in tasks():
        assert task["tags"] == (["verify"] if task is tasks()[-1] else ["always"]), task["name"]
        apply = task.get("ansible.builtin.include_role", {}).get("apply", task)
        assert apply["tags"] == task["tags"]


def test_the_cache_comes_before_whoever_fetches_from_it() -> None:
    assert CACHE["ansible.builtin.import_playbook"] == "cache.yml"
    (play,) = yaml.safe_load((ROOT / "playbooks/cache.yml").read_text("utf-8"))
    # Also with --tags cuda: its packages come through the cache.
    assert play["tags"] == ["always"]
    # The report leaves a play of this name out where there is no such group.
    assert play["name"] == "Artifact cache"


def test_every_host_is_given_the_same_steps() -> None:
    """Of lists that differ Ansible would take the order of whichever host answers first."""
    (loop,) = [task for task in tasks() if "loop" in task]
    assert loop["loop"] == "{{ query('provision.gpu.run_steps') }}"
    step = yaml.safe_load((ROOT / "roles/gpu_state/tasks/step.yml").read_text("utf-8"))[0]
    assert step["when"][0] == "__gpu_state_step.name in gpu_plan.steps"


def test_of_the_first_play_the_proof_of_a_batch_alone_carries_the_tag_verify() -> None:
    (batch,) = [t for t in tasks() if "verify" in t["tags"]]
    assert batch is tasks()[-1] or batch == tasks()[-1]
    assert batch["when"][0] == "__gpu_rolling"
    assert VERIFY["tags"] == ["verify"]
    assert ACCEPT["ansible.builtin.import_playbook"] == "accept.yml"


def test_the_look_gets_every_option_it_looks_at() -> None:
    looked_at = {o.name for role in (*ROLES, SITE) for o in role.options if o.looked_at}
    defaults = json.loads(spec.looked_at((*ROLES, SITE)))
    assert set(defaults) == looked_at
    assert defaults["cuda_profile"] == "toolkit"


def test_no_option_that_the_look_gets_is_the_locks() -> None:
    options = [o for role in (*ROLES, SITE) for o in role.options]
    assert not [o for o in options if o.looked_at and o.identity]


def test_repairs_reach_their_role() -> None:
    for role in ROLES:
        defaults = yaml.safe_load(spec.render(role)[f"roles/{role.name}/defaults/main.yml"])
        for option in role.options:
            if option.repair:
                value = f"gpu_plan.repairs.{role.name}.{option.name} | default({option.default!r})"
                assert defaults[option.name] == f"{{{{ {value} }}}}"


def test_a_stack_file_sets_all_identity_and_nothing_else() -> None:
    made = recorded.lock()
    (stack,) = made.stacks
    variables = stacks.stack_variables(made, stack)
    identity = {o.name for role in ROLES for o in role.options if o.identity}
    # A lock of the platform's own archive names no other source: the roles' defaults say so.
    absent = {f"cuda_{name}" for name in ("source", "prefix", "repository", "installer")}
    absent |= {f"nvidia_driver_{name}" for name in ("source", "repository", "runfile")}
    # Nobody wished for containers.
    absent |= {name for name in identity if name.startswith("nvidia_container_toolkit_")}
    # Of no role: where a bundle or a cache has what the lock names.
    assert set(variables) == identity - absent | {"gpu_sources"}
    assert set(variables["cuda_checksums"]) == set(variables["cuda_packages"]["toolkit"])


def test_another_source_of_cuda_reaches_its_role() -> None:
    part = {"release": "11.2", "version": "11.2.2", "packages": {}}
    more = {"source": "local", "prefix": "/usr/local/cuda-11.2", "installer": {"url": "https://x"}}
    variables = cuda.variables("x", {"cuda": {**part, **more}})
    assert {name: variables[f"cuda_{name}"] for name in more} == more
    assert "cuda_repository" not in variables


def test_another_source_of_the_driver_reaches_its_role() -> None:
    """One repository for driver and CUDA is one source of apt's."""
    driver = {"branch": "470", "version": "470.256.02", "packages": {}}
    run = {"url": "https://x/x.run", "sha256": "0" * 64}
    variables = nvidia_driver.variables(
        "x", {"nvidia_driver": {**driver, "source": "runfile", "runfile": run}}
    )
    assert variables["nvidia_driver_source"] == "runfile"
    assert variables["nvidia_driver_runfile"] == run
    assert variables["nvidia_driver_packages"] == {"userspace": {}, "kernel": {}}
    part = {**driver, "source": "network", "repository": {"url": "https://x/y/", "suite": "/"}}
    for url, shared in (("https://x/y", True), ("https://x/z", None)):
        row = {"nvidia_driver": part, "cuda": {"repository": {"url": url, "suite": "/"}}}
        variables = nvidia_driver.variables("x", row)
        assert variables["nvidia_driver_repository"].get("shared") is shared
    variables = nvidia_driver.variables("x", {"nvidia_driver": part, "cuda": {}})
    assert "shared" not in variables["nvidia_driver_repository"]


def test_the_requirements_file_is_the_one_its_hash_names() -> None:
    import hashlib

    made = recorded.lock()
    (stack,) = made.stacks
    files = stacks.render(made)
    data = files[f"stacks/{stack}.requirements.txt"]
    variables = yaml.safe_load(files[f"stacks/{stack}.yml"])
    assert variables["tensorflow_requirements_sha256"] == hashlib.sha256(data).hexdigest()
    assert variables["tensorflow_requirements"].endswith(f"/{stack}.requirements.txt")


def test_hosts_get_the_slim_lock_once() -> None:
    slim = yaml.safe_load(stacks.render(recorded.lock())[f"stacks/{stacks.NAME}"])
    assert list(slim) == ["gpu_lock"]
    (load,) = [t for t in tasks() if stacks.NAME in str(t)]
    assert load["run_once"] is True
    assert not [play for play in (STACK, VERIFY) if "vars_files" in play]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_defaults_and_spec_say_the_same(role: Any) -> None:
    files = spec.render(role)
    defaults = yaml.safe_load(files[f"roles/{role.name}/defaults/main.yml"])
    options = yaml.safe_load(files[f"roles/{role.name}/meta/argument_specs.yml"])["argument_specs"][
        "main"
    ]["options"]
    assert list(defaults) == list(options) == [o.name for o in role.options]
    planned = {o.name for o in role.options if o.planned}
    assert {name: option["default"] for name, option in options.items()} == {
        o.name: o.default if o.name in planned else defaults[o.name] for o in role.options
    }


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_the_roles_of_the_repository_are_in_sync(role: Any) -> None:
    """`provision roles sync` writes these files; edit provision/roles/ instead of them."""
    base = collection.root()
    for path, data in spec.render(role).items():
        assert (base / path).read_bytes() == data, path
    page = (base / "roles" / role.name / "README.md").read_text(encoding="utf-8")
    assert spec.table(role) in page


def test_every_default_passes_its_own_check() -> None:
    for option in all_options().values():
        assert option.fault(option.default) is None, option.name


def test_every_variable_has_its_roles_prefix() -> None:
    for role in ROLES:
        own = (f"{role.name}_", f"{role.name}s")
        assert [o.name for o in role.options if not o.name.startswith(own)] == []
    assert all(o.name.startswith("gpu_") for o in SITE.options)


def test_the_example_explains_every_option_of_the_inventory() -> None:
    text = example.group_vars()
    for option in all_options().values():
        assert (f"\n# {option.name}:" in text) == option.public, option.name


def test_the_example_uncommented_is_valid() -> None:
    """Somebody who takes every comment sign away has a correct file with the defaults."""
    text = example.group_vars()
    options = all_options()
    lines = []
    taking = False
    for line in text.splitlines():
        bare = line.removeprefix("# ")
        taking = bare.split(":")[0] in options or (taking and bare.startswith("  - "))
        lines.append(bare if taking else line)
    data = yaml.safe_load("\n".join(lines))
    assert data.pop("gpu_stack") == {"tensorflow": "2.9"}
    assert data == {o.name: o.default for o in options.values() if o.public}
    groups = {"gpu_hosts": {"hosts": ["a"], "vars": {"gpu_stack": {"tensorflow": "2.9"}, **data}}}
    fleet = parse({"_meta": {"hostvars": {}}, **groups}, Words(options, PREFIXES), Sources())
    assert fleet.warnings == ()


def test_the_example_never_uses_group_vars_all() -> None:
    assert sorted(example.render("x")) == [
        ".gitignore",
        "README.md",
        "lab/group_vars/gpu_hosts.yml",
        "lab/hosts.yml",
    ]


def test_ansible_cfg_is_an_ini_file() -> None:
    import configparser

    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(ansible_cfg.render()["ansible.cfg"].decode())
    assert parser["defaults"]["forks"] == "50"
    assert parser["ssh_connection"]["pipelining"] == "True"


def test_nothing_of_the_users_directory_is_rendered() -> None:
    assert not [p for p in render(recorded.lock(), collection.read()) if p.startswith("lab/")]


def test_the_tree_has_all_its_parts() -> None:
    files = render(recorded.lock(), collection.read())
    for path in (
        "site.yml",
        "ansible.cfg",
        "requirements.txt",
        "stacks/gpu_lock.yml",
        f"{collection.IN_TREE}galaxy.yml",
        f"{collection.IN_TREE}playbooks/site.yml",
        f"{collection.IN_TREE}plugins/modules/gpu_state.py",
        f"{collection.IN_TREE}roles/cuda/tasks/main.yml",
        "verify/probe.py",
    ):
        assert path in files, path
    assert not [path for path in files if "__pycache__" in path]
