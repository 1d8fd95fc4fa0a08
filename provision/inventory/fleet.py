"""An export of Ansible's -> Fleet: the hosts that have a wish, and what is said of them.

10,000 hosts have their words from a few groups: each value is checked once, not once per host.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from provision.errors import InputError
from provision.inventory.declared import Declared
from provision.inventory.groups import Groups
from provision.inventory.sources import Sources
from provision.inventory.spelling import Slips, check_wish_spelt, check_words
from provision.inventory.wish import parse_wish
from provision.inventory.words import WISH, Judge, Words
from provision.models import HostFacts, Wish


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


def parse(export: Mapping[str, Any], words: Words, sources: Sources | None = None) -> Fleet:
    """`ansible-inventory --list --export`, checked. InputError for the first fault."""
    sources = sources or Sources()
    groups = Groups(export)
    warnings: list[str] = []
    slips = Slips([WISH, *words.options])
    concerned = groups.concerned(WISH)
    for owner, variables in groups.definitions():
        if owner in concerned:
            warnings += check_words(owner, variables, words, slips, sources)
        else:
            check_wish_spelt(owner, variables, slips, sources)
    hosts: dict[str, Wish] = {}
    owners: dict[str, str] = {}
    facts: dict[str, HostFacts] = {}
    others = []
    known: dict[int, Wish] = {}
    declared = Declared(groups, sources)
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
    hosts: Mapping[str, Wish], words: Words, groups: Groups, sources: Sources
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


def _judge(judge: Judge, hosts: Mapping[str, Wish], groups: Groups, sources: Sources) -> None:
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


def _placed_wish(value: Any, owner: str, sources: Sources) -> Wish:
    """`parse_wish`; the files are searched for the place of a fault only where there is one."""
    try:
        return parse_wish(value, where=owner)
    except InputError:
        return parse_wish(value, where=sources.where(WISH, near=owner) or owner)
