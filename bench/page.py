"""Renders docs/benchmark.md from docs/benchmark.json: figures, verdicts, and the method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench import bounds, figures, page_fleet, spending
from bench.page_fleet import WAYS

UBUNTU = {
    "ours": "ours",
    "network": "ours, NVIDIA's repository",
    "sources": "ours, their sources",
    "tutorial": "the tutorials' commands",
}

INTRODUCTION = """\
# Benchmark

`make bench` measures and writes this page; the raw figures are in
[benchmark.json](benchmark.json). The ratios are what matters: each run measures all ways in turn,
round by round, and a ratio is the median of the rounds' ratios. Seconds are those of one machine.
"""

ABOUT_COLD = """\
## (a) A bare host, cold

A fresh Debian 11 host in a container with only sshd and Python; packages, wheels and cuDNN's
archive come from the same filled caches. "By hand" is `bench/ways/by_hand.sh`: the same steps in
one script, written by somebody who knows every version and file beforehand: apt's components and
pins, all packages in one transaction, held; cuDNN copied, checked and unpacked; the environment; a
venv with hashed wheels. It leaves the same state (the run compares packages, holds, files, links,
wheels and every file of cuDNN) and ends with the same proof: `nvidia-smi`, `nvcc`, TensorFlow's
GPUs, a small fit. It has no plan, no refusal before damage, no atomic steps and no second run.
"""

ABOUT_RERUN = """\
## (b) Hosts that are already converged

The hosts are sshd instances on one converged host, each with its own connections, logins and sudo.
They share that host's disk and this machine's processors, so at 100 hosts the processor time of
both ends is what limits the speed. All ways use the same key, ciphers and key exchange, 50 hosts at
once, and start without open connections.

- *plain ssh*: `bench/ways/assert.sh`, which asserts what the look asserts: packages and holds, each
  file of the packages, our files, links, cuDNN's files, sonames, systemd's environment, wheels and
  their libraries, the receipt.
- *pyinfra* and *plain Ansible*: the same packages, holds, files, links, cuDNN's files, sonames and
  wheels, with their own modules (`bench/ways/assert_pyinfra.py`, `bench/ways/assert.yml`). Neither
  can check the files inside packages and wheels, so they check less. Ansible's tasks are tuned:
  pipelining, 50 forks, no facts. Plain Ansible is left out at 100 hosts, where it takes a quarter
  of an hour.

At 100 hosts, ours and plain ssh use about the same CPU time on the hosts. The difference is on the
controller, and most of it is what Ansible needs for an empty task, ssh's own processes included.
"""

ABOUT_RENDER = """\
## (c) `provision render` for many hosts

An inventory of racks with five variables per host. *ours* is the processor time and memory of
`provision render` itself; *ansible-inventory* is the child process that reads the inventory for it.
"""

ABOUT_SOLVE = """\
## (e) From wishes to a tree: many hosts of 12 kinds

Three platforms, twelve releases of TensorFlow and six models of GPU, all set in the inventory;
apt's indices and the package index are in the cache (`UV_OFFLINE`). *lock* is the processor time of
`provision lock` itself, *wheels* that of uv, which it calls for each stack's wheels, and *render*
that of `provision render`. *ansible-inventory* is what both take to read the inventory. More than
half of the sum is uv's, which resolves the wheels of twelve stacks.
"""

ABOUT_CPU = """\
## (d) The controller, per converged host

From (b): processor time on the controller, including ssh and its masters: that for 100 hosts minus
that for one, divided by 99.
"""

ABOUT_UBUNTU = """\
## (f) A bare host that identifies as Ubuntu, cold, against the tutorials

A fresh host with Ubuntu 20.04's identity, a Debian 11 userland and a kernel under /boot. NVIDIA's
and Canonical's servers are stand-ins on this machine, made of Debian's packages and accessed over
TLS. The tutorials' commands are `bench/ways/tutorial.sh`: nouveau disabled, the R470 `.run` with
`--silent --dkms --no-questions`, the CUDA 11.2.2 local installer and `cuda-toolkit-11-2`, cuDNN's
tarball copied into CUDA's tree, `.bashrc`, a venv and pip. All ways install the same releases, have
the same apt and pip caches, and end with the same proof: `nvidia-smi`, `nvcc`, TensorFlow's GPUs, a
small fit. After each, the driver's modules for the host's kernel are installed.

- *ours* is what a wish that names no source gets: Canonical's driver, whose modules are already
  built, and CUDA from NVIDIA's network repository. The stand-in for Canonical's modules is built on
  another host with the same kernel before the measurement starts, and is not signed.
- *ours, NVIDIA's repository* takes the driver from there as well; DKMS builds its modules.
- *ours, their sources* uses the `.run` file and the local installer, as the tutorials do.

What the host received is counted at its network interface: packages, archives, wheels and what
Ansible sends. The servers are on the same machine as the hosts, so nothing waits for a network:
downloads cost only the processor time to encrypt, write and hash them. Over a real network each
byte costs more, so receiving fewer bytes matters more.
"""

ABOUT_WORKSPACES = """\
## (g) Workspaces for ten people on a host, against one

