"""A small client of CRI, under crictl's name, for hosts whose platform has none (Debian).

It speaks to the containerd that runs, as kubelet does: Kubernetes' own protocol by gRPC
(https://github.com/kubernetes/cri-api/blob/master/pkg/apis/runtime/v1/api.proto), with Debian's
python3-grpcio and messages put together by hand. A pod has the host's network, so no CNI is needed.

On the host: crictl status | run NAME HANDLER VISIBLE COMMAND... | exec CONTAINER COMMAND... |
rm NAME.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

SOCKET = "unix:///run/containerd/containerd.sock"
SERVICE = "/runtime.v1.RuntimeService/"
STATE = "/run/cri-pods"
NODE = 2


def varint(number: int) -> bytes:
    """Protocol buffers' variable-length number."""
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def message(*fields: tuple[int, Any]) -> bytes:
    """A message of (number, value): bytes, text or whole numbers."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def fields(data: bytes) -> list[tuple[int, Any]]:
    """What a message consists of; no message here has fixed-length numbers."""
    found, place = [], 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(data):
        key = number()
        if key & 7 == 0:
            found.append((key >> 3, number()))
        else:
            length = number()
            found.append((key >> 3, data[place : place + length]))
            place += length
    return found


def ask(method: str, request: bytes) -> dict[int, Any]:
    """containerd's answer, each field's last value."""
    import grpc  # type: ignore[import-untyped,unused-ignore]

    with grpc.insecure_channel(SOCKET) as channel:
        return dict(fields(channel.unary_unary(SERVICE + method)(request, timeout=60)))


def pod(name: str) -> bytes:
    """PodSandboxConfig."""
    options = message((1, NODE))
    metadata = message((1, name), (2, "uid-" + name), (3, "default"))
    return message((1, metadata), (3, "/tmp"), (8, message((2, message((1, options))))))


def run(name: str, handler: str, visible: str, command: list[str]) -> str:
    """The container's identity, once it runs."""
    given = message((1, pod(name)), (2, "" if handler == "-" else handler))
    sandbox = ask("RunPodSandbox", given)[1].decode()
    os.makedirs(STATE, exist_ok=True)
    with open(os.path.join(STATE, name), "w", encoding="utf-8") as file:
        file.write(sandbox)
    environment = message((1, "NVIDIA_VISIBLE_DEVICES"), (2, visible))
    config = message(
        (1, message((1, name))),
        (2, message((1, "docker.io/library/tiny:latest"))),
        *((3, word) for word in command),
        (6, environment),
        (11, name + ".log"),
    )
    request = message((1, sandbox), (2, config), (3, pod(name)))
    container = ask("CreateContainer", request)[1].decode()
    ask("StartContainer", message((1, container)))
    return str(container)


def execute(container: str, command: list[str]) -> int:
    """Prints what a command says in a container; its exit code."""
    answer = ask("ExecSync", message((1, container), *((2, word) for word in command), (3, 60)))
    sys.stdout.write(answer.get(1, b"").decode())
    sys.stderr.write(answer.get(2, b"").decode())
    return int(answer.get(3, 0))


def main(arguments: list[str]) -> int:
    """The program."""
    name, rest = arguments[0], arguments[1:]
    if name == "status":
        pairs = {}
        for number, value in _all("Status", message((1, 1))):
            if number == 2:
                entry = dict(fields(value))
                pairs[entry[1].decode()] = entry[2].decode()
        runtimes = json.loads(pairs["config"])["containerd"]["runtimes"]
        sys.stdout.write(json.dumps(runtimes) + "\n")
    elif name == "run":
        sys.stdout.write(run(rest[0], rest[1], rest[2], rest[3:]) + "\n")
    elif name == "exec":
        return execute(rest[0], rest[1:])
    elif name == "rm":
        with open(os.path.join(STATE, rest[0]), encoding="utf-8") as file:
            sandbox = file.read()
        ask("StopPodSandbox", message((1, sandbox)))
        ask("RemovePodSandbox", message((1, sandbox)))
    return 0


def _all(method: str, request: bytes) -> list[tuple[int, Any]]:
    import grpc  # type: ignore[import-untyped,unused-ignore]

    with grpc.insecure_channel(SOCKET) as channel:
        return fields(channel.unary_unary(SERVICE + method)(request, timeout=60))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
