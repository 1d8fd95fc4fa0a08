"""Users, processes and programs' answers of the odd hosts that the look is tried on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpu_stack.host.context import Context, Result

from .trees import context

USERS = (
    "# a comment, as NIS leaves them\n"
    "+::::::\n"
    "root:x:0:0:root:/root:/bin/bash\n"
    "toor:x:0:0:root:/root:/bin/sh\n"
    "ada:x:1001:100:Ada:/home/alice:/bin/bash\n"
)
STATUS = "Name:\tx\nState:\tS\nUid:\t{0}\t{0}\t{0}\t{0}\nGid:\t7\t7\t7\t7\n"
CUDA_LIST = "deb [signed-by=/usr/share/keyrings/cuda.gpg] https://nvidia.example/x86_64/ /\n"


def asked(root: Path, answers: Mapping[tuple[str, ...], Result]) -> Context:
    """The host, whose programs answer only to exactly these arguments."""
    here = context(root)
    here.run = lambda argv: answers.get(tuple(argv), Result(127, "", "not asked so"))
    return here


def process(pid: int, comm: str, uid: int = 0, command: str = "") -> dict[str, str]:
    return {
        f"/proc/{pid}/comm": comm + "\n",
        f"/proc/{pid}/cmdline": command,
        f"/proc/{pid}/status": STATUS.format(uid),
    }
