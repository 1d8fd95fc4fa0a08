"""cuDNN's archive that the controller is to give and has not."""

from ...rules import Rule
from .. import cudnn


def cudnn_archive_absent(_found, changes, options, row):
    """The archive that the controller is to give is not there; known before the driver goes in."""
    path = options.get("cudnn_archive_absent")
    if not path or not cudnn.needs_archive(changes):
        return []
    return [
        (
            "cudnn_controller_file is {0}, and the machine that runs Ansible has no such file that "
            "can be read".format(path),
            "put cuDNN {version} for CUDA {cuda} there, the archive with SHA-256 {sha256}: from "
            "https://developer.nvidia.com/rdp/cudnn-archive, or from an address in cudnn_urls; or "
            "correct the option".format(**row[cudnn.NAME]),
        )
    ]


RULES = (Rule("cudnn-archive", cudnn.NAME, True, cudnn_archive_absent),)
