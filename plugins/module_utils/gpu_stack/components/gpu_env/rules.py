"""People's shells that the environment can't reach."""

from ...rules import Rule
from .. import gpu_env


def _bashrc_left(found):
    """[(user, why)] of the gpu_env_bashrc_users whose file a run leaves alone, sorted."""
    return sorted((found["state"].get(gpu_env.NAME, {}).get("left") or {}).items())


def bashrc_user(found, _changes, _options, _row):
    names = [user for user, why in _bashrc_left(found) if why == gpu_env.NO_USER]
    if not names:
        return []
    return [
        (
            "gpu_env_bashrc_users names {0}: this host has no such user".format(", ".join(names)),
            "make the account first, or take the name out of gpu_env_bashrc_users",
        )
    ]


def bashrc_left(found, _changes, _options, _row):
    return [
        (
            "~{0}/.bashrc is left alone: {1}".format(user, why),
            "let {0} see to it, or add `. {1}` by hand".format(user, gpu_env.PROFILE),
        )
        for user, why in _bashrc_left(found)
        if why != gpu_env.NO_USER
    ]


RULES = (
    Rule("bashrc-user", gpu_env.NAME, True, bashrc_user),
    Rule("bashrc-left", None, False, bashrc_left),
)
