"""Rules about what prevents changes of served models."""

from __future__ import annotations

from ...change import is_touched
from ...host import gpu_shares
from ...rules import rules_of, some
from ...type_checking import TYPE_CHECKING
from .. import gpu_serving, gpu_workspace, slurm
from ..gpu_workspace.program import people_list, traits
from ..nvidia_container_toolkit.rules import docker_silent
from . import entries, saved_model, wished

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import Changes, Facts, Options, Reasons, Row

# Of TF-TRT; the TensorFlow that was built with it opens it by this name.
# https://github.com/tensorflow/tensorflow/blob/v2.9.3/tensorflow/compiler/tf2tensorrt/stub
TENSORRT = {"2.9": "libnvinfer.so.7"}


# A plan is made a first time before the preflight has looked at anything.
NOT_LOOKED_AT: dict[str, Any] = {
    "docker": None,
    "ports": [],
    "memory": None,
    "models": {},
    "swapped": {},
    "kept": {},
}


def _seen(facts: Facts) -> dict[str, Any]:
    """What stands in the way of served models, as obstacles.stands_in_the_way returns it."""
    seen: dict[str, Any] = facts["preflight"].get("servings", NOT_LOOKED_AT)
    return seen


def _people(options: Options) -> list[dict[str, Any]]:
    """The entries of gpu_workspaces, each with all keys; [] of a list that can't be read."""
    return people_list.checked(list(gpu_workspace.wished_people(options).values()))


def _locked(row: Row) -> str | None:
    """The lock's TensorFlow; None of a lock without it."""
    version: str | None = (row.get("tensorflow") or {}).get("version")
    return version


