"""What changed on a host between two evidences, in plain lines.

Times are not changes. Neither are checks that can't be asked or compared on one of the dates: an
idle card's link is only measured, and a working one's is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from provision import acceptance
from provision.errors import InputError
from provision.evidence.document import Evidence
from provision.evidence.words import short, version

# {key of a GPU: what a person calls it}; its place is told apart from what it is.
PLACE = {"index": "index", "slot": "slot", "pci": "at"}
WHAT = {"name": "model", "serial": "serial", "vbios": "VBIOS", "part": "part number"}

Gpu = Mapping[str, Any]


def compare(old: Evidence, new: Evidence) -> list[str]:
    """One line for each difference; InputError for evidences of two hosts."""
    if old["host"] != new["host"]:
        raise InputError("these are evidences of two hosts", got=f"{old['host']} and {new['host']}")
    before, after = old["acceptance"]["verdict"], new["acceptance"]["verdict"]
    return [
        *_changed("lock", short(old), short(new)),
        *_changed("stack", old["lock"]["stack"], new["lock"]["stack"]),
        *_mappings(old["platform"], new["platform"], "platform "),
        *_mappings(_versions(old), _versions(new), ""),
        *_changed("GPUs simulated", _yes(old["simulated"]), _yes(new["simulated"])),
        *_changed("run", old["run"]["status"], new["run"]["status"]),
        *_run_checks(old["run"]["failed"], new["run"]["failed"]),
        *_changed("verdict", _verdict(before), _verdict(after)),
        *_checks("host", before["checks"], after["checks"]),
        *_gpus(before["gpus"], after["gpus"]),
    ]


def _versions(evidence: Evidence) -> dict[str, str]:
    return {name: version(versions) for name, versions in evidence["versions"].items()}


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _verdict(judged: Mapping[str, Any]) -> str:
    """ "degraded (next: reseat)"."""
    return f"{judged['verdict']} (next: {judged['action']})"


def _changed(subject: str, old: Any, new: Any) -> Iterator[str]:
    if old != new:
        yield f"{subject}: {_text(old)} -> {_text(new)}"


def _text(value: Any) -> str:
    return "unknown" if value is None else str(value)


def _mappings(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for name in sorted(old.keys() | new.keys()):
        gone, added = name not in new, name not in old
        yield from _changed(
            f"{prefix}{name}",
            "none" if added else old[name],
            "none" if gone else new[name],
        )


def _run_checks(
    old: Sequence[Mapping[str, str]], new: Sequence[Mapping[str, str]]
) -> Iterator[str]:
    before, after = ({check["id"]: check["title"] for check in checks} for checks in (old, new))
    yield from (f"check {name} fails: {after[name]}" for name in after if name not in before)
    yield from (f"check {name} fails no more" for name in before if name not in after)


def _checks(
    subject: str, old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """The checks that are red on one of the dates, and differ."""
    before, after = ({check["check"]: check for check in checks} for checks in (old, new))
    for name in [*before, *(name for name in after if name not in before)]:
        was, now = _found(before.get(name)), _found(after.get(name))
        if was != now and (acceptance.is_red(was[0]) or acceptance.is_red(now[0])):
            change = f"{was[0]} -> {now[0]}" if was[0] != now[0] else f"still {now[0]}"
            yield f"{subject}: {name}: {change}" + (f": {now[1]}" if now[1] else "")


def _found(check: Mapping[str, Any] | None) -> tuple[str, str]:
    return (check["state"], check["reason"]) if check else ("not asked", "")


def _gpus(old: Sequence[Gpu], new: Sequence[Gpu]) -> Iterator[str]:
    pairs, gone, added = _paired(old, new)
    for was, now in pairs:
        yield from _gpu(was, now)
    for card in list(gone):
        heir = next((gpu for gpu in added if gpu["pci"] and gpu["pci"] == card["pci"]), None)
        if heir is not None:
            gone.remove(card)
            added.remove(heir)
            yield f"swapped at {card['pci']}: {acceptance.title(card)} -> {acceptance.title(heir)}"
            yield from (f"{acceptance.title(heir)}: {text}" for text in _ill(heir))
    yield from (f"gone: {acceptance.title(card)}" for card in gone)
    for card in added:
        yield f"new: {acceptance.title(card)}: {_verdict(card)}"
        yield from (f"{acceptance.title(card)}: {text}" for text in _ill(card))


def _paired(
    old: Sequence[Gpu], new: Sequence[Gpu]
) -> tuple[list[tuple[Gpu, Gpu]], list[Gpu], list[Gpu]]:
    """(the same card on both dates, the rest of the old ones, the rest of the new ones).

    By UUID; a card that is lost or does not say it on one of the dates, by its serial or address.
    """
    gone, added, pairs = list(old), list(new), []
    for key in ("uuid", "serial", "pci"):
        for card in list(gone):
            now = next(
                (gpu for gpu in added if card[key] and card[key] == gpu[key]
                 and (key == "uuid" or not (card["uuid"] and gpu["uuid"]))),
                None,
            )  # fmt: skip
            if now is not None:
                gone.remove(card)
                added.remove(now)
                pairs.append((card, now))
    return sorted(pairs, key=lambda pair: int(pair[1]["index"])), gone, added


def _gpu(old: Gpu, new: Gpu) -> Iterator[str]:
    title = acceptance.title(new if new["uuid"] else old)
    # A card that does not answer says none of this any more; its check tells why.
    yield from _changed(f"{title}: moved", _place(old, new), _place(new, old))
    for key, word in WHAT.items():
        if old[key] is not None and new[key] is not None:
            yield from _changed(f"{title}: {word}", old[key], new[key])
    yield from _changed(f"{title}: verdict", _verdict(old), _verdict(new))
    yield from _checks(title, old["checks"], new["checks"])


def _place(card: Gpu, counterpart: Gpu) -> str:
    """Where a card is, by what is known on both dates: "index 1, slot 2, at 0000:18:00.0"."""
    keys = [key for key in PLACE if card[key] is not None and counterpart[key] is not None]
    return ", ".join(f"{PLACE[key]} {card[key]}" for key in keys)


def _ill(card: Gpu) -> Iterator[str]:
    for check in card["checks"]:
        if acceptance.is_red(check["state"]):
            yield f"{check['check']}: {check['state']}: {check['reason']}"
