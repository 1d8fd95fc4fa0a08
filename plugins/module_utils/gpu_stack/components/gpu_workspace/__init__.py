"""The workspaces of a host: who has one, who should have one, and which are as wished.

They come from the inventory, not from the lock. Their state is in files, of which workspace.json
has the settings, and in docker's list of containers, each with the revision that it was started
with. Tokens are compared by SHA-256, so that none gets into a result.
"""

from __future__ import annotations

from ...change import change, is_touched
from ...host import digests, file_state, mapping
from ...type_checking import TYPE_CHECKING
from . import shipped, wished, workspace_users
from .program import docker_words, people_list, places, traits

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Stack, State

NAME = "gpu_workspace"
PATIENCE = "20"


def unreadable(options: Options) -> str | None:
    """What is wrong with the list gpu_workspaces; None where it can be read."""
    try:
        people_list.checked(options.get("gpu_workspaces") or [])
    except ValueError as error:
        return str(error)
    return None


def wished_people(options: Options) -> dict[str, dict[str, Any]]:
    """{name: the person as the inventory has it}; {} of a list that can't be read."""
    if unreadable(options) is not None:
        return {}
    return {person["name"]: person for person in options.get("gpu_workspaces") or []}


# the look


def recorded_people(context: Context) -> list[str]:
    """Names of the people who have a workspace on this host."""
    return [
        name
        for name in context.listdir(places.PLACE)
        if traits.NAME.fullmatch(name) and context.isdir(places.folder(name))
    ]


def running(context: Context) -> dict[str, str] | None:
    """{name: revision} of the containers that run; None where docker does not answer."""
    answer = context.run(
        ["timeout", PATIENCE, "docker", "--host", docker_words.SOCKET, *docker_words.LISTING]
    )
    return docker_words.revisions(answer.out) if answer.rc == 0 else None


def person(context: Context, name: str) -> dict[str, Any]:
    """The files of a person's workspace; of secrets only their hashes."""
    place = places.folder(name) + "/"
    token, password = context.read(place + "token"), context.read(place + "password")
    return {
        "settings": mapping.of(context.read(place + "workspace.json")),
        "token": digests.of_text(token) if token else None,
        "password": digests.of_text(password) if password else None,
        "revision": (context.read(place + "revision") or "").strip() or None,
        "enabled": context.lstat(places.WANTS + places.UNIT.format(name)) is not None,
        "listens": _listening_units(context, name),
    }


def _listening_units(context: Context, name: str) -> dict[str, str | None]:
    """{"ada.jupyter": text} of a person's ports that systemd holds, now and after a boot."""
    before, after = places.PORT.split("{0}")
    units: dict[str, str | None] = {}
    for entry in context.listdir(places.UNITS_PLACE):
        if entry.startswith(before + name + ".") and entry.endswith(after + ".d"):
            port = entry[len(before) : -len(after + ".d")]
            enabled = context.lstat(places.PORT_WANTS + places.PORT.format(port)) is not None
            open_now = context.lstat(f"{places.PORTS}/{port}") is not None
            text = context.read(f"{places.UNITS_PLACE}/{entry}/address.conf")
            units[port] = text if enabled and open_now else None
    return units


def look(context: Context) -> dict[str, Any]:
    """{version, people, running, files, uids}; the last three only where somebody is wished for.

    The version is the number of workspaces, for receipts and reports.
    """
    names = recorded_people(context)
    state: dict[str, Any] = {
        "version": str(len(names)) if names else None,
        "people": {name: person(context, name) for name in names},
        "running": {},
    }
    if not wished_people(context.options):
        return state
    state["running"] = running(context) if names else {}
    state["uids"] = workspace_users.look(context, wished_people(context.options))
    state["files"] = files(context)
    return state


def files(context: Context) -> dict[str, dict[str, Any]]:
    """{path: {sha256, fault}} of what the role ships: the program, its folders and its units."""
    seen = {
        folder: {"sha256": None, "fault": file_state.folder_fault(context, folder)}
        for folder in (shipped.LIBRARY, shipped.LIBRARY + "/program")
    }
    for path in shipped.FILES:
        seen[path] = {
            "sha256": digests.of_file(context, path),
            "fault": file_state.fault(context, path, shipped.FILES[path][0]),
        }
    return seen


# the plan


def fault(
    person: dict[str, Any],
    seen: dict[str, Any] | None,
    state: State,
    options: Options,
) -> tuple[str | None, str] | None:
    """(the state, why it is not as wished) of one person's workspace; None if it is as wished."""
    runs, users = state["running"], state["uids"]["users"]
    if person["name"] in state["uids"]["taken"]:
        return "user " + users[person["name"]], state["uids"]["taken"][person["name"]]
    if seen is None or seen["settings"] is None:
        return None, "wished for, and missing"
    if seen["settings"] != wished.settings(person, options, users):
        return _other_settings(seen["settings"], wished.settings(person, options, users))
    name = person["name"]
    wrong = _secret_fault(name, seen, options)
    if wrong is not None:
        return wrong
    if seen["revision"] is None:
        return "unfinished", "a run was cut off before it was whole"
    if not seen["enabled"]:
        return "not enabled", "it would not come back after a reboot"
    if seen["listens"] != wished.listens(wished.settings(person, options, users)):
        return "port not held", "while it starts anew another program could open its port"
    if runs is None:
        return "unknown", "docker does not answer"
    if name not in runs:
        return "not running", "its container is not there"
    if runs[name] != seen["revision"]:
        return "runs as before", "its container was started with other settings"
    return None


