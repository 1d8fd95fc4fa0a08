"""Compares provision/catalog/container.yml with the container engines in Debian's archive.

Prints one line per platform; exits with 1 where the catalog differs, as after a point release of
Debian. Downloads about 25 MB, without checking signatures.
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


def versions(path: str, names: set[str]) -> dict[str, str]:
    """{package: version} of `names`, from an index of amd64."""
    with urllib.request.urlopen(f"{MIRROR}/{path}/binary-amd64/Packages.xz") as answer:  # noqa: S310
        text = lzma.decompress(answer.read()).decode("utf-8")
    rows = re.findall(r"^Package: (\S+)\n(?:\S.*\n| .*\n)*?Version: (\S+)$", text, re.M)
    return {package: version for package, version in rows if package in names}


def main() -> int:
    """Measure the platforms named on the command line, or all."""
    rows = {r["platform"]: r for r in yaml.safe_load(CATALOG.read_text("utf-8"))["engines"]}
    wrong = 0
    for platform in sys.argv[1:] or SUITES:
        suite, row = SUITES[platform], rows[platform]
        names = set(row["packages"])
        release = versions(f"debian/dists/{suite}/main", names)
        security = versions(f"debian-security/dists/{suite}-security/main", names)
        security = {
            name: version for name, version in security.items() if release.get(name) != version
        }
        differing = [
            f"{key}: {measured}"
            for key, measured in (("packages", release), ("security", security))
            if row[key] != measured
        ]
        wrong += len(differing)
        print(f"{platform}: {'; '.join(differing) or 'as in the catalog'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
