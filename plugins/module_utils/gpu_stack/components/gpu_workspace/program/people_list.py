"""The list `gpu_workspaces`: what may stand in it, and what is refused."""

from __future__ import annotations

import json
import re

from . import traits

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

# What crypt(3) makes of a password: SHA-512 or yescrypt; of the weaker ones none.
# https://manpages.debian.org/bookworm/libcrypt-dev/crypt.5.en.html
HASH = re.compile(
    r"\$6\$(rounds=\d{4,9}\$)?[./0-9A-Za-z]{1,16}\$[./0-9A-Za-z]{86}"
    r"|\$y\$[./0-9A-Za-z]+\$[./0-9A-Za-z]{1,86}\$[./0-9A-Za-z]{43}"
)
KEYS = (
    *("name", "kind", "gpus", "shared", "cpus", "memory", "shm_size"),
    *("port", "ssh_port", "ssh_keys", "tensorboard_port", "user", "volumes"),
)
# What each kind is, beside what all have: {kind: the words that it needs}.
KINDS = {
    "jupyter": ("port",),
    "ssh": ("ssh_port", "ssh_keys"),
    "both": ("port", "ssh_port", "ssh_keys"),
}
VOLUME_KEYS = ("path", "at", "writable")
SECRET_KEYS = ("token", "tokens", "secret")
PASSWORD_KEYS = ("password", "passwords", "passwd", "password_hash")
KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)"
    r"@openssh\.com) [A-Za-z0-9+/=]{40,}( [ -~]*)?"
)
USER = re.compile(r"\d{1,9}(:\d{1,9})?")
UUID = re.compile(r"GPU-[0-9a-fA-F-]{8,}")
# By SSH `root` was uid 0, whatever `user` said.
SYSTEMS_OWN = ("root", "sshd")


def checked(value: Any) -> list[dict[str, Any]]:
    """The list `gpu_workspaces`, each with all keys. ValueError says what is wrong with it.

    No value of an unknown key is ever shown: it may be a secret in the wrong place.
    """
    if not isinstance(value, list):
        raise ValueError("it is a list of people, each a mapping with a name")
    people = [_person(number, person) for number, person in enumerate(value, 1)]
    _apart(people)
    return people


def _person(number: int, entry: Any) -> dict[str, Any]:
    form = "no user name; expected small letters, digits, - and _, with a letter first, 32 at most"
    name = name_of(number, entry, traits.NAME, "ada", form)
    _refuse_keys(name, entry)
    person = dict(DEFAULTS, **entry)
    if name in SYSTEMS_OWN and entry.get("kind") in ("ssh", "both"):
        raise ValueError(
            f"entry {number}: {name} is an account that sshd itself needs in the container; "
            "expected another name"
        )
    _refuse_values(name, entry, person)
    return person


def name_of(number: int, entry: Any, pattern: re.Pattern[str], example: str, form: str) -> str:
    """The name of an entry. ValueError for one without; form: what another is, in words."""
    if not isinstance(entry, dict):
        raise ValueError(f"entry {number} is no mapping; expected {{name: {example}, ...}}")
    name = entry.get("name")
    if not isinstance(name, str) or pattern.fullmatch(name) is None:
        shown = json.dumps(name) if isinstance(name, (str, int, float, bool)) else "nothing"
        raise ValueError(f"entry {number}: {shown} is {form}")
    return name


def refuse_key(name: str, key: Any, keys: tuple[str, ...], tokens: str) -> None:
    """ValueError for a key that would hold a token, whose place is `tokens`, or is unknown."""
    if key in SECRET_KEYS:
        raise ValueError(
            f"{name}: {key} does not stand here; expected it in {tokens}: "
            f"{{{name}: !vault ...}}, or nowhere: then the host makes one"
        )
    if key not in keys:
        raise ValueError(
            "{0} has the unknown word {1}; expected {2}".format(
                name, json.dumps(key), ", ".join(keys)
            )
        )


def _refuse_keys(name: str, entry: dict[str, Any]) -> None:
    """ValueError for a key that has no meaning here, or would hold a secret."""
    for key in sorted(entry, key=str):
        if key in PASSWORD_KEYS:
            raise ValueError(
                f"{name}: {key} does not stand here; expected its hash in gpu_workspace_passwords: "
                f"{{{name}: !vault ...}}, or nowhere: then keys alone let {name} in"
            )
        refuse_key(name, key, KEYS, "gpu_workspace_tokens")


def _refuse_values(name: str, entry: dict[str, Any], person: dict[str, Any]) -> None:
    """ValueError for a kind without what it needs, and for a value that is out of its form."""
    if person["kind"] not in KINDS:
        raise ValueError("{0}: kind is {1}".format(name, _FORMS["kind"]))
    needed = ("gpus", *KINDS[person["kind"]])
    for key in needed:
        if key not in entry:
            raise ValueError(f"{name} needs {key}: {_FORMS[key]}")
    for key in KEYS[2:]:
        if key in KINDS["both"] and key not in needed:
            if key in entry:
                raise ValueError(
                    "{0}: {1} has no meaning for kind {2}".format(name, key, person["kind"])
                )
        elif key in person and not _CHECKS[key](person[key]):
            raise ValueError(f"{name}: {key} is {_FORMS[key]}")


