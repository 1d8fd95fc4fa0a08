"""The group tree of an export: which group or host sets a variable, and which value a host gets.

Where two unrelated groups differ Ansible lets one of them win; for our own variables that would be
a stack that nobody chose, so it is an error.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from provision.errors import InputError
from provision.inventory.sources import Sources
from provision.inventory.words import MODELS, PLATFORM, WISH

Effective = Callable[[], Mapping[str, Mapping[str, Any]]]


class Groups:
    """The group tree of an export, with the variables that each group and host sets itself."""

    def __init__(self, export: Mapping[str, Any], effective: Effective | None = None) -> None:
        self._read_effective = effective
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
        self._values: dict[tuple[str, ...], tuple[Any, str]] = {}

    def definitions(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """(owner, its variables): "group NAME" of each group, then "host NAME" of each host."""
        for name, body in self.groups.items():
            yield f"group {name}", body.get("vars", {})
        for host, variables in self.hostvars.items():
            yield f"host {host}", variables

    def concerned(self, word: str) -> set[str]:
        """The owners, as `definitions` names them, whose variables reach a host that has `word`.

        An inventory is shared with other programs: in their groups our names may mean other things.
        """
        owners: set[str] = set()
        reached: dict[tuple[str, ...], list[str]] = {}
        for host in self.hosts:
            direct = self._direct.get(host, ())
            if direct not in reached:
                reached[direct] = self._ancestors(direct)
            groups = reached[direct]
            own = self.hostvars.get(host, {})
            said = [own] if word in own else [self.groups[name].get("vars", {}) for name in groups]
            if any(variables.get(word) is not None for variables in said):
                owners.add(f"host {host}")
                owners.update(f"group {name}" for name in groups)
        return owners

    @functools.cached_property
    def _effective(self) -> Mapping[str, Mapping[str, Any]]:
        """Host -> its variables in a run; {} where nobody can be asked."""
        return self._read_effective() if self._read_effective else {}

    @functools.cached_property
    def _direct(self) -> dict[str, tuple[str, ...]]:
        """Host -> the groups that list it themselves, in the order of the export."""
        groups: dict[str, list[str]] = {}
        for name, body in self.groups.items():
            for host in body.get("hosts", []):
                groups.setdefault(host, []).append(name)
        return {host: tuple(dict.fromkeys(names)) for host, names in groups.items()}

    @functools.cached_property
    def _parents(self) -> dict[str, list[str]]:
        parents: dict[str, list[str]] = {}
        for name, body in self.groups.items():
            for child in body.get("children", []):
                parents.setdefault(child, []).append(name)
        return parents

    def _ancestors(self, direct: Sequence[str]) -> list[str]:
        """These groups and all above them, the nearest first, `all` last."""
        names: dict[str, None] = {}
        layer = list(direct)
        while layer:
            fresh = [name for name in dict.fromkeys(layer) if name not in names]
            names |= dict.fromkeys(fresh)
            layer = [parent for name in fresh for parent in self._parents.get(name, ())]
        if "all" in self.groups:
            names.pop("all", None)
            names["all"] = None
        return list(names)

    def says(self, word: str) -> bool:
        """Whether any group or host sets the variable."""
        return any(word in variables for _, variables in self.definitions())

    def said(self, word: str, host: str, sources: Sources) -> tuple[Any, str]:
        """(the value of a variable of ours for a host, the group or host that sets it).

        A host's own value wins, then a child group's over its parent's. InputError for two
        unrelated groups that differ, whichever Ansible would pick, and where a run would have a
        parent's.
        """
        own = self.hostvars.get(host, {})
        if word in own:
            return own[word], host
        direct = self._direct.get(host, ())
        key = (word, *direct)
        if key not in self._values:
            self._values[key] = self._said_by_groups(word, direct, host, sources)
        return self._values[key]

    def _said_by_groups(
        self, word: str, direct: tuple[str, ...], host: str, sources: Sources
    ) -> tuple[Any, str]:
        """`said` by the groups of a host; the same for all hosts of these groups."""
        values = {
            name: self.groups[name]["vars"][word]
            for name in self._ancestors(direct)
            if word in self.groups[name].get("vars", {})
        }
        if not values:
            return None, ""
        children = {name: self._below(name) for name in values}
        nearest = [n for n in values if children[n].isdisjoint(set(values) - {n})]
        winner = nearest[0]
        for group in nearest[1:]:
            if values[group] != values[winner]:
                wish = word == WISH
                conflict = "wish for different stacks" if wish else f"differ in {word}"
                raise InputError(
                    f"two groups of host {host} {conflict}",
                    where=sources.where(word, near=group),
                    got="; ".join(
                        f"{name}: {_shown(word, values[name])}" for name in (winner, group)
                    ),
                    expected="one wish per host" if wish else "one of them",
                    hint=f"take {host} out of one of them, or write {word} for {host} itself",
                )
        if any(value != values[winner] for value in values.values()):
            self._check_order(word, values, winner, host, sources)
        return values[winner], winner

    def _check_order(
        self, word: str, values: Mapping[str, Any], winner: str, host: str, sources: Sources
    ) -> None:
        """InputError where a run has another value for the host than that of its nearest group.

        Ansible reads `vars:` of all groups before the first file of group_vars/, and those beside
        the inventory before those beside the playbook; a parent's can come after its child's.
        """
        taken = self._effective.get(host, {}).get(word, values[winner])
        if taken == values[winner]:
            return
        of = next((f" of {name}" for name, value in values.items() if value == taken), "")
        raise InputError(
            f"Ansible gives {host} another {word} than its nearest group, {winner}",
            where=sources.where(word, near=winner),
            got=f"{winner}: {_shown(word, values[winner])}; Ansible: {_shown(word, taken)}{of}",
            expected=f"one place for {word}; Ansible reads group_vars/ after all `vars:`, and that "
            "of the playbook last",
            hint=f"write that of {winner} in group_vars/{winner}.yml, beside that of the others",
        )

    def _below(self, name: str) -> set[str]:
        """All groups below one."""
        names: set[str] = set()
        layer = list(self.groups.get(name, {}).get("children", []))
        if name == "all":
            layer = [group for group in self.groups if group != "all"]
        while layer:
            child = layer.pop()
            if child not in names:
                names.add(child)
                layer.extend(self.groups.get(child, {}).get("children", []))
        return names


def _shown(word: str, value: object) -> str:
    """A value as a message may show it: only of our own literal words, as it may be a secret."""
    literal = word in (WISH, PLATFORM, MODELS) or word.endswith("_state")
    return json.dumps(value) if literal else "..."
