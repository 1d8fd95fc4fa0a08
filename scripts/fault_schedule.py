"""Draws from a seed what to break, how and when: the part of scripts/faults.py without a host.

The same seed and number give the same fault on every machine, independent of the other faults of
the run, so that a fault that was not cured can be repeated. Moments are fractions, because machines
differ; the durations are learned from the runs (`Estimates`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
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
# One fault of this many starts from a bare host, which takes minutes; the others from a proven one.
BARE_EVERY = 20
BARE = "bare"


@dataclass(frozen=True)
class Wound:
    """Damage to a proven host, so that a run has real work.

    `seconds`: a first guess of the time its repair takes; `phases`: what a fault can wait for in
    it; `pick` names the list of which it removes a random part, from `least` to `most` items.
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
# Those of a virtual machine alone (fault_cuts.py).
CUT_WOUNDS = {
    "driver-leaf": Wound("nvidia_driver", 20, ("dpkg",), 1, "leaf", 1, 1),
    "cuda-libraries": Wound("cuda", 40, ("dpkg",), 1, "libraries", 1, 2),
    "module-uninstalled": Wound("nvidia_driver", 30, ("dkms",)),
    "blacklist-gone": Wound("nvidia_driver", 90, ("initramfs",)),
}
EVERY_WOUND = {**WOUNDS, **CUT_WOUNDS}
# Removed besides a wound, so that packages and their lists are downloaded again.
RIDERS = ("archives", "lists", "sources", "pins")

# {kind: phases that a fault can wait for}; `run` is any moment from the plan to the end.
PHASES = {
    "controller": ("run", "run", "download", "dpkg", "cudnn", "pip"),
    "module": ("run", "run", "download", "dpkg", "cudnn", "pip"),
    "dpkg": ("dpkg",),
    "network": ("download", "download", "pip", "run"),
    "disk": ("dpkg", "cudnn", "pip"),
    "power": ("run", "run", "dpkg", "cudnn", "pip"),
}
# {kind: its variants}
VARIANTS = {
    "controller": ("processes", "processes-and-connections"),
    "network": ("refused", "refused", "silent", "ssh"),
}
# {phase: its share of a component's time}
SHARES = {
    "download": 0.25, "dpkg": 0.45, "pip": 0.7, "cudnn": 0.4, "dkms": 0.5, "initramfs": 0.8
}  # fmt: skip


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
        if self.variant == "receipt":
            where = "the receipt"
        return f"{self.fraction:.0%} of {where}"

    @property
    def state(self) -> str:
        """The host's state before the fault, in words."""
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
    """The fault of a seed and number (from 1); `attempt` counts redraws of one that hit nothing.

    `names`: {pick of a wound: packages or wheels to draw from}. A redraw keeps the kind and the
    variant; everything else is new. Pure.
    """
    kind = deal(f"{seed} kinds", number, len(kinds), [name for name in KINDS if name in kinds])
    # `attempt` is left out: a redraw of a bare start would take minutes again.
    bare = attempt == 0 and _is_bare(seed, number)
    fixed = random.Random(f"provision {seed} {number} {kind}")  # noqa: S311 (not a secret)
    variant = fixed.choice(VARIANTS.get(kind, ("",)))
    rng = random.Random(f"provision {seed} {number} {kind} {attempt}")  # noqa: S311
    if variant == "silent":
        # pip waits minutes on a silent network; apt half a minute.
        phases: tuple[str, ...] = ("download",)
    else:
        phases = PHASES[kind]
    during = rng.choice(phases)
    start, riders = ((BARE,), ()) if bare else _wounds(rng, during)
    if during == "download" and "archives" not in riders and not bare:
        riders = ("archives", *riders)
    fraction = round(rng.random(), 3)
    picked = [item for name in start for item in pick(rng, name, names)]
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


def pick(rng: random.Random, name: str, names: Mapping[str, Sequence[str]]) -> list[str]:
    """The packages or wheels that a wound removes; none where it removes something else."""
    wound = EVERY_WOUND.get(name)
    if wound is None or not wound.pick:
        return []
    pool = sorted(names[wound.pick])
    most = min(wound.most, len(pool))
    return sorted(rng.sample(pool, rng.randint(min(wound.least, most), most)))


def schedule(
    seeds: Sequence[int], count: int, *, draw: Callable[..., Fault] = draw, **how: Any
) -> list[Fault]:
    """The first draw of every fault, seed by seed; `how` are further arguments of `draw`."""
    return [draw(seed, number, **how) for seed in seeds for number in range(1, count + 1)]


def deal(text: str, number: int, size: int, values: Sequence[str]) -> str:
    """The value at `number` of a series of shuffled decks of `size` values, for an even draw."""
    deck = list(values)
    random.Random(f"provision {text} {(number - 1) // size}").shuffle(deck)  # noqa: S311
    return deck[(number - 1) % size]


