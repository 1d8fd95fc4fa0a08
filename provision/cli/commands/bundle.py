"""`provision bundle`: all that the hosts of a lock fetch, in one folder that needs no network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from provision import bundle, catalog, collection, home, signing
from provision.cli import projects
from provision.cli.console import err, print_json, say, shell_word
from provision.cli.options import (
    KEY_HINT,
    AllowedOption,
    IdentityOption,
    JsonOption,
    KeyOption,
    ProjectOption,
)
from provision.errors import InputError
from provision.render import render

FOLDER = "bundle"

PlatformOption = Annotated[
    list[str] | None,
    typer.Option("--platform", metavar="PLATFORM", help="Of these platforms of the lock alone."),
]
PackageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--package", metavar="NAME", help="Further packages of the distribution, such as nginx."
    ),
]
FromOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--from", metavar="PATH", help="An earlier bundle or a file, to take files from by hash."
    ),
]
SinceOption = Annotated[
    Path | None,
    typer.Option(
        "--since", metavar="BUNDLE", help="Only what this earlier bundle lacks; it must be there."
    ),
]
ControllerOption = Annotated[
    bool,
    typer.Option(
        "--controller", help="Also what a controller needs: Ansible's wheels, project, docs."
    ),
]
UnsignedOption = Annotated[bool, typer.Option("--unsigned", help="Sign nothing.")]
VerifyOption = Annotated[
    Path | None,
    typer.Option("--verify", metavar="BUNDLE", help="Check a bundle, offline."),
]
ApplyOption = Annotated[
    tuple[Path, Path] | None,
    typer.Option("--apply", metavar="DELTA BUNDLE", help="Bring a bundle up to date by a delta."),
]


# What takes other options than making a bundle: each would be ignored, as if it had had its effect.
_CHECKED = {"allowed_signers", "identity", "as_json"}
_TAKES = {
    "--verify": {"verify", "project", "since", *_CHECKED},
    "--apply": {"apply", *_CHECKED},
}


@dataclass(frozen=True)
class _Trusted:
    """A bundle's manifest, the bytes it was read from, and who signed both it and the delta."""

    manifest: bundle.Manifest
    data: bytes
    delta: bundle.Delta | None
    signer: signing.Signer | None


