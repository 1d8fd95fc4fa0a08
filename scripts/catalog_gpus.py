"""Generates provision/catalog/gpus.json: PCI device ids with chip, generation and capability.

    python scripts/catalog_gpus.py            # fetch the sources, write the file
    python scripts/catalog_gpus.py --check    # check that the file is up to date

Chips come from pci.ids, names from the supported-gpus.json that NVIDIA ships with each driver, and
a device's branches from the lists of Debian's nvidia-detect. All are in Debian's packages, verified
by Debian's signed indices.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import lzma
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from debian.deb822 import Packages, Release
from debian.debfile import DebFile

from provision.catalog import keys
from provision.catalog.rows import Archive
from provision.upstream import download, release

HERE = Path(__file__).resolve().parent.parent
FILE = HERE / "provision" / "catalog" / "gpus.json"
MIRROR = "http://deb.debian.org/debian"
NVIDIA = "10de"

# https://ftp-master.debian.org/keys.html: archive keys of Debian 11, 12 and 13.
SIGNERS = [
    "1F89983E0081FDE018F3CC9673A4F27B8DD47936",
    "B8B80B5B623EAB6AD8775C45B7C5D7D6350947F8",
    "04B54C3CDCA79751B16BC6B5225629DF75B188BD",
]


@dataclass(frozen=True)
class PackageFiles:
    """Files in a package of a suite; `files` is {our key: path}."""

    suite: str
    component: str
    index: str
    package: str
    files: Mapping[str, str]

    @property
    def path(self) -> str:
        return f"{self.component}/{self.index}/Packages.xz"


# pci.ids of unstable: Debian 13's lacks B300 and most RTX PRO Blackwell cards.
PCI_IDS = PackageFiles("sid", "main", "binary-all", "pci.ids", {"": "/usr/share/misc/pci.ids"})

# NVIDIA's names and legacy branches; the newer file wins. Not used for a branch's devices: from 525
# on NVIDIA omits those that default to the GSP firmware, such as Tesla T4 and A100-PCIE-40GB.
_JSON = "/usr/share/doc/nvidia-driver/supported-gpus.json.gz"
NAMES = [
    PackageFiles("bullseye", "non-free", "binary-amd64", "nvidia-driver", {"470": _JSON}),
    PackageFiles("trixie", "non-free", "binary-amd64", "nvidia-driver", {"550": _JSON}),
]

# A branch's devices: Debian's lists, which have those too.
_IDS = "/usr/share/nvidia/nvidia{}.ids"
DRIVEN = PackageFiles(
    "trixie",
    "non-free",
    "binary-amd64",
    "nvidia-detect",
    {
        **{branch: _IDS.format(f"-tesla-{branch}") for branch in ("418", "450", "460", "470")},
        "535": _IDS.format("-tesla-535"),
        "550": _IDS.format(""),
    },
)

# Chip -> generation and compute capability. NVIDIA gives capabilities per product:
#   https://developer.nvidia.com/cuda-gpus and https://developer.nvidia.com/cuda-legacy-gpus
# and pci.ids says which chip a product has. The same by chip: Mesa's sm_for_chipset
# (https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/nouveau/winsys/nouveau_device.c)
# and, for GA100 to GB202,
# https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-gpus.html
CHIPS: list[tuple[str, str, str]] = [
    ("GF1[01]0", "Fermi", "2.0"),
    ("GF1(0[468]|1[4679])", "Fermi", "2.1"),
    ("GK10[467]", "Kepler", "3.0"),
    ("GK(110|180|208)", "Kepler", "3.5"),
    ("GK210", "Kepler", "3.7"),
    ("GM10[78]", "Maxwell", "5.0"),
    ("GM20[046]", "Maxwell", "5.2"),
    ("GP100", "Pascal", "6.0"),
    ("GP10[24678]", "Pascal", "6.1"),
    ("GV100", "Volta", "7.0"),
    ("TU1(0[246]|1[67])", "Turing", "7.5"),
    ("GA100", "Ampere", "8.0"),
    ("GA10[23467]", "Ampere", "8.6"),
    ("AD10[23467]", "Ada", "8.9"),
    ("GH100", "Hopper", "9.0"),
    ("GB10[02]", "Blackwell", "10.0"),  # B200, GB200
    ("GB11[02]", "Blackwell", "10.3"),  # B300, GB300
    ("GB10B", "Blackwell", "11.0"),  # Jetson Thor
    ("GB20[23567]", "Blackwell", "12.0"),
    ("GB20B", "Blackwell", "12.1"),  # GB10
]

# Entries of pci.ids under a chip's name that are no GPU, or no product.
_OTHER = re.compile(r"Audio|USB|UCSI|PCI bridge|PCIe host|NVSwitch|Reserved Dev ID|FPGA|Tegra RP")


def pci_devices(text: str) -> dict[str, str]:
    """{device id: description} of NVIDIA's devices in pci.ids."""
    descriptions: dict[str, str] = {}
    vendor = ""
    for line in text.splitlines():
        if match := re.match(r"(\t?)([0-9a-f]{4})  (.+)", line):
            if not match[1]:
                vendor = match[2]
            elif vendor == NVIDIA:
                descriptions[match[2]] = match[3]
    return descriptions


