"""The front door of a host's workspaces: its state, its changes, and what prevents it.

It comes from the inventory, not from the lock. door.json records what a run made, with the hash of
each file, so that a changed site is found without asking nginx. Without a door or a wish for one
the look reads one name in /etc and nothing else.
"""

from __future__ import annotations

import time

from ...change import change, is_touched
from ...host import digests, file_state, mapping
from ...type_checking import TYPE_CHECKING
from .. import gpu_workspace
from . import obstacles, wishes
from .renewal import paths
from .renewal.state import ends_soon, nginx_runs, server_of
from .shipped import FILES

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Stack, State

NAME = "gpu_front_door"

# Files of the controller that the door needs, by source of the certificate.
GIVEN = {"given": ("certificate", "key"), "acme": ("acme_ca",)}


def settings(options: Options) -> dict[str, Any]:
    """The wished content of door.json."""

    def option(word: str, default: Any) -> Any:
        value = options.get("gpu_front_door_" + word)
        return default if value is None else value

    tls = option("tls", "local_ca")
    given_files = options.get("gpu_front_door_given") or {}
    wish = {
        "name": options["gpu_front_door_name"],
        "port": option("port", 443),
        "address": option("address", "0.0.0.0"),  # noqa: S104 as wished
        "tls": tls,
        "certificate": option("certificate", ""),
        "key": option("key", ""),
        "redirect": option("redirect", False),
        "hsts": option("hsts", False),
        # A former run with another source may have left more.
        "given": {word: given_files[word] for word in given_files if word in GIVEN.get(tls, ())},
        "people": list(gpu_workspace.wished_people(options).values()),
        "serving": bool(options.get("gpu_servings")),
        "acme": {
            "email": option("acme_email", ""),
            "directory": option("acme_directory", paths.LETS_ENCRYPT),
        },
    }
    return wishes.settings(wish)


# the look


def look(context: Context) -> dict[str, Any]:
    """{version, noted, here} and, where a door is wished for, {files, shipped, nginx, runs, ...}.

    The version is the door's name, for receipts and reports.
    """
    here = context.isdir(paths.PLACE)
    seen: dict[str, Any] = {"version": None, "noted": None, "here": here}
    if here:
        noted = mapping.of(context.read(paths.DOOR))
        if noted is not None:
            seen["noted"] = noted
            seen["version"] = (noted.get("settings") or {}).get("name")
    if not context.options.get("gpu_front_door_name"):
        return seen
    noted = (seen["noted"] or {}).get("files") or {}
    seen["files"] = {path: digests.of_file(context, path) for path in noted}
    seen["shipped"] = {
        path: {
            "sha256": digests.of_file(context, path),
            "fault": file_state.fault(context, path, mode),
        }
        for path, (mode, _sha256) in FILES.items()
    }
    seen["nginx"] = context.exists(paths.NGINX)
    seen["runs"] = nginx_runs(context)
    units: tuple[str, ...] = paths.ENABLED
    if context.options.get("gpu_front_door_tls") == "acme":
        units += (paths.RENEWS,)
        seen["acme"] = _acme(context, context.options["gpu_front_door_name"])
    seen["disabled"] = [path for path in units if context.lstat(path) is None]
    seen["now"] = time.time()
    return seen


def _acme(context: Context, name: str) -> dict[str, Any]:
    """{certbot, server, chain}: whether certbot is installed, and its certificate of the door."""
    return {
        "certbot": context.exists(paths.CERTBOT),
        "server": server_of(context, name),
        "chain": digests.of_file(context, paths.acme_files(name)[0]),
    }


# the plan


def _program_changes(state: State) -> Changes:
    """Changes of the programs that the door needs: packages, and the role's own files."""
    changes = []
    if not state["nginx"]:
        changes.append(change(NAME, "nginx", None, "installed", "the door is a site of it"))
    if "acme" in state and not state["acme"]["certbot"]:
        changes.append(change(NAME, "certbot", None, "installed", "it gets the certificate"))
    for path in sorted(state["shipped"]):
        seen = state["shipped"][path]
        old = seen["fault"]
        if old is None and seen["sha256"] != FILES[path][1]:
            old = "absent" if seen["sha256"] is None else "other content"
        if old is not None:
            changes.append(change(NAME, path, old, "as shipped", "it keeps the door"))
    return changes


