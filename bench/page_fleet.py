"""The page's parts of many hosts and of bundles, and why a bound is not met."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from bench import figures

WAYS = {
    "ours": "`ansible-playbook site.yml`",
    "ssh": "one script over plain ssh",
    "pyinfra": "pyinfra",
    "ansible": "plain tuned Ansible tasks",
    "floor": "Ansible with one empty task (its own floor)",
}

ABOUT_TOGETHER = """\
## (h) Six bare hosts at once

Six of the hosts of (a), set up by one `ansible-playbook` from the same filled caches. Controller
and hosts share this machine's processors, which are the bottleneck here. "By hand" is the script of
(a) on one host that has the machine to itself. *Least* is the time that six of it take if no
processor is ever idle: nothing that does the same work can be faster.
"""

ABOUT_OUTSIDE = """\
### What comes from outside

Bare hosts using the role `artifact_cache` ([cache.md](cache.md)), with Debian's own archive and
PyPI. Each number of hosts starts with an empty cache, and all hosts download at once. The figures
are what the cache received, according to its log.
"""

ABOUT_THOUSAND = """\
## (i) A thousand converged hosts

As in (b), with one sshd for each of a thousand hosts, and without the slower ways (pyinfra,
Ansible's tasks). Memory is measured in a separate run, with each shared page counted once: the
controller's peak, including its workers and the ssh of every host, and that of all hosts together
with their connections open.
"""

ABOUT_BUNDLE = """\
## (j) A bundle of the demo's stack

`provision bundle --from` an earlier bundle that has every file, so that no network is involved: it
reads, hashes and writes each file, reads the packages' indices again, and syncs the disk (`sync`).
It is compared with `cp -r` plus `sync`, and `sha256sum` of all files.
"""


def reasons(bounds: Sequence[figures.Bound]) -> str:
    """The bounds that are not met, with what the run's figures say of each; "" of none."""
    lines = [
        f"- ({bound.part}) {bound.text}: {bound.reason.rstrip('.')}."
        for bound in bounds
        if bound.met is False and bound.reason
    ]
    return (
        "\n".join(["Why some bounds are not met, by the figures of this run:", "", *lines, ""])
        if lines
        else ""
    )


def together(part: Mapping[str, Any]) -> str:
    """Six at once, against what the processors need."""
    runs = part["runs"]
    rows = []
    least = [run["least"] for run in runs]
    for word, text in (
        ("ours", "six of ours at once"),
        ("least", "six by hand, at least"),
        ("hand", "one by hand"),
    ):
        walls = [run[word] for run in runs]
        ratio = figures.ratio(walls, least) if word == "ours" else None
        cpu = {"ours": "cpu", "least": "hand_cpu"}.get(word)
        rows.append(
            [
                text,
                figures.spread(walls),
                f"{figures.median([run[cpu] for run in runs]):.0f}" if cpu else "",
                f"{ratio:.2f}" if ratio else "",
            ]
        )
    return figures.table(["", "seconds", "hosts' CPU", "of the least"], rows)


def outside(part: Mapping[str, Any]) -> str:
    """Bytes from outside by the number of hosts."""
    fetched = part["bytes"]
    baseline = fetched.get("1")
    rows = [
        [
            count,
            f"{value / 1e9:.3f} GB",
            f"{value / baseline:.3f}" if baseline else "",
            f"{part['seconds'][count]:.0f}",
        ]
        for count, value in fetched.items()
    ]
    return figures.table(["hosts", "from outside", "of one host's", "seconds until proven"], rows)


def thousand(part: Mapping[str, Any]) -> str:
    """Seconds, processor time and memory by the number of hosts, and for each further one."""
    rows = []
    for count, ways in part["runs"].items():
        ours = [run["wall"] for run in ways["ours"]]
        memory = part.get("memory", {}).get(count)
        for way, runs in ways.items():
            walls = [run["wall"] for run in runs]
            ratio = figures.ratio(ours, walls)
            weighed = memory if way == "ours" and memory else {}
            rows.append(
                [
                    count,
                    WAYS[way],
                    figures.spread(walls),
                    f"{figures.median([run['cpu'] for run in runs]):.1f}",
                    f"{figures.median([run['hosts_cpu'] for run in runs]):.1f}",
                    *(
                        f"{weighed[end] >> 20} MiB" if weighed else ""
                        for end in ("controller", "hosts")
                    ),
                    f"{ratio:.2f}" if ratio and way != "ours" else "",
                ]
            )
    header = [
        *("hosts", "", "seconds", "controller CPU", "hosts' CPU"),
        *("controller's memory", "hosts' memory", "ours / this"),
    ]
    return figures.table(header, rows) + "\n" + further(part)


def further(part: Mapping[str, Any]) -> str:
    """What each host more costs, from each number of hosts to the next: linear where it stays."""
    counts = sorted(int(count) for count in part["runs"])
    lines = []
    for few, many in itertools.pairwise(counts):
        costs = []
        for word, unit in (("wall", "s"), ("cpu", "s of the controller's CPU")):
            ends = [
                figures.median([run[word] for run in part["runs"][str(count)]["ours"]])
                for count in (few, many)
            ]
            costs.append(f"{(ends[1] - ends[0]) / (many - few):.3f} {unit}")
        memory = [
            part.get("memory", {}).get(str(count), {}).get("controller") for count in (few, many)
        ]
        if all(memory):
            costs.append(f"{(memory[1] - memory[0]) / (many - few) / 2**20:.1f} MiB")
        lines.append(f"- from {few:,} to {many:,}: {', '.join(costs)}")
    return "\n".join(["Each additional host takes", "", *lines, ""]) if lines else ""


def bundle(part: Mapping[str, Any]) -> str:
    """Ours against both of theirs."""
    runs = part["runs"]
    theirs = [run["cp"] + run["sha256sum"] for run in runs]
    rows = []
    for text, walls in (
        ("`provision bundle --from`", [run["ours"] for run in runs]),
        ("`cp` and `sha256sum`", theirs),
        ("`cp` alone", [run["cp"] for run in runs]),
        ("`sha256sum` alone", [run["sha256sum"] for run in runs]),
    ):
        ratio = figures.ratio([run["ours"] for run in runs], walls)
        shown = f"{ratio:.2f}" if ratio and text != "`provision bundle --from`" else ""
        rows.append([text, figures.spread(walls), shown])
    if "stand_in" in part:
        stand_in = (
            "\nUpstream no longer has all of the demo's stack, so another one was used: "
            f"{part['stand_in']}.\n"
        )
    else:
        stand_in = ""
    return (
        figures.table(["", "seconds", "ours / this"], rows)
        + stand_in
        + (
            f"\n{part['files']} files, {part['bytes'] / 1e9:.2f} GB. Making it from upstream took "
            f"{part['fetched']:.0f} s, and `--verify` takes {part['verified']:.1f} s.\n"
        )
    )
