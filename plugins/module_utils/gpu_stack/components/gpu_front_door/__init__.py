"""The front door of a host's workspaces: what was made of it, what should be, what is in its way.

It is the inventory's and stands in no lock. What a run made is noted in door.json, with the hash of
each file, so that a site that somebody changed is seen without nginx being asked. Where no door is
wished for, and none was made, one name in /etc is looked up and nothing else.
"""

import hashlib
import json
import re
import time

from ...change import change
from ...host import file_state

NAME = "gpu_front_door"
PLACE = "/etc/gpu-front-door"
DOOR = PLACE + "/door.json"
NGINX = "/usr/sbin/nginx"
SITE = "/etc/nginx/sites-enabled/zz-gpu-front-door"
PID = "/run/nginx.pid"
ENABLED = (
    "/etc/systemd/system/multi-user.target.wants/nginx.service",
    "/etc/systemd/system/timers.target.wants/gpu-front-door.timer",
)
# With ACME: certbot's timer, and what it keeps.
RENEWS = "/etc/systemd/system/timers.target.wants/certbot.timer"
CERTBOT, LETSENCRYPT = "/usr/bin/certbot", "/etc/letsencrypt"
DIRECTORY = "https://acme-v02.api.letsencrypt.org/directory"
SITES = ("/etc/nginx/sites-enabled", "/etc/nginx/conf.d")
# Days before its end in which a certificate of the host's own authority is made anew.
EARLY = 30

# As the role ships them: {path: (mode, SHA-256)}.
FILES = {
    "/usr/local/sbin/gpu-front-door": (
        0o755,
        "59999045a2e98def6e96f479ce5e48338ca084d1fd0f21d1a03c7a3e06e389c8",
    ),
    "/etc/systemd/system/gpu-front-door.service": (
        0o644,
        "9c7904d2a26ad1e2e15ec8a16c97cff74e5c1f15bbb6f6f43fe83864e67b1df5",
    ),
    "/etc/systemd/system/gpu-front-door.timer": (
        0o644,
        "6440f38a16b45b21335db3d16ee1f840f923544373c2c9f35f09ba96061ef12f",
    ),
}
# Files of the controller that the door is made of, by where the certificate comes from.
GIVEN = {"given": ("certificate", "key"), "acme": ("acme_ca",)}
SHOWN = ("name", "kind", "gpus", "cpus", "memory", "port", "ssh_port", "tensorboard_port")


def settings(options):
    """What should stand in door.json."""

    def said(word, default):
        found = options.get("gpu_front_door_" + word)
        return default if found is None else found

    way = said("tls", "local_ca")
    found = {
        "name": options["gpu_front_door_name"],
        "port": said("port", 443),
        "address": said("address", "0.0.0.0"),  # noqa: S104 as wished
        "tls": way,
        "certificate": said("certificate", "") if way == "host" else "",
        "key": said("key", "") if way == "host" else "",
        "redirect": said("redirect", False),
        "hsts": said("hsts", False),
        "given": {
            word: digest
            for word, digest in (options.get("gpu_front_door_given") or {}).items()
            if word in GIVEN.get(way, ())
        },
        # Where systemd leads to everybody's Jupyter.
        "upstream": "/run/gpu-workspace-ports",
        "people": [
            {key: one[key] for key in SHOWN if key in one}
            for one in options.get("gpu_workspaces") or []
        ],
    }
    if way == "acme":
        found["acme"] = {
            "email": said("acme_email", ""),
            "directory": said("acme_directory", DIRECTORY),
        }
    return found


def ports_of(wished):
    """Those that the door is opened on; an ACME server asks at port 80 and nowhere else."""
    return [wished["port"]] + ([80] if wished["redirect"] or wished["tls"] == "acme" else [])


# the look


def _digest(context, path):
    found = context.read_bytes(path)
    return None if found is None else hashlib.sha256(found).hexdigest()


