"""Parses Ansible's export: the hosts that have a wish, and what the inventory says of them.

10,000 hosts have their variables from a few groups: each value is checked once, not once per host.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from provision.errors import InputError
from provision.inventory.declared import Declared
from provision.inventory.groups import Effective, Groups
from provision.inventory.sources import Sources
from provision.inventory.spelling import Slips, check_wish_spelt, check_words
from provision.inventory.wish import parse_wish
from provision.inventory.words import WISH, Judge, Words
from provision.models import HostFacts, Wish


@dataclass(frozen=True)
class Fleet:
    """The hosts that have a wish, in inventory order, and warnings about the inventory.

    `facts` has what is known of hosts, `owners` the group or host that sets each host's wish,
    `absent` the components with `_state: absent`, each with the group or host that says so, and
    `sources` the files of the inventory.
    """

    hosts: Mapping[str, Wish]
    warnings: tuple[str, ...] = ()
    other_hosts: tuple[str, ...] = ()
    facts: Mapping[str, HostFacts] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sources: Sources = field(default_factory=lambda: Sources(), compare=False, repr=False)

    def kinds(self) -> list[tuple[Wish, list[tuple[HostFacts, list[str]]]]]:
        """[(wish, [(facts, names of the hosts with both)])], in order of first appearance.

        10,000 hosts are of few kinds, and each kind is solved once.
        """
        by_wish: dict[str, tuple[Wish, dict[HostFacts, list[str]]]] = {}
        spelt: dict[int, str] = {}
        nothing = HostFacts()
        for host, wish in self.hosts.items():
            if id(wish) not in spelt:
                spelt[id(wish)] = json.dumps(wish.literal, sort_keys=True, default=dict)
            _, kinds = by_wish.setdefault(spelt[id(wish)], (wish, {}))
            kinds.setdefault(self.facts.get(host, nothing), []).append(host)
        return [(wish, list(kinds.items())) for wish, kinds in by_wish.values()]


def parse(
    export: Mapping[str, Any],
    words: Words,
    sources: Sources | None = None,
    effective: Effective | None = None,
) -> Fleet:
    """The fleet in an `ansible-inventory --list --export`. InputError for the first fault.

    `effective` has the variables of each host as a run has them; it is called at most once.
    """
    sources = sources or Sources()
    groups = Groups(export, effective)
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
    other_hosts = []
    wishes: dict[int, Wish] = {}
    declared = Declared(groups, sources)
    for host in groups.hosts:
        value, owner = groups.said(WISH, host, sources)
        if value is None:
            other_hosts.append(host)
            continue
        # The hosts of a group share the object of its wish, which is checked once.
        if id(value) not in wishes:
            wishes[id(value)] = _placed_wish(value, owner, sources)
        hosts[host] = wishes[id(value)]
        owners[host] = owner
        host_facts = declared.of(host)
        if host_facts is not None:
            facts[host] = host_facts
    for judge in words.judges:
        _judge(judge, hosts, groups, sources)
    unique = tuple(dict.fromkeys(warnings))
    absent = _absent(hosts, words, groups, sources)
    return Fleet(hosts, unique, tuple(other_hosts), facts, owners, absent, sources)


def _absent(
    hosts: Mapping[str, Wish], words: Words, groups: Groups, sources: Sources
) -> dict[str, dict[str, str]]:
    """Host -> {component with `_state: absent`: owner}; a template is not evaluated."""
    suffix = "_state"
    names = [name for name in words.options if name.endswith(suffix) and groups.says(name)]
    absent: dict[str, dict[str, str]] = {}
    for host in hosts if names else ():
        for name in names:
            state, owner = groups.said(name, host, sources)
            if state == "absent":
                absent.setdefault(host, {})[name.removesuffix(suffix)] = owner
    return absent


def _judge(judge: Judge, hosts: Mapping[str, Wish], groups: Groups, sources: Sources) -> None:
    """InputError for the first host in whose variables a judge finds a fault."""
    names = [name for name in judge.names if groups.says(name)]
    if judge.names[0] not in names:
        return
    done = set()
    for host, wish in hosts.items():
        owned = {name: groups.said(name, host, sources) for name in names}
        values = {name: value for name, (value, _) in owned.items() if value is not None}
        # The hosts of a group share the objects of its values, which are judged once.
        key = (id(wish), *(id(value) for value, _ in owned.values()))
        if judge.names[0] not in values or key in done:
            continue
        done.add(key)
        fault = judge.fault(values, wish, sources.written)
        if fault is not None:
            owner = owned[fault.word][1] if fault.word in owned else host
            raise InputError(
                fault.message,
                where=sources.where(fault.word, near=owner) or owner or host,
                got=fault.got,
                expected=fault.expected,
                hint=fault.hint,
            )


def _placed_wish(value: Any, owner: str, sources: Sources) -> Wish:
    """`parse_wish`; the files are searched for the place only of a fault."""
    try:
        return parse_wish(value, where=owner)
    except InputError:
        return parse_wish(value, where=sources.where(WISH, near=owner) or owner)
