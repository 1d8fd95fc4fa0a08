"""The user's Ansible inventory -> Fleet: which hosts wish for what, and where they wrote it.

It is read through Ansible itself (`ansible-inventory --list --export`), so that dynamic
inventories, plugins and group_vars mean here what they mean in a run. The export may hold unlocked
secrets: it stays in memory, and no value of it is ever shown but `gpu_stack`, `gpu_platform`,
`gpu_models` and the misuse of our own words.

Our words are checked hard: a misspelt `tensorflow_verison` would otherwise be a setting that is
silently never read, and an unquoted 2.10 the wish for TensorFlow 2.1.
"""

from __future__ import annotations

import difflib
import functools
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from provision import catalog, inputs, locales
from provision.catalog import gpus as known_gpus
from provision.errors import InputError, MachineError
from provision.models import CudnnWish, HostFacts, Wish
from provision.sources import Sources

WISH = "gpu_stack"
# What a host is, for those who know it before the host is asked.
PLATFORM = "gpu_platform"
MODELS = "gpu_models"
# The words of a wish: {word: (an example, what it means)}.
WISH_WORDS: Mapping[str, tuple[str, str]] = {
    "tensorflow": ('"2.9"', "A release of TensorFlow: its newest patch, or an exact version."),
    "python": ('"3.9"', "Python of its environment. Without it: one that the platform has."),
    "cuda": ('"11.2"', "A release of CUDA. Without it: the one TensorFlow was built with."),
    "cuda_source": (
        "network",
        "distribution: the platform's packages. network: NVIDIA's repository. local: NVIDIA's "
        "local installer. wheels: TensorFlow's own, from 2.14 on.",
    ),
    "cudnn": (
        '"8.1.0.77"',
        "A version of cuDNN, or an archive of your own: {version, cuda, sha256}.",
    ),
    "driver_branch": ('"470"', "A branch of the NVIDIA driver, or an exact version of one."),
    "driver_source": (
        "runfile",
        "distribution: the platform's packages. network: NVIDIA's repository. runfile: NVIDIA's "
        ".run installer.",
    ),
    "driver_sha256": (
        '"<64 hex digits>"',
        "The SHA-256 of a .run file, with driver_source runfile and an exact driver_branch.",
    ),
    "gcc": ('"10"', "The compiler that nvcc calls. Without it: the platform's, if nvcc takes it."),
    "container_toolkit": (
        "true",
        "NVIDIA's container toolkit: true for the newest, or a version.",
    ),
    "packages": (
        '[jupyterlab, "pandas<2.1"]',
        "What else the environment holds: names from the package index, with versions if you like; "
        "locked with TensorFlow, wheels alone.",
    ),
    "beside": (
        '[{tensorflow: "2.14"}]',
        "Further TensorFlows on the same hosts, each in an environment of its own.",
    ),
}
WISH_KEYS = tuple(WISH_WORDS)
# What is the host's, a driver say, there is once; these there can be several of.
BESIDE_KEYS = ("tensorflow", "python", "packages")
CUDA_SOURCES = ("distribution", "network", "local", "wheels")
DRIVER_SOURCES = ("distribution", "network", "runfile")
CUDNN_KEYS = ("version", "cuda", "sha256")

# TensorFlow under all the names that bring the module tensorflow.
_TENSORFLOW = re.compile(
    r"^(tensorflow|tf-nightly|intel-tensorflow)(-(cpu|gpu|intel|rocm|macos))?$"
)
# Seconds for ansible-inventory: a dynamic inventory asks a cloud, and a person types a password.
_PATIENCE = 300
_LITERAL = re.compile(r"\{\{|\{%|\{#")
_VERSION = re.compile(r"[0-9]+(\.[0-9]+){0,3}")


class OptionRule(Protocol):
    """What the check needs to know of one role variable; the Python roles provide it."""

    @property
    def name(self) -> str: ...
    @property
    def identity(self) -> bool: ...
    @property
    def wish(self) -> str: ...
    @property
    def run_only(self) -> bool: ...
    def fault(self, value: object) -> str | None: ...


@dataclass(frozen=True)
class Fault:
    """What is wrong with the words of one host: the word, and what to say of it."""

    word: str
    message: str
    got: str = ""
    expected: str = ""
    hint: str = ""


