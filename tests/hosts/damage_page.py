"""Generates docs/damage.md from the catalogue, so that it claims only what was tested."""

from __future__ import annotations

from damage import ROWS, Row

NAMES = {
    "nvidia_driver": "NVIDIA driver",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "gpu_env": "Environment",
    "tensorflow": "TensorFlow",
    "slurm": "Slurm",
    "receipt": "Receipt",
}

TOP = """\
# Damage: what is found and what is repaired

The catalogue damages a proven local host (Debian 11 over SSH, GPU simulated) in {count} ways. For
each of them `provision plan` named exactly the items in the table, {deep} of them only with
`--deep`. One `provision apply` (with `--deep` for these) repaired them and proved the host, but for
{person} that are [left to a person](#what-is-named-but-left-to-a-person), and afterwards nothing
else on the host had changed. Slurm's rows were tested on a Debian 12 host that is both controller
and node of its own cluster, with real Slurm and GPUs that are only device files. `make damage` runs
the whole catalogue, {all} rows; `make test` runs a dozen of them.

The catalogue does not cover containers or nginx. They are damaged in other tests, in fewer ways:
workspaces and the container toolkit in their [Molecule scenarios](molecule.md), served models in
`tests/hosts/test_serving.py`, the front door in `tests/hosts/test_front_door.py`, the fleet's
cache in `tests/hosts/test_cache.py`.

A test generates this page from the catalogue, `tests/hosts/damage.py` and the rows beside it:
`PROVISION_UPDATE_GOLDEN=1 pytest tests/unit/hosts`.

## How damage is found

On an undamaged host the look hashes nothing. dpkg sets each file's time to the one recorded in its
package; cuDNN's file list and the venv's marker are written last. A file that is newer than its
record was therefore touched after it was installed, and only such files are read and hashed. The
ordinary look finds most damage in a few hundredths of a second, and `touch` alone raises no alarm.

dpkg records neither modes nor owners, so the look checks them by rule: everything from a package
belongs to root, is readable by everyone, writable by root only, and not setuid or setgid (except
nvidia-modprobe); programs and directories are executable by everyone. Entries in
`dpkg-statoverride` are the administrator's choice, and a mode as old as the package's installation
is the package's own. One `lstat` per file is enough for all of this: a look took 19.7 ms of CPU,
up from 18.9 ms.

`--deep` (for `provision plan`, `apply` and `verify`; `-e gpu_deep=true` with plain Ansible) reads
and hashes every file: the locked packages against dpkg's checksums, cuDNN against the hashes taken
when its archive was unpacked, and the locked wheels against their RECORDs. See
[What a deep look costs](#what-a-deep-look-costs).

### After a power cut

A disk that loses its own cache leaves files empty, truncated or missing, although the marker says
that the installation is complete. Every look finds an empty file of a locked package, and a cuDNN
file whose size differs from cuDNN's file list. In a venv every look compares the shared libraries,
in 0.01 s. The other files, 17,000 with TensorFlow 2.21, are compared by size with the RECORDs if
the host has booted since they were installed or last compared. That takes 0.13 s if the kernel has
them in memory, and 0.6 s from a disk (ext4, 2 cores). A run that finds nothing wrong records the
boot in `/var/cache/provision-compared`, and later looks in the same boot skip the comparison; a
plan writes nothing. The plan names each file, or the number of files and the first three; the run
rebuilds the venv.

For each of the driver's kernel modules, the look checks that the file that DKMS keeps and the copy
that the kernel loads are complete, by the ELF section table or the last bytes of the xz file. If
one is not, the module counts as missing: the run has DKMS install it again, or build it again if
the file that DKMS keeps is damaged.

A file that is newer than the marker and not empty was edited, not lost. Only `--deep` finds that,
and damage to the files that pip compiles, because RECORDs do not contain their sizes.
"""

DEEP = """
## What only `--deep` finds

Bytes that changed while time and size stayed the same (a failing disk, `touch -r`), Python files in
wheels, documentation, edited configuration files, and missing checksums:
"""

PERSON = """
## What is named, but left to a person

A run deletes no files of other people. If the loader finds somebody else's library before ours, the
plan names its path and what to do; the host stays unproven until that library is gone.
"""

UNTRIED = """
## In the catalogue, but not fully tested

The repair of these rows has not been completed on a host yet, so nothing is claimed about them.
"""

BOTTOM = """
## What even `--deep` does not find

- A record changed together with its file, with their old times restored: dpkg's checksums, wheels'
  RECORDs and cuDNN's file list are on the same host as the files. A record that is missing, or
  newer than it may be, is found. The lock has the hashes of packages, wheels and the archive as
  downloaded, not of each file in them.
- A link in a package that points elsewhere and has its old time: dpkg does not record targets.
  The links that the loader follows to TensorFlow's libraries are resolved anyway.
- A compiled Python file that has its old time: wheels have no hashes for what pip compiles.
- What root adds: another module in the venv, another package, a program earlier in PATH,
  LD_LIBRARY_PATH or PYTHONPATH in a user's shell. What users add beside the locked wheels is
  theirs. Places that they could write to without root, and `.pth` files that point to files owned
  by others, are found.
- Packages that the lock does not name: libc, gcc, Python itself. They belong to the platform;
  check them with `debsums` or `dpkg --verify`.
- A second entry for the same package source: apt warns about it and works. Entries with different
  Signed-By values stop apt; preflight names their files as soon as there is something to do.
- An edited comment in CUDA's pins: only what apt reads is compared.
- A lost dpkg status file: without it nothing can be checked. Restore it from
  `/var/backups/dpkg.status.0`.
- Memory errors, faults of the GPU itself, a kernel module changed after it was loaded.

When `--deep` repairs an edited configuration file or key, it keeps the edited one as `.dpkg-old`.
When cuDNN is unpacked again, files in it with other content, and files that are not in its archive,
are kept in `VERSION.backup-TIME` beside it; delete them if nobody needs them.
A damaged venv is rebuilt beside the old one. If users added packages to it, the plan names them
and the old venv is kept as `NAME.save`. Whole wheels that are missing or have another version are
installed without rebuilding the venv.

## What a deep look costs
"""


def table(rows: list[Row]) -> str:
    lines = ["| damage | what the plan names |", "|---|---|"]
    for row in rows:
        names = ", ".join(
            f"`{item}`" if component == row.component else f"{component} `{item}`"
            for component, item in sorted(row.items)
        )
        lines.append(f"| {row.title} | {names} |")
    return "\n".join(lines) + "\n"


def sections(rows: list[Row]) -> str:
    text = ""
    for component, name in NAMES.items():
        ours = [row for row in rows if row.component == component]
        if ours:
            text += f"\n### {name}\n\n{table(ours)}"
    return text


def page(cost: str) -> str:
    """The whole page; `cost` is what was measured, which the catalogue can't know."""
    tried = [row for row in ROWS if row.tried]
    seen = [row for row in tried if row.seen_by == "look" and not row.undo]
    deep = [row for row in tried if row.seen_by == "deep"]
    people = [row for row in ROWS if row.undo]
    untried = [row for row in ROWS if not row.tried and not row.undo]
    return (
        TOP.format(count=len(tried), all=len(ROWS), deep=len(deep), person=len(people))
        + "\n## What every look finds\n"
        + sections(seen)
        + DEEP
        + "\n"
        + table(deep)
        + PERSON
        + "\n"
        + table(people)
        + (UNTRIED + sections(untried) if untried else "")
        + BOTTOM
        + cost
    )