def look(context):
    """{version, noted, here} and, where a door is wished for, {files, shipped, nginx, runs, ...}.

    The version is the door's name, for receipts and reports.
    """
    found = {"version": None, "noted": None, "here": context.isdir(PLACE)}
    if found["here"]:
        try:
            noted = json.loads(context.read(DOOR) or "null")
        except ValueError:
            noted = None
        if isinstance(noted, dict):
            found["noted"] = noted
            found["version"] = (noted.get("settings") or {}).get("name")
    if not context.options.get("gpu_front_door_name"):
        return found
    noted = (found["noted"] or {}).get("files") or {}
    found["files"] = {path: _digest(context, path) for path in noted}
    found["shipped"] = {
        path: {"sha256": _digest(context, path), "fault": file_state.fault(context, path, one[0])}
        for path, one in FILES.items()
    }
    found["nginx"] = context.exists(NGINX)
    found["runs"] = running(context)
    units = ENABLED
    if context.options.get("gpu_front_door_tls") == "acme":
        units += (RENEWS,)
        found["acme"] = _acme(context, context.options["gpu_front_door_name"])
    found["disabled"] = [path for path in units if context.lstat(path) is None]
    found["now"] = time.time()
    return found


def _acme(context, name):
    """{certbot, server, chain}: is it here, and what of the door's own certificate it keeps."""
    chain = "{0}/live/gpu-front-door-{1}/fullchain.pem".format(LETSENCRYPT, name)
    known = "{0}/renewal/gpu-front-door-{1}.conf".format(LETSENCRYPT, name)
    server = re.search(r"^server\s*=\s*(\S+)\s*$", context.read(known) or "", re.M)
    return {
        "certbot": context.exists(CERTBOT),
        "server": server and server.group(1),
        "chain": _digest(context, chain),
    }


def running(context):
    """Does nginx run, as its own file tells?"""
    pid = (context.read(PID) or "").strip()
    return pid.isdigit() and context.isdir("/proc/" + pid)


# the plan


def _program_changes(found):
    """Changes of the programs that the door is made with: packages, and files of the role's own."""
    changes = []
    if not found["nginx"]:
        changes.append(change(NAME, "nginx", None, "installed", "the door is a site of it"))
    if "acme" in found and not found["acme"]["certbot"]:
        changes.append(change(NAME, "certbot", None, "installed", "it gets the certificate"))
    for path in sorted(found["shipped"]):
        seen = found["shipped"][path]
        old = seen["fault"]
        if old is None and seen["sha256"] != FILES[path][1]:
            old = "absent" if seen["sha256"] is None else "other content"
        if old is not None:
            changes.append(change(NAME, path, old, "as shipped", "it keeps the door"))
    return changes


