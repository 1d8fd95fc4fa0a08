"""NVIDIA's container toolkit: its packages, docker and podman know the GPUs."""

from __future__ import annotations

import json

from .. import diagnose
from .answers import numbers
from .check import AGAIN, Seen, Verdict, check, failed, not_applicable, passed
from .packages import judge_packages


def containers(seen: Seen) -> bool:
    """Has the stack NVIDIA's container toolkit?"""
    return bool(seen.row.get("nvidia_container_toolkit"))


@check(
    "nvidia_container_toolkit.packages",
    "The container toolkit's packages are the locked version, and held",
    containers,
)
def toolkit_packages(seen: Seen) -> Verdict:
    wanted = seen.row["nvidia_container_toolkit"]["packages"]["toolkit"]
    verdict = judge_packages(seen, wanted)
    if verdict.result != "passed" or not seen.options.get("nvidia_container_toolkit_hold", True):
        return verdict
    # dpkg's first letter is what is wanted of a package: h, that it stays as it is.
    loose = [name for name in wanted if seen.probe["packages"][name]["status"][0] != "h"]
    if loose:
        return failed(f"not held: {', '.join(loose)}: an upgrade could move them", AGAIN)
    return verdict


@check("nvidia_container_toolkit.docker", "docker info knows NVIDIA's runtime", containers)
def docker_knows_the_runtime(seen: Seen) -> Verdict:
    wish, docker = seen.options.get("nvidia_container_toolkit_docker"), seen.probe["docker"]
    if wish == "none":
        return not_applicable("docker was wished to be left alone")
    if not docker["installed"]:
        if wish == "required":
            return failed("docker is not installed", "install docker.io or docker-ce")
        return not_applicable("docker is not installed")
    if not docker["running"]:
        return not_applicable("docker does not run")
    if not docker["allowed"]:
        return not_applicable(f"the user {seen.probe.get('user')} may not ask docker")
    known = runtimes(docker["runtimes"]["stdout"])
    if "nvidia" in known:
        return passed(f"runtimes {', '.join(known)}")
    if known:
        return failed(
            f"docker knows the runtimes {', '.join(known)} alone",
            f"{AGAIN}; where containers run it has to be allowed to restart docker",
        )
    said = diagnose.last_line(docker["runtimes"]["stderr"] or docker["runtimes"]["stdout"])
    return failed(f"docker does not answer: {said}", "`journalctl -u docker` says why")


# The newest CDI that podman reads, from its release on.
PODMAN_READS = (((5, 1), (0, 7, 0)), ((4, 1), (0, 5, 0)))
GPUS = "nvidia.com/gpu=all"


@check("nvidia_container_toolkit.cdi", "podman finds the GPUs by CDI", containers)
def podman_finds_the_gpus(seen: Seen) -> Verdict:
    wish, found = seen.options.get("nvidia_container_toolkit_cdi"), seen.probe["cdi"]
    if wish == "none":
        return not_applicable("the CDI specification was wished to be left alone")
    told = found["podman"]["stdout"].strip() if found["podman"]["rc"] == 0 else None
    if told is None and wish != "required":
        return not_applicable("podman is not installed")
    newest = None
    if told is not None and numbers(told):
        newest = next((cdi for since, cdi in PODMAN_READS if numbers(told) >= since), ())
    if newest == ():
        reason = f"{told} reads no CDI specification, 4.1 is the first that does"
        if wish == "required":
            return failed(reason, "install a newer podman")
        return not_applicable(reason)
    if GPUS not in found["devices"]["stdout"].split():
        said = diagnose.last_line(found["devices"]["stderr"] or found["devices"]["stdout"])
        return failed(f"no CDI specification names {GPUS}: {said}", AGAIN)
    path, version = found["path"], found["version"]
    if newest and version and numbers(version) > newest:
        reads = ".".join(map(str, newest))
        return failed(f"{path} is of CDI {version}, and {told} reads {reads} at most", AGAIN)
    if found["missing"]:
        count = len(found["missing"])
        return failed(
            f"{path} names {count} files that are not there, such as {found['missing'][0]}", AGAIN
        )
    return passed(f"{GPUS} in {path}, {told or 'for whoever reads CDI'}")


def runtimes(output: str) -> list[str]:
    """The names in docker's JSON of its runtimes; none of anything else."""
    try:
        found = json.loads(output)
    except ValueError:
        return []
    return sorted(found) if isinstance(found, dict) else []
