"""The texts of a model's units: its container, and the ports of the host that lead to it."""

from __future__ import annotations

from ..gpu_workspace.program import docker_words, traits
from . import places

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

DOCKER = ("/usr/bin/docker", "--host", docker_words.SOCKET)
# Threads count too; TensorFlow starts one for each processor in each of its pools.
PIDS = 4096
# A version that does not load is tried once more, and is named then; TensorFlow Serving's own word
# is five times, a minute apart.
RETRIES = ("--max_num_load_retries=1", "--load_retry_interval_micros=5000000")
# What a container may: nothing but compute. CUDA keeps in /tmp what it compiles for a GPU that the
# image has no code for.
CONFINED = (
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"),
    *("--tmpfs", "/tmp:rw,nosuid,nodev,mode=1777,size=1g", "--env", "HOME=/tmp"),  # noqa: S108 inside
    *("--pids-limit", str(PIDS), "--log-driver", "none"),
)
CONTAINER = """\
[Unit]
Description=TensorFlow Serving of {name}
Wants=docker.service network-online.target
After=docker.service network-online.target
StartLimitIntervalSec=0

[Service]
ExecStartPre=-{remove}
ExecStart={run}
ExecStop={stop}
Restart=always
RestartSec=5
TimeoutStartSec=600
TimeoutStopSec=90

[Install]
WantedBy=multi-user.target
"""
# systemd holds the port whether the container runs or not: nobody of the host can open it in its
# place while it starts anew.
SOCKET = """\
[Unit]
Description=Port of the served model {name} ({what})

[Socket]
ListenStream=127.0.0.1:{port}
FreeBind=true
TriggerLimitIntervalSec=0

[Install]
WantedBy=sockets.target
"""
RELAY = """\
[Unit]
Description=Way to the served model {name} ({what})
StartLimitIntervalSec=0

[Service]
ExecStart={proxy} {address}:{port}
DynamicUser=yes
NoNewPrivileges=true
LimitNOFILE=8192
"""


def quoted(words: tuple[str, ...] | list[str]) -> str:
    """A command as systemd reads it; none of our words has a quote of systemd's or a backslash."""
    plain = [word.replace("%", "%%").replace("$", "$$") for word in words]
    return " ".join(f"'{word}'" if '"' in word or " " in word else word for word in plain)


def serving(entry: dict[str, Any]) -> list[str]:
    """The command of TensorFlow Serving in the container."""
    name = entry["name"]
    share = []
    if entry["gpu_memory"]:
        share = ["--per_process_gpu_memory_fraction={0}".format(entry["gpu_memory"])]
    return [
        *(f"--model_name={name}", f"--model_base_path={places.INSIDE}/{name}"),
        *(f"--rest_api_port={places.REST}", f"--port={places.GRPC}"),
        "--file_system_poll_wait_seconds={0}".format(entry["poll"]),
        *RETRIES,
        *share,
    ]


def run(
    settings: dict[str, Any], gpus: list[str], slot: str, address: str, revision: str
) -> list[str]:
    """docker's arguments for a model's container; `gpus`: those for its GPUs."""
    entry = settings["entry"]
    name = entry["name"]
    limits: list[str] = []
    if entry["cpus"]:
        limits += ["--cpus", str(entry["cpus"])]
    if entry["memory"]:
        # Without the second a container may swap as much again.
        limits += ["--memory", entry["memory"], "--memory-swap", entry["memory"]]
    uid, gid = traits.numbers(entry["user"])
    return [
        *("run", "--rm", "--init", "--name", places.container(name, slot)),
        *("--label", f"{places.LABEL}={name}", "--label", f"{places.REVISION}={revision}"),
        *("--network", places.NETWORK, "--ip", address),
        *("--user", f"{uid}:{gid}"),
        *CONFINED,
        *("--mount", "type=bind,src={0},dst={1}/{2},readonly".format(
            entry["models"], places.INSIDE, name)),
        *limits,
        *gpus,
        *("--entrypoint", "tensorflow_model_server", settings["image"]),
        *serving(entry),
    ]  # fmt: skip


def container(
    settings: dict[str, Any], gpus: list[str], slot: str, address: str, revision: str
) -> str:
    """The text of the unit that keeps a model's container."""
    name = places.container(settings["entry"]["name"], slot)
    return places.SHIPPED_BY + CONTAINER.format(
        name=settings["entry"]["name"],
        remove=quoted([*DOCKER, "rm", "--force", name]),
        run=quoted([*DOCKER, *run(settings, gpus, slot, address, revision)]),
        stop=quoted([*DOCKER, "stop", "--time", "20", name]),
    )


def ways(entry: dict[str, Any], address: str, proxy: str) -> dict[str, str]:
    """{unit: text} of the ports of the host that lead to a model's container at `address`."""
    texts = {}
    for protocol, (key, port) in places.PORTS.items():
        if key not in entry:
            continue
        words = {"name": entry["name"], "what": protocol}
        texts[places.port_unit(entry["name"], protocol)] = places.SHIPPED_BY + SOCKET.format(
            port=entry[key], **words
        )
        texts[places.port_unit(entry["name"], protocol, "service")] = (
            places.SHIPPED_BY + RELAY.format(address=address, port=port, proxy=proxy, **words)
        )
    return texts
