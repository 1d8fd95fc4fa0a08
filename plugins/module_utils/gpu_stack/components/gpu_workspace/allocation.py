"""Allocates the host's GPUs to people."""

from __future__ import annotations

from ...host import gpu_shares as share
from ...type_checking import TYPE_CHECKING
from .program import files, handed_gpus, people_list, places, settings

if TYPE_CHECKING:
    from typing import Any, Iterable, Sequence


def allocated(
    people: list[dict[str, Any]],
    uuids: list[str],
    kept: dict[str, Any],
    of_slurm: Sequence[int] = (),
) -> dict[str, Any]:
    """{name: "all", [] or [indices]} of the GPUs of a host; ValueError where there are not enough.

    `uuids` are the host's GPUs by index, `of_slurm` those that Slurm gives out, which nobody gets
    here, `kept` the former allocation: who asks for a number keeps those GPUs while they fit, so
    that adding or removing a person moves nobody else.
    """
    allocation: dict[str, Any] = {}
    taken: dict[int, dict[str, Any]] = {}
    for person in people:
        if isinstance(person["gpus"], list):
            allocation[person["name"]] = indices = [
                _index(person["name"], gpu, uuids) for gpu in person["gpus"]
            ]
            for index in indices:
                _refuse_slurms(person["name"], [index], of_slurm)
                holder = taken.setdefault(index, person)
                if holder is not person and not (person["shared"] and holder["shared"]):
                    raise ValueError(
                        "GPU {0} is promised twice, to {1} and {2}".format(
                            index, holder["name"], person["name"]
                        )
                    )
        elif isinstance(person["gpus"], str):
            if person["gpus"] == "all" and not uuids:
                raise ValueError(
                    "{0} gets all GPUs, and nvidia-smi lists none".format(person["name"])
                )
            if person["gpus"] == "all":
                _refuse_slurms(person["name"], range(len(uuids)), of_slurm)
            allocation[person["name"]] = "all" if person["gpus"] == "all" else []
    counting = [person for person in people if people_list.is_whole(person["gpus"])]
    # People with an allocation come first.
    counting.sort(key=lambda person: len(kept.get(person["name"]) or []) != person["gpus"])
    for person in counting:
        free = [
            index
            for index in range(len(uuids))
            if index not in of_slurm
            and (index not in taken or (person["shared"] and taken[index]["shared"]))
        ]
        indices = kept.get(person["name"]) or []
        if len(indices) != person["gpus"] or not set(indices) <= set(free):
            # Of GPUs that may be shared, unused ones come first.
            indices = sorted(sorted(free, key=lambda index: index in taken)[: person["gpus"]])
        if len(indices) < person["gpus"]:
            raise ValueError(
                "{0} asks for {1} GPUs, and {2} of the host's {3} are left".format(
                    person["name"], person["gpus"], len(free), len(uuids)
                )
            )
        allocation[person["name"]] = indices
        for index in indices:
            taken.setdefault(index, person)
    return allocation


def _refuse_slurms(name: str, indices: Iterable[int], of_slurm: Sequence[int]) -> None:
    for index in indices:
        if index in of_slurm:
            raise ValueError(f"GPU {index} is promised twice, to Slurm and to {name}")


def _index(name: str, gpu: int | str, uuids: list[str]) -> int:
    if isinstance(gpu, int) and gpu < len(uuids):
        return gpu
    if isinstance(gpu, str) and gpu in uuids:
        return uuids.index(gpu)
    raise ValueError(
        "{0} asks for GPU {1}, and nvidia-smi lists {2}".format(
            name,
            gpu,
            f"0 to {len(uuids) - 1}" if len(uuids) > 1 else f"{len(uuids)}",
        )
    )


def kept() -> dict[str, Any]:
    """{name: [indices]} of the recorded allocation."""
    names = settings.recorded_people()
    return {name: files.data(places.folder(name) + "/gpus.json") for name in names}


def asked_for(
    people: list[dict[str, Any]], models: list[dict[str, Any]], slurm: Any = 0
) -> dict[str, Any]:
    """As `allocated`, of this host's GPUs; nvidia-smi runs only if somebody asks for any.

    models: gpu_servings, whose GPUs are nobody's. slurm: the host's slurm_gpus, 0 where no job of
    Slurm's runs on it.
    """
    if all(person["gpus"] == "none" for person in people):
        return allocated(people, [], {})
    takers, uuids = people_list.takers_of(models), handed_gpus.gpus()
    # "all" of a model is of no index that `allocated` could compare.
    people_list.refuse_promised_twice(people + takers)
    slurms = share.of_slurm(slurm, len(uuids))
    allocation = allocated(people + takers, uuids, kept(), slurms)
    return {person["name"]: allocation[person["name"]] for person in people}