class Judge(Protocol):
    """Looks at several variables of a host together; the Python roles provide it.

    `names`: what it reads, the first of them the one without which it has nothing to say.
    """

    @property
    def names(self) -> tuple[str, ...]: ...
    def fault(
        self, said: Mapping[str, Any], wish: Wish, written: Callable[[str], str]
    ) -> Fault | None:
        """`said` has the values of those that are set; `written` the place of a text in a file."""
        ...


@dataclass(frozen=True)
class Words:
    """Our vocabulary in an inventory: role options, and the prefixes that look like ours."""

    options: Mapping[str, OptionRule]
    prefixes: tuple[str, ...]
    judges: tuple[Judge, ...] = ()


@dataclass(frozen=True)
class Fleet:
    """The hosts that have a wish, in inventory order, and warnings found on the way.

    `facts` has the hosts of which something is known, `owners` who says each host's wish, `absent`
    the components that a host wishes away, and `sources` the place of a word.
    """

    hosts: Mapping[str, Wish]
    warnings: tuple[str, ...] = ()
    other_hosts: tuple[str, ...] = ()
    facts: Mapping[str, HostFacts] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sources: Sources = field(default_factory=lambda: Sources(), compare=False, repr=False)

    def kinds(self) -> list[tuple[Wish, list[tuple[HostFacts, list[str]]]]]:
        """Each different wish, with each different kind of host that has it and their names.

        In order of first appearance. 10,000 hosts are of few kinds, and each is solved once.
        """
        found: dict[str, tuple[Wish, dict[HostFacts, list[str]]]] = {}
        spelt: dict[int, str] = {}
        nothing = HostFacts()
        for host, wish in self.hosts.items():
            if id(wish) not in spelt:
                spelt[id(wish)] = json.dumps(wish.literal, sort_keys=True, default=dict)
            _, kinds = found.setdefault(spelt[id(wish)], (wish, {}))
            kinds.setdefault(self.facts.get(host, nothing), []).append(host)
        return [(wish, list(kinds.items())) for wish, kinds in found.values()]


def read_export(
    sources: Sequence[str],
    *,
    cwd: Path,
    extra: Sequence[str] = (),
    texts: Sources | None = None,
) -> dict[str, Any]:
    """Run this environment's own ansible-inventory. `sources` are -i arguments, relative to `cwd`.

    InputError when it refuses the inventory: with the place in `texts` that is no YAML, else with
    Ansible's words; MachineError without Ansible, and where it doesn't end.
    """
    program = Path(sys.executable).parent / "ansible-inventory"
    command = [str(program) if program.exists() else "ansible-inventory"]
    command += _options(sources)
    # As in a run of the project's own playbook: group_vars and host_vars beside it count.
    command += ["--list", "--export", "--playbook-dir", str(cwd.absolute()), *extra]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_DEPRECATION_WARNINGS": "0"}
    environment.setdefault("ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED", "1")
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=locales.with_utf8(environment),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=_PATIENCE,
        )
    except FileNotFoundError:
        raise MachineError(
            "ansible-inventory is not here", hint="pip install 'ansible-core>=2.17,<2.20'"
        ) from None
    except subprocess.TimeoutExpired:
        raise MachineError(
            "ansible-inventory did not end",
            where=", ".join(sources),
            got=f"nothing after {_PATIENCE} s",
            expected=f"the inventory within {_PATIENCE} s",
            hint="a dynamic inventory or what it asks may hang; by hand: "
            + shlex.join(["ansible-inventory", *_options(sources), "--list"]),
        ) from None
    if done.returncode:
        _check_yaml(texts or Sources())
        raise InputError(
            "Ansible cannot read this inventory",
            where=", ".join(sources),
            got=_ansible_words(done.stderr),
            hint="--vault-password-file FILE opens what Ansible Vault keeps"
            if "vault" in done.stderr.lower()
            else "",
        )
    try:
        data = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise InputError(
            "Ansible's export of the inventory is not JSON", where=", ".join(sources)
        ) from None
    if not isinstance(data, dict):
        raise InputError("Ansible's export of the inventory is no mapping")
    return data


def _options(sources: Sequence[str]) -> list[str]:
    return [word for source in sources for word in ("-i", source)]


