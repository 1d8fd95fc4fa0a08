"""Ubuntu's identity over a Debian userland, for machines that can't reach Ubuntu's archive.

Roles, locks and programs identify a host by a few files; these say Ubuntu, and everything else
stays Debian: packages, libraries, apt sources. `/etc/os-simulated` on the host says so, and so does
every report from it.
"""

from __future__ import annotations

from dataclasses import dataclass

CONFIG = "/etc/os-simulated"

# Reads /etc/lsb-release, as Ubuntu's own program does, with the same combined options ("-cs").
LSB_RELEASE = r"""#!/bin/sh
. /etc/lsb-release
[ $# -gt 0 ] || { echo "No LSB modules are available." >&2; exit 0; }
parsed=$(getopt -o aidrcvsh -l all,id,description,release,codename,version,short,help \
  -n lsb_release -- "$@") || exit 2
eval set -- "$parsed"
short=; id=; description=; release=; codename=
while [ "$1" != -- ]; do
  case $1 in
    -a|--all) id=1; description=1; release=1; codename=1 ;;
    -i|--id) id=1 ;;
    -d|--description) description=1 ;;
    -r|--release) release=1 ;;
    -c|--codename) codename=1 ;;
    -s|--short) short=1 ;;
    -v|--version) echo "No LSB modules are available." >&2 ;;
    -h|--help) echo "Usage: lsb_release [options]"; exit 0 ;;
  esac
  shift
done
say() { if [ -n "$short" ]; then echo "$2"; else printf '%s:\t%s\n' "$1" "$2"; fi; }
[ -z "$id" ] || say "Distributor ID" "$DISTRIB_ID"
[ -z "$description" ] || say Description "$DISTRIB_DESCRIPTION"
[ -z "$release" ] || say Release "$DISTRIB_RELEASE"
[ -z "$codename" ] || say Codename "$DISTRIB_CODENAME"
"""


@dataclass(frozen=True)
class Identity:
    """A release of Ubuntu: version, names, and the Debian release that it derives from."""

    release: str
    point: str
    codename: str
    name: str
    debian: str

    @property
    def pretty(self) -> str:
        return f"Ubuntu {self.point} LTS"

    def files(self, userland: str) -> dict[str, tuple[str, int]]:
        """{path: (text, mode)} of the identity's files; `userland` is the real distribution."""
        return {
            "/usr/lib/os-release": (
                'NAME="Ubuntu"\n'
                f'VERSION="{self.point} LTS ({self.name})"\n'
                "ID=ubuntu\nID_LIKE=debian\n"
                f'PRETTY_NAME="{self.pretty}"\n'
                f'VERSION_ID="{self.release}"\n'
                'HOME_URL="https://www.ubuntu.com/"\n'
                'SUPPORT_URL="https://help.ubuntu.com/"\n'
                'BUG_REPORT_URL="https://bugs.launchpad.net/ubuntu/"\n'
                f"VERSION_CODENAME={self.codename}\nUBUNTU_CODENAME={self.codename}\n",
                0o644,
            ),
            "/etc/lsb-release": (
                f"DISTRIB_ID=Ubuntu\nDISTRIB_RELEASE={self.release}\n"
                f'DISTRIB_CODENAME={self.codename}\nDISTRIB_DESCRIPTION="{self.pretty}"\n',
                0o644,
            ),
            "/etc/debian_version": (f"{self.debian}/sid\n", 0o644),
            "/usr/bin/lsb_release": (LSB_RELEASE, 0o755),
            CONFIG: (
                "# This host is no Ubuntu. os-release and lsb_release say that it is one, for a\n"
                "# local lab; its packages, libraries and apt sources are those of `userland`.\n"
                f"identity={self.pretty}\nuserland={userland}\n",
                0o644,
            ),
        }


FOCAL = Identity("20.04", "20.04.6", "focal", "Focal Fossa", "bullseye")

# Diverted, so that updates of base-files or lsb-release don't overwrite the identity.
DIVERTED = ("/usr/lib/os-release", "/etc/debian_version", "/usr/bin/lsb_release")


def script() -> str:
    """The shell script that diverts Debian's files; runs in the image before the identity's."""
    lines = [
        f"dpkg-divert --quiet --local --rename --divert {path}.debian --add {path} 2>/dev/null"
        for path in DIVERTED
    ]
    return " && ".join(lines)
