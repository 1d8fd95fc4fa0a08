"""What to break, how and when, drawn from a seed: the part of scripts/faults.py without a host.

The same seed and number give the same fault on every machine, whatever else is asked for in the
same run: so a fault that was not cured can be had again. Moments are fractions, not seconds, for
machines differ; what they are fractions of is learned from the runs (`Estimates`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

# In a block of this many faults each kind comes once; the order of kinds here is part of the draw.
KINDS = ("controller", "module", "dpkg", "network", "disk", "power")
MEANING = {
    "controller": "kill -9 of ansible-playbook and its process group",
    "module": "kill -9 of the module's Python on the host",
    "dpkg": "kill -9 of dpkg on the host",
    "network": "the host's network is cut",
    "disk": "the host's disk is filled",
    "power": "power-off of the host",
}
# One fault of so many starts from a bare host, which takes minutes; the others from a proven one.
BARE_EVERY = 20
BARE = "bare"


@dataclass(frozen=True)
class Wound:
    """Something that is broken on a proven host, so that a run has real work.

    `seconds` is a first guess of the work it makes; `phases` are the kinds of work a fault can wait
    for there; `pick` names what it takes a random part of, from `least` to `most` of it.
    """

    component: str
    seconds: float
    phases: tuple[str, ...] = ()
    weight: int = 4
    pick: str = ""
    least: int = 0
    most: int = 0


WOUNDS = {
    "driver-few": Wound("nvidia_driver", 12, ("download", "dpkg"), 4, "driver", 1, 3),
    "driver-all": Wound("nvidia_driver", 16, ("download", "dpkg"), 2, "driver", 99, 99),
    "driver-files": Wound("nvidia_driver", 8),
    "cuda-few": Wound("cuda", 12, ("download", "dpkg"), 5, "leaves", 1, 3),
    "cuda-many": Wound("cuda", 60, ("download", "dpkg"), 1, "cuda", 2, 6),
    "cuda-all": Wound("cuda", 80, ("download", "dpkg"), 1, "cuda", 99, 99),
    "cuda-holds": Wound("cuda", 8, (), 1),
    "cudnn-gone": Wound("cudnn", 20, ("cudnn",), 4),
    "cudnn-files": Wound("cudnn", 20, ("cudnn",), 2),
    "cudnn-link": Wound("cudnn", 6, (), 1),
    "env-gone": Wound("gpu_env", 8, (), 2),
    "wheels": Wound("tensorflow", 12, ("pip",), 5, "wheels", 1, 6),
    "venv-gone": Wound("tensorflow", 70, ("pip",), 1),
    "venv-away": Wound("tensorflow", 70, ("pip",), 1),
}
# Taken away beside a wound: without them packages, and the lists of them, are downloaded anew.
RIDERS = ("archives", "lists", "sources", "pins")

# What a fault of a kind can wait for; `run` is any moment from the plan to the end.
PHASES = {
    "controller": ("run", "run", "download", "dpkg", "cudnn", "pip"),
    "module": ("run", "run", "download", "dpkg", "cudnn", "pip"),
    "dpkg": ("dpkg",),
    "network": ("download", "download", "pip", "run"),
    "disk": ("dpkg", "cudnn", "pip"),
    "power": ("run", "run", "dpkg", "cudnn", "pip"),
}
# How it is done, where there is more than one way.
VARIANTS = {
    "controller": ("processes", "processes-and-connections"),
    "network": ("refused", "refused", "silent", "ssh"),
}
# The share of a component's time that one phase takes: apt downloads and dpkg installs.
SHARES = {"download": 0.25, "dpkg": 0.45, "pip": 0.7, "cudnn": 0.4}


@dataclass(frozen=True)
class Fault:
    """One fault as drawn. `during` is a phase, and `fraction` where in it."""

    seed: int
    number: int
    attempt: int
    kind: str
    variant: str
    start: tuple[str, ...]
    picked: tuple[str, ...]
    riders: tuple[str, ...]
    during: str
    fraction: float

    @property
    def bare(self) -> bool:
        return self.start == (BARE,)

    @property
    def moment(self) -> str:
        where = "the run" if self.during == "run" else self.during
        return f"{self.fraction:.0%} of {where}"

    @property
    def state(self) -> str:
        """The host before, in words."""
        parts = [*self.start, *self.riders]
        return "+".join(parts) + (f" ({len(self.picked)})" if self.picked else "")

    def data(self) -> dict[str, Any]:
        return asdict(self)


def draw(
    seed: int,
    number: int,
    attempt: int = 0,
    *,
    kinds: Sequence[str] = KINDS,
    names: Mapping[str, Sequence[str]],
) -> Fault:
    """The fault of this seed and number (from 1); `attempt` grows when one hit nothing.

    `names` are the packages and wheels that a wound takes a part of, by its `pick`.
    A redraw keeps the kind and the way; everything else is new. Pure.
    """
    kind = _of_block(f"{seed} kinds", number, len(kinds), [one for one in KINDS if one in kinds])
    # `attempt` is left out: a redraw of a bare start would take minutes again.
    bare = attempt == 0 and _is_bare(seed, number)
    fixed = random.Random(f"provision {seed} {number} {kind}")  # noqa: S311 (not a secret)
    variant = fixed.choice(VARIANTS.get(kind, ("",)))
    rng = random.Random(f"provision {seed} {number} {kind} {attempt}")  # noqa: S311
    if variant == "silent":
        # pip's own patience with a silent network is minutes; apt's is half of one.
        phases: tuple[str, ...] = ("download",)
    else:
        phases = PHASES[kind]
    during = rng.choice(phases)
    start, riders = ((BARE,), ()) if bare else _wounds(rng, during)
    if during == "download" and "archives" not in riders and not bare:
        riders = ("archives", *riders)
    fraction = round(rng.random(), 3)
    picked: list[str] = []
    for name in start:
        wound = WOUNDS.get(name)
        if wound is not None and wound.pick:
            pool = sorted(names[wound.pick])
            most = min(wound.most, len(pool))
            picked += sorted(rng.sample(pool, rng.randint(min(wound.least, most), most)))
    return Fault(
        seed,
        number,
        attempt,
        kind,
        variant,
        start,
        tuple(picked),
        riders,
        during,
        fraction,
    )


def schedule(
    seeds: Sequence[int],
    count: int,
    *,
    kinds: Sequence[str] = KINDS,
    names: Mapping[str, Sequence[str]],
) -> list[Fault]:
    """The first draw of every fault, seed by seed."""
    return [
        draw(seed, number, kinds=kinds, names=names)
        for seed in seeds
        for number in range(1, count + 1)
    ]


def _of_block(text: str, number: int, size: int, values: Sequence[str]) -> str:
    """Decks of all values, each shuffled by its own number: as even as a draw can be."""
    deck = list(values)
    random.Random(f"provision {text} {(number - 1) // size}").shuffle(deck)  # noqa: S311
    return deck[(number - 1) % size]


def _is_bare(seed: int, number: int) -> bool:
    block, place = divmod(number - 1, BARE_EVERY)
    return place == random.Random(f"provision {seed} bare {block}").randrange(BARE_EVERY)  # noqa: S311


def _wounds(rng: random.Random, during: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """One wound that makes the phase happen, and now and then others; one per component."""
    able = {n: w for n, w in WOUNDS.items() if during == "run" or during in w.phases}
    chosen = {_weighted(rng, able)}
    for _ in range(rng.choice((0, 0, 1, 2))):
        taken = {WOUNDS[name].component for name in chosen}
        # Of others only cheap ones: a run should take a minute.
        others = {n: w for n, w in WOUNDS.items() if w.component not in taken and w.seconds <= 15}
        chosen.add(_weighted(rng, others))
    riders: tuple[str, ...] = ()
    if any("dpkg" in WOUNDS[name].phases for name in chosen):
        riders = tuple(name for name in RIDERS if rng.random() < 0.25)
    order = list(WOUNDS)
    return tuple(sorted(chosen, key=order.index)), riders


def _weighted(rng: random.Random, wounds: Mapping[str, Wound]) -> str:
    names = list(wounds)
    return rng.choices(names, [wounds[name].weight for name in names])[0]


@dataclass
class Estimates:
    """How long work takes here: guesses at first, then what the runs' reports said."""

    base: float = 18.0
    bare: dict[str, float] = field(
        default_factory=lambda: {
            "nvidia_driver": 25.0,
            "cuda": 90.0,
            "cudnn": 35.0,
            "gpu_env": 8.0,
            "tensorflow": 80.0,
        }
    )
    # Measured by guessed, per component.
    factors: dict[str, float] = field(default_factory=dict)

    def component(self, start: Sequence[str], component: str) -> float:
        """Seconds that the role of a component works, started from this state."""
        if BARE in start:
            guess = self.bare.get(component, 0.0)
        else:
            guess = sum(WOUNDS[n].seconds for n in start if WOUNDS[n].component == component)
        return guess * self.factors.get(component, 1.0)

    def run(self, start: Sequence[str]) -> float:
        """Seconds from the plan to the end of the run."""
        return self.base + sum(self.component(start, component) for component in self.bare)

    def phase(self, start: Sequence[str], during: str) -> float:
        """Seconds that a phase lasts, from when it is first seen."""
        if during == "run":
            return self.run(start)
        chosen = self.bare if BARE in start else {WOUNDS[n].component: 0.0 for n in start}
        able = {w.component for w in WOUNDS.values() if during in w.phases} & set(chosen)
        # From bare there are two of apt's; the first that is seen is the driver's.
        first = next((c for c in self.bare if c in able), "")
        return self.component(start, first) * SHARES[during]

    def learn(self, start: Sequence[str], took: Mapping[str, float], total: float | None) -> None:
        """Takes what components took in a run, and, of a whole one, all of it from the plan on."""
        for component, seconds in took.items():
            guess = self.component(start, component)
            if guess > 0:
                old = self.factors.get(component, 1.0)
                # Half of the new: the machine's load changes.
                self.factors[component] = old * (1 + min(seconds / guess, 5.0)) / 2
        if total is not None:
            self.base = (self.base + max(total - sum(took.values()), 5.0)) / 2