A Debian 11 host that is proven except for workspaces, with docker (overlay2) and the image, which
is Debian's notebook and sshd (0.6 GB). Nobody has a GPU. The figures are for `provision apply` from
nobody to one person, from nobody to ten, and with more memory for one of ten. They include the
look, the containers, and the proof, which starts each Jupyter and queries it with its token and
without. All three also include the host's own checks of the rest of its stack.
"""

AGAIN = """\
## Measure it yourself

    make bench                                  # everything, about three hours on 2 cores
    .venv/bin/python scripts/benchmark.py --only rerun --hosts 1,10 --rounds 2
    .venv/bin/python scripts/benchmark.py --only ubuntu --cold-rounds 2
    .venv/bin/python scripts/benchmark.py --only thousand,bundle
    .venv/bin/python scripts/benchmark.py --only together,outside

It needs what local labs need (see [local-lab.md](local-lab.md)), creates its own hosts and removes
them. (h) takes 63 GiB of disk, (i) 11 GiB of free memory; if the machine lacks these, it says so
before it creates their first host. It exits with 0 whatever the ratios are: a slow machine is not
an error. Each part is written as soon as it is measured. Run it on an otherwise idle machine.
"""


def render(results: Mapping[str, Any]) -> str:
    """The whole page."""
    machine = results["machine"]
    parts = [INTRODUCTION, _verdicts(results), _machine(machine)]
    for part, words, table in (
        ("cold", ABOUT_COLD, _cold),
        ("rerun", ABOUT_RERUN, _rerun),
        ("render", ABOUT_RENDER, _render),
        ("rerun", ABOUT_CPU, _cpu),
        ("solve", ABOUT_SOLVE, _solve),
        ("ubuntu", ABOUT_UBUNTU, _ubuntu),
        ("workspaces", ABOUT_WORKSPACES, _workspaces),
        ("together", page_fleet.ABOUT_TOGETHER, page_fleet.together),
        ("outside", page_fleet.ABOUT_OUTSIDE, page_fleet.outside),
        ("thousand", page_fleet.ABOUT_THOUSAND, page_fleet.thousand),
        ("bundle", page_fleet.ABOUT_BUNDLE, page_fleet.bundle),
    ):
        if results.get(part):
            parts += [words, table(results[part])]
    notes = results.get("notes") or []
    if notes:
        parts += [
            "## What the figures do not show\n",
            "\n".join(f"- {note}" for note in notes) + "\n",
        ]
    return "\n".join([*parts, AGAIN])


def _verdicts(results: Mapping[str, Any]) -> str:
    judged = bounds.bounds(results)
    rows = [
        [
            f"({bound.part}) {bound.text}",
            f"{bound.limit:g}",
            "-" if bound.value is None else f"{bound.value:.2f}",
            bound.verdict,
        ]
        for bound in judged
    ]
    reasons = page_fleet.reasons(judged)
    return figures.table(["", "at most", "is", ""], rows) + (f"\n{reasons}" if reasons else "")


def _machine(machine: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {value}" for name, value in machine["versions"].items())
    return (
        f"Measured {machine['date']} on {machine['cores']} cores ({machine['processor']}), "
        f"{machine['memory_gib']} GiB, {machine['system']}; controller and hosts on that one "
        f"machine. {versions}.\n"
    )


def _cold(part: Mapping[str, Any]) -> str:
    rows = []
    for point, text in (
        ("installed", "seconds until everything is installed"),
        ("proven", "... and the same proof has passed"),
        ("verified", "... and all checks of verify/ have passed"),
    ):
        ours = [run[point] for run in part["ours"]]
        hand = [run[point] for run in part["by_hand"] if point in run]
        ratio = figures.ratio(ours, hand)
        rows.append(
            [text, figures.spread(ours), figures.spread(hand) if hand else "-",
             f"{ratio:.2f}" if ratio else "-"]
        )  # fmt: skip
    text = figures.table(["", "ours", "by hand", "ours / by hand"], rows)
    text += _modules(part["ours"], "The difference is Ansible's")
    return text + spending.sentence(part["ours"], part.get("limits") or {}) + _note(part)


def _modules(runs: Sequence[Mapping[str, Any]], subject: str) -> str:
    """A sentence on the time of modules, beginning with `subject`; "" where no run measured it."""
    text = ""
    measured = [run for run in runs if "steps" in run]
    if measured:
        steps, long, installed = (
            figures.median([run[name] for run in measured])
            for name in ("steps", "long", "installed")
        )
        text = (
            f"\n{subject}: {steps:.0f} modules, each sent to the host, started and "
            f"answered. Those of a second or more (apt, the archive, the wheels) took "
            f"{long:.0f} s, all the others together {installed - long:.0f} s.\n"
        )
    return text


def _note(part: Mapping[str, Any]) -> str:
    """The record's note, if it has one."""
    return f"\n{part['note']}\n" if "note" in part else ""