def _secret_fault(name: str, seen: dict[str, Any], options: Options) -> tuple[str, str] | None:
    """As `fault`, for a person's token and password."""
    if seen["token"] is None:
        return "no token", "nobody could log in"
    token = (options.get("gpu_workspace_digests") or {}).get(name)
    if token is not None and seen["token"] != token:
        return "another token", "gpu_workspace_tokens has changed"
    if seen["password"] != (options.get("gpu_workspace_passed") or {}).get(name):
        return "another password", "gpu_workspace_passwords has changed"
    return None


def _other_settings(old: dict[str, Any], new: dict[str, Any]) -> tuple[str, str]:
    """(state, which settings differ); the values are left out, for they may be long."""
    before, after = old.get("workspace") or {}, new["workspace"]
    names = [key for key in sorted(set(before) | set(after)) if before.get(key) != after.get(key)]
    shared = ("image", "root", "address", "ssh_address", "base", "network", "ports", "user")
    names += [key for key in shared if key not in old or old[key] != new[key]]
    return "other settings", "changed: " + ", ".join(names or ["the file"])


def differ(stack: Stack, state: State, options: Options) -> Changes:
    """Changes of the workspaces that differ from the wish, and of no others."""
    wrong = unreadable(options)
    if wrong is not None:
        # The preflight refuses it; nobody's workspace is removed for a slip of the pen.
        return [change(NAME, "gpu_workspaces", None, "a list of people", wrong)]
    # No lock has a part for it, but an image is built of the stack.
    options = wished.with_image(options, stack)
    changes = []
    people = wished_people(options)
    for name in sorted(state["people"]):
        if name not in people:
            changes.append(
                change(NAME, "workspace " + name, "here", None, "no longer wished; the home stays")
            )
    changes += _root(state, options)
    changes += _files(state.get("files") or {})
    for name in sorted(people):
        seen = state["people"].get(name)
        difference = fault(people[name], seen, state, options)
        home = _home(people[name], state["uids"], options)
        if difference is None and home is not None:
            why = "its container is stopped while the home changes its owner"
            difference = ("home of another", why)
        if difference is not None:
            changes.append(
                change(NAME, "workspace " + name, difference[0], "as wished", difference[1])
            )
        if home is not None:
            changes.append(home)
    return changes


def _files(seen: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Changes of the files that the role ships; one for a program that is missing as a whole."""
    faults = {path: _file_fault(path, seen[path]) for path in seen}
    modules = [path for path in seen if path.startswith(shipped.LIBRARY) and path in shipped.FILES]
    if modules and all(faults[path] == "absent" for path in modules):
        faults = {path: faults[path] for path in faults if path not in modules}
        faults[shipped.LIBRARY] = faults[shipped.LIBRARY] or "absent"
    return [
        change(NAME, path, faults[path], "as shipped", "systemd runs the workspaces by it")
        for path in sorted(faults)
        if faults[path] is not None
    ]


def _file_fault(path: str, seen: dict[str, Any]) -> str | None:
    problem: str | None = seen["fault"]
    if problem is not None or path not in shipped.FILES:
        return problem
    if seen["sha256"] == shipped.FILES[path][1]:
        return None
    return "absent" if seen["sha256"] is None else "other content"


def _root(state: State, options: Options) -> list[dict[str, Any]]:
    """The change of a homes' root that the host's accounts can enter, in a list."""
    seen = state.get("uids") and state["uids"]["root"]
    if not seen:
        return []
    why = "an account of the host with a person's uid could read homes and run what they hold"
    return [change(NAME, wished.root_of(options), seen, "mode 0700 of root", why)]


def _home(person: dict[str, Any], uids: dict[str, Any], options: Options) -> dict[str, Any] | None:
    """The change of a home that is to have another owner; None without one."""
    name = person["name"]
    seen, owner = uids["homes"].get(name), uids["users"].get(name)
    if seen is None or seen["owner"] == owner or name in uids["taken"]:
        return None
    why = "all in it that is of {0} gets its person's own".format(seen["owner"])
    if seen["account"]:
        why += "; on the host that is " + seen["account"]
    volumes = workspace_users.scratch(person)
    if volumes:
        why += "; writable volumes keep their owner: " + ", ".join(volumes)
    path = f"{wished.root_of(options)}/{name}"
    return change(NAME, "home " + path, seen["owner"], owner or "a uid of its own", why)


def survey(context: Context, _facts: Facts, changes: Changes) -> dict[str, Any]:
    """The preflight's `workspaces`: what stands in the way of changes, where there are any."""
    if not is_touched(changes, NAME):
        return {}
    from . import obstacles  # which imports this

    return {"workspaces": obstacles.stands_in_the_way(context, changes)}
