"""A training as it was asked for: a script, its workers, their image; checked before it is used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from provision.errors import InputError
from provision.roles.gpu_workspace import image_fault

LAUNCHER = "provision-launch.py"
# A ConfigMap's: https://kubernetes.io/docs/concepts/configuration/configmap/#motivation
MAX_BYTES = 1 << 20
# A label of DNS. The names of Services begin with a letter:
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#rfc-1035-label-names
_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
NAME_LENGTH = 63
# Of a claim: a subdomain of DNS.
CLAIM_LENGTH = 253
# https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/ (completionMode)
MAX_WORKERS = 100_000
_KEY = re.compile(r"[-._a-zA-Z0-9]+")


@dataclass(frozen=True)
class Training:
    """Name and text of a script, and how it is run."""

    name: str
    script: str
    text: str
    image: str
    workers: int
    gpus: int
    arguments: tuple[str, ...] = ()
    claim: str = ""


def training(
    script: str,
    data: bytes,
    *,
    image: str,
    name: str = "",
    workers: int = 1,
    gpus: int = 1,
    arguments: Sequence[str] = (),
    claim: str = "",
) -> Training:
    """The checked wish; InputError for the first thing that Kubernetes would refuse.

    `name` "": made of the script's.
    """
    file = PurePath(script).name
    if not 1 <= workers <= MAX_WORKERS:
        raise InputError(
            "no number of workers",
            where="--workers",
            got=str(workers),
            expected=f"1 to {MAX_WORKERS}",
        )
    if gpus < 1:
        raise InputError(
            "no number of GPUs",
            where="--gpus",
            got=str(gpus),
            expected="1 or more, of one host, per worker",
        )
    fault = image_fault(image) if image else "no image is named"
    if fault is not None:
        raise InputError(
            fault,
            where="--image",
            expected="NAME@sha256:<64 hex digits>",
            hint="`docker push` says the digest of the image that was built of image/",
        )
    return Training(
        name=_name(name, file, workers),
        script=_key(file, script),
        text=_text(data, script),
        image=image,
        workers=workers,
        gpus=gpus,
        arguments=tuple(arguments),
        claim=_claim(claim),
    )


def _name(name: str, file: str, workers: int) -> str:
    chosen = name or re.sub(r"[^a-z0-9]+", "-", PurePath(file).stem.lower()).strip("-")
    # The longest of those that are made of it: a worker's, which is a name of DNS too.
    longest = NAME_LENGTH - len(f"-worker-{workers - 1}")
    if _NAME.fullmatch(chosen) and len(chosen) <= longest:
        return chosen
    raise InputError(
        "no name for a job" if name else "the script's name gives no name for a job",
        where="--name" if name else file,
        got=f"{chosen} ({len(chosen)} characters)" if len(chosen) > longest else chosen,
        expected=f"a letter, then letters, digits and hyphens, all lower case, {longest} at most",
        hint="" if name else "--name NAME",
    )


def _key(file: str, where: str) -> str:
    if _KEY.fullmatch(file) and file not in (".", "..") and file != LAUNCHER:
        return file
    raise InputError(
        "the script's name can't be a ConfigMap's key",
        where=where,
        got=file,
        expected=f"letters, digits, dots, hyphens and underscores, and not {LAUNCHER}",
    )


def _text(data: bytes, where: str) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            "the script is not UTF-8 text", where=f"{where}:{line}", got=error.reason
        ) from None
    if not text.strip():
        raise InputError("the script is empty", where=where)
    return text


def _claim(claim: str) -> str:
    parts = claim.split(".")
    if not claim or (len(claim) <= CLAIM_LENGTH and all(map(_LABEL.fullmatch, parts))):
        return claim
    raise InputError(
        "no name of a PersistentVolumeClaim",
        where="--claim",
        got=claim,
        expected="lower-case letters, digits, hyphens and dots",
    )