def chip_of(description: str) -> tuple[str, str, str] | None:
    """(chip, generation, capability) of "TU104GL [Tesla T4]"; None for anything but a known GPU."""
    if _OTHER.search(description):
        return None
    for pattern, generation, capability in CHIPS:
        # Suffixes of variants: GL for workstations, M for mobile, B for a revision.
        if match := re.match(rf"({pattern})(?:[BGLM]{{0,3}}|) ", f"{description} "):
            return match[1], generation, capability
    return None


def devices(
    pci: Mapping[str, str],
    named: Mapping[str, list[dict[str, Any]]],
    driven: Mapping[str, frozenset[str]],
) -> list[dict[str, Any]]:
    """One row per device id, sorted. `named` and `driven` are by branch, oldest first."""
    names: dict[str, str] = {}
    legacy: dict[str, str] = {}
    every: dict[str, set[str]] = {}
    for chips in named.values():
        names_of_branch: dict[str, set[str]] = {}
        default: dict[str, str] = {}
        for entry in chips:
            device = entry["devid"].removeprefix("0x").lower()
            names_of_branch.setdefault(device, set()).add(entry["name"])
            every.setdefault(device, set()).add(entry["name"].removeprefix("NVIDIA "))
            if "subdevid" not in entry:
                default[device] = entry["name"]
            if "legacybranch" in entry:
                legacy[device] = entry["legacybranch"].removesuffix(".xx")
        # Without a default name (one without a subsystem) all must agree.
        unique = {
            device: given.pop() for device, given in names_of_branch.items() if len(given) == 1
        }
        names |= unique | default
    rows = []
    for device, description in sorted(pci.items()):
        chip = chip_of(description)
        bracket = re.search(r"\[(.+)\]$", description)
        name = names.get(device) or (bracket[1] if bracket else "")
        if chip is None or not name:
            continue
        row = {
            "id": device,
            "name": name.removeprefix("NVIDIA "),
            "chip": chip[0],
            "generation": chip[1],
            "capability": chip[2],
            "legacy": legacy.get(device),
            "drivers": [branch for branch, ids in driven.items() if device in ids],
        }
        also = sorted(every.get(device, set()) - {row["name"]})
        rows.append(row | ({"also": also} if also else {}))
    return rows


def render(read: str, sources: list[dict[str, Any]], rows: list[dict[str, Any]]) -> str:
    """The file's text: a header, and one device per line."""
    about = {
        "made_by": "scripts/catalog_gpus.py",
        "read": read,
        "name": "NVIDIA's own where supported-gpus.json has one for the id, else that of pci.ids",
        "also": "what else supported-gpus.json calls it, by its subsystem",
        "chip": "pci.ids; generation and capability by chip: see the script",
        "legacy": "the last branch for it as supported-gpus.json says; null: none said",
        "drivers": "the branches that list it, of those nvidia-detect has lists of; one that "
        "does not may still drive it (Tesla P4, 1bb3, from 535 on): see generations.yml",
        "sources": sources,
    }
    head = json.dumps(about, indent=1).replace("\n", "\n ")
    body = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
    return f'{{\n "header": {head},\n "devices": [\n{body}\n ]\n}}\n'


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if it differs")
    arguments = parser.parse_args()
    if not arguments.check:
        FILE.write_text(make(datetime.now(timezone.utc).strftime("%Y-%m-%d")), encoding="utf-8")
        print(f"{FILE}: {len(json.loads(FILE.read_text(encoding='utf-8'))['devices'])} devices")
        return 0
    old_text = FILE.read_text(encoding="utf-8")
    text = make(json.loads(old_text)["header"]["read"])
    if old_text == text:
        print(f"{FILE} is what its sources give")
        return 0
    old, new = set(old_text.splitlines()), set(text.splitlines())
    print(f"{FILE} is not what its sources give: {len(old - new)} lines gone, {len(new - old)} new")
    removed, added = sorted(old - new), sorted(new - old)
    print("\n".join([*(f"-{line}" for line in removed), *(f"+{line}" for line in added)]))
    return 1