def differ(found, options):
    """Changes of the door; none where there is none and none is wished for."""
    if not options.get("gpu_front_door_name"):
        if not found["here"]:
            return []
        item = "front door " + (found["version"] or "")
        return [change(NAME, item.strip(), "here", None, "no longer wished; its site goes")]
    changes = _program_changes(found)
    item, wished = "front door " + options["gpu_front_door_name"], settings(options)
    noted = found["noted"]
    if noted is None or not noted.get("files"):
        changes.append(change(NAME, item, None, "as wished", "wished for, and not here"))
        return changes
    if noted.get("settings") != wished:
        changes.append(change(NAME, item, *_told(noted.get("settings") or {}, wished)))
    for path in sorted(found["files"]):
        if found["files"][path] != noted["files"][path]:
            old = "absent" if found["files"][path] is None else "other content"
            changes.append(change(NAME, path, old, "as written", "the door is made of it"))
    if wished["tls"] == "local_ca" and (noted.get("until") or 0) < found["now"] + EARLY * 86400:
        left = int(((noted.get("until") or 0) - found["now"]) // 86400)
        changes.append(
            change(NAME, "certificate", "{0} days left".format(left), "renewed", "it ends soon")
        )
    if "acme" in found:
        changes += _of_acme(found, wished)
    if not found["runs"]:
        changes.append(change(NAME, "nginx.service", "not running", "running", "nobody gets in"))
    for path in found["disabled"]:
        unit = path.rpartition("/")[2]
        changes.append(change(NAME, unit, "not enabled", "enabled", "it would end with a reboot"))
    return changes


def _of_acme(found, wished):
    """Changes of a certificate that certbot keeps; its timer renews one that ends in 30 days."""
    seen, noted = found["acme"], found["noted"]
    item, known = "certificate", noted.get("settings") or {}
    if [known.get("name"), known.get("tls")] != [wished["name"], "acme"]:
        return []  # all of the door is new
    if seen["chain"] is None or seen["server"] is None:
        return [change(NAME, item, None, "obtained", "certbot has it no longer")]
    if seen["server"] != wished["acme"]["directory"]:
        return [change(NAME, item, seen["server"], wished["acme"]["directory"], "asked for there")]
    if seen["chain"] != noted.get("loaded"):
        return [change(NAME, item, "renewed", "read by nginx", "certbot's hook did not do it")]
    if (noted.get("late") or 0) < found["now"]:
        left = int(((noted.get("until") or 0) - found["now"]) // 86400)
        why = "certbot's timer should have renewed it"
        return [change(NAME, item, "{0} days left".format(left), "renewed", why)]
    return []


def _told(old, new):
    """(what was, what is wished, why): which words differ, and who comes and goes."""
    names = [key for key in sorted(new) if old.get(key) != new[key] and key != "people"]
    before = {one.get("name"): one for one in old.get("people") or []}
    after = {one["name"]: one for one in new["people"]}
    names += ["people ({0})".format(one) for one in sorted(set(before) | set(after))
              if before.get(one) != after.get(one)]  # fmt: skip
    return "other settings", "as wished", "changed: " + ", ".join(names or ["the file"])


# what could forbid it


def stands_in_the_way(context):
    """{ports: {port: [programs]}, sites: [why]} of the host, for the door that is wished for."""
    wished = settings(context.options)
    found = {"ports": {}, "sites": []}
    for port in ports_of(wished):
        others = [one for one in holders(context, port) if one != "nginx"]
        if others:
            found["ports"][str(port)] = others
    for folder in SITES:
        for name in sorted(context.listdir(folder)):
            path = "{0}/{1}".format(folder, name)
            if path != SITE:
                found["sites"] += clashes(path, context.read(path) or "", wished)
    return found


def clashes(path, content, wished):
    """Why another site of nginx's leaves no place for the door."""
    plain, found = re.sub(r"#.*", "", content), []
    for words in re.findall(r"\bserver_name\s+([^;]+);", plain):
        if wished["name"] in words.split():
            found.append("{0} has the name {1} already".format(path, wished["name"]))
    for listen in re.findall(r"\blisten\s+([^;]+);", plain):
        place, _, rest = listen.partition(" ")
        if place.rpartition(":")[2] == str(wished["port"]) and "ssl" not in rest.split():
            found.append("{0} speaks plain HTTP at port {1}".format(path, wished["port"]))
        port = place.rpartition(":")[2]
        # nginx can't open the port for IPv4 beside that, and says so only after a reload.
        if port in [str(one) for one in ports_of(wished)] and "ipv6only=off" in rest.split():
            found.append("{0} has port {1} of IPv4 and IPv6 in one".format(path, port))
    return found


def holders(context, port):
    """Names of the programs that listen on this TCP port of the host, as the kernel tells."""
    sockets = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (context.read(path) or "").splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
                sockets.add("socket:[{0}]".format(words[9]))
    found = set()
    for number in context.listdir("/proc") if sockets else ():
        handles = "/proc/{0}/fd".format(number)
        if not number.isdigit():
            continue
        links = {
            context.readlink("{0}/{1}".format(handles, one)) for one in context.listdir(handles)
        }
        if links & sockets:
            found.add((context.read("/proc/{0}/comm".format(number)) or "?").strip())
    return sorted(found) or (["a program that is not to be seen"] if sockets else [])
