"""Each component's need to the byte, alone on its disk, and all of them on one."""

from __future__ import annotations

from collections.abc import Iterator

from rule_states import GIB, PRE, State, recorded

ALONE: dict[str, list[tuple[str, dict[str, int]]]] = {
    "nvidia_driver": [("", {"/usr": GIB // 2, "/var/cache/apt": GIB // 4,
                            "/var/lib/dkms": GIB // 4})],
    "cuda": [("", {"/usr": 7 * GIB // 2, "/var/cache/apt": 5 * GIB // 4}),
             ("runtime", {"/usr": 5 * GIB // 4, "/var/cache/apt": GIB // 2})],
    "cudnn": [("", {"/opt/nvidia/cudnn": 4 * GIB})],
    "tensorflow": [("", {"/opt/tensorflow": 5 * GIB // 2})],
}  # fmt: skip


def states() -> Iterator[State]:
    places = list(recorded()["found"]["preflight"]["disk"])
    for component, kinds in ALONE.items():
        for profile, needs in kinds:
            options = {"options": {"cuda_profile": profile}} if profile else {}
            for place, need in needs.items():
                for free, trips in ((need - 1, True), (need, False)):
                    room = {
                        one: {"free": free if one == place else 1 << 60, "device": number}
                        for number, one in enumerate(places)
                    }
                    where = f"{component} {profile}".strip()
                    yield State(
                        "disk",
                        f"{where} in {place}: {'a byte too little' if trips else 'just enough'}",
                        {PRE + "disk": room, **options},
                        ("the disk is too full", f"{need / 1e9:.1f} GB are needed",
                         f"({component} in {place})", "free some space") if trips else (),
                        only=(component,),
                    )  # fmt: skip
            total = sum(needs.values())
            for free, trips in ((total - 1, True), (total, False)):
                room = {place: {"free": free, "device": 7} for place in places}
                yield State(
                    "disk",
                    f"{component} {profile} on one disk: {'a byte too little' if trips else 'ok'}",
                    {PRE + "disk": room, **options},
                    (f"{total / 1e9:.1f} GB are needed",
                     *(f"{component} in {need}" for need in needs)) if trips else (),
                    only=(component,),
                )  # fmt: skip
    everything = sum(sum(kinds[0][1].values()) for kinds in ALONE.values())
    for free, trips in ((everything - 1, True), (everything, False)):
        room = {place: {"free": free, "device": 7} for place in places}
        yield State(
            "disk",
            f"all on one disk: {'a byte too little' if trips else 'just enough'}",
            {PRE + "disk": room},
            (f"{everything / 1e9:.1f} GB are needed", "cuda in /usr, cuda in /var/cache/apt",
             "tensorflow in /opt/tensorflow") if trips else (),
        )  # fmt: skip
    nothing = {place: {"free": 0, "device": 7} for place in places}
    yield State(
        "disk",
        "what is there already needs no room",
        {PRE + "disk": nothing, "found/state/cudnn/version": "8.1.0"},
        only=("cudnn",),
    )
    moved = {PRE + "disk": nothing | {"/data/tf": {"free": 5 * GIB // 2, "device": 8}}}
    yield State(
        "disk",
        "a root that was moved to a disk with room",
        {**moved, "options": {"tensorflow_root": "/data/tf"}},
        only=("tensorflow",),
    )