def differ(_stack: Stack, state: State, options: Options) -> Changes:
    """Changes of the door; none where there is none and none is wished for."""
    if not options.get("gpu_front_door_name"):
        if not state["here"]:
            return []
        item = "front door " + (state["version"] or "")
        return [change(NAME, item.strip(), "here", None, "no longer wished; its site goes")]
    changes = _program_changes(state)
    item, wished = "front door " + options["gpu_front_door_name"], settings(options)
    noted = state["noted"]
    if noted is None or not noted.get("files"):
        changes.append(change(NAME, item, None, "as wished", "wished for, and missing"))
        return changes
    if noted.get("settings") != wished:
        changes.append(change(NAME, item, *_changed_words(noted.get("settings") or {}, wished)))
    for path in sorted(state["files"]):
        if state["files"][path] != noted["files"][path]:
            old = "absent" if state["files"][path] is None else "other content"
            changes.append(change(NAME, path, old, "as written", "the door needs it"))
    if wished["tls"] == "local_ca" and ends_soon(noted.get("until"), state["now"]):
        left = int(((noted.get("until") or 0) - state["now"]) // 86400)
        changes.append(change(NAME, "certificate", f"{left} days left", "renewed", "it ends soon"))
    if "acme" in state:
        changes += _of_acme(state, wished)
    if not state["runs"]:
        changes.append(change(NAME, "nginx.service", "not running", "running", "nobody gets in"))
    for path in state["disabled"]:
        unit = path.rpartition("/")[2]
        changes.append(change(NAME, unit, "not enabled", "enabled", "it would end with a reboot"))
    return changes


def _of_acme(state: State, wished: dict[str, Any]) -> list[dict[str, Any]]:
    """Changes of a certificate from certbot, whose timer renews it 30 days before its end."""
    seen, noted = state["acme"], state["noted"]
    item, noted_settings = "certificate", noted.get("settings") or {}
    if [noted_settings.get("name"), noted_settings.get("tls")] != [wished["name"], "acme"]:
        return []  # the whole door is new
    if seen["chain"] is None or seen["server"] is None:
        return [change(NAME, item, None, "obtained", "certbot no longer has it")]
    if seen["server"] != wished["acme"]["directory"]:
        return [
            change(
                NAME,
                item,
                seen["server"],
                wished["acme"]["directory"],
                "it is of another ACME server",
            )
        ]
    if seen["chain"] != noted.get("loaded"):
        return [
            change(NAME, item, "renewed", "read by nginx", "certbot's hook did not reload nginx")
        ]
    if (noted.get("late") or 0) < state["now"]:
        left = int(((noted.get("until") or 0) - state["now"]) // 86400)
        why = "certbot's timer should have renewed it"
        return [change(NAME, item, f"{left} days left", "renewed", why)]
    return []


def _changed_words(old: dict[str, Any], new: dict[str, Any]) -> tuple[str, str, str]:
    """(from, to, why) of a changed wish: the settings and people that differ."""
    names = [key for key in sorted(new) if old.get(key) != new[key] and key != "people"]
    before = {person.get("name"): person for person in old.get("people") or []}
    after = {person["name"]: person for person in new["people"]}
    names += [
        f"people ({name})"
        for name in sorted(set(before) | set(after))
        if before.get(name) != after.get(name)
    ]
    return "other settings", "as wished", "changed: " + ", ".join(names or ["the file"])


# what prevents it


def stands_in_the_way(context: Context) -> dict[str, Any]:
    """{ports: {port: [programs]}, sites: [why]} of the host, for the door that is wished for."""
    wished = settings(context.options)
    others = obstacles.others_at(context, wished)
    sites = []
    for folder in paths.SITES:
        for name in sorted(context.listdir(folder)):
            path = f"{folder}/{name}"
            if path != paths.SITE:
                sites += obstacles.clashes(path, context.read(path) or "", wished)
    return {"ports": {str(port): others[port] for port in others}, "sites": sites}


def survey(context: Context, _facts: Facts, changes: Changes) -> dict[str, Any]:
    """The preflight's `front_door`: what stands in the way, where one is wished for and changes."""
    if not is_touched(changes, NAME) or not context.options.get("gpu_front_door_name"):
        return {}
    return {"front_door": stands_in_the_way(context)}
