"""What TensorFlow did at the edges of what the checks know: exact limits, and answers that miss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.unit.acceptance import trained
from tests.unit.acceptance.worked import (
    MIB,
    WORK_FAULTS,
    answer,
    broken,
    burnt,
    facts_of,
    fails,
    of_host,
    once,
    product_of,
    stored,
    worked,
)

Facts = dict[str, Any]
NAN = float("nan")


@dataclass(frozen=True)
class Edge:
    """A machine that worked, changed."""

    change: Callable[[dict[str, Any]], object]
    count: int = 3
    simulated: bool = False

    def facts(self) -> Facts:
        facts = worked(count=self.count, simulated=self.simulated)
        self.change(facts["work"])
        return facts


def _paces(*paces: float) -> Edge:
    return Edge(burnt(paces=list(paces)))


def _grown(small: int, more: int, again: int) -> Edge:
    """MiB: with little, how many more with 512 more, and how many more with as much again."""
    sizes = {"small": small, "large": small + more, "again": small + more + again}
    return Edge(facts_of("growth", **{name: size * MIB for name, size in sizes.items()}))


def _idle(share: float) -> Edge:
    return Edge(facts_of("pipeline", tuned={"steps": 3.0, "idle": share}))


def _of(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    """Sets one value of the work."""

    def change(work: dict[str, Any]) -> None:
        place = work
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change


def _every_card(program: str, given: dict[str, Any] | None) -> Edge:
    """The same answer of all cards, or none."""

    def change(work: dict[str, Any]) -> None:
        for answers in work["cards"].values():
            del answers[program]
            if given is not None:
                answers[program] = given

    return Edge(change)


def _without_first(work: dict[str, Any]) -> None:
    """Card 0 is in use; the programs count the others from 0."""
    work["skipped"], work["order"] = {"0": "in use: ada"}, ["1", "2"]
    del work["cards"]["0"]
    listed = work["host"]["listed"]["facts"]
    listed["addresses"] = listed["addresses"][:0:-1]
    work["host"]["copies"]["facts"] = {
        "host": [{"wrong": 0, "to": 1.0, "back": 2.0}, {"wrong": 5, "to": 3.0, "back": 4.0}],
        "pairs": {"0-1": {"wrong": 6, "rate": 5.0}},
    }
    for program, values in trained.host(2, "GPU").items():
        work["host"][program]["facts"] = values
    for given in work["host"].values():
        given["order"] = ["1", "2"]
    work["host"]["mirrored"]["facts"].update(shares=[1.0, 0.0], busy=[1.0, 0.4])


def _nobody_free(work: dict[str, Any]) -> None:
    work.update(skipped={"0": "MIG is on"}, order=[], host={}, cards={})


def _others_taken(work: dict[str, Any]) -> None:
    """Somebody began to work on card 1 before the cards trained together."""
    work["skipped"] = {"1": "in use: ada"}
    for program, values in trained.host(1, "GPU").items():
        work["host"][program].update(facts=values, order=["0"])
    work["host"]["copies"].update(
        facts={"host": [{"wrong": 0, "to": 1.0, "back": 1.0}], "pairs": {}}, order=["0"]
    )
    work["host"]["resnet"].update(facts=trained.host(2, "GPU")["resnet"], order=["0"])


def _silent(program: str) -> Callable[[dict[str, Any]], None]:
    """Card 1 hangs in this program, and is asked nothing more."""
    return lambda work: work["cards"].update({"1": {program: broken("no answer", silent=True)}})


def _pairs_out_of_order(work: dict[str, Any]) -> None:
    pairs = work["host"]["copies"]["facts"]["pairs"]
    work["host"]["copies"]["facts"]["pairs"] = dict(reversed(list(pairs.items())))
    pairs["0-2"]["wrong"] = pairs["1-2"]["wrong"] = 1


def _both_kinds_wrong(work: dict[str, Any]) -> None:
    for kind in ("float32", "float16"):
        work["cards"]["1"]["product"]["facts"][kind]["error"] = 0.5


def _mirrored(count: int = 3, *, simulated: bool = False, **values: Any) -> Edge:
    return Edge(trained.of_all("mirrored", **values), count, simulated)


def _rates(**rates: float) -> Edge:
    """What ResNet-50 came to on all cards: one=, three=, mixed=."""
    names = {"three": "float32 3", "one": "float32 1", "mixed": "mixed 3"}
    found = {names[name]: rate for name, rate in rates.items()}
    left_out = sorted(set(names.values()) - set(found))
    return Edge(trained.of_all("resnet", rates=found, left_out=left_out))


def _checkpoints(**values: Any) -> Edge:
    return Edge(trained.of_all("checkpoints", **values))


def _logs(logged: list[float], trained_: list[float]) -> Edge:
    logs = {"error": None, "logged": logged, "trained": trained_}
    return Edge(trained.of_all("export", logs=logs))


def _exported(difference: float) -> Edge:
    return Edge(trained.of_all("export", saved_model={"difference": difference}))


def _mixed(**values: Any) -> Edge:
    return Edge(trained.lite("mixed_float16", **{"error": None, **values}))


# As TensorFlow ends: the error's name is not in its last line.
OOM = [
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:",
    "OOM when allocating tensor with shape[16,64,112,112] and type float on /device:GPU:0",
    " [Op:__inference_step_31415]",
]
HOSTS_OOM = [OOM[0], OOM[1].replace("device:GPU:0", "device:CPU:0"), OOM[2]]
FULL = [
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: w; No space left on device"
]


def _without_room(
    log: list[str], program: str, index: str | None = "1", free: float | None = None
) -> Edge:
    """`free`: GiB of the card that NVML said were free then."""

    def change(work: dict[str, Any]) -> None:
        answers = work["host"] if index is None else work["cards"][index]
        order = {"order": answers[program]["order"]} if index is None else {}
        room = None if free is None else int(free * 2**30)
        answers[program] = {**broken(log[-1].strip()), "log": log, "free": room, **order}

    return Edge(change)


def _late(**late: list[str]) -> Edge:
    """The programs that were not begun: of the host, one=, of card 1."""

    def change(work: dict[str, Any]) -> None:
        work["late"] = {{"one": "1"}.get(whose, whose): names for whose, names in late.items()}
        for program in late.get("host", []):
            del work["host"][program]
        for program in late.get("one", []):
            del work["cards"]["1"][program]

    return Edge(change)


STORAGE = {
    "a hard disk": Edge(stored(kind="hard disk", seconds=4.0)),
    "a RAID of two kinds": Edge(stored(kind="nvme+ssd")),
    "read in no time": Edge(stored(seconds=0.0)),
    "a disk that is full": Edge(stored(kind=None, bytes=0, unfit="/data is full")),
    "a file of stand-ins": Edge(lambda _: None, 3, simulated=True),
    "two MiB are wrong": Edge(stored(place="/data", wrong=2)),
    "all together was late": _late(host=["copies", "mirrored", "resnet", "dense"]),
    "what is kept was late": _late(host=["checkpoints", "export"]),
    "one card was late": _late(one=["xla", "by_uuid", "growth", "dense", "resnet", "pipeline"]),
}

COMPUTING = {
    "no memory for ResNet-50": _without_room(OOM, "resnet"),
    "no memory for a product": _without_room(OOM[:1], "product"),
    "no memory for a pattern": _without_room(OOM[1:2], "pattern"),
    "no memory to copy to": _without_room(["InternalError: Dst tensor is not initialized."], "xla"),
    "no memory for all together": _without_room(OOM, "mirrored", None),
    "no memory for ResNet-50 on all": _without_room(OOM, "resnet", None),
    "little memory for a product": _without_room(OOM, "product", free=3.9),
    "enough memory for a product": _without_room(OOM, "product", free=4.0),
    "little memory for ResNet-50": _without_room(OOM, "resnet", free=15.9),
    "enough memory for ResNet-50": _without_room(OOM, "resnet", free=16.0),
    "enough memory to copy to": _without_room(
        ["InternalError: Dst tensor is not initialized."], "xla", free=70.0
    ),
    "enough memory for all together": _without_room(OOM, "mirrored", None, free=70.0),
    "all memory for a pattern": _without_room(OOM, "pattern", free=70.0),
    "the host's memory and not the card's": _without_room(HOSTS_OOM, "product", free=70.0),
    "a full disk beside a free card": _without_room(FULL, "checkpoints", None, free=70.0),
    "a full disk": _without_room(FULL, "checkpoints", None),
    "a full disk for one": _without_room(FULL, "dense"),
    "float32 at its limit": Edge(product_of("float32", error=1e-4)),
    "float32 above its limit": Edge(product_of("float32", error=1.1e-4)),
    "float16 at its limit": Edge(product_of("float16", error=1e-2)),
    "float16 above its limit": Edge(product_of("float16", error=1.1e-2)),
    "a stand-in's float32 at its limit": Edge(product_of("float32", error=1e-4), simulated=True),
    "a stand-in's float32 above": Edge(product_of("float32", error=1.1e-4), simulated=True),
    "a stand-in's float16 at its limit": Edge(product_of("float16", error=0.1), simulated=True),
    "a stand-in's float16 above": Edge(product_of("float16", error=0.11), simulated=True),
    "both kinds of products": Edge(_both_kinds_wrong),
    "ended once": Edge(once("xla", broken("it was ended by signal 11"))),
    "wrong memory once": Edge(once("pattern", answer(bytes=MIB, wrong=1))),
    "a wrong convolution once": Edge(once("convolution", answer(error=1.0, libraries=[]))),
    "all cards fail": _every_card("xla", broken("no libdevice")),
    "all cards fail to grow": _every_card("growth", broken("no memory")),
    "no card was asked": _every_card("growth", None),
    "a card hangs": Edge(_silent("product")),
    "a card hangs later": Edge(_silent("convolution")),
    "one fails in its pipeline": Edge(fails("pipeline", "1")),
    "two of three fail": Edge(fails("pattern", "1", "2")),
    "one fails to be seen by UUID": Edge(fails("by_uuid", "1")),
    "one fails to be seen by its index": Edge(fails("by_index", "1")),
    "one fails in its convolution": Edge(fails("convolution", "1")),
    "one fails to grow": Edge(fails("growth", "1")),
    "a wrong number": Edge(facts_of("pattern", bytes=1536 * MIB, wrong=1)),
    "half of the card at once": _grown(7680, 512, 0),
    "a MiB more than half": _grown(7681, 512, 0),
    "511 MiB more": _grown(400, 511, 0),
    "1536 MiB more": _grown(400, 1536, 0),
    "1537 MiB more": _grown(400, 1537, 0),
    "256 MiB again": _grown(400, 512, 256),
    "257 MiB again": _grown(400, 512, 257),
    "XLA at its limit": Edge(facts_of("xla", error=1e-4)),
    "XLA above its limit": Edge(facts_of("xla", error=1.1e-4)),
    "XLA is no number": Edge(facts_of("xla", error=NAN)),
    "half a number off": Edge(facts_of("convolution", error=0.5)),
    "less than half a number off": Edge(facts_of("convolution", error=0.49)),
    "a convolution that is no number": Edge(facts_of("convolution", error=NAN)),
    "waits half the time": _idle(0.5),
    "waits more than half the time": _idle(0.51),
    "no burn-in of one": Edge(lambda work: (burnt()(work), fails("burn", "1")(work))),
    "wrong in the burn-in": Edge(burnt(differing=2, products=1000, seconds=90.0, paces=[])),
    "no pace": _paces(),
    "one pace": _paces(24.0),
    "two paces": _paces(30.0, 16.0),
    "at the limit of its pace": _paces(30.0, 29.0, 28.0, 27.0, 24.0),
    "below its pace": _paces(30.0, 29.0, 28.0, 27.0, 23.9),
    "one fast interval at first": _paces(48.0, *[24.0] * 699),
    "a fast second of five": _paces(20.0, 30.0, 20.0, 20.0, 20.0),
    "a fast second of eight": _paces(20.0, 30.0, *[20.0] * 6),
    "a fast second of ten": _paces(20.0, 30.0, *[20.0] * 8),
    "a slow last of five": _paces(30.0, 30.0, 30.0, 30.0, 16.0),
    "a slow last of eight": _paces(*[30.0] * 7, 16.0),
    "a slow last of ten": _paces(*[30.0] * 9, 16.0),
    "slow fifths of 25": _paces(
        *(31.0, 33.0, 30.0, 34.0, 32.0), *[9.0] * 15, *(21.0, 23.0, 20.0, 24.0, 22.0)
    ),
    "a slower stand-in": Edge(burnt(paces=[0.1, 0.01]), simulated=True),
    "seen in another order": Edge(
        of_host("listed", addresses=["0000:19:00.0", "0000:17:00.0", "0000:18:00.0"])
    ),
    "two are not seen": Edge(of_host("listed", addresses=["0000:18:00.0"])),
    "one more is seen": Edge(
        of_host("listed", addresses=[f"0000:{number}:00.0" for number in (17, 18, 19, 99)])
    ),
    "no list": Edge(_of("host", "listed", to=broken("RuntimeError: no") | {"order": []})),
    "no list of stand-ins": Edge(
        _of("host", "listed", to=broken("RuntimeError: no") | {"order": []}), simulated=True
    ),
    "no card is free": Edge(_nobody_free, 1),
    "no card": Edge(lambda work: (_nobody_free(work), work.update(kind=None, skipped={})), 0),
    "no TensorFlow": Edge(
        lambda work: work.update(missing="there is no TensorFlow: x", host={}, cards={}), 1
    ),
    "the first is in use": Edge(_without_first),
    "the last are taken": Edge(_others_taken, 2),
    "no copies": Edge(trained.ends("copies")),
    "they hang together": Edge(
        lambda work: work["host"].update(
            {"copies": broken("no answer", silent=True) | {"order": work["order"]}}
        )
    ),
    "pairs out of order": Edge(_pairs_out_of_order),
}

TRAINING = {
    "right in nine of ten": Edge(trained.of_card("dense", accuracy=0.9)),
    "right in less": Edge(trained.of_card("dense", accuracy=0.899)),
    "learnt when tried again": Edge(once("dense", answer(accuracy=0.1))),
    "one fails to learn": Edge(fails("dense", "1")),
    "one fails to train": Edge(fails("resnet", "1")),
    "no training on the CPU": Edge(lambda work: work["host"].pop("dense")),
    "the CPU fails to train": Edge(trained.ends("dense")),
    "no time was left": Edge(trained.of_card("resnet", rates={"mixed 1": 260.0})),
    "gradients at their limits": _mirrored(shares=[0.95, 1.05, 1.0]),
    "gradients beyond their limits": _mirrored(4, shares=[0.949, 1.051, 1.0, 1.0]),
    "a gradient that is no number": _mirrored(shares=[1.0, NAN, 1.0]),
    "weights at their limit": _mirrored(apart=[1e-6, 0.0, 0.0]),
    "weights above their limit": _mirrored(apart=[1.1e-6, 0.0, 0.0]),
    "weights of two of four": _mirrored(4, apart=[1e-4, 1e-4, 0.0, 0.0]),
    "weights of two of five": _mirrored(5, apart=[1e-4, 1e-4, 0.0, 0.0, 0.0]),
    "all weights": _mirrored(apart=[1e-4, 2e-4, 3e-4]),
    "the second and the last of nine": _mirrored(
        9, shares=[*[1.0] * 8, 0.0], apart=[0.0, 1.0, *[0.0] * 7]
    ),
    "one gradient in another training": _mirrored(2, replicas=1, shares=[0.0], apart=[0.0]),
    "no training on all of them": Edge(trained.ends("mirrored")),
    "not asked to train together": Edge(lambda work: work["host"].pop("mirrored")),
    "at work half the time": _mirrored(busy=[0.5, 1.0, 1.0]),
    "at work less": _mirrored(busy=[0.49, 1.0, 1.0]),
    "an end at its limits": _mirrored(loss=1e-3, weights=1e-3),
    "a loss above": _mirrored(loss=1.1e-3),
    "weights above": _mirrored(weights=1.1e-3),
    "a loss that is no number": _mirrored(loss=NAN),
    "stand-ins' end at its limits": _mirrored(simulated=True, loss=1e-5, weights=1e-5),
    "stand-ins' loss above": _mirrored(simulated=True, loss=1.1e-5),
    "stand-ins' weights above": _mirrored(simulated=True, weights=1.1e-5),
    "one card's training is wrong": _mirrored(1, weights=0.1),
    "a wrong end once": Edge(
        _of("host", "mirrored", "first", to={"facts": {}, "error": None, "log": []})
    ),
    "no end once": Edge(_of("host", "mirrored", "first", to=broken("signal 11"))),
    "the three are as fast as one": _rates(three=120.0, one=120.0, mixed=90.0),
    "the three are a little faster": _rates(three=120.1, one=120.0),
    "stand-ins are as fast as one": Edge(trained.slower_together, simulated=True),
    "no time for one": _rates(three=300.0),
    "no time for all": _rates(one=120.0, mixed=90.0),
    "one fails in ResNet-50 together": Edge(trained.ends("resnet")),
    "the host's alone": Edge(lambda _: None, 1),
}

KEPT = {
    "killed at once": _checkpoints(killed={"epoch": 0, "step": 0}, began=0, may_begin=[0, 1]),
    "ended before it was killed": _checkpoints(killed=None),
    "began after its end": _checkpoints(began=None),
    "began after its end, as it may": _checkpoints(began=None, may_begin=[3, None]),
    "began an epoch late": _checkpoints(began=3),
    "the end is off by a last bit": _checkpoints(difference=1e-6),
    "the end is off by more": _checkpoints(difference=1.1e-6),
    "the end is no number": _checkpoints(difference=NAN),
    "one checkpoint more": _checkpoints(files=5),
    "the saved weights are no numbers": _checkpoints(saved=NAN),
    "nothing was lost": _logs([0.0, -1.0], [0.0, -1.0]),
    "a loss is logged that is too small": _logs([2.0, 1.0], [2.0, 1.1]),
    "a loss is logged that is off a little": _logs([2.0, 1.000015], [2.0, 1.0]),
    "losses are logged as float32": _logs([2.0, 1.000009], [2.0, 1.0]),
    "a loss is logged that is no number": _logs([2.0, NAN], [2.0, 1.1]),
    "an epoch more is logged": _logs([2.1, 1.7, 1.2], [2.1, 1.7]),
    "no TensorBoard": Edge(
        trained.of_all("export", logs={"error": "No module", "logged": [], "trained": [2.1]})
    ),
    "the saved model at its limit": _exported(1e-4),
    "the saved model above": _exported(1.1e-4),
    "the saved model is no number": _exported(NAN),
    "the lite model at its limit": Edge(trained.lite("float32", difference=1e-4)),
    "the lite model above": Edge(trained.lite("float32", difference=1.1e-4)),
    "the lite model is no number": Edge(trained.lite("float32", difference=NAN)),
    "the mixed model is converted": _mixed(difference=4e-7),
    "the mixed model at its limit": _mixed(difference=1e-2),
    "the mixed model above": _mixed(difference=1.1e-2),
}

OF_FAULTS = {
    **{name: Edge(each.change, each.count, each.simulated) for name, each in WORK_FAULTS.items()},
    **{name: Edge(change) for name, (change, _) in trained.FAULTS.items()},
}
