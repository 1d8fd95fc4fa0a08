"""A fleet whose hosts fetch through a cache of their own: its inventory, and what that fetched.

The hosts are bare ones of a lab without the lab's own cache, so that whatever comes from outside
comes through the fleet's.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from provision import locallab
from provision.locallab import cudnn_archive
from provision.locallab.machine import cache_directory

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import demo  # the same wish as `make demo`

CACHE = "cache1"
PORT = 8088
LOG = "/var/log/gpu-artifact-cache/access.log"


def write_inventory(project: Path, lab: locallab.Lab) -> None:
    """The demo's inventory; the host of the name CACHE is the others' cache."""
    project.mkdir(parents=True, exist_ok=True)
    demo.write_inventory(project, lab, cudnn_archive.pack(cache_directory()))
    listed = project / "lab" / "hosts.yml"
    (group,) = yaml.safe_load(listed.read_text("utf-8")).values()
    (address,) = [host.address for host in lab.hosts if host.name == CACHE]
    cache = {
        "hosts": {CACHE: group["hosts"].pop(CACHE)},
        "vars": {**group["vars"], "artifact_cache_size_gb": 10},
    }
    served = {**group["vars"], "gpu_cache": f"http://{address}:{PORT}"}
    text = yaml.safe_dump({"gpu_cache": cache, "gpu_hosts": {**group, "vars": served}})
    listed.write_text(text, "utf-8")


def outside(lab: locallab.Lab) -> int:
    """Bytes that the cache has had from outside: a number in each line of its log."""
    (cache,) = [host for host in lab.hosts if host.name == CACHE]
    count = f"awk '{{ sum += $9 }} END {{ printf \"%d\", sum }}' {LOG}"
    return int(lab.podman.call("exec", cache.container, "sh", "-c", count).strip())
