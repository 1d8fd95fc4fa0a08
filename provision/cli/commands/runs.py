"""`provision plan`, `apply` and `verify`: one playbook, run in three modes."""

from __future__ import annotations

from pathlib import Path

from provision import run
from provision.cli import running
from provision.cli.options import (
    AskOption,
    DeepOption,
    ExtraVarsOption,
    ForksOption,
    InventoryOption,
    JsonOption,
    LimitOption,
    ProjectOption,
    SkipTagsOption,
    TagsOption,
    VaultOption,
    VerboseOption,
    split,
)


def plan(
    project: ProjectOption = Path(),
    inventories: InventoryOption = None,
    limit: LimitOption = None,
    tags: TagsOption = None,
    skip_tags: SkipTagsOption = None,
    extra_vars: ExtraVarsOption = None,
    ask_become_pass: AskOption = False,
    forks: ForksOption = None,
    vault_password_file: VaultOption = None,
    deep: DeepOption = False,
    ansible_output: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say what differs from the lock; change nothing.

    Exit code 5 if anything does, 4 if a host could not be looked at.
    """
    options = run.Options(
        inventory=inventories or (),
        limit=limit,
        tags=split(tags),
        skip_tags=split(skip_tags),
        extra_vars=extra_vars or (),
        ask_become_pass=ask_become_pass,
        forks=forks,
        vault_password_file=vault_password_file,
        deep=deep,
    )
    running.run_and_show("plan", project, options, verbose=ansible_output, as_json=as_json)


def apply(
    project: ProjectOption = Path(),
    inventories: InventoryOption = None,
    limit: LimitOption = None,
    tags: TagsOption = None,
    skip_tags: SkipTagsOption = None,
    extra_vars: ExtraVarsOption = None,
    ask_become_pass: AskOption = False,
    forks: ForksOption = None,
    vault_password_file: VaultOption = None,
    deep: DeepOption = False,
    ansible_output: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Bring the hosts to their lock and prove it.

    The same run as `ansible-playbook site.yml -i lab`.
    """
    options = run.Options(
        inventory=inventories or (),
        limit=limit,
        tags=split(tags),
        skip_tags=split(skip_tags),
        extra_vars=extra_vars or (),
        ask_become_pass=ask_become_pass,
        forks=forks,
        vault_password_file=vault_password_file,
        deep=deep,
    )
    running.run_and_show("apply", project, options, verbose=ansible_output, as_json=as_json)


def verify(
    project: ProjectOption = Path(),
    inventories: InventoryOption = None,
    limit: LimitOption = None,
    extra_vars: ExtraVarsOption = None,
    ask_become_pass: AskOption = False,
    forks: ForksOption = None,
    vault_password_file: VaultOption = None,
    deep: DeepOption = False,
    ansible_output: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Prove again that everything works.

    Exit code 6 if a check fails, 5 if a host differs from its lock.
    """
    options = run.Options(
        inventory=inventories or (),
        limit=limit,
        extra_vars=extra_vars or (),
        ask_become_pass=ask_become_pass,
        forks=forks,
        vault_password_file=vault_password_file,
        deep=deep,
    )
    running.run_and_show("verify", project, options, verbose=ansible_output, as_json=as_json)