def _ansible_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line or "WARNING" in line]
    return " ".join(errors or lines)[:600]


def _check_yaml(sources: Sources) -> None:
    """InputError with file and line for YAML that cannot be read.

    Ansible would try every inventory plugin on such a file and list the complaints of each.
    """
    for name, text in sources.texts.items():
        if not name.endswith((".yml", ".yaml")):
            continue
        inputs.check_readable(text, where=name)


def parse(export: Mapping[str, Any], words: Words, sources: Sources | None = None) -> Fleet:
    """`ansible-inventory --list --export`, checked. InputError for the first fault."""
    sources = sources or Sources()
    groups = _Groups(export)
    warnings: list[str] = []
    slips = _Slips([WISH, *words.options])
    concerned = groups.concerned(WISH)
    for owner, variables in groups.definitions():
        if owner in concerned:
            warnings += _check_words(owner, variables, words, slips, sources)
        else:
            _check_wish_spelt(owner, variables, slips, sources)
    hosts: dict[str, Wish] = {}
    owners: dict[str, str] = {}
    facts: dict[str, HostFacts] = {}
    others = []
    known: dict[int, Wish] = {}
    declared = _Declared(groups, sources)
    for host in groups.hosts:
        value, owner = groups.said(WISH, host, sources)
        if value is None:
            others.append(host)
            continue
        # 10,000 hosts have their wish from one group: it is the same object, and checked once.
        if id(value) not in known:
            known[id(value)] = _placed_wish(value, owner, sources)
        hosts[host] = known[id(value)]
        owners[host] = owner
        one = declared.of(host)
        if one is not None:
            facts[host] = one
    for judge in words.judges:
        _judge(judge, hosts, groups, sources)
    unique = tuple(dict.fromkeys(warnings))
    absent = _absent(hosts, words, groups, sources)
    return Fleet(hosts, unique, tuple(others), facts, owners, absent, sources)


def _absent(
    hosts: Mapping[str, Wish], words: Words, groups: _Groups, sources: Sources
) -> dict[str, tuple[str, ...]]:
    """The components that hosts wish away (`cuda_state: absent`); a template says nothing here."""
    suffix = "_state"
    names = [name for name in words.options if name.endswith(suffix) and groups.says(name)]
    found: dict[str, tuple[str, ...]] = {}
    for host in hosts if names else ():
        said = {name: groups.said(name, host, sources)[0] for name in names}
        gone = tuple(name.removesuffix(suffix) for name in names if said[name] == "absent")
        if gone:
            found[host] = gone
    return found


def _judge(judge: Judge, hosts: Mapping[str, Wish], groups: _Groups, sources: Sources) -> None:
    """InputError for the first host at whose words a judge finds fault."""
    names = [name for name in judge.names if groups.says(name)]
    if judge.names[0] not in names:
        return
    done = set()
    for host, wish in hosts.items():
        found = {name: groups.said(name, host, sources) for name in names}
        said = {name: value for name, (value, _) in found.items() if value is not None}
        # 10,000 hosts have them from one group: the same objects, and judged once.
        key = (id(wish), *(id(value) for value, _ in found.values()))
        if judge.names[0] not in said or key in done:
            continue
        done.add(key)
        fault = judge.fault(said, wish, sources.written)
        if fault is not None:
            owner = found[fault.word][1] if fault.word in found else host
            raise InputError(
                fault.message,
                where=sources.where(fault.word, near=owner) or owner or host,
                got=fault.got,
                expected=fault.expected,
                hint=fault.hint,
            )


def is_template(value: object) -> bool:
    """Does a value hold a template, or something that Ansible Vault keeps?"""
    return _is_ansibles(value)


def _placed_wish(value: Any, owner: str, sources: Sources) -> Wish:
    """`parse_wish`; the files are searched for the place of a fault only where there is one."""
    try:
        return parse_wish(value, where=owner)
    except InputError:
        return parse_wish(value, where=sources.where(WISH, near=owner) or owner)