def make(read: str) -> str:
    """Fetches the sources and renders the file's text; `read` is its date of fetching."""
    fetcher = Fetcher()
    sources = [fetcher.source(entry) for entry in (PCI_IDS, *NAMES, DRIVEN)]
    pci = pci_devices(fetcher.files(PCI_IDS)[""].decode("utf-8"))
    named = {
        branch: json.loads(gzip.decompress(body))["chips"]
        for entry in NAMES
        for branch, body in fetcher.files(entry).items()
    }
    driven = {
        branch: frozenset(line[-4:].lower() for line in body.decode("ascii").split())
        for branch, body in fetcher.files(DRIVEN).items()
    }
    return render(read, sources, devices(pci, named, driven))


class Fetcher:
    """Fetches Debian's packages; verifies each suite and reads each index once."""

    def __init__(self) -> None:
        self._signed: dict[str, dict[str, tuple[str, int]]] = {}
        self._packages: dict[tuple[str, str], str] = {}

    def source(self, entry: PackageFiles) -> dict[str, Any]:
        """The origin of the files, for the header."""
        stanza = self._stanza(entry)
        return {
            "url": f"{MIRROR}/{stanza['Filename']}",
            "sha256": stanza["SHA256"],
            "suite": entry.suite,
            "package": f"{entry.package} {stanza['Version']}",
            "files": sorted(entry.files.values()),
        }

    def files(self, entry: PackageFiles) -> dict[str, bytes]:
        """{our key: bytes} of the files."""
        stanza = self._stanza(entry)
        url = f"{MIRROR}/{stanza['Filename']}"
        package = DebFile(fileobj=io.BytesIO(_verified(url, stanza["SHA256"])))
        contents = {}
        for key, path in entry.files.items():
            content = package.data.get_content(f".{path}")
            if not isinstance(content, bytes):
                raise SystemExit(f"{url}: no {path}")
            contents[key] = content
        return contents

    def _stanza(self, entry: PackageFiles) -> Packages:
        base = f"{MIRROR}/dists/{entry.suite}"
        if entry.suite not in self._signed:
            archive = Archive(
                url=MIRROR,
                suite=entry.suite,
                label=entry.suite,
                components=[entry.component],
                signed_by=SIGNERS,
            )
            text, _ = release.verify(download.fetch(f"{base}/InRelease"), archive, keys())
            self._signed[entry.suite] = release.checksums(Release(text), where=base)
        if (entry.suite, entry.path) not in self._packages:
            digest, _size = self._signed[entry.suite][entry.path]
            body = lzma.decompress(_verified(f"{base}/{entry.path}", digest)).decode("utf-8")
            self._packages[entry.suite, entry.path] = body
        body = self._packages[entry.suite, entry.path]
        stanza = re.search(
            rf"^Package: {re.escape(entry.package)}\n(?:.+\n)*", body, flags=re.MULTILINE
        )
        if stanza is None:
            raise SystemExit(f"{base} {entry.path}: no {entry.package}")
        return Packages(stanza[0])


def _verified(url: str, digest: str) -> bytes:
    body = download.fetch(url)
    got = hashlib.sha256(body).hexdigest()
    if got != digest:
        raise SystemExit(f"{url}: SHA-256 {got}, signed is {digest}")
    return body


if __name__ == "__main__":
    sys.exit(main())
