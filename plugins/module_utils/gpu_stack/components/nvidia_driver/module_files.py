"""The files of kernel modules that DKMS has built and installed, and whether they are whole.

DKMS syncs nothing. A power cut some seconds after an installation leaves files of 0 bytes behind
its link, and of the driver's five modules those that were written last: nvidia.ko is whole, and
nvidia-uvm.ko, without which CUDA finds no GPU, is empty.
"""

from __future__ import annotations

import os
import struct

from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from ...host.context import Context

# ELF-64 (https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html): the table of sections
# is the end of a module but for its signature.
ELF, HEADER = b"\x7fELF", 64
SECTIONS_AT, SIZE_AT = 0x28, 0x3A
# https://tukaani.org/xz/xz-file-format.txt: the first and the last bytes.
XZ, XZ_END = b"\xfd7zXZ\x00", b"YZ"
ZSTD, GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"


def broken(context: Context, built: str, installed: str) -> list[str]:
    """The files of a build, and their copies, that are missing or not whole.

    `built` is the folder in which DKMS keeps its build, `installed` the one that the kernel loads
    from, where a file can be compressed. A build that is not kept says nothing.
    """
    paths = []
    for name in context.listdir(built):
        stem, ending, _rest = name.partition(".ko")
        if not ending:
            continue
        copies = context.glob("{0}/{1}.ko*".format(installed, stem))
        paths += ["{0}/{1}".format(built, name)]
        paths += copies or ["{0}/{1}".format(installed, name)]
    return [path for path in paths if not whole(context, path)]


def whole(context: Context, path: str) -> bool:
    """Whether a module is there from its first byte to its last, by its format's own marks.

    Of a module that zstd or gzip compressed only the first bytes are known.
    """
    file = context.open(path)
    if file is None:
        return False
    with file:
        start = file.read(HEADER)
        size = file.seek(0, os.SEEK_END)
        if start.startswith(XZ):
            file.seek(max(0, size - len(XZ_END)))
            return file.read() == XZ_END
    if start.startswith(ELF) and len(start) == HEADER:
        sections = struct.unpack_from("<Q", start, SECTIONS_AT)[0]
        width, number = struct.unpack_from("<HH", start, SIZE_AT)
        return bool(sections) and sections + width * number <= size
    return start.startswith((ZSTD, GZIP))