class _Groups:
    """The group tree of an export, with what each group and host says for itself."""

    def __init__(self, export: Mapping[str, Any]) -> None:
        meta = export.get("_meta", {})
        self.hostvars: Mapping[str, Mapping[str, Any]] = meta.get("hostvars", {})
        self.groups: dict[str, Mapping[str, Any]] = {
            name: body
            for name, body in export.items()
            if name != "_meta" and isinstance(body, Mapping)
        }
        self.hosts = list(
            dict.fromkeys(
                [h for body in self.groups.values() for h in body.get("hosts", [])]
                + list(self.hostvars)
            )
        )
        self._said: dict[tuple[str, ...], tuple[Any, str]] = {}

    def definitions(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Every owner of variables: groups, then hosts."""
        for name, body in self.groups.items():
            yield f"group {name}", body.get("vars", {})
        for host, variables in self.hostvars.items():
            yield f"host {host}", variables

    def concerned(self, word: str) -> set[str]:
        """The owners, as `definitions` names them, whose variables reach a host that has `word`.

        An inventory is shared with other programs, and what their groups call as we do is theirs.
        """
        owners: set[str] = set()
        reached: dict[tuple[str, ...], list[str]] = {}
        for host in self.hosts:
            direct = self._direct.get(host, ())
            if direct not in reached:
                reached[direct] = self._ancestors(direct)
            groups = reached[direct]
            said = word in self.hostvars.get(host, {}) or any(
                word in self.groups[name].get("vars", {}) for name in groups
            )
            if said:
                owners.add(f"host {host}")
                owners.update(f"group {name}" for name in groups)
        return owners

    @functools.cached_property
    def _direct(self) -> dict[str, tuple[str, ...]]:
        """Host -> the groups that list it themselves, in the order of the export."""
        found: dict[str, list[str]] = {}
        for name, body in self.groups.items():
            for host in body.get("hosts", []):
                found.setdefault(host, []).append(name)
        return {host: tuple(dict.fromkeys(names)) for host, names in found.items()}

    @functools.cached_property
    def _parents(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, body in self.groups.items():
            for child in body.get("children", []):
                found.setdefault(child, []).append(name)
        return found

    def _ancestors(self, direct: Sequence[str]) -> list[str]:
        """These groups and all above them, the nearest first; `all` is the farthest."""
        found: dict[str, None] = {}
        layer = list(direct)
        while layer:
            fresh = [name for name in dict.fromkeys(layer) if name not in found]
            found |= dict.fromkeys(fresh)
            layer = [parent for name in fresh for parent in self._parents.get(name, ())]
        if "all" in self.groups:
            found.pop("all", None)
            found["all"] = None
        return list(found)

    def says(self, word: str) -> bool:
        """Does anybody say it?"""
        return any(word in variables for _, variables in self.definitions())

    def said(self, word: str, host: str, sources: Sources) -> tuple[Any, str]:
        """The value of a word of ours that counts for a host, and who said it.

        A host's own word wins; a child group's over its parent's; two unrelated groups that say
        different things are a conflict, whichever Ansible would happen to pick.
        """
        own = self.hostvars.get(host, {})
        if word in own:
            return own[word], host
        direct = self._direct.get(host, ())
        key = (word, *direct)
        if key not in self._said:
            self._said[key] = self._said_by_groups(word, direct, host, sources)
        return self._said[key]

    def _said_by_groups(
        self, word: str, direct: tuple[str, ...], host: str, sources: Sources
    ) -> tuple[Any, str]:
        """What the groups of a host say; hosts of the same groups need it once."""
        said = {
            name: self.groups[name]["vars"][word]
            for name in self._ancestors(direct)
            if word in self.groups[name].get("vars", {})
        }
        if not said:
            return None, ""
        children = {name: self._below(name) for name in said}
        nearest = [n for n in said if not any(other in children[n] for other in said if other != n)]
        first = nearest[0]
        for other in nearest[1:]:
            if said[other] != said[first]:
                wish = word == WISH
                what = "wish for different stacks" if wish else f"differ in {word}"
                # Of our own literal words alone the values may be shown.
                shown = wish or word in (PLATFORM, MODELS) or word.endswith("_state")
                values = (json.dumps(said[one]) if shown else "..." for one in (first, other))
                told = [f"{one}: {text}" for one, text in zip((first, other), values, strict=True)]
                raise InputError(
                    f"two groups of host {host} {what}",
                    where=sources.where(word, near=other),
                    got="; ".join(told),
                    expected="one wish per host" if wish else "one of them",
                    hint=f"take {host} out of one of them, or write {word} for {host} itself",
                )
        return said[first], first

    def _below(self, name: str) -> set[str]:
        found: set[str] = set()
        layer = list(self.groups.get(name, {}).get("children", []))
        if name == "all":
            layer = [group for group in self.groups if group != "all"]
        while layer:
            child = layer.pop()
            if child not in found:
                found.add(child)
                layer.extend(self.groups.get(child, {}).get("children", []))
        return found


class _Declared:
    """What the inventory says hosts are; checked once for hosts that have it from one place."""

    def __init__(self, groups: _Groups, sources: Sources) -> None:
        self._groups = groups
        self._sources = sources
        self._words = [word for word in (PLATFORM, MODELS) if groups.says(word)]
        self._known: dict[tuple[Any, ...], HostFacts | None] = {}

    def of(self, host: str) -> HostFacts | None:
        """The facts of a host; None where nothing is said."""
        if not self._words:
            return None
        platform, platform_owner = self._groups.said(PLATFORM, host, self._sources)
        models, models_owner = self._groups.said(MODELS, host, self._sources)
        key = (id(platform), platform_owner, id(models), models_owner)
        if key not in self._known:
            named = self._placed(PLATFORM, platform, platform_owner)
            words = self._placed(MODELS, models, models_owner)
            known = None
            if named or words:
                known = HostFacts(
                    platform=named or None,
                    gpus=words or (),
                    models=words or (),
                    platform_from=platform_owner if named else "",
                    gpus_from=models_owner if words else "",
                )
            self._known[key] = known
        return self._known[key]

    def _placed(self, word: str, value: Any, owner: str) -> Any:
        """The checked value; the files are searched for the place of a fault, if there is one."""
        check = _platform if word == PLATFORM else _models
        try:
            return check(value, owner)
        except InputError:
            return check(value, self._sources.where(word, near=owner) or owner)


def _platform(value: Any, where: str) -> str:
    """The id of a platform of the catalog; "" and null take back what a group says."""
    if value is None or value == "":
        return ""
    _refuse_vaulted(value, PLATFORM, where)
    if _is_ansibles(value):
        raise _no_template(where, PLATFORM, "debian12")
    ids = [row.id for row in catalog.load().platforms]
    if value not in ids:
        raise InputError(
            "there is no such platform in the catalog",
            where=where,
            got=f"{PLATFORM}: {json.dumps(value)}",
            expected=" or ".join(ids),
            hint=did_you_mean(str(value), ids) or "`provision catalog` shows what runs where",
        )
    return str(value)


def _models(value: Any, where: str) -> tuple[str, ...]:
    """Names or PCI ids of GPUs that the catalog knows; an empty list takes back a group's."""
    if value is None or value == []:
        return ()
    _refuse_vaulted(value, MODELS, where)
    if _is_ansibles(value):
        raise _no_template(where, MODELS, '["Tesla T4"]')
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise InputError(
            f"{MODELS} is a list of names or PCI ids",
            where=where,
            got=json.dumps(value),
            expected=f'{MODELS}: ["Tesla T4"], or ["10de:1eb8"]',
        )
    for word in value:
        known_gpus.gpu(word, where=where)
    return tuple(dict.fromkeys(value))


def parse_wish(value: Any, *, where: str) -> Wish:
    """The literal mapping `gpu_stack`, checked."""
    if isinstance(value, str) and _LITERAL.search(value):
        raise _no_template(where, WISH)
    _refuse_vaulted(value, WISH, where)
    if not isinstance(value, Mapping):
        raise InputError(
            "gpu_stack is a mapping",
            where=where,
            got=f"{type(value).__name__} {json.dumps(value)}",
            expected='gpu_stack: {tensorflow: "2.9"}',
        )
    if not value:
        raise InputError(
            "gpu_stack wishes for nothing", where=where, expected='gpu_stack: {tensorflow: "2.9"}'
        )
    _only_words("gpu_stack", value, WISH_KEYS, where)
    words = (
        *("cudnn", "cuda_source", "driver_source", "driver_sha256"),
        *("container_toolkit", "packages", "beside"),
    )
    plain = {key: _text(value[key], key, where) for key in value if key not in words}
    cudnn = _cudnn_wish(value["cudnn"], where) if "cudnn" in value else None
    return Wish(
        tensorflow=plain.get("tensorflow"),
        python=plain.get("python"),
        cuda=plain.get("cuda"),
        cuda_source=_source(value, "cuda_source", CUDA_SOURCES, where),
        driver_branch=plain.get("driver_branch"),
        driver_source=_source(value, "driver_source", DRIVER_SOURCES, where),
        driver_sha256=_driver_sha256(value, where),
        cudnn=cudnn,
        gcc=plain.get("gcc"),
        container_toolkit=_container_toolkit(value, where),
        packages=_packages(value["packages"], where) if "packages" in value else (),
        beside=_beside(value["beside"], where) if "beside" in value else (),
        literal=dict(value),
    )


def _beside(value: Any, where: str) -> tuple[Wish, ...]:
    """Further TensorFlows: [{tensorflow: "2.14"}, ...]."""
    if isinstance(value, str) and _LITERAL.search(value):
        raise _no_template(where, "beside")
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise InputError(
            "beside is a list of wishes",
            where=where,
            got=json.dumps(value),
            expected='beside: [{tensorflow: "2.14"}]',
        )
    found = []
    for one in value:
        _only_words("beside", one, BESIDE_KEYS, where)
        if "tensorflow" not in one:
            raise InputError(
                "a wish in beside names a TensorFlow",
                where=where,
                got=json.dumps(one),
                expected='{tensorflow: "2.14"}',
            )
        plain = {key: _text(one[key], key, where) for key in one if key != "packages"}
        found.append(
            Wish(
                plain["tensorflow"],
                plain.get("python"),
                packages=_packages(one["packages"], where) if "packages" in one else (),
                literal=dict(one),
            )
        )
    return tuple(found)


def _packages(value: Any, where: str) -> tuple[str, ...]:
    """Requirements by name, of an index and for every host: no URL, no path, no marker."""
    expected = 'packages: [jupyterlab, "pandas<2.1"]'
    if isinstance(value, str) and _LITERAL.search(value):
        raise _no_template(where, "packages")
    if not isinstance(value, list) or not value:
        raise InputError(
            "packages is a list of requirements",
            where=where,
            got=json.dumps(value),
            expected=expected,
        )
    found: dict[str, str] = {}
    for one in value:
        if isinstance(one, str) and _LITERAL.search(one):
            raise _no_template(where, "packages")
        try:
            asked = Requirement(one) if isinstance(one, str) else None
        except InvalidRequirement:
            asked = None
        if asked is None or asked.url or asked.marker:
            raise InputError(
                "packages holds something that is no requirement by name",
                where=where,
                got=json.dumps(one),
                expected=expected,
                hint="a wheel of your own comes from an index of your own (UV_INDEX), or from a "
                "folder (UV_FIND_LINKS)",
            )
        name = canonicalize_name(asked.name)
        if _TENSORFLOW.match(name):
            raise InputError(
                f"packages can't hold {asked.name}",
                where=where,
                expected='tensorflow: "2.9" for the one, beside for others',
            )
        if name in found:
            raise InputError(f"packages names {name} twice", where=where, got=json.dumps(value))
        found[name] = str(asked)
    return tuple(found[name] for name in sorted(found))


def _only_words(what: str, value: Mapping[Any, Any], words: Sequence[str], where: str) -> None:
    """Refuse a key that is none of `words`, and name the one that was probably meant."""
    for key in value:
        if key not in words:
            raise InputError(
                f"{what} has no word {key!r}",
                where=where,
                expected=", ".join(words),
                hint=did_you_mean(str(key), words),
            )


def _source(wish: Mapping[str, Any], word: str, known: Sequence[str], where: str) -> str | None:
    """Where CUDA or the driver is to come from; None where nobody said."""
    if word not in wish:
        return None
    value = wish[word]
    if isinstance(value, str) and _LITERAL.search(value):
        raise _no_template(where, word)
    if value not in known:
        what = "CUDA" if word == "cuda_source" else "the driver"
        raise InputError(
            f"there is no such source of {what}",
            where=where,
            got=json.dumps(value),
            expected=" or ".join(known),
            hint=did_you_mean(str(value), known),
        )
    return str(value)


def _driver_sha256(wish: Mapping[str, Any], where: str) -> str | None:
    """The hash of a .run file of one's own; it is for one exact version."""
    if "driver_sha256" not in wish:
        return None
    found = _sha256(wish["driver_sha256"], "driver_sha256", where)
    exact = "." in str(wish.get("driver_branch", ""))
    if wish.get("driver_source") != "runfile" or not exact:
        raise InputError(
            "driver_sha256 is the hash of one .run file",
            where=where,
            expected='driver_source: runfile, driver_branch: "470.256.02", driver_sha256: "..."',
            hint="with another driver_source what is installed is known by its packages",
        )
    return found


def _container_toolkit(wish: Mapping[str, Any], where: str) -> str | None:
    """`true` is the newest (""), a version that one; None where nobody wished for it."""
    if "container_toolkit" not in wish:
        return None
    value = wish["container_toolkit"]
    if value is True:
        return ""
    if value is False:
        raise InputError(
            "container_toolkit: false wishes for nothing",
            where=where,
            expected='container_toolkit: true, or a version: container_toolkit: "1.17"',
            hint="leave the word out",
        )
    return _text(value, "container_toolkit", where)


def _sha256(value: Any, what: str, where: str) -> str:
    """64 hex digits as the user quoted them."""
    if isinstance(value, str) and _LITERAL.search(value):
        raise _no_template(where, what)
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{64}", value):
        raise InputError(
            f"{what} is not a SHA-256",
            where=where,
            got=f"{value!r}",
            expected="64 lower-case hex digits, quoted, as `sha256sum FILE` prints them",
        )
    return value


def _cudnn_wish(value: Any, where: str) -> CudnnWish:
    if not isinstance(value, Mapping):
        return CudnnWish(_text(value, "cudnn", where))
    _only_words("cudnn", value, CUDNN_KEYS, where)
    if "version" not in value:
        raise InputError(
            "cudnn needs a version",
            where=where,
            expected='cudnn: {version: "8.5.0.96", cuda: "11.2", sha256: "<64 hex digits>"}',
        )
    sha256 = value.get("sha256")
    if sha256 is not None:
        sha256 = _sha256(sha256, "cudnn sha256", where)
    return CudnnWish(
        version=_text(value["version"], "cudnn version", where),
        cuda=_text(value["cuda"], "cudnn cuda", where) if "cuda" in value else None,
        sha256=sha256,
    )


def _text(value: Any, key: str, where: str) -> str:
    """A version as the user quoted it."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(
            f"{key} is not a version", where=where, got=json.dumps(value), expected=f'{key}: "2.9"'
        )
    if isinstance(value, int | float):
        raise InputError(
            f"{key} is a number, and a number is not a version (2.10 would be 2.1)",
            where=where,
            got=f"{key}: {value}",
            hint=f'quote it: {key}: "..."; unquoted, 2.10 and 2.1 are the same number',
        )
    if _LITERAL.search(value):
        raise _no_template(where, key)
    if not _VERSION.fullmatch(value):
        raise InputError(
            f"{key} is not a version", where=where, got=repr(value), expected='digits as in "2.9"'
        )
    return value


def _no_template(where: str, key: str, example: str = "") -> InputError:
    what = "facts" if example else "wishes"
    return InputError(
        f"{key} is a template; {what} are literal, since the lock is made before any host is asked",
        where=where,
        expected=f"a literal, like {example}" if example else 'a literal, like "2.9"',
        hint="write it out, in the group or host that it is true of"
        if example
        else "write the version itself, in the group or host that should have it",
    )


def _refuse_vaulted(value: Any, key: str, where: str) -> None:
    """InputError where a value, or one within it, is Ansible Vault's or marked `!unsafe`."""
    if isinstance(value, list):
        for one in value:
            _refuse_vaulted(one, key, where)
    elif isinstance(value, Mapping):
        if "__ansible_vault" in value:
            raise InputError(
                f"{key} is vaulted; it stands in the clear, since lock.yml and each host's receipt "
                "show it",
                where=where,
                expected='a literal, like "2.9"',
                hint="write it without the vault: it is no secret",
            )
        if "__ansible_unsafe" in value:
            raise InputError(
                f"{key} is marked !unsafe",
                where=where,
                expected='a literal, like "2.9"',
                hint="leave the tag out: this is never read as a template",
            )
        for inner, one in value.items():
            _refuse_vaulted(one, str(inner), where)


class _Slips(dict[str, str]):
    """Name -> the real name that it is a typing slip of, or ""; each name is compared once."""

    def __init__(self, known: Sequence[str]) -> None:
        super().__init__()
        self._known = known

    def __missing__(self, name: str) -> str:
        self[name] = found = _slip(name, self._known)
        return found


def _check_wish_spelt(
    owner: str, variables: Mapping[str, Any], slips: _Slips, sources: Sources
) -> None:
    """InputError for a slip of `gpu_stack` where it leaves hosts without a wish."""
    for name in variables:
        if not name.startswith("ansible_") and name != WISH and slips[name] == WISH:
            raise _no_variable(name, f"did you mean {WISH}?", owner, sources)


def _no_variable(name: str, hint: str, owner: str, sources: Sources) -> InputError:
    where = sources.where(name, near=owner.split(" ", 1)[1]) or owner
    return InputError(f"no variable {name!r}", where=where, hint=hint)


def _check_words(
    owner: str, variables: Mapping[str, Any], words: Words, slips: _Slips, sources: Sources
) -> list[str]:
    """Faults of our own variables raise; unknown ones with our prefixes come back as warnings."""
    warnings = []
    near = owner.split(" ", 1)[1]
    for name, value in variables.items():
        rule = words.options.get(name)
        if rule is not None:
            if rule.identity:
                raise InputError(
                    f"{name} is decided by the lock, not by the inventory",
                    where=sources.where(name, near=near) or owner,
                    hint=(f"wish it: {rule.wish}" if rule.wish else "wish it in gpu_stack")
                    + "; if it is another program's, keep it in a group without hosts of ours",
                )
            if rule.run_only:
                raise InputError(
                    f"{name} is a setting of one run; Ansible never reads it from an inventory",
                    where=sources.where(name, near=near) or owner,
                    hint=f"give it to the run: -e {name}=...",
                )
            fault = None if _is_ansibles(value) else rule.fault(value)
            if fault:
                raise InputError(
                    f"{name}: {fault}",
                    where=sources.where(name, near=near) or owner,
                    hint=f"`provision explain {name}`",
                )
            continue
        if name == WISH or name.startswith("ansible_"):
            continue
        meant = slips[name]
        if meant:
            hint = f"did you mean {meant}?"
            real = words.options.get(meant)
            if real is not None and real.identity:
                hint += " That one is the lock's; " + (real.wish and f"wish it: {real.wish}")
            raise _no_variable(name, hint.removesuffix("; "), owner, sources)
        if name.startswith(words.prefixes):
            at = sources.where(name, near=near) or owner
            warnings.append(f"{at}: {name} is none of ours, though it looks like it")
    return warnings


def _is_ansibles(value: object) -> bool:
    """Templates and vaulted values are Ansible's to evaluate; their type is not known here."""
    if isinstance(value, str):
        return bool(_LITERAL.search(value))
    if isinstance(value, Mapping):
        return "__ansible_vault" in value or any(_is_ansibles(v) for v in value.values())
    if isinstance(value, list | tuple):
        return any(_is_ansibles(v) for v in value)
    return False


def _slip(name: str, known: Sequence[str]) -> str:
    """The real name that `name` is a typing slip of, or "".

    At most two edits, a swap of neighbours counting as one; one edit in short names. Plural forms
    and the like of words that are not ours stay the user's.
    """
    for real in known:
        limit = 2 if len(real) > 12 else 1
        if abs(len(real) - len(name)) <= limit and 0 < distance(name, real) <= limit:
            return real
    return ""


def distance(left: str, right: str) -> int:
    """Edits from one to the other: insert, delete, replace, swap (Damerau-Levenshtein)."""
    rows = [list(range(len(right) + 1))]
    for i, a in enumerate(left, 1):
        row = [i]
        for j, b in enumerate(right, 1):
            best = min(rows[-1][j] + 1, row[j - 1] + 1, rows[-1][j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """A hint with the nearest known word, or ""."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else ""
