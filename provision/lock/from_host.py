"""Reads what a working host has installed, to lock the same for its twin.

One round trip over Ansible's own connection, with no Python and no privileges needed on the host;
it changes nothing there.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from provision import run
from provision.errors import HostError, InputError
from provision.lock.pin import Twin
from provision.models import Platform

# $1 is the directory of TensorFlow's environments, $2 that of cuDNN's versions.
SCRIPT = r"""
. /etc/os-release
echo "os $ID $VERSION_ID"
echo "machine $(uname -m)"
dpkg-query -W -f='deb ${db:Status-Status} ${Package} ${Version}\n'
for wheel in "$1"/current/lib/python3.*/site-packages/*.dist-info; do
  test -d "$wheel" && echo "wheel $wheel"
done
header=$2/current/include/cudnn_version.h
number='^#define  *CUDNN_\(MAJOR\|MINOR\|PATCHLEVEL\)  *\([0-9]*\).*'
test -e "$header" && sed -n "s/$number/cudnn \2/p" "$header"
echo end
"""
ROOTS = (
    "{{ tensorflow_root | default('/opt/tensorflow') | quote }} "
    "{{ cudnn_root | default('/opt/nvidia/cudnn') | quote }}"
)


def read(host: str, sources: Sequence[str], *, cwd: Path, extra: Sequence[str] = ()) -> Twin:
    """What the host has installed. HostError where it can't be reached or answers otherwise."""
    script = base64.b64encode(SCRIPT.encode()).decode()
    command = [host, "-m", "ansible.builtin.raw"]
    # Reading needs no privileges, and so no password.
    command += ["-a", f"echo {script} | base64 -d | sh -s -- {ROOTS}", "-e", "ansible_become=false"]
    for source in sources:
        command += ["-i", source]
    with tempfile.TemporaryDirectory() as folder:
        done = run.ansible(cwd, [*command, "--tree", folder, *extra])
        result = run.answer(Path(folder) / host) or {}
    out = str(result.get("stdout", "")).replace("\r", "")
    if not out.rstrip().endswith("end"):
        text = str(result.get("msg") or result.get("stderr") or out or done.stderr or done.stdout)
        raise HostError(
            "the host could not be looked at",
            where=host,
            got=" ".join(text.split())[-300:],
            hint=f"does `ansible {host} -m ansible.builtin.raw -a true` reach it?",
        )
    return parse(host, out)


def parse(host: str, text: str) -> Twin:
    """What the script printed. InputError for a host without one environment with TensorFlow."""
    packages: dict[str, str] = {}
    wheels: dict[str, str] = {}
    pythons: set[str] = set()
    numbers: list[str] = []
    distribution = release = machine = ""
    for line in text.splitlines():
        word, _, value = line.partition(" ")
        pieces = value.split()
        if word == "os":
            distribution, release = [*pieces, "", ""][:2]
        elif word == "machine":
            machine = value.strip()
        elif word == "deb" and len(pieces) == 3 and pieces[0] == "installed":
            packages[pieces[1]] = pieces[2]
        elif word == "cudnn":
            numbers.append(value.strip())
        elif word == "wheel":
            folder, _, name = value.rpartition("/")
            pythons |= {p.removeprefix("python") for p in folder.split("/") if p[:8] == "python3."}
            left, _, right = name.removesuffix(".dist-info").partition("-")
            wheels[canonicalize_name(left)] = right
    if len(pythons) != 1 or "tensorflow" not in wheels:
        raise InputError(
            "the host has no environment with TensorFlow where one is expected",
            where=host,
            got=f"TensorFlow for Python {' and '.join(sorted(pythons))}" if pythons else "none",
            expected="`current` in the host's tensorflow_root (/opt/tensorflow)",
            hint="set tensorflow_root for this host to the directory that holds it as `current`",
        )
    return Twin(
        host,
        Platform(distribution, release, machine),
        packages,
        {name: wheels[name] for name in sorted(wheels)},
        pythons.pop(),
        ".".join(numbers),
    )
