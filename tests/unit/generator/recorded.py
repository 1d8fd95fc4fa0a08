"""Indices and requirements as they were on 2026-11-21, cut to the packages the stack is made of."""

from __future__ import annotations

from pathlib import Path

from provision.catalog import load
from provision.inventory import Fleet, parse_wish
from provision.lock import Lock, make
from provision.resolve import Choice, resolve_fleet
from provision.upstream.packages import Indices, Package, Source, parse

DATA = Path(__file__).parent / "data"
# Platform -> {file: origin}; those of 12 and 13 come from `scripts/catalog_debian.py --record`.
PARTS = {
    "debian11": {
        "bullseye-contrib": "bullseye/contrib",
        "bullseye-non-free": "bullseye/non-free",
        "bullseye-security-contrib": "bullseye-security/contrib",
        "bullseye-security-non-free": "bullseye-security/non-free",
    },
    "debian12": {
        "bookworm-contrib": "bookworm/contrib",
        "bookworm-non-free": "bookworm/non-free",
        "bookworm-non-free-firmware": "bookworm/non-free-firmware",
        "bookworm-security-contrib": "bookworm-security/contrib",
        "bookworm-security-non-free": "bookworm-security/non-free",
        "bookworm-security-non-free-firmware": "bookworm-security/non-free-firmware",
    },
    "debian13": {
        "trixie-contrib": "trixie/contrib",
        "trixie-non-free": "trixie/non-free",
        "trixie-non-free-firmware": "trixie/non-free-firmware",
    },
}
REQUIREMENTS = """\
numpy==1.26.4 \\
    --hash=sha256:1111111111111111111111111111111111111111111111111111111111111111
protobuf==3.19.6 \\
    --hash=sha256:2222222222222222222222222222222222222222222222222222222222222222
tensorflow==2.9.3 \\
    --hash=sha256:3333333333333333333333333333333333333333333333333333333333333333
"""
# As `uv pip compile` answered for TensorFlow 2.20.0 with the wheels of CUDA on Python 3.13, cut to
# what matters here; hashes are made up.
WHEELS = "".join(
    f"{pin} \\\n    --hash=sha256:{number:064x}\n"
    for number, pin in enumerate(
        [
            "numpy==2.5.5",
            "nvidia-cublas-cu12==12.5.3.2",
            "nvidia-cuda-cupti-cu12==12.5.82",
            "nvidia-cuda-nvcc-cu12==12.5.82",
            "nvidia-cuda-nvrtc-cu12==12.5.82",
            "nvidia-cuda-runtime-cu12==12.5.82",
            "nvidia-cudnn-cu12==9.3.0.75",
            "nvidia-cufft-cu12==11.2.3.61",
            "nvidia-curand-cu12==10.3.6.82",
            "nvidia-cusolver-cu12==11.6.3.83",
            "nvidia-cusparse-cu12==12.5.1.3",
            "nvidia-nccl-cu12==2.25.1",
            "nvidia-nvjitlink-cu12==12.5.82",
            "protobuf==7.36.2",
            "tensorflow==2.20.0",
        ]
    )
)
SUITES = {"debian11": "bullseye", "debian12": "bookworm", "debian13": "trixie"}


def packages(platform: str = "debian11") -> list[Package]:
    """Every recorded package of a platform."""
    found: list[Package] = []
    for file, origin in PARTS[platform].items():
        text = (DATA / f"{file}.packages").read_text(encoding="utf-8")
        found += parse(text, origin)
    return found


def indices(found: list[Package] | None = None, platform: str = "debian11") -> Indices:
    """The recorded indices of a platform."""
    source = Source(
        "http://deb.debian.org/debian",
        SUITES[platform],
        ("contrib", "non-free"),
        ("1F89983E0081FDE018F3CC9673A4F27B8DD47936",),
        "Sat, 09 Aug 2025 09:16:30 UTC",
        "0" * 64,
    )
    return Indices(tuple(packages(platform) if found is None else found), (source,))


def choices(wish: object = None) -> list[Choice]:
    """What the catalog chooses for one host with this wish (default: TensorFlow 2.9)."""
    parsed = parse_wish({"tensorflow": "2.9"} if wish is None else wish, where="lab/hosts.yml:3")
    return resolve_fleet(load(), Fleet({"gpu01": parsed}))


def lock(wish: object = None) -> Lock:
    """A lock from recorded data alone."""
    chosen = choices(wish)
    return make(
        chosen,
        {choice.platform.id: indices(platform=choice.platform.id) for choice in chosen},
        {
            choice.stack.id: WHEELS if choice.stack.cuda.origin == "wheels" else REQUIREMENTS
            for choice in chosen
        },
    )
