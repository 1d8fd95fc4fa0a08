"""Why a bound is not met, in the run's own figures; "" where these do not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench import spending
from bench.figures import median, ratio

Part = Mapping[str, Any]


def _middle(runs: Sequence[Mapping[str, Any]], word: str) -> float | None:
    values = [run[word] for run in runs if word in run]
    return median(values) if values else None


def cold(part: Part) -> str:
    """Where the time of our cold run went that a person's did not."""
    ours, hand = part.get("ours", []), part.get("by_hand", [])
    long, steps, installed = (_middle(ours, word) for word in ("long", "steps", "installed"))
    theirs = _middle(hand, "installed")
    if long is None or steps is None or installed is None or theirs is None:
        return ""
    return (
        f"until everything is installed, those of our {steps:.0f} modules that take a second or "
        f"more took {long:.0f} s, and the others plus Ansible's communication with the host "
        f"{installed - long:.0f} s; by hand everything took {theirs:.0f} s. {_limits(part)}"
    ).strip()


def _limits(part: Part) -> str:
    """What the same work takes at least, by the resource."""
    return spending.least_words(part.get("limits") or {})


def many(part: Part, count: int) -> str:
    """What of the distance to plain ssh is Ansible's own, and what the hosts'."""
    ways = part.get("runs", {}).get(str(count), {})
    ours, ssh, floor = (ways.get(way, []) for way in ("ours", "ssh", "floor"))
    least = ratio([run["wall"] for run in floor], [run["wall"] for run in ssh])
    if least is None or not ours:
        return ""
    cpu = {way: _middle(ways[way], "cpu") or 0.0 for way in ("ours", "ssh", "floor")}
    hosts = {way: _middle(ways[way], "hosts_cpu") or 0.0 for way in ("ours", "ssh")}
    return (
        f"of the controller's {cpu['ours']:.1f} s of CPU Ansible's empty task takes "
        f"{cpu['floor']:.1f} s, plain ssh {cpu['ssh']:.1f} s; the hosts' CPU is "
        f"{hosts['ours']:.1f} s against {hosts['ssh']:.1f} s. The empty task alone takes "
        f"{least:.2f} of the time of plain ssh, although it checks nothing"
    )


def controller(part: Part, few: int, many_hosts: int) -> str:
    """What of a further host's processor time is Ansible's own."""
    runs = part.get("runs", {})
    ends = [runs.get(str(count), {}).get("floor", []) for count in (few, many_hosts)]
    if not all(ends):
        return ""
    first, last = (median([run["cpu"] for run in end]) for end in ends)
    seconds = (last - first) / (many_hosts - few)
    return f"Ansible's empty task takes {seconds:.3f} s of it"


def solve(part: Part) -> str:
    """How much of the lock's CPU time uv takes, and how much the rest."""
    runs = part.get("runs", {}).get("10000", [])
    if not runs:
        return ""
    wheels, own = (_middle(runs, word) or 0.0 for word in ("wheels", "lock"))
    return (
        f"{wheels:.1f} s of it are uv's, which resolves the wheels of {part.get('kinds')} stacks; "
        f"the lock itself takes {own:.1f} s"
    )


def ubuntu(part: Part, way: str) -> str:
    """What the host's processors did more than for the tutorials' commands, and how full they were.

    Two processors can do two seconds of work in a second: what is less was waiting.
    """
    ours, theirs = part.get(way, []), part.get("tutorial", [])
    our_cpu, their_cpu = _middle(ours, "cpu"), _middle(theirs, "cpu")
    our_wall, their_wall = _middle(ours, "proven"), _middle(theirs, "proven")
    if our_cpu is None or their_cpu is None or not our_wall or not their_wall:
        return ""
    text = (
        f"the host used {our_cpu:.0f} s of CPU against {their_cpu:.0f} s for theirs, with "
        f"{our_cpu / our_wall:.2f} processors busy against {their_cpu / their_wall:.2f}"
    )
    spent = _middle_of(ours, "spent")
    if spent:
        longest = sorted(spent.items(), key=lambda item: -item[1])[:3]
        text += "; the longest of ours: " + ", ".join(f"{n} {s:.0f} s" for n, s in longest)
    least = spending.least_words(part.get("limits") or {})
    return f"{text}. {least}" if least else text


def _middle_of(runs: Sequence[Mapping[str, Any]], word: str) -> dict[str, float]:
    """The medians of a figure that is itself several, by their names."""
    breakdowns = [run[word] for run in runs if word in run]
    names = breakdowns[0] if breakdowns else {}
    return {name: median([figures.get(name, 0.0) for figures in breakdowns]) for name in names}


def together(part: Part) -> str:
    """How much processor time was used, and how many of the processors were busy."""
    runs = part.get("runs", [])
    cpu, wall, hand = (_middle(runs, word) for word in ("cpu", "ours", "hand_cpu"))
    if cpu is None or not wall or hand is None:
        return ""
    return (
        f"the six hosts used {cpu:.0f} s of CPU where six by hand take {hand:.0f} s, and "
        f"{cpu / wall:.2f} of {part.get('cores')} processors were busy"
    )


def outside(part: Part, count: int) -> str:
    """What each further host had fetched anew, and how large pip's index pages are.

    The cache asks for those again for each host: an index is never older than upstream's.
    """
    fetched, pages = part.get("bytes", {}), part.get("index") or {}
    if "1" not in fetched or str(count) not in fetched or not pages:
        return ""
    host_bytes = (fetched[str(count)] - fetched["1"]) / (count - 1)
    answer = "omits them" if pages["validated"] else "sends them in full: it has no ETags"
    return (
        f"each additional host takes {host_bytes / 1e6:.1f} MB. pip's index pages of the "
        f"{pages['projects']} projects are {pages['bytes'] / 1e6:.1f} MB. They are requested again "
        f"for each host, and this index {answer}"
    )


def bundle(part: Part) -> str:
    """The seconds of each step."""
    runs = part.get("runs", [])
    steps = _middle_of(runs, "steps")
    return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in steps.items())
