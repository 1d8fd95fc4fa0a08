"""NVIDIA's container toolkit: its packages, docker's runtime and podman's CDI devices."""

from __future__ import annotations

import json

from .. import diagnose
from ..cures import CURES, PACKAGES, Cure
from .answers import numbers
from .check import AGAIN, Seen, Verdict, check, failed, not_applicable, passed
from .packages import judge_packages

CURES.update(
    {
        "nvidia_container_toolkit.packages": Cure(("nvidia_container_toolkit",), PACKAGES),
        "nvidia_container_toolkit.docker": Cure(
            ("nvidia_container_toolkit",),
            "`journalctl -u docker` says why; restart docker to reload its configuration",
        ),
        "nvidia_container_toolkit.cdi": Cure(
            ("nvidia_container_toolkit", "nvidia_driver"),
            "`sudo nvidia-ctk cdi generate` shows what it does not find",
        ),
    }
)


def containers(seen: Seen) -> bool:
    """Does the stack have NVIDIA's container toolkit?"""
    return bool(seen.row.get("nvidia_container_toolkit"))


@check(
    "nvidia_container_toolkit.packages",
    "The container toolkit's packages are the locked version, and held",
    containers,
)
def toolkit_packages(seen: Seen) -> Verdict:
    packages = seen.row["nvidia_container_toolkit"]["packages"]["toolkit"]
    verdict = judge_packages(seen, packages)
    if verdict.result != "passed" or not seen.options.get("nvidia_container_toolkit_hold", True):
        return verdict
    # dpkg's first letter is the selection: h is hold.
    loose = [name for name in packages if seen.probe["packages"][name]["status"][0] != "h"]
    if loose:
        return failed(f"not held: {', '.join(loose)}: an upgrade could move them", AGAIN)
    return verdict


@check("nvidia_container_toolkit.docker", "docker info lists NVIDIA's runtime", containers)
def docker_knows_the_runtime(seen: Seen) -> Verdict:
    wish, docker = seen.options.get("nvidia_container_toolkit_docker"), seen.probe["docker"]
    if wish == "none":
        return not_applicable("nvidia_container_toolkit_docker is none")
    if not docker["installed"]:
        if wish == "required":
            return failed("docker is not installed", "install docker.io or docker-ce")
        return not_applicable("docker is not installed")
    if not docker["running"]:
        return not_applicable("docker does not run")
    if not docker["allowed"]:
        return not_applicable(f"the user {seen.probe.get('user')} may not ask docker")
    names = runtimes(docker["runtimes"]["stdout"])
    if "nvidia" in names:
        return passed(f"runtimes {', '.join(names)}")
    if names:
        return failed(
            f"docker knows the runtimes {', '.join(names)} alone",
            f"{AGAIN}; where containers run it has to be allowed to restart docker",
        )
    message = diagnose.last_line(docker["runtimes"]["stderr"] or docker["runtimes"]["stdout"])
    return failed(f"docker does not answer: {message}", "`journalctl -u docker` says why")


# (podman from this release on, the newest CDI version that it reads).
PODMAN_READS = (((5, 1), (0, 7, 0)), ((4, 1), (0, 5, 0)))
GPUS = "nvidia.com/gpu=all"


@check("nvidia_container_toolkit.cdi", "podman finds the GPUs through CDI", containers)
def podman_finds_the_gpus(seen: Seen) -> Verdict:
    wish, answer = seen.options.get("nvidia_container_toolkit_cdi"), seen.probe["cdi"]
    if wish == "none":
        return not_applicable("nvidia_container_toolkit_cdi is none")
    podman = answer["podman"]["stdout"].strip() if answer["podman"]["rc"] == 0 else None
    if podman is None and wish != "required":
        return not_applicable("podman is not installed")
    newest = None
    if podman is not None and numbers(podman):
        newest = next((cdi for since, cdi in PODMAN_READS if numbers(podman) >= since), ())
    if newest == ():
        reason = f"{podman} reads no CDI specification, 4.1 is the first that does"
        if wish == "required":
            return failed(reason, "install a newer podman")
        return not_applicable(reason)
    if GPUS not in answer["devices"]["stdout"].split():
        message = diagnose.last_line(answer["devices"]["stderr"] or answer["devices"]["stdout"])
        return failed(f"no CDI specification names {GPUS}: {message}", AGAIN)
    path, version = answer["path"], answer["version"]
    if newest and version and numbers(version) > newest:
        reads = ".".join(map(str, newest))
        return failed(f"{path} is of CDI {version}, and {podman} reads {reads} at most", AGAIN)
    if answer["missing"]:
        count = len(answer["missing"])
        return failed(
            f"{path} names {count} files that are not there, such as {answer['missing'][0]}", AGAIN
        )
    return passed(f"{GPUS} in {path}, {podman or 'for whoever reads CDI'}")


def runtimes(output: str) -> list[str]:
    """The names in docker's JSON of its runtimes; empty for any other text."""
    try:
        data = json.loads(output)
    except ValueError:
        return []
    return sorted(data) if isinstance(data, dict) else []
