"""A CUDA that no package owns, in front of the lock's."""

from ...host import dpkg
from ...host.processes import text_of
from ...rules import Rule
from .. import cuda
from . import nvidia_cuda


def usr_local_cuda(context):
    """{"path", "named_in"} of a /usr/local/cuda that no package owns; None otherwise."""
    path = "/usr/local/cuda"
    real = context.resolve(path)
    if real is None:
        return None
    for name in context.packages:
        if name.startswith("cuda-"):
            listed = dpkg.file_list(context, name)
            if path in listed or real in listed:
                return None
    files = ["/etc/environment", "/etc/profile", "/etc/bash.bashrc", "/root/.bashrc"]
    files += context.glob("/etc/profile.d/*.sh") + context.glob("/etc/ld.so.conf.d/*.conf")
    return {
        "path": real,
        "named_in": [file for file in files if path in text_of(context, file)],
    }


def unowned_cuda(found, _changes, _options, row):
    cuda = found["preflight"].get("usr_local_cuda")
    # Where the place is NVIDIA's packages', what is in it is kept beside, and the plan says so.
    if not cuda or not cuda["named_in"] or nvidia_cuda.mine(row.get("cuda") or {}):
        return []
    return [
        (
            "a CUDA that no package owns ({0}) is put in front by {1}".format(
                cuda["path"], ", ".join(cuda["named_in"])
            ),
            "take /usr/local/cuda out of {0}, or move the directory away".format(
                ", ".join(cuda["named_in"])
            ),
        )
    ]


RULES = (Rule("unowned-cuda", cuda.NAME, True, unowned_cuda),)
