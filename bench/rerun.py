"""Parts (b), (d) and (i): a run on hosts that are already converged, against other ways."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import fleet, processes, state
from provision.locallab.machine import Podman

HERE = Path(__file__).parent
WAYS = HERE / "ways"
BIN = Path(sys.executable).parent
# {way: most hosts it is measured on}: a quarter of an hour for Ansible on 100, pyinfra on 1,000.
SLOW = {"ansible": 10, "pyinfra": 100}
CONFIG = """\
[defaults]
forks = 50
gathering = explicit
interpreter_python = auto_silent
[ssh_connection]
pipelining = True
ssh_args = -o ControlMaster=auto -o ControlPersist=10m
"""
FLOOR = """\
- hosts: all
  gather_facts: false
  become: true
  tasks:
    - ansible.builtin.raw: "true"
"""


@dataclass
class Ground:
    """Where the ways are measured: a rendered tree, its group variables, a folder to work in."""

    tree: Path
    folder: Path
    pyinfra: Path
    converged: dict[str, Any]

    def prepare(self) -> None:
        """Writes what the ways read."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write = {
            "wanted.json": json.dumps({"wanted": self.converged}),
            "state.json": json.dumps(self.converged),
            "assert.sh": state.shell(self.converged, (WAYS / "assert.sh").read_text("utf-8")),
            "ansible.cfg": CONFIG,
            "floor.yml": FLOOR,
        }
        for name, text in write.items():
            (self.folder / name).write_text(text, encoding="utf-8")

    @property
    def masters(self) -> Path:
        """The folder of Ansible's ssh connections; empty before every run."""
        return self.folder / "masters"


Way = Callable[[fleet.Fleet, Ground], processes.Cost]


def _playbook(
    hosts: fleet.Fleet,
    ground: Ground,
    book: Path,
    config: Path,
    *extra: str,
    weigh: Callable[[], None] | None = None,
) -> processes.Cost:
    """Runs a playbook; `weigh`: weighs it too, and is called while its connections are open."""
    inventory = ground.folder / "inventory"
    shutil.rmtree(inventory, ignore_errors=True)
    hosts.inventory(inventory / "hosts.yml", "gpu_hosts")
    shutil.copytree(ground.tree / "lab" / "group_vars", inventory / "group_vars")
    ground.masters.mkdir(exist_ok=True)

    def afterwards() -> None:
        if weigh is not None:
            weigh()
        fleet.close_masters(ground.masters)

    return processes.measure(
        [str(BIN / "ansible-playbook"), "-i", str(inventory), str(book), *extra],
        log=ground.folder / f"{book.stem}.log",
        cwd=config.parent,
        environment={
            "ANSIBLE_CONFIG": str(config),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(ground.masters),
            "PROVISION_REPORT_DIR": str(ground.folder / "report"),
        },
        afterwards=afterwards,
        weigh=weigh is not None,
    )


def ours(
    hosts: fleet.Fleet, ground: Ground, weigh: Callable[[], None] | None = None
) -> processes.Cost:
    """The rendered project as a person runs it."""
    book, config = ground.tree / "site.yml", ground.tree / "ansible.cfg"
    return _playbook(hosts, ground, book, config, weigh=weigh)


def ansible(hosts: fleet.Fleet, ground: Ground) -> processes.Cost:
    """The same state as plain tasks."""
    extra_vars = f"@{ground.folder / 'wanted.json'}"
    return _playbook(
        hosts, ground, WAYS / "assert.yml", ground.folder / "ansible.cfg", "-e", extra_vars
    )


def floor(hosts: fleet.Fleet, ground: Ground) -> processes.Cost:
    """One empty task on every host: Ansible's own overhead."""
    return _playbook(hosts, ground, ground.folder / "floor.yml", ground.tree / "ansible.cfg")


def pyinfra(hosts: fleet.Fleet, ground: Ground) -> processes.Cost:
    """The same state as a pyinfra deploy."""
    entries = [
        (
            name,
            {
                "ssh_hostname": hosts.target.address,
                "ssh_port": port,
                "ssh_user": hosts.target.user,
                "ssh_key": str(hosts.target.key),
                "ssh_known_hosts_file": str(hosts.known_hosts),
                "ssh_strict_host_key_checking": "yes",
            },
        )
        for name, port in zip(hosts.names(), hosts.ports, strict=True)
    ]
    inventory = ground.folder / "pyinfra_inventory.py"
    inventory.write_text(f"hosts = {entries!r}\n", encoding="utf-8")
    return processes.measure(
        [
            str(ground.pyinfra),
            *["-y", "--sudo", "--parallel", "50"],
            *[str(inventory), str(WAYS / "assert_pyinfra.py")],
        ],
        log=ground.folder / "pyinfra.log",
        cwd=ground.folder,
        environment={"BENCH_STATE": str(ground.folder / "state.json")},
    )


