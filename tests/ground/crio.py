"""A package cri-o whose program is a stand-in (crio_simulated.py), with conmon and runc for real.

No suite of Debian's has CRI-O, and CRI-O's own repository is not reached where these tests run. The
unit and the drop-in are in the shape of CRI-O's own packages
(https://github.com/cri-o/packaging): conmon is named by the drop-in alone, and is in no PATH.
"""

from __future__ import annotations

from pathlib import Path

from tests.ground import crio_simulated, deb

VERSION = "1.30.0-1~stand-in"
CONMON = "usr/libexec/crio/conmon"
UNIT = """\
[Unit]
Description=Container Runtime Interface for OCI (a stand-in of a test's for CRI-O)

[Service]
Type=notify
Environment=PATH=/usr/local/sbin:/usr/sbin:/sbin
ExecStart=/usr/bin/crio
ExecReload=/bin/kill -s HUP $MAINPID
TimeoutStartSec=30

[Install]
WantedBy=multi-user.target
Alias=cri-o.service
"""
PACKAGED = f"""\
[crio.runtime]
default_runtime = "runc"

[crio.runtime.runtimes.crun]
runtime_path = "/usr/bin/crun"
runtime_root = "/run/crun"
monitor_path = "/{CONMON}"

[crio.runtime.runtimes.runc]
runtime_path = "/usr/sbin/runc"
runtime_root = "/run/runc"
monitor_path = "/{CONMON}"
monitor_cgroup = "system.slice"
monitor_env = ["{crio_simulated.PATH}"]
allowed_annotations = [
  "io.containers.trace-syscall",
]
"""
POSTINST = """\
#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
systemctl daemon-reload
systemctl enable --now crio.service
"""


def package(folder: Path) -> Path:
    """The package's file."""
    fields = {
        "Package": "cri-o",
        "Version": VERSION,
        "Architecture": "amd64",
        "Maintainer": "a test <test@example.test>",
        "Depends": "conmon, runc, crun, python3 (>= 3.11)",
        "Description": "a stand-in of a test's for CRI-O",
    }
    made = deb.Writer(folder / "cri-o.deb", fields, {"postinst": POSTINST})
    program = "#!/usr/bin/python3\n" + Path(crio_simulated.__file__).read_text("utf-8")
    made.file("usr/bin/crio", program, 0o755)
    made.file(CONMON, '#!/bin/sh\nexec /usr/bin/conmon "$@"\n', 0o755)
    made.file("usr/lib/systemd/system/crio.service", UNIT)
    made.file("etc/crio/crio.conf.d/10-crio.conf", PACKAGED)
    return made.close()