def _is_bare(seed: int, number: int) -> bool:
    block, place = divmod(number - 1, BARE_EVERY)
    return place == random.Random(f"provision {seed} bare {block}").randrange(BARE_EVERY)  # noqa: S311


def _wounds(rng: random.Random, during: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(wounds, riders): a wound whose repair has the phase, perhaps more; one per component."""
    able = {n: w for n, w in WOUNDS.items() if during == "run" or during in w.phases}
    chosen = {weighted(rng, able)}
    for _ in range(rng.choice((0, 0, 1, 2))):
        taken = {WOUNDS[name].component for name in chosen}
        # The others only cheap: a run should take a minute.
        others = {n: w for n, w in WOUNDS.items() if w.component not in taken and w.seconds <= 15}
        chosen.add(weighted(rng, others))
    riders: tuple[str, ...] = ()
    if any("dpkg" in WOUNDS[name].phases for name in chosen):
        riders = tuple(name for name in RIDERS if rng.random() < 0.25)
    order = list(WOUNDS)
    return tuple(sorted(chosen, key=order.index)), riders


def weighted(rng: random.Random, wounds: Mapping[str, Wound]) -> str:
    names = list(wounds)
    return rng.choices(names, [wounds[name].weight for name in names])[0]


@dataclass
class Estimates:
    """How long components take on this machine: guesses, corrected by the runs' reports."""

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
    # {component: measured time divided by the guess}
    factors: dict[str, float] = field(default_factory=dict)

    def component(self, start: Sequence[str], component: str) -> float:
        """Seconds that a component's role takes from this state."""
        if BARE in start:
            guess = self.bare.get(component, 0.0)
        else:
            guess = sum(
                EVERY_WOUND[n].seconds for n in start if EVERY_WOUND[n].component == component
            )
        return guess * self.factors.get(component, 1.0)

    def run(self, start: Sequence[str]) -> float:
        """Seconds from the plan to the end of the run."""
        return self.base + sum(self.component(start, component) for component in self.bare)

    def phase(self, start: Sequence[str], during: str) -> float:
        """Seconds that a phase takes, from its beginning."""
        if during == "run":
            return self.run(start)
        chosen = self.bare if BARE in start else {EVERY_WOUND[n].component: 0.0 for n in start}
        able = {w.component for w in EVERY_WOUND.values() if during in w.phases} & set(chosen)
        # On a bare host apt runs twice; the driver's run is the first.
        first = next((c for c in self.bare if c in able), "")
        return self.component(start, first) * SHARES[during]

    def learn(self, start: Sequence[str], took: Mapping[str, float], total: float | None) -> None:
        """Corrects the estimates by a run's seconds, by component and in total."""
        for component, seconds in took.items():
            guess = self.component(start, component)
            if guess > 0:
                old = self.factors.get(component, 1.0)
                # The mean of old and new: the machine's load changes.
                self.factors[component] = old * (1 + min(seconds / guess, 5.0)) / 2
        if total is not None:
            self.base = (self.base + max(total - sum(took.values()), 5.0)) / 2


def table(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """A Markdown table of faults and proven ones by kind; faults that hit nothing don't count."""
    lines = ["| kind | what | faults | proven |", "|---|---|---:|---:|"]
    rows = [
        (kind, MEANING[kind], [result for result in results if result["fault"]["kind"] == kind])
        for kind in KINDS
    ]
    for kind, meaning, of_kind in rows:
        if of_kind:
            good = sum(1 for result in of_kind if result["proven"])
            lines.append(f"| {kind} | {meaning} | {len(of_kind)} | {good} |")
    good = sum(1 for result in results if result["proven"])
    lines.append(f"| all | | {len(results)} | {good} |")
    return lines


def entry_of(
    code: int, report: Mapping[str, Any] | None, host: str
) -> tuple[Mapping[str, Any], list[str]]:
    """The host's entry in a run's report, and why there is none. Pure."""
    if report is None:
        return {}, [f"the run wrote no report (exit {code})"]
    entry = (report.get("hosts") or {}).get(host)
    return (
        (entry, [])
        if entry is not None
        else ({}, [f"the report does not know the host (exit {code})"])
    )


def judge(
    code: int, report: Mapping[str, Any] | None, host: str, *, again: bool = False
) -> list[str]:
    """Why a run did not prove the host; empty where it did. Pure.

    `report` is None where the run wrote none. With `again` the run must find nothing to do.
    """
    entry, missing = entry_of(code, report, host)
    if missing:
        return missing
    wrong = [] if code == 0 else [f"ansible-playbook ended with {code}"]
    good = ("converged", "proven") if again else ("proven",)
    if entry.get("status") not in good:
        message = (entry.get("failure") or {}).get("message") or ""
        wrong.append(f"the host is {entry.get('status')}: {message}".rstrip(": "))
    left = entry.get("changes") if again else entry.get("left")
    if left:
        items = ", ".join(f"{change.get('component')} {change.get('item')}" for change in left[:5])
        wrong.append(f"{'changed again' if again else 'left'}: {items}")
    return wrong
