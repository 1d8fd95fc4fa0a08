"""Measures the progress of a run's long steps by the files that they write.

apt, dpkg, DKMS and pip report no progress when Ansible runs them, and a download of a gigabyte
looks like a hang. The run's holder on the host (hold.py) looks once a second, at sizes and names
only, and reports changes. It is an estimate, and decides nothing.

Runs on the host with its own Python (3.7 or newer), standard library only, and is also imported by
tests. `look()` of a source returns a dict of phase, text, and where known bytes and total, or None
if nothing has changed since its last call.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import subprocess
import tempfile

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any


ARCHIVES = "/var/cache/apt/archives"
# apt's own options; nothing else of another process's command line is used.
PACKAGE = re.compile(r"^[a-z0-9][a-z0-9+.-]+(:[a-z0-9]+)?(=[A-Za-z0-9.+:~-]+)?$")
# "'http://.../libcublas11_11.4_amd64.deb' libcublas11_11.4_amd64.deb 187654321 SHA256:..."
URI = re.compile(r"^'[^']*' (\S+) (\d+)", re.M)
DPKG_STEP = re.compile(r"^\S+ \S+ (install|upgrade|configure|startup) (\S+)")
MODULE_KERNEL = re.compile(rb"^DKMS make\.log for \S+ for kernel (\S+)")
# What kbuild prints of an object: its short line, or the command (Debian's driver builds with V=1).
OBJECT = re.compile(rb"^  CC \[M\] | -c -o \S+\.o ", re.M)
# The real apt-get: other programs of that name do not count.
BELIEVED = 0
# Smaller files that Ansible copies are its modules and our templates.
LARGE = 4 << 20


def entries(path: str) -> list[tuple[str, int]]:
    """[(name, size)] of the plain files in a directory; [] where there is none."""
    files = []
    try:
        with os.scandir(path) as directory:
            for entry in directory:
                with contextlib.suppress(OSError):  # removed meanwhile
                    if entry.is_file(follow_symlinks=False):
                        files.append((entry.name, entry.stat(follow_symlinks=False).st_size))
    except OSError:
        return []
    return files


def directories(path: str, pattern: str = "*") -> list[str]:
    """Paths of the directories in `path` whose names match, sorted."""
    try:
        names = fnmatch.filter(os.listdir(path), pattern)
    except OSError:
        return []
    return sorted(
        directory
        for directory in (os.path.join(path, n) for n in names)
        if os.path.isdir(directory)
    )


def size_of(path: str) -> int:
    """Bytes of the files in and below a directory of few files."""
    return sum(size for place, _folders, _files in os.walk(path) for _name, size in entries(place))


class Moved(object):
    """Remembers a value; a call returns whether it differs from the last one's."""

    def __init__(self) -> None:
        self._before = None

    def __call__(self, value: Any) -> bool:
        moved = value != self._before and not (self._before is None and not value)
        self._before = value
        return moved


