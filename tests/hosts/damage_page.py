"""docs/damage.md, written from the catalogue: what is claimed there is what was tried."""

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
# Damage: what is seen, and what is repaired

What a stack consists of has been damaged on a proven local host (Debian 11 over SSH, GPU
simulated) in {count} ways. For each of them `provision plan` named exactly what the table says, one
`provision apply` repaired it and proved the host, and afterwards nothing on the host differed from
before but what was repaired. Slurm's rows were done to a Debian 12 that is controller and node of
a cluster of its own, with Slurm for real and GPUs of mere device files. `make damage` runs the
whole catalogue, {all} rows; a dozen of them run in `make test`.

What has to do with containers or nginx is not in this catalogue. It is damaged elsewhere, in fewer
ways: workspaces and the container toolkit in their [Molecule scenarios](molecule.md), served models
in `tests/hosts/test_serving.py`, the front door in `tests/hosts/test_front_door.py`, the fleet's
cache in `tests/hosts/test_cache.py`.

This page is written by a test from the catalogue, `tests/hosts/damage.py` and its
rows beside it:
`PROVISION_UPDATE_GOLDEN=1 pytest tests/unit/hosts`.

## How the look sees it

It hashes nothing on a whole host. dpkg gives each file the time it has in its package; cuDNN's list
of files and the venv's mark are written last. So a file that is newer than its record was touched
after it was installed, and that file alone is read and hashed. The ordinary look sees most damage
in a few hundredths of a second, and `touch` alone raises no alarm.

Modes and owners are judged by rule, for dpkg records neither: what a package brings belongs to
root, all may read it, nobody else may write it, nothing runs with its owner's rights (but
nvidia-modprobe), and programs and directories are executable for all. What `dpkg-statoverride`
names is the administrator's, and a mode as old as the package's installation is the package's own.
The one `lstat` that each file gets tells it all: a look took 19.7 ms of CPU, and 18.9 ms before.

`--deep` (of `provision plan`, `apply` and `verify`; with plain Ansible `-e gpu_deep=true`) reads
and hashes every file of the locked packages against dpkg's checksums, cuDNN against the hashes
taken when its archive was unpacked, and the locked wheels against their RECORDs.
[Below](#what-a-deep-look-costs) is what that takes.

### After a power cut

A disk that loses its own cache leaves files empty, cut short or missing behind a mark that vouches
for them. An empty file of a locked package, and any size of cuDNN's that differs from its list, is
seen by every look. Of a venv every look compares the shared libraries, in 0.01 s; the other files,
17,000 with TensorFlow 2.21, are compared by size with the RECORDs when the host has booted since
they were installed or last compared. That takes 0.13 s where the kernel has them in memory, and
0.6 s from a disk (ext4, 2 cores). A run that finds the host as it should be notes the boot in
`/var/cache/provision-compared`, and later looks of the same boot are spared that; a plan writes
nothing. The plan names each file, or how many and the first three; the run makes the venv anew.

Of the driver's kernel modules each file that DKMS keeps, and its copy that the kernel loads, is
whole by its own marks (ELF's table of sections, xz's last bytes), or the module is missing: the run
has DKMS install it again, or build it where the kept one is spoiled.

A file that is newer than the mark and not empty was edited, not lost: that is left to `--deep`, and
so is what pip compiles, whose size no RECORD has.
"""

DEEP = """
## What only `--deep` sees

Bytes that changed while time and size stayed (a failing disk, `touch -r`), Python files in wheels,
documents, edited configuration files, and checksums that are gone:
"""

PERSON = """
## What is named, and left to a person

Nobody's files are deleted. A library of somebody else's that the
loader finds before ours is named with its path and what to do; a run leaves the host unproven until
it is gone.
"""

UNTRIED = """
## In the catalogue, and not yet run to the end

Their repair has not been seen whole on a host, so nothing is claimed of these rows yet.
"""

BOTTOM = """
## What even `--deep` cannot see

- A record and its file changed together, with their old times: dpkg's checksums, a wheel's RECORD
  and cuDNN's list of files lie on the same host as the files. One that is gone, or newer than it
  may be, is seen. The lock has the hashes of packages, wheels and archive as they are downloaded,
  not of each file in them.
- The target of a link in a package, where its old time was restored: dpkg keeps no targets. Links
  that the loader follows to TensorFlow's libraries are resolved all the same.
- A compiled Python file whose time was restored: wheels have no hashes for what pip compiles.
- What root adds: a further module in the venv, a package of a user's own, a program earlier in
  PATH, LD_LIBRARY_PATH or PYTHONPATH in somebody's shell. What users add beside the locked wheels
  is theirs; where they could write without root, or a `.pth` file leads to what others own, it is
  seen.
- Packages that the lock does not name: libc, gcc, Python itself; those are the platform's, and
  `debsums` or `dpkg --verify` reads them.
- A second entry of the same package source: apt warns, and works. Entries that contradict each
  other in Signed-By stop apt; preflight names their files as soon as there is something to do.
- An edited comment in the pins of CUDA: they are compared by what they say to apt.
- dpkg's status file gone as a whole: nothing can be told from it. Restore it from
  `/var/backups/dpkg.status.0`.
- Memory, a GPU's own faults, a kernel module changed after it was loaded.

A repair with `--deep` of an edited configuration file or key keeps what was there as `.dpkg-old`.
A damaged venv is made anew beside the old one. Where users added packages to it, the plan names
them and the old one is kept as `NAME.save`; whole wheels that are missing or of another version
are put in place without that.

## What a deep look costs
"""


def table(rows: list[Row]) -> str:
    lines = ["| what was done | what the plan names |", "|---|---|"]
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
        TOP.format(count=len(tried), all=len(ROWS))
        + "\n## What every look sees\n"
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