def ssh(hosts: fleet.Fleet, ground: Ground) -> processes.Cost:
    """One script on every host over plain ssh, 50 at a time."""
    options = shlex.join([*hosts.ssh(), "-i", str(hosts.target.key), "-l", hosts.target.user])
    script = shlex.quote(str(ground.folder / "assert.sh"))
    command = f'ssh {options} -p "$1" {hosts.target.address} sudo -n sh -s <{script}'
    ports = ground.folder / "ports"
    ports.write_text("".join(f"{port}\n" for port in hosts.ports), encoding="ascii")
    return processes.measure(
        ["xargs", "-P", "50", "-n", "1", "sh", "-c", command, "assert"],
        log=ground.folder / "ssh.log",
        stdin=ports,
    )


ALL: dict[str, Way] = {
    "ours": ours,
    "ssh": ssh,
    "pyinfra": pyinfra,
    "ansible": ansible,
    "floor": floor,
}


def measure(
    podman: Podman,
    target: fleet.Target,
    ground: Ground,
    *,
    counts: Sequence[int],
    rounds: int,
    say: Callable[[str], None],
    ways: Sequence[str] = (),
    weigh: bool = False,
) -> dict[str, Any]:
    """Measures every way (or `ways`) in every round, for each number of hosts.

    Each round rotates the order by one, so that no way always follows the same other. `weigh`: one
    more run of ours for each number, whose time is not counted, for the controller's memory.
    """
    ground.prepare()
    runs: dict[str, dict[str, list[dict[str, float]]]] = {}
    memory: dict[str, dict[str, int]] = {}
    with fleet.up(podman, target, max(counts), ground.folder / "fleet") as everything:
        for count in counts:
            hosts = everything.first(count)
            names = [
                name for name in (ways or ALL) if name in ALL and count <= SLOW.get(name, count)
            ]
            by_way: dict[str, list[dict[str, float]]] = {name: [] for name in names}
            for number in range(rounds):
                turn = number % len(names)
                for name in names[turn:] + names[:turn]:
                    by_way[name].append(_one(podman, target, ground, hosts, name, say))
            runs[str(count)] = by_way
            if weigh:
                memory[str(count)] = _weighed(podman, target, ground, hosts, say)
    return {"runs": runs, **({"memory": memory} if weigh else {})}


def _one(
    podman: Podman,
    target: fleet.Target,
    ground: Ground,
    hosts: fleet.Fleet,
    name: str,
    say: Callable[[str], None],
) -> dict[str, float]:
    """One run of a way: its seconds, and the processor time of both ends."""
    count = len(hosts.ports)
    before = host_cpu(podman, target.container)
    cost = ALL[name](hosts, ground)
    if cost.exit:
        raise SystemExit(f"{name} on {count} hosts failed: see {ground.folder}")
    used = host_cpu(podman, target.container) - before
    say(
        f"{count} hosts, {name}: {cost.wall:.2f} s, controller {cost.cpu:.2f} s"
        f" and hosts {used:.2f} s of CPU"
    )
    run = {"wall": cost.wall, "cpu": cost.cpu, "hosts_cpu": used}
    return {key: round(value, 3) for key, value in run.items()}


def _weighed(
    podman: Podman,
    target: fleet.Target,
    ground: Ground,
    hosts: fleet.Fleet,
    say: Callable[[str], None],
) -> dict[str, int]:
    """Bytes of memory: of the controller at most, and of all hosts with their connections open."""
    count, memory = len(hosts.ports), {}

    def asked() -> None:
        memory["hosts"] = host_memory(podman, target.container)

    cost = ours(hosts, ground, weigh=asked)
    if cost.exit:
        raise SystemExit(f"ours on {count} hosts failed: see {ground.folder}")
    say(
        f"{count} hosts: controller {cost.memory >> 20} MiB at most, all hosts together "
        f"{memory['hosts'] >> 20} MiB"
    )
    return {"controller": cost.memory, **memory}


def host_cpu(podman: Podman, container: str) -> float:
    """CPU seconds that a container has used so far, all its programs together."""
    script = (
        "cat /sys/fs/cgroup/cpuacct/cpuacct.usage 2>/dev/null || "
        "sed -n 's/^usage_usec \\(.*\\)/\\1000/p' /sys/fs/cgroup/cpu.stat"
    )
    text = podman.run("exec", container, "sh", "-c", script).stdout.decode().strip()
    return int(text) / 1e9 if text.isdigit() else 0.0


def host_memory(podman: Podman, container: str) -> int:
    """Bytes of memory that a container's programs have now, shared pages counted once."""
    script = "cat /proc/[0-9]*/smaps_rollup 2>/dev/null | awk '/^Pss:/ {s += $2} END {print s + 0}'"
    text = podman.run("exec", container, "sh", "-c", script).stdout.decode().strip()
    return int(text) * 1024 if text.isdigit() else 0
