"""`provision evidence`: what a host was on a date, in one signed file.

Options and no subcommands: `provision evidence verify` could be a host of that name.
"""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Annotated

import typer

from provision import evidence, home, inputs, tree
from provision.cli import projects
from provision.cli.console import err, print_json, say
from provision.cli.options import (
    KEY_HINT,
    AllowedOption,
    IdentityOption,
    JsonOption,
    KeyOption,
    ProjectOption,
)
from provision.errors import DriftError, InputError

FOLDER = "evidence"

OUTPUT = typer.Option(
    "--output",
    "-o",
    metavar="FILE",
    help="A new file.  [default: evidence/HOST-TIME.json of the project]",
)
VERIFY = typer.Option("--verify", metavar="FILE", help="Check a file's signature, offline.")
COMPARE = typer.Option("--compare", metavar="OLD NEW", help="Say what changed between two files.")


def give_evidence(
    host: Annotated[str, typer.Argument(metavar="HOST", help="A host of the project.")] = "",
    project: ProjectOption = Path(),
    key: KeyOption = Path("~/.ssh/id_ed25519"),
    output: Annotated[Path | None, OUTPUT] = None,
    verify: Annotated[Path | None, VERIFY] = None,
    compare: Annotated[tuple[Path, Path] | None, COMPARE] = None,
    allowed_signers: AllowedOption = None,
    identity: IdentityOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a host's verdict and proof into a signed file.

    From the last `provision accept` and the last run that checked the host; no host is asked.
    --verify checks such a file, --compare says what changed between two. Exit code 0 whatever the
    verdict; 5 where a signature is not good, or two files differ.
    """
    if bool(host) + (verify is not None) + (compare is not None) != 1:
        raise InputError(
            "evidence takes a host, --verify or --compare, and only one of them",
            hint="`provision evidence gpu07`",
        )
    if identity is not None and allowed_signers is None:
        raise InputError("--identity needs --allowed-signers: it says which key is whose")
    if verify is not None:
        _verify(verify, _needed(allowed_signers), identity, as_json=as_json)
    elif compare is not None:
        _compare(*compare, allowed_signers, identity, as_json=as_json)
    else:
        _write(host, project, home.expanded(key, KEY_HINT), output, as_json=as_json)


def _needed(allowed_signers: Path | None) -> Path:
    if allowed_signers is None:
        raise InputError(
            "--verify needs --allowed-signers FILE",
            expected="lines as: ada@example.org ssh-ed25519 AAAA...",
            hint="the signer's public key must come to you by another way than the evidence",
        )
    return allowed_signers


def _write(host: str, project: Path, key: Path, output: Path | None, *, as_json: bool) -> None:
    moment = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = evidence.collect(project, host, projects.read_lock(project), moment)
    path = output or project / FOLDER / evidence.file_name(host, moment)
    signature = evidence.signature_of(path)
    for file in (path, signature):
        if os.path.lexists(file):
            raise InputError(
                "the file is there already, and evidence is not written over",
                where=str(file),
                hint="--output names another",
            )
    data = evidence.dump(document)
    signed = evidence.sign(data, key)
    with tree.writing(path, "--output names another place"):
        tree.write_file(path, data)
        tree.write_file(signature, signed)
    if as_json:
        print_json({"evidence": str(path), "signature": str(signature)})
        return
    for line in evidence.lines(document):
        say(line)
    say(f"evidence:  {path}")
    say(f"signature: {signature}")


def _read(path: Path) -> bytes:
    try:
        return inputs.read(path)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            "there is no such file", where=str(path), hint="`provision evidence HOST` writes one"
        ) from None


def _verified(
    path: Path, allowed_signers: Path, identity: str | None
) -> tuple[evidence.Evidence, evidence.Signer]:
    """(a file's evidence, who signed it): what is read is what was verified."""
    data = _read(path)
    signer = evidence.verify(data, evidence.signature_of(path), allowed_signers, identity)
    return evidence.parse(data, where=str(path)), signer


def _verify(path: Path, allowed_signers: Path, identity: str | None, *, as_json: bool) -> None:
    document, signer = _verified(path, allowed_signers, identity)
    if as_json:
        print_json({"signer": signer.identity, "key": signer.key, "evidence": document})
        return
    say(f"good: {evidence.heading(document)}, signed by {signer.identity} ({signer.key})")
    for line in evidence.lines(document):
        say(line)


def _compare(
    old: Path,
    new: Path,
    allowed_signers: Path | None,
    identity: str | None,
    *,
    as_json: bool,
) -> None:
    if allowed_signers is None:
        say("warning: no signature was checked (--allowed-signers FILE)", err)
        before, after = (evidence.parse(_read(path), where=str(path)) for path in (old, new))
    else:
        before, after = (_verified(path, allowed_signers, identity)[0] for path in (old, new))
    changes = evidence.compare(before, after)
    if as_json:
        dates = {"old": before["written"], "new": after["written"]}
        print_json({"host": after["host"], **dates, "changes": changes})
    else:
        say(f"{evidence.heading(before)}, and {evidence.heading(after)}:")
        for line in changes or ["nothing changed"]:
            say(f"  {line}")
    raise typer.Exit(DriftError.exit_code if changes else 0)
