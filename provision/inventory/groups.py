"""The group tree of an export: who says a word, and whose word counts for a host.

Ansible lets one of two unrelated groups win; of our own words that would be a stack that nobody
chose, so two that differ are refused.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from provision.errors import InputError
from provision.inventory.sources import Sources
from provision.inventory.words import MODELS, PLATFORM, WISH


class Groups:
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