DEFAULTS = {
    "kind": "jupyter",
    "shared": False,
    "cpus": 0,
    "memory": "",
    "shm_size": "1g",
    "user": "",
    "volumes": [],
}
_FORMS = {
    "kind": "jupyter, ssh or both",
    "gpus": "all, none, how many (1), or a list of indices and UUIDs ([0, GPU-...])",
    "shared": "true or false",
    "cpus": "a number of processors (2, 0.5); 0: no limit",
    "memory": 'a size like "16g" or "512m"; empty: no limit',
    "shm_size": 'a size like "1g"',
    "port": "a number from 1 to 65535",
    "ssh_port": "a number from 1 to 65535",
    "tensorboard_port": "a number from 1 to 65535",
    "ssh_keys": "a list of public keys, each as a line of ~/.ssh/id_ed25519.pub",
    "user": 'numbers of a user and a group, like "5001:5001"; empty: the host chooses',
    "volumes": "a list of {path: /data, at: /data, writable: false}, absolute, without , and :",
}


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def fit_gpus(value: Any) -> bool:
    """Whether a value says which GPUs somebody gets."""
    if isinstance(value, list):
        fit = [
            (is_whole(gpu) and gpu >= 0) or (isinstance(gpu, str) and UUID.fullmatch(gpu))
            for gpu in value
        ]
        return bool(value) and all(fit) and len(set(map(str, value))) == len(value)
    return value in ("all", "none") if isinstance(value, str) else is_whole(value) and value > 0


def _port(value: Any) -> bool:
    return is_whole(value) and 0 < value < 65536


def _volumes(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    for volume in value:
        if not isinstance(volume, dict) or not {"path"} <= set(volume) <= set(VOLUME_KEYS):
            return False
        places = [volume["path"], volume.get("at", volume["path"])]
        if not all(isinstance(x, str) and re.fullmatch(r"/[^,:\n]+", x) for x in places):
            return False
        if not isinstance(volume.get("writable", False), bool):
            return False
    return True


_CHECKS = {
    "gpus": fit_gpus,
    "shared": lambda value: isinstance(value, bool),
    "cpus": lambda value: (
        isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
    ),
    "memory": lambda value: value == "" or traits.size(value) is not None,
    "shm_size": lambda value: traits.size(value) is not None,
    "port": _port,
    "ssh_port": _port,
    "tensorboard_port": _port,
    "ssh_keys": lambda value: (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(key, str) and KEY.fullmatch(key.strip()) for key in value)
    ),
    "user": lambda value: (
        isinstance(value, str) and (value == "" or USER.fullmatch(value) is not None)
    ),
    "volumes": _volumes,
}


def _apart(people: list[dict[str, Any]]) -> None:
    """ValueError where two people have the same name, port or uid, or the same GPU unshared."""
    owners: dict[tuple[str, Any], str] = {}
    for person in people:
        claims: list[tuple[str, Any]] = [("name", person["name"])]
        claims += [("port", port) for port in traits.ports(person)]
        if person["user"] and traits.numbers(person["user"])[0]:
            # Two people with one uid could end and read each other's programs and files.
            claims.append(("user", traits.numbers(person["user"])[0]))
        for claim in claims:
            if claim in owners:
                raise ValueError(
                    "{0} {1} is said twice ({2} and {3})".format(
                        *claim, owners[claim], person["name"]
                    )
                )
            owners[claim] = person["name"]
    refuse_promised_twice(people)


def takers_of(models: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The models of gpu_servings as those to whom GPUs are promised, beside the people."""
    return [
        {
            "name": "model " + model["name"],
            "gpus": model["gpus"],
            "shared": model.get("shared", False),
        }
        for model in models
    ]


def refuse_promised_twice(people: list[dict[str, Any]]) -> None:
    """ValueError where the same GPU is promised to two, each {name, gpus, shared}, unshared."""
    takers = [person for person in people if person["gpus"] != "none"]
    everything = [person for person in takers if person["gpus"] == "all"]
    for person in everything:
        for taker in takers:
            if taker is not person and not (person["shared"] and taker["shared"]):
                raise ValueError(
                    "{0} gets all GPUs, and {1} some of them; where that is meant, say shared: "
                    "true of both".format(person["name"], taker["name"])
                )
    promised: dict[str, dict[str, Any]] = {}
    for person in takers:
        for gpu in person["gpus"] if isinstance(person["gpus"], list) else ():
            holder = promised.setdefault(str(gpu), person)
            if holder is not person and not (person["shared"] and holder["shared"]):
                raise ValueError(
                    "GPU {0} is promised twice, to {1} and {2}; where that is meant, say shared: "
                    "true of both".format(gpu, holder["name"], person["name"])
                )
