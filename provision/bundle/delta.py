"""Makes a bundle out of an earlier one and a delta, where there is no network.

The manifest comes last: an earlier bundle that was cut off in between is still the one that the
delta names, and the same command again ends it.
"""

from __future__ import annotations

import os
from pathlib import Path

from provision import inputs
from provision.bundle import manifest as manifests
from provision.bundle.check import fault, some
from provision.bundle.delta_file import Delta, check_goes_with
from provision.bundle.manifest import File, Manifest
from provision.bundle.target import held, make_safe
from provision.bundle.write import clean, put
from provision.errors import DriftError, MachineError
from provision.upstream import exact


def apply(
    delta: Path, bundle: Path, manifest: Manifest, data: bytes, goes_with: Delta | None
) -> int:
    """Brings a bundle to what the delta's manifest says; returns how many files came.

    `data` are the bytes that the manifest was read from, and `goes_with` what delta.json said: on
    the disk they may have changed.

    InputError for a delta of another bundle, DriftError where a file is missing or altered: then
    the bundle is as it was.
    """
    manifests.read(bundle)  # a folder that is none is not made
    with held(bundle):
        return _apply(delta, bundle, manifest, data, goes_with)


def _apply(
    delta: Path, bundle: Path, manifest: Manifest, data: bytes, goes_with: Delta | None
) -> int:
    if manifests.read(bundle) == data:
        make_safe(bundle)
        clean(bundle, set(manifest.files))
        return 0  # it was applied already
    goes_with = check_goes_with(goes_with, bundle, where=delta)
    make_safe(bundle)
    coming = {path for path in manifest.files if path in goes_with.files}
    faults = [
        f"{path}: {wrong}"
        for path, file in manifest.files.items()
        if (wrong := fault((delta if path in coming else bundle) / path, file))
    ]
    if faults:
        raise DriftError(
            "the delta and the bundle together lack something",
            where=str(delta),
            got=some(faults),
            hint="copy both again from where they were made",
        )
    signature = _signature(delta)
    try:
        for path in sorted(coming):
            copy(delta / path, bundle / path, manifest.files[path])
        os.sync()
        if signature is None:
            (bundle / manifests.SIGNATURE).unlink(missing_ok=True)
        else:
            put(bundle / manifests.SIGNATURE, signature, sync=True)
        put(bundle / manifests.NAME, data, sync=True)
        clean(bundle, set(manifest.files))
        os.sync()
    except OSError as error:
        raise MachineError.of(error, "the bundle cannot be written", bundle) from None
    return len(coming)


def _signature(delta: Path) -> bytes | None:
    """The delta's signature. DriftError where it is none: a link could lead to any file."""
    path = delta / manifests.SIGNATURE
    try:
        data = inputs.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not data.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise DriftError("the signature was cut short or altered", where=str(path))
    return data


def copy(source: Path, path: Path, file: File) -> None:
    """Copies a file, whole or not at all. DriftError where it is no longer what was checked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not exact.copied(source, path, file.sha256):
        raise DriftError(
            "a file of the delta changed while it was read",
            where=str(source),
            expected=f"SHA-256 {file.sha256}",
            hint="the same command again; else copy the delta again from where it was made",
        )
