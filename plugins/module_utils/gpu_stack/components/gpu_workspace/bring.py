"""Makes people's workspaces as wished."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil

from ...type_checking import TYPE_CHECKING
from .. import gpu_workspace
from . import allocation, current, homes, port_sockets, running_host, uids, wished, workspace_users
from .program import containers, docker, files, people_list, places, programs, settings, traits

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context

SHORTEST_TOKEN = 16


def needless(passwords: dict[str, Any], people: list[dict[str, Any]]) -> str | None:
    """Why a password can't be used, without showing it; None if all can.

    `people` are those of the wish, with all keys.
    """
    kinds = {person["name"]: person for person in people}
    for name in sorted(passwords):
        hashed = passwords[name]
        if name not in kinds or "ssh" not in traits.parts(kinds[name]["kind"]):
            return f"gpu_workspace_passwords names {name}, who has no SSH"
        if kinds[name]["user"] and traits.numbers(kinds[name]["user"])[0] == 0:
            return f"{name} is root in the container, whom sshd lets in by keys alone"
        if not isinstance(hashed, str) or people_list.HASH.fullmatch(hashed) is None:
            return (
                f"the password of {name} in gpu_workspace_passwords is no hash of crypt(3) by "
                "SHA-512 or yescrypt ($6$, $y$): `openssl passwd -6` makes one"
            )
    return None


def prepared(wish: dict[str, Any]) -> dict[str, Any]:
    """`current.look` of a wish that can be fulfilled; RefusedError, before anything is touched."""
    refuse_secrets(wish, people_list.checked(wish["workspaces"]))
    return current.look(wish)


def apply(wish: dict[str, Any]) -> dict[str, Any]:
    """Looks at the host, and then as `fulfil`."""
    return fulfil(wish, prepared(wish))


def fulfil(wish: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
    """Changes the workspaces that differ from the wish, by what `prepared` saw, and no others.

    {changed: names, removed: names, tokens: where they lie}. RefusedError for what can't be done.
    """
    result: dict[str, Any] = {"changed": [], "removed": [], "tokens": places.folder("NAME/token")}
    if seen["changes"] and not seen["image"]:
        raise places.RefusedError("docker has no image {0}".format(wish["image"]))
    if not (seen["changes"] or seen["gone"] or seen["open"]):
        return result
    people, context = people_list.checked(wish["workspaces"]), running_host.context(wish)
    models = wish.get("models") or []
    allocated = allocation.asked_for(people, models, wish.get("slurm", 0))
    # A removed person's home stays, and must be out of reach as well.
    root_there = os.path.isdir(files.inside(wish["root"]))
    if people or (root_there and workspace_users.unfit(context) is None):
        homes.close_root(wish["root"])
    users = uids.assign(context, people) if people else {}
    for name in seen["gone"]:
        _remove(name)
    if seen["gone"] and not settings.recorded_people() and docker.network():
        # It stays if a container of somebody else uses it.
        docker.answer("network", "rm", places.NETWORK)
    settled = settings_of_changed(context, seen, users)
    for person in people:
        if person["name"] in settled:
            _write(settled[person["name"]], person, allocated[person["name"]], wish)
    if settled:
        _start_anew(settled)
    return dict(result, changed=sorted(settled), removed=seen["gone"])


def settings_of_changed(
    context: Context, seen: dict[str, Any], users: dict[str, str]
) -> dict[str, dict[str, Any]]:
    """{name: settings} of the workspaces that differ, as they are to be."""
    people = gpu_workspace.wished_people(context.options)
    return {
        name: wished.settings(people[name], context.options, users)
        for name in sorted(seen["changes"])
    }


def refuse_secrets(wish: dict[str, Any], people: list[dict[str, Any]]) -> None:
    tokens, passwords = wish.get("tokens") or {}, wish.get("passwords") or {}
    for name in sorted(tokens):
        token = tokens[name]
        if not isinstance(token, str) or len(token) < SHORTEST_TOKEN or re.search(r"\s", token):
            raise places.RefusedError(
                f"the token of {name} in gpu_workspace_tokens is no text of at least "
                f"{SHORTEST_TOKEN} characters without blanks"
            )
    wrong = needless(passwords, people)
    # Without people in the wish they are unused, as tokens are.
    if wrong and people:
        raise places.RefusedError(wrong)


def _start_anew(settled: dict[str, dict[str, Any]]) -> None:
    """Restarts the containers of these people, {name: settings}, after their files were written.

    All are stopped before one is started: two of them may have swapped ports or GPUs.
    """
    units = [places.UNIT.format(name) for name in settled]
    programs.must(programs.call(["systemctl", "stop", *units], timeout=300), "systemctl stop")
    port_sockets.hold_ports(settled)
    for name, settings_of in settled.items():
        homes.give_home(places.home_of(settings_of["root"], name), settings_of["user"])
        if not files.text(places.folder(name) + "/revision"):
            files.put(places.folder(name) + "/revision", secrets.token_hex(8) + "\n")
    programs.must(programs.call(["systemctl", "enable", *units]), "systemctl enable")
    programs.must(programs.call(["systemctl", "start", *units], timeout=300), "systemctl start")


def _remove(name: str) -> None:
    """Stops and removes a workspace; the home stays."""
    programs.call(["systemctl", "disable", "--now", places.UNIT.format(name)], timeout=300)
    containers.stop(name)
    port_sockets.close_ports(port_sockets.opened_for(name))
    shutil.rmtree(files.inside(places.folder(name)))


def _write(
    settings_of: dict[str, Any], person: dict[str, Any], indices: Any, wish: dict[str, Any]
) -> None:
    """Writes a person's files. Without `revision`, removed first, they count as unfinished."""
    name, place = person["name"], places.folder(person["name"])
    token, password = ((wish.get(field) or {}).get(name) for field in ("tokens", "passwords"))
    os.makedirs(files.inside(places.PLACE), mode=0o700, exist_ok=True)
    os.makedirs(files.inside(place), mode=0o700, exist_ok=True)
    unchanged = (
        files.data(place + "/workspace.json") == settings_of
        and files.data(place + "/gpus.json") == indices
        and files.text(place + "/token")
        in ((token,) if token else (files.text(place + "/token") or 0,))
        and files.text(place + "/password") == password
        and files.text(place + "/revision")
        and homes.owner_of(places.home_of(settings_of["root"], name)) == settings_of["user"]
    )
    if unchanged:
        return
    # Without it no existing file counts as written.
    if os.path.lexists(files.inside(place + "/revision")):
        os.unlink(files.inside(place + "/revision"))
    owner = traits.numbers(settings_of["user"])
    files.put(
        place + "/token",
        token or files.text(place + "/token") or secrets.token_hex(24),
        0o400,
        owner,
    )
    files.put(place + "/gpus.json", json.dumps(indices) + "\n")
    if "ssh" in traits.parts(person["kind"]):
        keys = "".join(key.strip() + "\n" for key in person["ssh_keys"])
        files.put(place + "/authorized_keys", keys, 0o644)
        _host_key(place)
    if password:
        files.put(place + "/password", password, 0o400)
    elif os.path.lexists(files.inside(place + "/password")):
        os.unlink(files.inside(place + "/password"))
    files.put(place + "/workspace.json", json.dumps(settings_of, indent=2, sort_keys=True) + "\n")


def _host_key(place: str) -> None:
    """Creates sshd's host key, once: ssh would warn of an attack after a change."""
    path = files.inside(place + "/host_key")
    if not os.path.exists(path):
        making = path + ".new"
        for old in (making, making + ".pub"):
            if os.path.lexists(old):
                os.unlink(old)
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", making]
        programs.must(programs.call(words), "ssh-keygen")
        os.replace(making + ".pub", path + ".pub")
        os.replace(making, path)
