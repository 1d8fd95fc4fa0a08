"""The platform and GPUs that the inventory declares: `gpu_platform` and `gpu_models`, checked."""

from __future__ import annotations

import json
from typing import Any

from provision import catalog
from provision.catalog import gpus as known_gpus
from provision.errors import InputError
from provision.inventory.groups import Groups
from provision.inventory.literals import is_template, no_template, refuse_vaulted
from provision.inventory.sources import Sources
from provision.inventory.spelling import did_you_mean
from provision.inventory.words import MODELS, PLATFORM
from provision.models import HostFacts


class Declared:
    """The declared facts of hosts; checked once for hosts that have them from the same place."""

    def __init__(self, groups: Groups, sources: Sources) -> None:
        self._groups = groups
        self._sources = sources
        self._words = [word for word in (PLATFORM, MODELS) if groups.says(word)]
        self._facts: dict[tuple[Any, ...], HostFacts | None] = {}

    def of(self, host: str) -> HostFacts | None:
        """The facts of a host; None where nothing is declared."""
        if not self._words:
            return None
        platform, platform_owner = self._groups.said(PLATFORM, host, self._sources)
        models, models_owner = self._groups.said(MODELS, host, self._sources)
        key = (id(platform), platform_owner, id(models), models_owner)
        if key not in self._facts:
            platform_id = self._placed(PLATFORM, platform, platform_owner)
            gpus = self._placed(MODELS, models, models_owner)
            facts = None
            if platform_id or gpus:
                facts = HostFacts(
                    platform=platform_id or None,
                    gpus=gpus or (),
                    models=gpus or (),
                    platform_from=platform_owner if platform_id else "",
                    gpus_from=models_owner if gpus else "",
                )
            self._facts[key] = facts
        return self._facts[key]

    def _placed(self, word: str, value: Any, owner: str) -> Any:
        """The checked value; the files are searched for the place only of a fault."""
        check = _platform if word == PLATFORM else _models
        try:
            return check(value, owner)
        except InputError:
            return check(value, self._sources.where(word, near=owner) or owner)


def _platform(value: Any, where: str) -> str:
    """The id of a platform of the catalog; "" and null undo a group's value."""
    if value is None or value == "":
        return ""
    refuse_vaulted(value, PLATFORM, where)
    if is_template(value):
        raise no_template(where, PLATFORM, "debian12")
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
    """Names or PCI ids of GPUs that the catalog has; an empty list undoes a group's value."""
    if value is None or value == []:
        return ()
    refuse_vaulted(value, MODELS, where)
    if is_template(value):
        raise no_template(where, MODELS, '["Tesla T4"]')
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