def _ubuntu(part: Mapping[str, Any]) -> str:
    script = part["tutorial"]
    rows = []
    for way, text in UBUNTU.items():
        runs = part.get(way)
        if not runs:
            continue
        row = [text]
        for point in ("installed", "proven"):
            row.append(figures.spread([run[point] for run in runs]))
        ratio = figures.ratio([run["proven"] for run in runs], [run["proven"] for run in script])
        received = [run["received"] for run in runs]
        less = figures.ratio(received, [run["received"] for run in script])
        row += [
            f"{ratio:.2f}" if ratio and way != "tutorial" else "",
            f"{figures.median([run['cpu'] for run in runs]):.0f}",
            f"{figures.median(received) / 1e9:.2f} GB",
            f"{less:.2f}" if less and way != "tutorial" else "",
        ]
        rows.append(row)
    text = figures.table(
        [
            "",
            "seconds until installed",
            "... and proven",
            "of the tutorials'",
            "host's CPU",
            "received",
            "of theirs",
        ],
        rows,
    )  # fmt: skip
    text += _modules(part.get("ours", []), "Ansible's share of ours")
    return text + spending.sentence(part.get("network", []), part.get("limits") or {}) + _note(part)


def _workspaces(part: Mapping[str, Any]) -> str:
    runs = part["runs"]
    baseline = [run["1"] for run in runs]
    rows = []
    for name, text in (
        ("1", "nobody to one person"),
        ("10", "nobody to ten people"),
        ("changed", "a change to one of ten"),
    ):
        walls = [run[name] for run in runs]
        ratio = figures.ratio(walls, baseline)
        rows.append([text, figures.spread(walls), f"{ratio:.2f}" if ratio else "-"])
    touched = max(run["touched"] for run in runs)
    text = figures.table(["", "seconds", "of one person's"], rows)
    return text + f"\nThe change to one stopped {touched} of the ten containers.\n" + _note(part)


def _rerun(part: Mapping[str, Any]) -> str:
    rows = []
    for count, ways in part["runs"].items():
        ours = [run["wall"] for run in ways["ours"]]
        for way, runs in ways.items():
            walls = [run["wall"] for run in runs]
            ratio = figures.ratio(ours, walls)
            rows.append(
                [
                    count,
                    WAYS[way],
                    figures.spread(walls),
                    f"{figures.median([run['cpu'] for run in runs]):.2f}",
                    f"{figures.median([run['hosts_cpu'] for run in runs]):.2f}",
                    f"{ratio:.2f}" if ratio and way != "ours" else "",
                ]
            )
    header = ["hosts", "", "seconds", "controller CPU", "hosts' CPU", "ours / this"]
    return figures.table(header, rows)


def _render(part: Mapping[str, Any]) -> str:
    rows = []
    for count, runs in part["runs"].items():
        rows.append(
            [
                f"{int(count):,}",
                figures.spread([run["cpu"] for run in runs]),
                f"{figures.median([run['rss_kib'] for run in runs]) / 1024:.0f} MiB",
                figures.spread([run["inventory_cpu"] for run in runs]),
                f"{figures.median([run['inventory_rss_kib'] for run in runs]) / 1024:.0f} MiB",
            ]
        )
    header = ["hosts", "ours, CPU s", "memory", "ansible-inventory, CPU s", "memory"]
    text = figures.table(header, rows)
    memory = memory_per_host(part)
    if memory is not None:
        text += f"\nMemory of ours per host beyond the smaller inventory: {memory:.1f} KiB.\n"
    return text


def _solve(part: Mapping[str, Any]) -> str:
    words = ("lock", "wheels", "render", "inventory")
    rows = [
        [f"{int(count):,}", *(figures.spread([run[word] for run in runs]) for word in words)]
        for count, runs in part["runs"].items()
    ]
    header = ["hosts", "lock, CPU s", "wheels", "render", "ansible-inventory"]
    return figures.table(header, rows)


def memory_per_host(part: Mapping[str, Any]) -> float | None:
    """KiB per further host, from the least to the most hosts; None with one size only."""
    sizes = sorted(int(count) for count in part["runs"])
    if len(sizes) < 2:
        return None
    few, many = (
        figures.median([run["rss_kib"] for run in part["runs"][str(size)]])
        for size in (sizes[0], sizes[-1])
    )
    return (many - few) / (sizes[-1] - sizes[0])


def _cpu(part: Mapping[str, Any]) -> str:
    sizes = sorted(int(count) for count in part["runs"])
    if len(sizes) < 2:
        return "Not measured: this needs two numbers of hosts.\n"
    rows = []
    for way, text in WAYS.items():
        ends = [part["runs"][str(size)].get(way) for size in (sizes[0], sizes[-1])]
        if not all(ends):
            continue
        few, many = (figures.median([run["cpu"] for run in runs]) for runs in ends if runs)
        seconds = (many - few) / (sizes[-1] - sizes[0])
        rows.append([text, f"{few:.2f}", f"{many:.2f}", f"{seconds:.3f}"])
    header = ["", f"{sizes[0]} host", f"{sizes[-1]} hosts", "per additional host"]
    return figures.table(header, rows)
