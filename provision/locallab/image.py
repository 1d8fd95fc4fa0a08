"""The image a lab host starts from: a freshly installed Debian.

Built with mmdebstrap from the archive, without an image registry. It holds what a fresh server has
(systemd, sshd, sudo, Python) and nothing of NVIDIA: contrib and non-free stay off, because enabling
them is a role's work.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from provision.errors import InputError, MachineError
from provision.locallab import identity
from provision.locallab.machine import Podman, Progress, ended, locked

# In seconds: after a week a fresh host would start with too many pending updates.
MAXIMUM_AGE = 7 * 24 * 3600
REPOSITORY = "localhost/provision-lab"
# Bootstrapping takes one minute; an archive that drips must not hold a lab for ever.
BUILD_TIMEOUT = 1800
CA_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
)
PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "openssh-server",
    "sudo",
    "python3",
    "ca-certificates",
    "iproute2",
    "procps",
    "kmod",
    "cron",
)
SSHD = """\
PermitRootLogin no
PasswordAuthentication no
ChallengeResponseAuthentication no
UseDNS no
"""
# By default pip uses its own certificates, without those that this machine trusts. All hosts share
# its cache, which is safe: it writes each file atomically.
PIP = """\
[global]
cert = /etc/ssl/certs/ca-certificates.crt
cache-dir = /var/cache/lab/pip
disable-pip-version-check = true
"""


@dataclass(frozen=True)
class Platform:
    """A Debian release for lab hosts, perhaps with the identity of another distribution.

    `over` names the platform whose image gets the `identity` as a thin layer.
    """

    suite: str
    sources: tuple[str, ...]
    driver_version: str
    init: tuple[str, ...] = ("/sbin/init",)
    over: str = ""
    identity: identity.Identity | None = None


def _debian(suite: str, driver_version: str, *arguments: str) -> Platform:
    return Platform(
        suite,
        (
            f"deb http://deb.debian.org/debian {suite} main",
            f"deb http://deb.debian.org/debian {suite}-updates main",
            f"deb http://security.debian.org/debian-security {suite}-security main",
        ),
        driver_version,
        ("/sbin/init", *arguments),
    )


# Simulated GPUs report the newest driver in the catalog for the platform, which is what a lock has
# by default.
PLATFORMS = {
    "debian11": _debian("bullseye", "470.256.02"),
    "debian12": _debian("bookworm", "535.309.01"),
    # systemd from 256 on starts on cgroups v1 only with this argument; in a container it is init's.
    "debian13": _debian("trixie", "550.163.01", "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"),
}
# Not every machine can reach Ubuntu's archive: Ubuntu's name, Debian's userland.
PLATFORMS["ubuntu2004"] = replace(
    PLATFORMS["debian11"],
    driver_version="470.256.02",
    over="debian11",
    identity=identity.FOCAL,
)


def platform(name: str) -> Platform:
    """The row of a platform. Raises InputError with the list of all platforms."""
    if name not in PLATFORMS:
        raise InputError(
            "no such platform for lab hosts", got=name, expected=", ".join(sorted(PLATFORMS))
        )
    return PLATFORMS[name]


def certificates(text: str) -> list[str]:
    """The PEM certificates of a bundle, in order."""
    return re.findall(
        r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", text, flags=re.DOTALL
    )


def trusted() -> str:
    """This machine's CA bundle, which lab hosts get too (for proxies); "" without one."""
    for place in CA_BUNDLES:
        try:
            return Path(place).read_text("utf-8", "replace")
        except OSError:
            continue
    return ""


# Runs on this machine at image build; "$1" is the new root.
CUSTOMIZE = r"""
set -eu
root=$1
chroot "$root" useradd --create-home --shell /bin/bash --password '*' lab
printf 'lab ALL=(ALL) NOPASSWD: ALL\n' > "$root/etc/sudoers.d/lab"
chmod 0440 "$root/etc/sudoers.d/lab"
chroot "$root" update-ca-certificates >/dev/null
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/hostname" "$root/var/lib/dbus/machine-id"
: > "$root/etc/machine-id"
# A container has no console, no clock and no udev of its own to wait for.
for unit in getty@tty1 systemd-udevd systemd-timesyncd apt-daily.timer apt-daily-upgrade.timer; do
  chroot "$root" systemctl mask "$unit" >/dev/null 2>&1 || true
done
"""


def recipe(name: str, bundle: str) -> str:
    """Everything that the image depends on, as text: its hash names the image."""
    row = platform(name)
    return json.dumps(
        {
            "platform": name,
            "suite": row.suite,
            "sources": row.sources,
            "packages": PACKAGES,
            "customize": CUSTOMIZE,
            "sshd": SSHD,
            "pip": PIP,
            "ca": hashlib.sha256(bundle.encode()).hexdigest(),
        },
        sort_keys=True,
    )


def tag(name: str, bundle: str) -> str:
    """The image's name, with the hash of its recipe."""
    digest = hashlib.sha256(recipe(name, bundle).encode()).hexdigest()[:12]
    return f"{REPOSITORY}:{name}-{digest}"