class Apt(object):
    """Packages that apt fetches: the new files in its archive."""

    def __init__(self, root: str, run: Any = subprocess.Popen) -> None:
        self._directory = os.path.join(root, ARCHIVES.lstrip("/"))
        self._proc = os.path.join(root, "proc")
        self._run = run
        self._moved = Moved()
        self._asked = None
        self._answer: Any = None
        self.begin()

    def begin(self) -> None:
        """Starts counting a new batch: apt fetches all of one before dpkg unpacks it."""
        self._old = {name for name, _size in entries(self._directory)}
        self._total = None
        self._stop()

    def _stop(self) -> None:
        if self._asked is not None and self._asked.poll() is None:
            self._asked.kill()
            self._asked.wait()
        self._asked = None
        self._tried = False

    @property
    def count(self) -> int:
        """Number of this batch's packages that are fetched."""
        return len(self._new())

    def _new(self) -> list[tuple[str, int]]:
        return [entry for entry in entries(self._directory) if self._is_new(entry[0])]

    def _is_new(self, name: str) -> bool:
        return name.endswith(".deb") and name not in self._old

    def look(self) -> dict[str, Any] | None:
        new = self._new()
        got = sum(size for _name, size in new)
        partial = entries(os.path.join(self._directory, "partial"))
        now = got + sum(size for name, size in partial if name.endswith(".deb"))
        if not self._moved(now) or not now:
            return None
        self._ask(got)
        text = "downloading packages"
        return {"phase": "download", "text": text, "bytes": now, "total": self._total}

    def _ask(self, got: int) -> None:
        """Asks apt for the size of this batch: the same command, which only prints."""
        if not self._tried:
            self._tried = True
            argv = self._argv()
            if argv is not None:
                self._answer = tempfile.TemporaryFile()  # noqa: SIM115  read when it is done
                self._there = got
                with contextlib.suppress(OSError):
                    self._asked = self._run(
                        argv,
                        stdin=subprocess.DEVNULL,
                        stdout=self._answer,
                        stderr=subprocess.DEVNULL,
                        env={"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                    )
        if self._asked is not None and self._asked.poll() is not None:
            done, self._asked = self._asked, None
            if done.returncode == 0:
                self._answer.seek(0)
                listed = URI.findall(self._answer.read().decode("utf-8", "replace"))
                self._total = self._there + sum(int(size) for _name, size in listed) or None
            self._answer.close()

    def _argv(self) -> list[str] | None:
        """The command that prints the batch of the apt-get that root runs now; None without one."""
        for pid in (name for name in os.listdir(self._proc) if name.isdigit()):
            place = os.path.join(self._proc, pid)
            try:
                # Checked first: reading the arguments of a user's process may block for ever.
                if os.stat(place).st_uid != BELIEVED:
                    continue
                with open(os.path.join(place, "cmdline"), "rb") as stream:
                    words = stream.read().decode("utf-8", "replace").split("\0")
                if os.path.basename(words[0]) != "apt-get":
                    continue
            except OSError:
                continue
            if "install" not in words:
                continue
            names = [word for word in words[words.index("install") + 1 :] if PACKAGE.match(word)]
            if names:
                without = any("Install-Recommends=no" in word for word in words)
                return [
                    "apt-get",
                    "--print-uris",
                    "-qq",
                    "-y",
                    "--allow-downgrades",
                    "--allow-change-held-packages",
                    *(["--no-install-recommends"] if without else []),
                    "install",
                    *names,
                ]
        return None


class Lists(object):
    """Package lists that apt fetches."""

    def __init__(self, root: str) -> None:
        self._directory = os.path.join(root, "var/lib/apt/lists/partial")
        self._moved = Moved()

    def look(self) -> dict[str, Any] | None:
        size = sum(size for _name, size in entries(self._directory))
        if not self._moved(size) or not size:
            return None
        return {"phase": "download", "text": "downloading package lists", "bytes": size}


class Dpkg(object):
    """The batch that dpkg unpacks and sets up, by its log."""

    def __init__(self, root: str, apt: Apt) -> None:
        self._path = os.path.join(root, "var/log/dpkg.log")
        self._apt = apt
        self._offset = self._size()
        self._rest = ""
        self._total = 0
        self._done: dict[str, set[str]] = {"install": set(), "configure": set()}

    def _size(self) -> int:
        try:
            return os.stat(self._path).st_size
        except OSError:
            return 0

    def look(self) -> dict[str, Any] | None:
        size = self._size()
        if size < self._offset:  # rotated
            self._offset = 0
        if size == self._offset:
            return None
        try:
            with open(self._path, "rb") as stream:
                stream.seek(self._offset)
                data = stream.read(1 << 20)
        except OSError:
            return None
        self._offset += len(data)
        *lines, self._rest = (self._rest + data.decode("utf-8", "replace")).split("\n")
        progress = None
        for line in lines:
            match = DPKG_STEP.match(line)
            if match is not None:
                progress = self._step(*match.groups()) or progress
        return progress

    def _step(self, stage: str, name: str) -> dict[str, Any] | None:
        if stage == "startup":
            if name == "archives" and self._apt.count:
                self._total = self._apt.count
                self._done = {"install": set(), "configure": set()}
                self._apt.begin()
            return None
        name = name.partition(":")[0]
        kind = "configure" if stage == "configure" else "install"
        self._done[kind].add(name)
        words = "setting up" if kind == "configure" else "unpacking"
        count = len(self._done[kind])
        of = ", {0} of {1}".format(count, self._total) if count <= self._total else ""
        return {"phase": "install", "text": "{0} {1}{2}".format(words, name, of)}


class Dkms(object):
    """The compiler's log of a kernel module; one line or command per object."""

    def __init__(self, root: str) -> None:
        self._directory = os.path.join(root, "var/lib/dkms")
        self._moved = Moved()

    def look(self) -> dict[str, Any] | None:
        for module in directories(self._directory, "nvidia*"):
            for version in directories(module):
                path = os.path.join(version, "build/make.log")
                try:
                    with open(path, "rb") as stream:
                        text = stream.read(4 << 20)
                except OSError:
                    continue
                kernel = MODULE_KERNEL.match(text)
                objects = len(OBJECT.findall(text))
                if self._moved((path, objects)) and kernel is not None:
                    words = "building the kernel module for {0}, {1} objects".format(
                        kernel.group(1).decode("utf-8", "replace"), objects
                    )
                    return {"phase": "build", "text": words}
        return None


class Archive(object):
    """A large file that is copied or fetched to this host, and cuDNN's tree, unpacked from it."""

    def __init__(self, root: str, cudnn_root: str, total: int | None) -> None:
        # Where Ansible puts what it copies and fetches. Other homes are left alone: reading a
        # user's directory may block as long as that user wants.
        user = os.environ.get("SUDO_USER") or os.environ.get("DOAS_USER") or "root"
        homes = {"/root", os.path.expanduser("~" + user) if root == "/" else "/home/" + user}
        self._homes = [os.path.join(root, home.lstrip("/")) for home in sorted(homes)]
        self._downloads = os.path.join(root, "var/tmp")
        self._cudnn = os.path.join(root, cudnn_root.lstrip("/"))
        self._total = total or None
        self._copied, self._unpacked = Moved(), Moved()

    def look(self) -> dict[str, Any] | None:
        unpacked = sum(size_of(directory) for directory in directories(self._cudnn, ".staging-*"))
        if self._unpacked(unpacked) and unpacked:
            return {"phase": "install", "text": "unpacking cuDNN", "bytes": unpacked}
        places = [
            place
            for home in self._homes
            for place in directories(os.path.join(home, ".ansible/tmp"))
        ] + directories(self._downloads, "provision-cudnn.*")
        largest = max((size for place in places for _name, size in entries(place)), default=0)
        if self._copied(largest) and largest > LARGE:
            total = self._total if self._total and self._total >= largest else None
            words = "fetching the cuDNN archive"
            return {"phase": "download", "text": words, "bytes": largest, "total": total}
        return None


class Pip(object):
    """Wheels that pip fetches into a temporary directory of the venv, and those it installed."""

    def __init__(self, root: str, tensorflow_root: str) -> None:
        self._directory = os.path.join(root, tensorflow_root.lstrip("/"))
        self._fetched, self._installed = 0, Moved()

    def look(self) -> dict[str, Any] | None:
        for venv in directories(self._directory):
            temporary = directories(venv, "pip-*")
            if not temporary:  # pip does not run in it
                continue
            wheels = self._wheels(venv)
            done = len(wheels & self._present(venv))
            fetched = sum(size_of(directory) for directory in temporary)
            # All are fetched before the first is installed; then the temporary files are removed.
            got, self._fetched = fetched > self._fetched, fetched
            put = self._installed(done)
            if got:
                return {"phase": "download", "text": "downloading wheels", "bytes": fetched}
            if put and done:
                words = "installing wheels, {0} of {1}".format(done, len(wheels))
                return {"phase": "install", "text": words}
        return None

    def _present(self, venv: str) -> set[tuple[str, str]]:
        return {
            _wheel(*name[: -len(".dist-info")].rpartition("-")[::2])
            for library in directories(os.path.join(venv, "lib"), "python3*")
            for site in directories(library, "site-packages")
            for name in os.listdir(site)
            if name.endswith(".dist-info")
        }

    def _wheels(self, venv: str) -> set[tuple[str, str]]:
        try:
            with open(os.path.join(venv, "requirements.txt")) as stream:
                matches = (re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", line) for line in stream)
                return {_wheel(*match.groups()) for match in matches if match is not None}
        except OSError:
            return set()


def _wheel(name: str, version: str) -> tuple[str, str]:
    """A name as pip compares it, without regard to case and the kind of dash."""
    return re.sub(r"[-_.]+", "-", name).lower(), version


class Watch(object):
    """Asks every source; returns the progress of the first that has changed."""

    def __init__(self, root: str = "/", places: dict[str, Any] | None = None) -> None:
        places = places or {}
        apt = Apt(root)
        self._sources: list[Any] = [
            Dkms(root),
            Dpkg(root, apt),
            apt,
            Lists(root),
            Archive(root, places.get("cudnn_root") or "/opt/nvidia/cudnn", places.get("archive")),
            Pip(root, places.get("tensorflow_root") or "/opt/tensorflow"),
        ]

    def __call__(self) -> dict[str, Any] | None:
        progress = None
        for source in self._sources:
            step = source.look()
            progress = progress or step
        return (
            {key: value for key, value in progress.items() if value is not None}
            if progress
            else None
        )
