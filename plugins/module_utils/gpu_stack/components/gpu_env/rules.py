"""Rules about the ~/.bashrc files that a run can't change."""

from __future__ import annotations

from ...rules import Rule
from ...type_checking import TYPE_CHECKING
from .. import gpu_env

if TYPE_CHECKING:
    from ...shapes import Changes, Facts, Options, Reasons, Row


def _bashrc_left(facts: Facts) -> Reasons:
    """[(user, why)] of the gpu_env_bashrc_users whose file a run leaves alone, sorted."""
    return sorted((facts["state"].get(gpu_env.NAME, {}).get("left") or {}).items())


def bashrc_user(facts: Facts, _changes: Changes, _options: Options, _row: Row) -> Reasons:
    """Stops where gpu_env_bashrc_users names users that the host does not have."""
    names = [user for user, why in _bashrc_left(facts) if why == gpu_env.NO_USER]
    if not names:
        return []
    return [
        (
            f"gpu_env_bashrc_users names {', '.join(names)}: this host has no such user",
            "make the account first, or take the name out of gpu_env_bashrc_users",
        )
    ]


def bashrc_left(facts: Facts, _changes: Changes, _options: Options, _row: Row) -> Reasons:
    """Warns of users whose ~/.bashrc can't be changed."""
    return [
        (
            f"~{user}/.bashrc is left alone: {why}",
            f"let {user} see to it, or add `. {gpu_env.PROFILE}` by hand",
        )
        for user, why in _bashrc_left(facts)
        if why != gpu_env.NO_USER
    ]


RULES = (
    Rule("bashrc-user", gpu_env.NAME, True, bashrc_user),
    Rule("bashrc-left", None, False, bashrc_left),
)