def serving_list(_facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    # An inventory is refused when it is rendered; this is for what comes by -e or a template.
    try:
        models = entries.checked(options.get("gpu_servings") or [])
        entries.refuse_clashes(models, _people(options), options)
    except ValueError as error:
        return [(f"gpu_servings: {error}", "`provision explain gpu_servings`")]
    return []


def serving_docker(facts: Facts, changes: Changes, options: Options, _row: Row) -> Reasons:
    models = wished.models(options)
    names = [name for name in gpu_serving.touched(changes) if name in models]
    return docker_silent(
        _seen(facts)["docker"], names, changes, "models are served by its containers"
    )


def serving_port(facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    models = wished.models(options)
    names = {port: name for name in models for port in entries.ports(models[name])}
    return [
        (
            f"port {port} of the model {names[port]} is in use by something else on this host",
            f"give {names[port]} another port in gpu_servings; `ss -tlnp` says who listens",
        )
        for port in _seen(facts)["ports"]
        if port in names
    ]


def serving_models(facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    models, seen = wished.models(options), _seen(facts)["models"]
    reasons = []
    for name, directory in seen.items():
        if name not in models:
            continue
        entry = models[name]
        uid = entry["user"].partition(":")[0]
        versions = "a directory for each version, {0}/1/saved_model.pb and so on".format(
            entry["models"]
        )
        if not directory["there"]:
            reasons.append((
                "the model {0} is to come from {1}, and there is no such directory".format(
                    name, entry["models"]),
                f"bring the model there first: {versions}",
            ))  # fmt: skip
        elif directory["crowded"]:
            reasons.append((
                "{0} of the model {1} has more than {2} entries".format(
                    entry["models"], name, saved_model.MOST),
                f"name a directory that has nothing but the model's versions: {versions}",
            ))  # fmt: skip
        elif directory["newest"] is None:
            reasons.append(
                ("{0} of the model {1} has no version".format(entry["models"], name), versions)
            )
        elif directory["closed"]:
            reasons.append((
                "uid {0}, by whom the model {1} is served, can't read {2}".format(
                    uid, name, directory["closed"]),
                "chmod -R o+rX it, or say `user` of the model whose group may read it",
            ))  # fmt: skip
        elif not directory["file"]:
            reasons.append((
                "version {0} of the model {1} has no saved_model.pb".format(
                    directory["newest"], name),
                "copy a version under a name that is no number, and rename it when it is whole",
            ))  # fmt: skip
        if not directory["files"]:
            reasons.append((
                "the files of the model {0} are to come from {1}, and there is no such "
                "directory".format(name, entry["files"]),
                "make it first, or leave `files` out",
            ))  # fmt: skip
    return reasons


def serving_release(facts: Facts, _changes: Changes, _options: Options, row: Row) -> Reasons:
    served = _locked(row)
    return [
        (
            "version {0} of the model {1} was saved by TensorFlow {2}; the lock's TensorFlow, "
            "which serves it, is {3}".format(model["newest"], name, model["tensorflow"], served),
            f"save it with TensorFlow {served} or an older 2.x, or wish for a newer TensorFlow",
        )
        for name, model in _seen(facts)["models"].items()
        if saved_model.is_newer(model["tensorflow"], served)
    ]


def serving_swapped(facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    models = wished.models(options)
    return [
        (
            f"a directory of the model {name} can be swapped for a link, which docker would follow "
            f"as root: {why}",
            "name a directory below directories that only root can write to, as "
            f"/srv/models/{name}; itself it may be anybody's",
        )
        for name, why in _seen(facts)["swapped"].items()
        if name in models
    ]


def serving_image_release(facts: Facts, _changes: Changes, options: Options, row: Row) -> Reasons:
    # Another lock, a former one among them, leaves a model with the image that it has.
    models, locked = wished.models(options), _locked(row)
    seen = facts["state"].get(gpu_serving.NAME, {}).get("models", {})
    records = {name: seen[name]["record"] or {} for name in sorted(models) if name in seen}
    others = {
        name: record["release"]
        for name, record in records.items()
        if locked
        and record.get("release")
        and (record.get("settings") or {}).get("image") == wished.image(options)
        and not saved_model.is_same(record["release"], locked)
    }
    if not others:
        return []
    return [
        (
            "models are served by TensorFlow {0}, and the lock's is {1}: {2}".format(
                next(iter(others.values())), locked, some(list(others))
            ),
            f"they serve on as they are; to change one, name an image of TensorFlow Serving "
            f"{locked} (gpu_serving_image, by -e for this run alone)",
        )
    ]


def serving_gpu(facts: Facts, changes: Changes, options: Options, _row: Row) -> Reasons:
    models = wished.models(options)
    if not models:
        return []
    with_gpus = [name for name in sorted(models) if models[name]["gpus"] != "none"]
    if with_gpus and options.get("nvidia_container_toolkit_state") == "absent":
        why = (
            "docker will know no GPUs (nvidia_container_toolkit_state is absent), and models are to"
        )
        return [(f"{why} have some: {some(with_gpus)}", "leave the toolkit, or say gpus: none")]
    # Imported only when needed: what it runs takes longer to load than the rest of the rules.
    from ..gpu_workspace import allocation

    count = len(facts["gpus"])
    people = _people(options)
    takers = people_list.takers_of(list(models.values()))
    everybody = [_by_index(taker) for taker in people + takers]
    try:
        value = gpu_shares.promised(options, slurm.still_computes(facts, changes))
        of_slurm = gpu_shares.of_slurm(value, count)
    except ValueError:
        of_slurm = []  # Slurm's own rule says it
    hint = (
        "indices count from 0; `nvidia-smi -L` lists them. A GPU is promised once, to a model, to "
        "a workspace or to Slurm; where two of the first are meant, shared: true of both"
    )
    try:
        promised = allocation.allocated(
            everybody, [str(index) for index in range(count)], {}, of_slurm
        )
    except ValueError as error:
        return [(str(error), hint)]
    # With a workspace's change its role gives everybody anew what the models leave.
    moved = is_touched(changes, gpu_workspace.NAME)
    return [] if moved else _kept_by_people(facts, people, takers, promised)


def _by_index(taker: dict[str, Any]) -> dict[str, Any]:
    """A taker without the GPUs that are named by UUID: which those are nvidia-smi knows alone."""
    if not isinstance(taker["gpus"], list):
        return taker
    indices = [gpu for gpu in taker["gpus"] if people_list.is_whole(gpu)]
    return dict(taker, gpus=indices)


def _kept_by_people(
    facts: Facts, people: list[dict[str, Any]], takers: list[dict[str, Any]], promised: Any
) -> Reasons:
    """GPUs of models that people have who asked for a number: nobody is moved for a model."""
    kept = _seen(facts)["kept"]
    counting = [person for person in people if people_list.is_whole(person["gpus"])]
    return [
        (
            "GPU {0} of the {1} is {2}'s now, who asked for {3}".format(
                index, taker["name"], person["name"], person["gpus"]
            ),
            "give the model another GPU, or say in gpu_workspaces which one {0} gets, as a list: "
            "then both change in one run".format(person["name"]),
        )
        for taker in takers
        for person in counting
        for index in kept.get(person["name"]) or []
        if not (taker["shared"] and person["shared"])
        and (promised[taker["name"]] == "all" or index in promised[taker["name"]])
    ]


def serving_memory(facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    memory = _seen(facts)["memory"]
    takers = [*wished.models(options).values(), *_people(options)]
    together = sum(traits.size(taker["memory"]) or 0 for taker in takers)
    if memory is None or together <= memory:
        return []
    return [
        (
            f"the models and workspaces may use {together >> 20} MiB together, and this host has "
            f"{memory >> 20} MiB",
            "give less memory in gpu_servings; who is over the limit is ended by the kernel",
        )
    ]


def serving_tensorrt(_facts: Facts, _changes: Changes, options: Options, row: Row) -> Reasons:
    models = wished.models(options)
    names = [name for name in sorted(models) if models[name]["tensorrt"]]
    branch = ".".join(str(_locked(row)).split(".")[:2])
    library = TENSORRT.get(branch, "TensorRT's libnvinfer")
    if not names:
        return []
    return [
        (
            f"{some(names)} can't be converted by TF-TRT: it needs {library}, and no lock has it "
            "(neither Debian nor a wheel that TensorFlow names brings it)",
            "leave `tensorrt` out: TensorFlow Serving serves the model without. One that was "
            "converted elsewhere is served like any other where the image has that library",
        )
    ]


RULES = (
    *rules_of(
        gpu_serving.NAME,
        stops={
            "serving-list": serving_list,
            "serving-docker": serving_docker,
            "serving-port": serving_port,
            "serving-models": serving_models,
            "serving-release": serving_release,
            "serving-swapped": serving_swapped,
            "serving-gpu": serving_gpu,
            "serving-memory": serving_memory,
            "serving-tensorrt": serving_tensorrt,
        },
    ),
    *rules_of("tensorflow", stops={}, warns={"serving-image-release": serving_image_release}),
)
