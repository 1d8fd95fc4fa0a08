"""The build context of an image that is built on the host: the host's own, locked stack.

TensorFlow's environment, CUDA's libraries and cuDNN are on the host already, checked and proven.
docker gets these very files as build context, so the image has the host's lock, however CUDA was
installed, and nothing is downloaded again. A stack that is not on the host as locked is refused.
"""

from __future__ import annotations

import io
import os
import re
import stat
import tarfile

from ...host import mapping
from ...type_checking import TYPE_CHECKING
from .program import files, places, programs

if TYPE_CHECKING:
    from typing import IO, Any

TIMEOUT = 120
LOADER = "/etc/ld.so.conf.d/00-gpu-workspace.conf"
# Where the loader of Debian and Ubuntu looks without being told.
STANDARD = ("/lib", "/usr/lib", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu")
LEFT_OUT = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/lintian/", "/usr/share/bug/")


def environment(wish: dict[str, Any]) -> str:
    """TensorFlow's environment on the host, finished from the lock's requirements."""
    locked = wish["stack"]["tensorflow"]
    name = "{0}-{1}".format(locked["version"], locked["requirements_sha256"][:8])
    place = "{0}/{1}".format(wish["places"][0], name)
    mark = mapping.of(files.text(place + "/.provision.json")) or {}
    if mark.get("requirements_sha256") != locked["requirements_sha256"]:
        raise places.RefusedError(
            f"{place} is not the environment of the lock, or was never finished; the image is made "
            "of it: run without tags that leave TensorFlow out"
        )
    return place


def libraries(wish: dict[str, Any]) -> list[str]:
    """CUDA's files on the host, by the packages of the lock and nothing beside them."""
    cuda = wish["stack"].get("cuda")
    if not cuda:
        return []
    packages, paths = cuda["packages"], set()
    form = "${Package} ${Version} ${db:Status-Status}\n"
    listed = programs.call(
        ["dpkg-query", "--show", "--showformat", form, *sorted(packages)], timeout=TIMEOUT
    )[1]
    installed = {line.split()[0]: line.split()[1:] for line in listed.splitlines() if " " in line}
    wrong = [
        name for name in sorted(packages) if installed.get(name) != [packages[name], "installed"]
    ]
    if wrong:
        raise places.RefusedError(
            "this host has not the lock's {0}, and the image is made of it: run without tags that "
            "leave CUDA out".format(", ".join(wrong))
        )
    for path in programs.must(
        programs.call(["dpkg-query", "--listfiles", *sorted(packages)], timeout=TIMEOUT), "dpkg"
    ).splitlines():
        if path.startswith("/") and not path.startswith(LEFT_OUT):
            # A path below /lib is one below /usr/lib where /lib is a link.
            folder = os.path.realpath(files.inside(os.path.dirname(path)))
            paths.add(
                "/" + os.path.relpath(os.path.join(folder, os.path.basename(path)), files.ROOT)
            )
    named = set((cuda.get("files") or {}).values())
    return sorted(path for path in paths | named if is_file(path))


def is_file(path: str) -> bool:
    real = files.inside(path)
    mode = os.lstat(real).st_mode if os.path.lexists(real) else 0
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def cudnn(wish: dict[str, Any]) -> str | None:
    """cuDNN's directory on the host; None where TensorFlow has its own."""
    locked = wish["stack"].get("cudnn")
    if not locked:
        return None
    place = "{0}/{1}-cuda{2}".format(wish["places"][1], locked["version"], locked["cuda"])
    if not os.path.isdir(files.inside(place)):
        raise places.RefusedError(
            f"this host has no {place}, and the image is made of it: run without tags that leave "
            "cuDNN out"
        )
    return place


def below(place: str) -> list[str]:
    """Files and links below a directory, without static libraries (.a)."""
    paths = []
    for folder, folders, names in os.walk(files.inside(place)):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in [*names, *links]:
            if not name.endswith(".a"):
                paths.append("/" + os.path.relpath(os.path.join(folder, name), files.ROOT))
    return sorted(paths)


def contents(wish: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """({path in the image: path on the host}, {path in the image: text})."""
    paths = libraries(wish)
    place = cudnn(wish)
    paths += below(place) if place else []
    named = {path: path for path in paths}
    # In the host's order: cuDNN before CUDA, each folder once.
    order = sorted(paths, key=lambda path: not (place and path.startswith(place + "/")))
    folders = [os.path.dirname(path) for path in order if re.search(r"\.so(\.|$)", path)]
    own = [folder for folder in dict.fromkeys(folders) if folder not in STANDARD]
    venv = environment(wish)
    named.update((path, path) for path in below(venv))
    xla = (wish["stack"].get("env") or {}).get("xla")
    device = (wish["stack"].get("cuda") or {}).get("files", {}).get("libdevice")
    if xla and device:
        named.setdefault(xla + "/nvvm/libdevice/" + os.path.basename(device), device)
    return named, {LOADER: "".join(folder + "\n" for folder in own)}


def pack(stream: IO[bytes], named: dict[str, str], texts: dict[str, str], recipe: str) -> None:
    """Writes the build context: owned by root, folders open to all, times as on the host."""
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT) as out:

        def write(name: str, content: bytes) -> None:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            out.addfile(entry, io.BytesIO(content))

        write("Containerfile", recipe.encode("utf-8"))
        folders = set()
        for path in sorted({*named, *texts}):
            parts = path.strip("/").split("/")[:-1]
            for number in range(len(parts) + 1):
                folder = "/".join(["root", *parts[:number]])
                if folder not in folders:
                    folders.add(folder)
                    entry = tarfile.TarInfo(folder)
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                    out.addfile(entry)
            if path in texts:
                write("root" + path, texts[path].encode("utf-8"))
                continue
            # Two names of one file in one place are two files here: docker knows no others.
            entry = out.gettarinfo(files.inside(named[path]), "root" + path)
            if not (entry.isreg() or entry.issym() or entry.islnk()):
                continue
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mode &= 0o755
            if entry.issym():
                out.addfile(entry)
                continue
            with open(files.inside(named[path]), "rb") as file:
                if entry.islnk():
                    entry.type, entry.linkname = tarfile.REGTYPE, ""
                    entry.size = os.fstat(file.fileno()).st_size
                out.addfile(entry, file)
