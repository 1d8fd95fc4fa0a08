"""What a directory of a model holds: its versions, and the TensorFlow that saved each.

Nothing of it is trusted: whoever trains writes there. Of a SavedModel only the first bytes are
read, as a protocol buffer: https://github.com/tensorflow/tensorflow/blob/v2.9.3/tensorflow/core/
protobuf/saved_model.proto and meta_graph.proto (MetaInfoDef.tensorflow_version is field 5).
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Iterator

    from ...host.context import Context

FILE = "saved_model.pb"
# The version stands behind the list of operations, which is some 100 KB.
READ = 8 << 20
# More than a model's directory has: whoever writes there could make millions of entries.
MOST = 10000
# Of a version, as TensorFlow Serving reads it: a whole number of 64 bits with a sign.
NUMBER, LARGEST = re.compile(r"[0-9]{1,19}"), (1 << 63) - 1
# Nobody's release has more digits; int() of a million would take hours.
RELEASE = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}\.[0-9A-Za-z.+-]{1,40}")
META_GRAPHS, META_INFO, TENSORFLOW_VERSION = 2, 1, 5
BYTES = 2


def versions(context: Context, models: str) -> dict[int, str]:
    """{number: name of its directory} of the versions that are there.

    A name may have zeros before the number; of two with the same number the first counts.
    """
    return _numbered(context, models, context.listdir(models, MOST))


def _numbered(context: Context, models: str, names: list[str]) -> dict[int, str]:
    numbered: dict[int, str] = {}
    for name in names:
        # isdigit() takes a superscript for a digit, and int() does not.
        is_number = NUMBER.fullmatch(name) is not None and int(name) <= LARGEST
        if is_number and context.isdir(f"{models}/{name}"):
            numbered.setdefault(int(name), name)
    return numbered


def newest(context: Context, models: str) -> int | None:
    """The number of the newest version; None without any."""
    return max(versions(context, models), default=None)


def look(context: Context, models: str) -> dict[str, Any]:
    """{there, crowded, newest, file, tensorflow} of a model's directory.

    `crowded`: whether it has more than MOST entries. `newest` is the number of the newest version;
    `file`: whether it has a SavedModel, of which `tensorflow` says the release that saved it
    ("2.9.3"), where it can be read.
    """
    names = context.listdir(models, MOST + 1)
    numbered = _numbered(context, models, names)
    seen: dict[str, Any] = {"there": context.isdir(models), "crowded": len(names) > MOST}
    seen.update(newest=None, file=False, tensorflow=None)
    if numbered:
        number = max(numbered)
        data = context.read_bytes(f"{models}/{numbered[number]}/{FILE}", READ)
        seen.update(newest=number, file=data is not None)
        if data is not None:
            seen["tensorflow"] = release_of(data)
    return seen


def release_of(data: bytes) -> str | None:
    """The TensorFlow that saved a SavedModel of these first bytes; None where it does not say."""
    try:
        for meta_graph in _fields(data, META_GRAPHS):
            for info in _fields(meta_graph, META_INFO):
                for text in _fields(info, TENSORFLOW_VERSION):
                    release = text.decode("ascii")
                    if RELEASE.fullmatch(release):
                        return release
    except (ValueError, IndexError):
        pass
    return None


def _fields(data: bytes, wanted: int) -> Iterator[bytes]:
    """The contents of a message's fields of this number that have bytes; the last may be cut."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            _value, at = _varint(data, at)
        elif kind == 1:
            at += 8
        elif kind == 5:
            at += 4
        elif kind == BYTES:
            length, at = _varint(data, at)
            if number == wanted:
                yield data[at : at + length]
            at += length
        else:
            raise ValueError("no protocol buffer")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("no protocol buffer")


def is_newer(saved: str | None, served: str | None) -> bool:
    """Whether a model was saved by a newer TensorFlow than serves it (2.12.0 and 2.9.3: yes).

    TensorFlow reads what older ones of its major version saved, and not the other way round:
    https://www.tensorflow.org/guide/versions
    """
    if saved is None or served is None:
        return False
    return _minor(saved) > _minor(served)


def is_same(release: str, other: str) -> bool:
    """Whether two releases are of one minor version (2.9.3 and 2.9.1: yes)."""
    return _minor(release) == _minor(other)


def _minor(release: str) -> tuple[int, int]:
    major, minor = release.split(".")[:2]
    return int(major), int(minor)
