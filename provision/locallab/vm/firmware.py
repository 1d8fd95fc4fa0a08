"""A virtual machine's own firmware variables: Secure Boot's state and the keys it trusts."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from provision.errors import MachineError
from provision.locallab.machine import ended
from provision.locallab.vm.needs import ENROL_PROGRAM, enrol_program, firmware

# Who enrolled a key, as the firmware's list of keys says it: any GUID will do.
OWNER = "605dab50-e046-4300-abb6-3dd810dd8b23"


def create(path: Path, *, secure_boot: bool, enrol: Sequence[Path] = ()) -> None:
    """Writes the variables of a new machine; `enrol` are certificates (DER) for shim to trust.

    Enrolled like this, a key is where `mokutil --import` and the console would have put it.
    Raises MachineError where a certificate can't be enrolled.
    """
    variables = firmware(secure_boot).variables
    if not enrol:
        shutil.copyfile(variables, path)
        return
    argv = [enrol_program() or ENROL_PROGRAM, "--input", str(variables), "--output", str(path)]
    for certificate in enrol:
        argv += ["--add-mok", OWNER, str(certificate)]
    done = ended(argv, text=True, timeout=120)
    if done.returncode:
        raise MachineError(
            "the key can't be enrolled in the virtual machine's firmware",
            where=", ".join(map(str, enrol)),
            got=done.stderr.strip()[-500:],
            expected="certificates in DER or PEM form",
        )
