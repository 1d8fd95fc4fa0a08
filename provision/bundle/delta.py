"""Makes a bundle out of an earlier one and a delta, where there is no network.

The manifest comes last: an earlier bundle that was cut off in between is still the one that the
delta names, and the same command again ends it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from provision.bundle import manifest as manifests
from provision.bundle.check import check_goes_with, fault
from provision.bundle.manifest import Manifest
from provision.bundle.target import held, make_safe
from provision.bundle.write import clean
from provision.errors import DriftError, MachineError


def apply(delta: Path, bundle: Path, manifest: Manifest) -> int:
    """Brings a bundle to what the delta's manifest says; returns how many files came.

    InputError for a delta of another bundle, DriftError where a file is missing or altered: then
    the bundle is as it was.
    """
    manifests.read(bundle)  # a folder that is none is not made
    with held(bundle):
        return _apply(delta, bundle, manifest)


def _apply(delta: Path, bundle: Path, manifest: Manifest) -> int:
    if manifests.read(bundle) == manifests.read(delta):
        clean(bundle, set(manifest.files))
        return 0  # it was applied already
    check_goes_with(delta, bundle)
    make_safe(bundle)
    coming = {path for path in manifest.files if os.path.lexists(delta / path)}
    faults = [
        f"{path}: {wrong}"
        for path, file in manifest.files.items()
        if (wrong := fault((delta if path in coming else bundle) / path, file))
    ]
    if faults:
        raise DriftError(
            "the delta and the bundle together lack something",
            where=str(delta),
            got="; ".join(faults[:5]),
            hint="copy both again from where they were made",
        )
    try:
        for path in sorted(coming):
            copy(delta / path, bundle / path)
        os.sync()
        for name in (manifests.SIGNATURE, manifests.NAME):
            if (delta / name).exists():
                copy(delta / name, bundle / name)
            else:
                (bundle / name).unlink(missing_ok=True)
        clean(bundle, set(manifest.files))
        os.sync()
    except OSError as error:
        raise MachineError.of(error, "the bundle cannot be written", bundle) from None
    return len(coming)


def copy(source: Path, path: Path) -> None:
    """Copies a file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    shutil.copyfile(source, part)
    os.replace(part, path)
