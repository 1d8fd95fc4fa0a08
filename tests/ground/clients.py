"""Configures a bare host and a project as clients of the ground's servers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tests.ground.site import Site

# On the host.
CA = "/etc/ssl/lab-ca.pem"
KEY = "/usr/share/keyrings/lab-ubuntu.asc"
SUITES = ("focal", "focal-updates", "focal-security")
SYSTEM_CA = Path("/etc/ssl/certs/ca-certificates.crt")


def host(
    site: Site, archive: Mapping[str, object], trusts: str = "Acquire::https::CAInfo"
) -> dict[str, str]:
    """Files by their path on a host: Canonical's archive and the lab's CA, no more.

    `trusts`: the setting of apt's that names the CA.
    """
    lines = "".join(
        f"deb [signed-by={KEY}] {archive['url']} {suite} main restricted universe multiverse\n"
        for suite in SUITES
    )
    return {
        CA: site.ca.read_text("utf-8"),
        KEY: str(archive["key"]),
        "/etc/apt/sources.list.d/lab-ubuntu.list": lines,
        "/etc/apt/apt.conf.d/50lab-ca": f'{trusts} "{CA}";\n',
    }


def environment(site: Site, folder: Path) -> dict[str, str]:
    """Environment of `provision` on this machine: the ground's CA, downloads in `folder`.

    The servers' port changes with each run, so the user's own cache would fill with gigabytes that
    no later run finds.
    """
    bundle = folder / "trusted.pem"
    bundle.write_text(SYSTEM_CA.read_text("utf-8") + site.ca.read_text("utf-8"), "utf-8")
    return {
        "UV_CACHE_DIR": str(Path("~/.cache/uv").expanduser()),
        **os.environ,
        "SSL_CERT_FILE": str(bundle),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }


def lock(site: Site, archive: Mapping[str, object], project: Path, *, local: bool) -> list[str]:
    """The arguments of `provision lock`, whose keys are written into the project.

    local: of the local installer, which is signed with NVIDIA's old key.
    """
    nvidia = site.old_key if local else site.key
    (project / "nvidia.asc").write_text(nvidia.armored, "ascii")
    (project / "ubuntu.asc").write_text(str(archive["key"]), "ascii")
    return [
        *("lock", "--nvidia-mirror", site.url, "--nvidia-key", "nvidia.asc"),
        *("--archive-mirror", f"ubuntu2004={archive['url']},{','.join(SUITES[1:])}"),
        *("--archive-key", "ubuntu.asc"),
    ]