def table(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """kind x (faults, proven), as a Markdown table; faults that hit nothing are none."""
    lines = ["| kind | what | faults | proven |", "|---|---|---:|---:|"]
    rows = [
        (kind, MEANING[kind], [one for one in results if one["fault"]["kind"] == kind])
        for kind in KINDS
    ]
    for kind, meaning, ones in rows:
        if ones:
            good = sum(1 for one in ones if one["proven"])
            lines.append(f"| {kind} | {meaning} | {len(ones)} | {good} |")
    good = sum(1 for one in results if one["proven"])
    lines.append(f"| all | | {len(results)} | {good} |")
    return lines


def judge(
    code: int, report: Mapping[str, Any] | None, host: str, *, again: bool = False
) -> list[str]:
    """Why a run did not prove the host; nothing where it did. Pure.

    `report` is None where the run wrote none of its own. With `again` it is the run after the
    proof, which must find nothing to do.
    """
    if report is None:
        return [f"the run wrote no report (exit {code})"]
    entry = (report.get("hosts") or {}).get(host)
    if entry is None:
        return [f"the report does not know the host (exit {code})"]
    wrong = [] if code == 0 else [f"ansible-playbook ended with {code}"]
    wanted = ("converged", "proven") if again else ("proven",)
    if entry.get("status") not in wanted:
        said = (entry.get("failure") or {}).get("message") or ""
        wrong.append(f"the host is {entry.get('status')}: {said}".rstrip(": "))
    left = entry.get("changes") if again else entry.get("left")
    if left:
        items = ", ".join(f"{one.get('component')} {one.get('item')}" for one in left[:5])
        wrong.append(f"{'changed again' if again else 'left'}: {items}")
    return wrong