def ensure(podman: Podman, name: str, cache: Path, progress: Progress) -> str:
    """The image's id; builds it when it is missing, of another recipe or too old.

    The tarball is kept in `cache`, so that a machine with emptied podman storage starts fast.
    """
    row = platform(name)
    if row.identity:
        base = ensure(podman, row.over, cache, progress)
        files = row.identity.files(f"Debian ({row.suite})")
        return _with_identity(podman, name, base, files, cache, progress)
    bundle = trusted()
    image = tag(name, bundle)
    tarball = cache / (image.rsplit(":", 1)[1] + ".tar")
    with locked(cache / f"{name}.lock"):
        inspected = podman.run(
            "image", "inspect", "--format", '{{.Id}} {{index .Labels "provision.built"}}', image
        )
        if inspected.returncode == 0:
            identity, built = inspected.stdout.decode().split()
            if time.time() - int(built) < MAXIMUM_AGE:
                return identity
        if not tarball.exists() or time.time() - tarball.stat().st_mtime > MAXIMUM_AGE:
            progress(f"Building a {name} image (half a minute, then kept for a week)")
            for old in cache.glob(f"{name}-*.tar"):
                old.unlink()
            build(podman, name, bundle, tarball)
        else:
            progress(f"Importing the {name} image")
        # The image's age is that of its packages, perhaps days older than this import.
        label = f"LABEL provision.built={int(tarball.stat().st_mtime)}"
        imported = podman.call("import", "--quiet", "--change", label, str(tarball), image)
        _remove_old(podman, name)
        return imported.strip().splitlines()[-1]


def _with_identity(
    podman: Podman,
    name: str,
    base: str,
    files: Mapping[str, tuple[str, int]],
    cache: Path,
    progress: Progress,
) -> str:
    """The id of `base` with an identity's files over it, a layer of a few kB, built if missing."""
    digest = hashlib.sha256(repr((base, identity.script(), files)).encode()).hexdigest()[:12]
    image = f"{REPOSITORY}:{name}-{digest}"
    with locked(cache / f"{name}.lock"):
        if podman.run("image", "exists", image).returncode:
            progress(f"Making the {name} image")
            steps = [identity.script()]
            for path, (text, mode) in files.items():
                place = shlex.quote(path)
                steps.append(f"printf %s {shlex.quote(text)} > {place} && chmod {mode:o} {place}")
            container = podman.call("create", base, "/bin/sh", "-c", " && ".join(steps)).strip()
            try:
                podman.call("start", "--attach", container)
                podman.call("commit", "--quiet", container, image)
            finally:
                podman.run("rm", "--force", "--time=0", container)
            _remove_old(podman, name)
        return podman.call("image", "inspect", "--format", "{{.Id}}", image).strip()


def _remove_old(podman: Podman, name: str) -> None:
    """Remove this platform's images that are too old; podman keeps those in use."""
    listed = podman.call(
        "images", "--filter=label=provision.built",
        "--format={{.ID}} {{.Repository}}:{{.Tag}}", "--noheading",
    )  # fmt: skip
    for line in listed.splitlines():
        identity, reference = line.split(maxsplit=1)
        if reference.startswith(f"{REPOSITORY}") and f":{name}-" not in reference:
            continue  # another platform's
        inspected = podman.run(
            "image", "inspect", "--format", '{{index .Labels "provision.built"}}', identity
        )
        built = inspected.stdout.decode().strip()
        if built.isdigit() and time.time() - int(built) > MAXIMUM_AGE:
            podman.run("rmi", identity)


@dataclass(frozen=True)
class Target:
    """What mmdebstrap makes: `path` in its `format` (tar, directory), with these packages.

    `customize` is a shell script that gets the new root as "$1"; `before` and `after` are further
    hooks of mmdebstrap around it.
    """

    path: Path
    format: str = "tar"
    packages: tuple[str, ...] = PACKAGES
    customize: str = CUSTOMIZE
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def build(podman: Podman, name: str, bundle: str, tarball: Path) -> None:
    """Bootstrap a root file system with mmdebstrap into `tarball`, atomically."""
    work = tarball.with_suffix(f".{os.getpid()}.work")
    unfinished = tarball.with_suffix(f".{os.getpid()}.part.tar")
    work.mkdir()
    try:
        bootstrap(podman, name, bundle, work, Target(unfinished))
        os.replace(unfinished, tarball)
    finally:
        unfinished.unlink(missing_ok=True)
        shutil.rmtree(work)


def bootstrap(podman: Podman, name: str, bundle: str, work: Path, target: Target) -> None:
    """Run mmdebstrap for a platform; `work` holds the files that it copies into the new root.

    Raises MachineError with mmdebstrap's last words.
    """
    row = platform(name)
    (work / "sshd.conf").write_text(SSHD, "ascii")
    (work / "pip.conf").write_text(PIP, "ascii")
    (work / "customize").write_text("#!/bin/sh\n" + target.customize, "ascii")
    (work / "customize").chmod(0o755)
    extra = work / "ca"
    extra.mkdir()
    for number, certificate in enumerate(certificates(bundle)):
        (extra / f"machine-{number:03}.crt").write_text(certificate + "\n", "utf-8")
    argv = [
        *podman.prefix,
        "mmdebstrap",
        "--quiet",
        "--variant=minbase",
        f"--format={target.format}",
        "--architectures=amd64",
        "--include=" + ",".join(target.packages),
        '--aptopt=Acquire::Retries "3"',
        '--customize-hook=mkdir -p "$1/usr/local/share/ca-certificates"'
        ' && rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap"',
        f"--customize-hook=copy-in {extra} /usr/local/share/ca-certificates",
        f"--customize-hook=upload {work / 'sshd.conf'} /etc/ssh/sshd_config.d/10-lab.conf",
        f"--customize-hook=upload {work / 'pip.conf'} /etc/pip.conf",
        *target.before,
        f'--customize-hook={work / "customize"} "$1"',
        *target.after,
        row.suite,
        str(target.path),
        *row.sources,
    ]
    done = ended(argv, timeout=BUILD_TIMEOUT, hint="sudo apt-get install mmdebstrap")
    if done.returncode:
        raise MachineError(
            f"mmdebstrap could not build the {name} image",
            got=done.stderr.decode("utf-8", "replace").strip()[-2000:],
            hint="it needs http://deb.debian.org and http://security.debian.org, and a "
            f"debian-archive-keyring on this machine that has the keys of {row.suite}",
        )
