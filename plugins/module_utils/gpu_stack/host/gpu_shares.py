"""Which of a host's GPUs Slurm gives out, and which are left to workspaces and models. Pure.

Here and not with a component: three of them ask, and neither is to carry the other to a host.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Sequence

ALL = "all"
# Where the role slurm says what a host is to Slurm, as node.SETTINGS of its program.
NODE = "/etc/provision-slurm/node.json"


def fault(value: Any) -> str | None:
    """What is wrong with a value of slurm_gpus; None where it is right."""
    if value == ALL or _is_number(value):
        return None
    if isinstance(value, list) and value and all(_is_number(number) for number in value):
        twice = sorted({number for number in value if value.count(number) > 1})
        return f"GPU {twice[0]} is named twice" if twice else None
    return (
        f"{value!r} says no GPUs; expected all, a number of them, or a list of their numbers as "
        "[2, 3]"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def of_slurm(value: Any, count: int) -> list[int]:
    """The numbers of Slurm's GPUs on a host that has so many. Raises ValueError.

    A count takes the last GPUs: workspaces that ask for a count get the first.
    """
    if value == ALL:
        return list(range(count))
    if isinstance(value, list):
        lacking = [number for number in value if number >= count]
        if lacking:
            raise ValueError(f"slurm_gpus names GPU {lacking[0]}, and this host has {count}")
        return sorted(value)
    if value > count:
        raise ValueError(f"slurm_gpus is {value}, and this host has {count} GPUs")
    return list(range(count - value, count))


def chosen(gpus: Sequence[dict[str, str]], value: Any) -> list[dict[str, str]]:
    """Those of a host's GPUs, {type, file} each, that are Slurm's; what is not there is left out.

    A preflight rule reports it where these are fewer than wished.
    """
    if value == ALL:
        return list(gpus)
    if isinstance(value, list):
        return [gpu for gpu in gpus if gpu["file"] in [f"/dev/nvidia{number}" for number in value]]
    return list(gpus[max(0, len(gpus) - value) :])


def promised(options: dict[str, Any], computes: bool = False) -> Any:
    """The host's slurm_gpus; 0 where no job of Slurm's runs on it.

    computes: whether jobs run on it though the options say otherwise.
    """
    present = options.get("slurm_state", "absent") == "present"
    jobs = computes or options.get("slurm_compute", True)
    return options.get("slurm_gpus", ALL) if present and jobs else 0


def clash(value: Any, people: Sequence[dict[str, Any]], count: int = 0) -> str | None:
    """Why Slurm and the others can't both have what they are promised; None where they can.

    people: those with workspaces, and models: {name, gpus, shared} each. count: how many GPUs the
    host has, 0 where nobody knows yet.
    """
    asking = [person for person in people if person["gpus"] not in ("none", 0, [])]
    if value == 0 or not asking:
        return None
    if value == ALL:
        who = _some([person["name"] for person in asking])
        return f"Slurm gives out all GPUs of the host, and {who} would get some of them"
    everything = [person["name"] for person in asking if person["gpus"] == "all"]
    if everything:
        return f"{everything[0]} gets all GPUs of the host, and Slurm would give out {_of(value)}"
    if count:
        return _in_numbers(of_slurm(value, count), asking, count)
    named = value if isinstance(value, list) else []
    return _named_twice(named, asking)


def _named_twice(of_slurm_now: list[int], asking: Sequence[dict[str, Any]]) -> str | None:
    for person in asking:
        gpus = person["gpus"] if isinstance(person["gpus"], list) else []
        both = sorted(gpu for gpu in gpus if gpu in of_slurm_now)
        if both:
            return "GPU {0} is promised twice, to Slurm and to {1}".format(both[0], person["name"])
    return None


def _in_numbers(theirs: list[int], asking: Sequence[dict[str, Any]], count: int) -> str | None:
    named = _named_twice(theirs, asking)
    if named is not None:
        return named
    left = count - len(theirs)
    for person in asking:
        if _is_number(person["gpus"]) and person["gpus"] > left:
            return "{0} asks for {1} GPUs, and Slurm leaves {2} of {3}".format(
                person["name"], person["gpus"], left, count
            )
    alone = [person for person in asking if not person.get("shared")]
    sums = [
        len(person["gpus"]) if isinstance(person["gpus"], list) else person["gpus"]
        for person in alone
    ]
    if sum(sums) > left:
        return "{0} are promised {1} GPUs, and Slurm leaves {2} of {3}".format(
            _some([person["name"] for person in alone]), sum(sums), left, count
        )
    return None


def _of(value: Any) -> str:
    return "GPU " + ", ".join(map(str, value)) if isinstance(value, list) else f"{value} of them"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
