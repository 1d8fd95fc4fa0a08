"""Rules about cuDNN's archive that the controller lacks, and about versions in use."""

from __future__ import annotations

from ...host import code_users
from ...rules import rules_of
from ...type_checking import TYPE_CHECKING
from .. import cudnn

if TYPE_CHECKING:
    from ...shapes import Changes, Facts, Options, Reasons, Row


def cudnn_archive_absent(_host: Facts, changes: Changes, options: Options, row: Row) -> Reasons:
    """Refuses a missing cudnn_controller_file, before the driver is installed."""
    path = options.get("cudnn_archive_absent")
    # A bundle has the archive.
    if not path or options.get("gpu_bundle") or not cudnn.needs_archive(changes):
        return []
    return [
        (
            f"cudnn_controller_file is {path}, and the machine that runs Ansible has no such "
            "file that can be read",
            "put cuDNN {version} for CUDA {cuda} there, the archive with SHA-256 {sha256}: from "
            "https://developer.nvidia.com/rdp/cudnn-archive, or from an address in cudnn_urls; or "
            "correct the option".format(**row[cudnn.NAME]),
        )
    ]


def in_use(facts: Facts, _changes: Changes, _options: Options, _row: Row) -> Reasons:
    """Stops while a process uses a version that the run would remove."""
    users = facts["preflight"].get("cudnn_users") or {}
    hint = (
        "run again when it has ended, or keep it with cudnn_keep_old: true; none is ever ended for "
        "you"
    )
    return [(message, hint) for message in code_users.in_words(users, "cuDNN ")]


RULES = rules_of(cudnn.NAME, stops={"cudnn-archive": cudnn_archive_absent, "cudnn-in-use": in_use})
