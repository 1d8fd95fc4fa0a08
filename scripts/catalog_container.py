"""Does the catalog say of Debian's container engines what its archive says? Measured, not read.

Prints one line per platform; exit code 1 where provision/catalog/container.yml says otherwise,
for which a point release of Debian is enough. Downloads about 25 MB, without checking signatures.
"""

from __future__ import annotations

import lzma
import re
import sys
import urllib.request
from pathlib import Path

import yaml

CATALOG = Path(__file__).resolve().parents[1] / "provision" / "catalog" / "container.yml"
MIRROR = "http://deb.debian.org"
SUITES = {"debian11": "bullseye", "debian12": "bookworm", "debian13": "trixie"}


def versions(path: str, wanted: set[str]) -> dict[str, str]:
    """Package -> version in one index of amd64."""
    with urllib.request.urlopen(f"{MIRROR}/{path}/binary-amd64/Packages.xz") as answer:  # noqa: S310
        text = lzma.decompress(answer.read()).decode("utf-8")
    found = re.findall(r"^Package: (\S+)\n(?:\S.*\n| .*\n)*?Version: (\S+)$", text, re.M)
    return {package: version for package, version in found if package in wanted}


def main() -> int:
    """Measure the platforms named on the command line, or all."""
    rows = {r["platform"]: r for r in yaml.safe_load(CATALOG.read_text("utf-8"))["engines"]}
    wrong = 0
    for platform in sys.argv[1:] or SUITES:
        suite, row = SUITES[platform], rows[platform]
        wanted = set(row["packages"])
        release = versions(f"debian/dists/{suite}/main", wanted)
        security = versions(f"debian-security/dists/{suite}-security/main", wanted)
        security = {
            name: version for name, version in security.items() if release.get(name) != version
        }
        differing = [
            f"{key}: {found}"
            for key, found in (("packages", release), ("security", security))
            if row[key] != found
        ]
        wrong += len(differing)
        print(f"{platform}: {'; '.join(differing) or 'as in the catalog'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
