"""What the front door's role installs on hosts, by its hash: the look compares with these."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from provision.collection import IN_TREE

COMPONENT = "plugins/module_utils/gpu_stack/components/gpu_front_door/"
PATH = COMPONENT + "shipped.py"
LIBRARY = "/usr/local/lib/gpu-front-door/renewal/"
# {path in the collection: (path on the host, its mode)}; the library's modules are found.
OTHERS = {
    "roles/gpu_front_door/files/gpu-front-door": ("/usr/local/sbin/gpu-front-door", 0o755),
    **{
        f"roles/gpu_front_door/files/{unit}": (f"/etc/systemd/system/{unit}", 0o644)
        for unit in ("gpu-front-door.service", "gpu-front-door.timer")
    },
}
HEADER = '''\
# Rendered from the files themselves by `provision roles sync`; edit those.
"""What the role gpu_front_door installs: {path: (mode, SHA-256)}."""

FILES = {
'''


def places(shipped: Mapping[str, bytes]) -> dict[str, tuple[str, int]]:
    """Path in the collection -> (path on the host, mode), of `provision.collection.read`."""
    start = IN_TREE + COMPONENT + "renewal/"
    modules = [path for path in shipped if path.startswith(start) and path.endswith(".py")]
    return OTHERS | {
        path.removeprefix(IN_TREE): (LIBRARY + path.removeprefix(start), 0o644) for path in modules
    }


def render(shipped: Mapping[str, bytes]) -> dict[str, bytes]:
    """Path in the collection -> the module that the look reads."""
    rows = []
    for path, (place, mode) in sorted(places(shipped).items(), key=lambda item: item[1]):
        sha256 = hashlib.sha256(shipped[IN_TREE + path]).hexdigest()
        rows.append(f'    "{place}": (\n        0o{mode:o},\n        "{sha256}",\n    ),\n')
    return {PATH: (HEADER + "".join(rows) + "}\n").encode()}