def make_bundle(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A folder.  [default: bundle]")
    ] = None,
    project: ProjectOption = Path(),
    platforms: PlatformOption = None,
    packages: PackageOption = None,
    sources: FromOption = None,
    since: SinceOption = None,
    controller: ControllerOption = False,
    key: KeyOption = Path("~/.ssh/id_ed25519"),
    unsigned: UnsignedOption = False,
    verify: VerifyOption = None,
    apply: ApplyOption = None,
    allowed_signers: AllowedOption = None,
    identity: IdentityOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put everything that hosts of the lock fetch into one folder.

    In it are packages down to libc with their archives' signed indices, archives and wheels: for
    hosts without a network, or to fetch once what many install. --verify checks such a folder,
    --apply updates one. Exit code 5 where upstream no longer has what is locked, or a bundle is not
    as it was made.
    """
    if (folder is not None) + (verify is not None) + (apply is not None) > 1:
        raise InputError("bundle takes a folder to make, --verify or --apply, and only one of them")
    _check_taken(context, "--verify" if verify else "--apply" if apply else "")
    if identity is not None and allowed_signers is None:
        raise InputError("--identity needs --allowed-signers: it says which key is whose")
    if allowed_signers is not None and verify is None and apply is None:
        raise InputError(
            "--allowed-signers is for --verify and --apply: --from checks hashes alone"
        )
    if verify is not None:
        _verify(verify, project, since, allowed_signers, identity, as_json=as_json)
    elif apply is not None:
        _apply(*apply, allowed_signers, identity, as_json=as_json)
    else:
        wish = bundle.Wish(
            tuple(platforms or ()), tuple(packages or ()), _of_controller(project, controller)
        )
        if unsigned and "key" in _given(context):
            raise InputError("--key and --unsigned exclude each other")
        key_file = None if unsigned else home.expanded(key, KEY_HINT)
        target = folder or project / FOLDER
        _make(target, project, wish, sources or [], since, key_file, as_json=as_json)


def _given(context: typer.Context) -> dict[str, str]:
    """Name -> option of what stands on the command line."""
    given = {}
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is not None and source.name == "COMMANDLINE":
            given[str(parameter.name)] = parameter.opts[0]
    return given


def _check_taken(context: typer.Context, way: str) -> None:
    """InputError for an option that this way of the command would ignore."""
    ignored = [
        option for name, option in _given(context).items() if name not in _TAKES.get(way, {name})
    ]
    if ignored:
        raise InputError(
            f"{way} takes no {' and no '.join(ignored)}",
            expected=f"{way} with {', '.join(sorted(_options(context, way)))}",
        )


def _options(context: typer.Context, way: str) -> list[str]:
    return [p.opts[0] for p in context.command.params if p.name in _TAKES[way] and p.opts[0] != way]


def _of_controller(
    project: Path, wished: bool
) -> tuple[Mapping[str, bytes], Mapping[str, bytes]] | None:
    """The files of the tree, as `provision render` writes them, and of the documentation."""
    if not wished:
        return None
    files = render(projects.read_lock(project), collection.read())
    return files, collection.documentation()


def _make(
    folder: Path,
    project: Path,
    wish: bundle.Wish,
    sources: list[Path],
    since: Path | None,
    key: Path | None,
    *,
    as_json: bool,
) -> None:
    lock = projects.read_lock(project)
    bundle.check_target(folder, since)
    if key is not None:
        signing.check_key(key, "; --unsigned makes a bundle without a signature")
    old = bundle.read(since) if since is not None else None
    earlier = bundle.parse(old, where=str(since)) if old is not None else None
    with bundle.held(folder), err.status("") as status:

        def progress(text: str) -> None:
            status.update(text)

        given = [*sources, *([since] if since is not None else [])]
        places, earlier_wheels = bundle.at_hand(given, home.cache_directory(), progress)
        plan = bundle.make(lock, catalog.load(), wish, places, earlier_wheels, progress)
        manifest, written = bundle.write(folder, plan, places, since=earlier, progress=progress)
        data = bundle.dump(manifest)
        signed = {bundle.SIGNATURE: data}
        beside = {}
        if old is not None:
            beside[bundle.DELTA] = bundle.dump_delta(old, data, written)
            signed[bundle.DELTA_SIGNATURE] = beside[bundle.DELTA]
        # ssh-keygen may ask for a passphrase: the progress would be written over its question.
        status.stop()
        if key is not None:
            beside |= {n: signing.sign(body, key, bundle.NAMESPACE) for n, body in signed.items()}
        bundle.finish(folder, data, beside)
    size = sum(manifest.files[path].size for path in written)
    if as_json:
        print_json(
            {
                "bundle": str(folder),
                "digest": bundle.digest(data),
                "lock": manifest.lock,
                "files": len(manifest.files),
                "size": manifest.size,
                "written": len(written),
                "written_size": size,
            }
        )
        return
    say(f"bundle:    {folder}: {_amount(len(written), size)}")
    if since is not None:
        say(f"goes with: {since}, to {_amount(len(manifest.files), manifest.size)} together")
    say(f"platforms: {', '.join(manifest.platforms)}; lock {_short(manifest.lock)}")
    if key is None:
        say("warning: it is not signed (--key FILE)", err)


def _verify(
    folder: Path,
    project: Path,
    since: Path | None,
    allowed_signers: Path | None,
    identity: str | None,
    *,
    as_json: bool,
) -> None:
    trusted = _trusted(folder, allowed_signers, identity)
    manifest, signer, delta = trusted.manifest, trusted.signer, trusted.delta
    if (project / "lock.yml").exists():
        lock = projects.read_lock(project)
        where, name = str(folder), str(project / "lock.yml")
        bundle.check_lock(manifest, lock.digest, where=where, lock=name)
    if since is not None:
        bundle.check_goes_with(delta, since, where=folder)
    with err.status("") as status:
        checked = bundle.check(folder, manifest, delta, since=since, progress=status.update)
    if as_json:
        print_json(
            {
                "lock": manifest.lock,
                "platforms": list(manifest.platforms),
                "files": checked.files,
                "elsewhere": checked.elsewhere if since is None else 0,
                "signer": signer.identity if signer else None,
                "key": signer.key if signer else None,
            }
        )
        return
    by = f", signed by {signer.identity} ({signer.key})" if signer else ""
    say(f"good: {_amount(len(manifest.files), manifest.size)}{by}")
    say(f"  platforms: {', '.join(manifest.platforms)}; lock {_short(manifest.lock)}")
    if delta is not None and since is None:
        say(
            f"  {checked.elsewhere} of them are not here: it goes with {delta.since} "
            "(--since BUNDLE checks those too)"
        )


def _apply(
    delta: Path,
    folder: Path,
    allowed_signers: Path | None,
    identity: str | None,
    *,
    as_json: bool,
) -> None:
    trusted = _trusted(delta, allowed_signers, identity)
    manifest = trusted.manifest
    with err.status(""):
        came = bundle.apply(delta, folder, manifest, trusted.data, trusted.delta)
    if as_json:
        print_json({"bundle": str(folder), "lock": manifest.lock, "came": came})
        return
    say(f"{folder}: {came} files came; {_amount(len(manifest.files), manifest.size)}")
    say(f"`provision bundle --verify {shell_word(folder)}` checks all of them")


def _trusted(folder: Path, allowed_signers: Path | None, identity: str | None) -> _Trusted:
    """What a bundle says of itself: what is read is what was verified."""
    data, delta = bundle.read(folder), bundle.read_delta(folder)
    signer = None
    if allowed_signers is None:
        say("warning: no signature was checked (--allowed-signers FILE)", err)
    else:

        def verified(body: bytes, name: str) -> signing.Signer:
            return signing.verify(
                body, folder / name, allowed_signers, identity, namespace=bundle.NAMESPACE
            )

        signer = verified(data, bundle.SIGNATURE)
        if delta is not None:
            verified(delta, bundle.DELTA_SIGNATURE)
    manifest = bundle.parse(data, where=str(folder / bundle.NAME))
    where = str(folder / bundle.DELTA)
    parsed = bundle.parse_delta(delta, data, where=where) if delta is not None else None
    return _Trusted(manifest, data, parsed, signer)


def _amount(files: int, size: int) -> str:
    return f"{files} files, {size / 1e9:.2f} GB" if size >= 1e8 else f"{files} files, {size} bytes"


def _short(digest: str) -> str:
    return digest[: len("sha256:") + 12]
