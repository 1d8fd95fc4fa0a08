"""The damage catalogue: everything the stack consists of, damaged once. Data and nothing else.

Each row is one kind of harm to one thing. `test_damage.py` does it to a proven host and asks what
the look, the plan and one run make of it; docs/damage.md is written from these rows.

Shell text runs as root with these set: $CUDNN, $VENV and $SITE (this stack's own directories),
$LIB (the platform's library directory); `keep FILE COMMAND...`, which runs the command and gives
the file its old time back, as a failing disk would leave it; `stomp FILE OFFSET`, which overwrites
some bytes; `fetch PACKAGE`, which downloads it to
an empty directory; and `other PACKAGE VERSION`, which installs it as of another version.
"""

from __future__ import annotations

import damage_rows_deep
import damage_rows_files
import damage_rows_packages
from damage_row import Row as Row

# What any repair may touch.
ALWAYS = (
    "/etc/ld.so.cache",
    "/var/lib/dpkg/status*",
    "/var/lib/dpkg/available*",
    "/var/lib/dpkg/lock*",
    "/var/lib/dpkg/triggers/*",
    "/var/lib/dpkg/updates*",
    "/var/lib/dpkg/*-old",
    "/var/lib/provision/*",
    "/usr/lib/python3*/__pycache__/*",
)

ROWS = (*damage_rows_packages.ROWS, *damage_rows_files.ROWS, *damage_rows_deep.ROWS)


def batches() -> dict[str, list[Row]]:
    """{batch: rows}, in the catalogue's order."""
    found: dict[str, list[Row]] = {}
    for row in ROWS:
        found.setdefault(row.batch, []).append(row)
    return found
