"""Rule about cuDNN's archive that the controller is to provide and lacks."""

from __future__ import annotations

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


RULES = rules_of(cudnn.NAME, stops={"cudnn-archive": cudnn_archive_absent})
