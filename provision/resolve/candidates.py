"""The catalog as candidates for each variable of the search, best first."""

from __future__ import annotations

import functools
from typing import Any

from packaging.version import Version

from provision.catalog import Catalog
from provision.catalog.rows import DriverRow, NvidiaSourceRow, PlatformRow
from provision.models import Wish
from provision.resolve.own import OWN
from provision.resolve.stack import (
    DRIVER_ORIGINS,
    Cuda,
    Cudnn,
    Tensorflow,
    wheel_versions,
)
from provision.resolve.words import newest_first, parse_version

# The URL of an installer whose version the catalog does not have.
RUNFILE = "https://us.download.nvidia.com/tesla/{0}/NVIDIA-Linux-x86_64-{0}.run"


class Candidates:
    """The candidates of each variable; those that depend on a wish are methods."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._facts = {row.release: row for row in catalog.cuda_releases}

    @functools.cached_property
    def tensorflows(self) -> list[Tensorflow]:
        """Every patch, the newest release and its newest patch first."""
        return [
            Tensorflow(patch, row)
            for row in sorted(
                self.catalog.tensorflow, key=lambda r: Version(r.release), reverse=True
            )
            for patch in sorted(row.patches, key=Version, reverse=True)
        ]

    @functools.cached_property
    def pythons(self) -> list[str]:
        """The Pythons that a TensorFlow has wheels for, the newest first."""
        return newest_first({p for row in self.catalog.tensorflow for p in row.pythons})

    @functools.cached_property
    def gccs(self) -> list[str]:
        """The major versions, the newest first; "" comes last: most hosts compile nothing."""
        majors = {major for row in self.catalog.platforms for major in row.gccs}
        majors |= {row.gcc_maximum for row in self.catalog.cuda_releases}
        return [*newest_first(majors), ""]

    @functools.cached_property
    def own(self) -> dict[str, list[Any]]:
        """{word: the candidates} of the components that have files of their own."""
        return {own.WORD: own.candidates(self.catalog) for own in OWN.values()}

    @functools.cached_property
    def cudas(self) -> list[Cuda]:
        """Each CUDA of the platforms' archives, of TensorFlow's wheels and of NVIDIA's sources."""
        cudas: list[Cuda] = []
        for row in self.catalog.cuda:
            facts = self._facts.get(row.release)
            cudas.append(
                Cuda(row.release, row.version, "distribution", row.platform, row=row, facts=facts)
            )
        for tf in self.catalog.tensorflow:
            if tf.cuda_wheels:
                version = wheel_versions(tf)[f"nvidia-cuda-runtime-cu{tf.cuda.split('.')[0]}"]
                patch = max(tf.patches, key=Version)
                cudas.append(
                    Cuda(tf.cuda, version, "wheels", "", patch, facts=self._facts.get(tf.cuda))
                )
        architectures = {row.id: row.architecture for row in self.catalog.platforms}
        for source in self.catalog.nvidia_sources:
            if source.architecture != architectures[source.platform]:
                continue
            for release, facts in self._facts.items():
                version = max(facts.versions, key=Version)
                if source.kind == "local" and source.cuda in facts.versions:
                    version = str(source.cuda)
                elif source.kind != "network" or not source.carries(release):
                    continue
                names = (row for row in self.catalog.nvidia_packages if row.names(release))
                cudas.append(
                    Cuda(
                        release, version, source.kind, source.platform,
                        facts=facts, source=source, names=next(names, None),
                    )
                )  # fmt: skip
        return cudas

    @functools.cached_property
    def cudnns(self) -> list[Cudnn]:
        """Each cuDNN: NVIDIA's archives, the newest first, then TensorFlow's wheels."""
        cudnns = [
            Cudnn(row.version, row.cuda, row.sha256, row.soname, architecture=row.architecture)
            for row in sorted(self.catalog.cudnn, key=lambda c: Version(c.version), reverse=True)
        ]
        for tf in self.catalog.tensorflow:
            for name, version in wheel_versions(tf).items():
                if name.startswith("nvidia-cudnn"):
                    major = Version(version).major
                    patch = max(tf.patches, key=Version)
                    cudnns.append(
                        Cudnn(
                            version, tf.cuda, "", f"libcudnn.so.{major}",
                            origin="wheels", tensorflow=patch,
                        )
                    )  # fmt: skip
        return cudnns

    def own_cudnn(self, wish: Wish) -> Cudnn | None:
        """The cuDNN of the user's own archive, which the wish names by its hash; else None."""
        if wish.cudnn is None or wish.cudnn.sha256 is None:
            return None
        version = parse_version(wish.cudnn.version, "cudnn")
        cuda = wish.cudnn.cuda or wish.cuda or ""
        return Cudnn(
            wish.cudnn.version, cuda, wish.cudnn.sha256, f"libcudnn.so.{version.major}",
            origin="own",
        )  # fmt: skip

    def drivers(self, wish: Wish) -> list[DriverRow]:
        """The candidates, the platform's own first; NVIDIA's only where a source was wished for.

        A new-feature branch is supported only until the next: all others come before it.
        """
        origins = list(DRIVER_ORIGINS)
        new_feature = {b.branch for b in self.catalog.driver_branches if b.kind == "new-feature"}
        rows = [*self.catalog.drivers, *self._nvidia_drivers]
        if wish.driver_branch is not None and "." in wish.driver_branch:
            rows += self._exact_drivers(wish)
        if wish.driver_modules is not None:
            rows = [row.model_copy(update={"modules": wish.driver_modules}) for row in rows]
        return sorted(
            (d for d in rows if wish.driver_source or d.origin == "distribution"),
            key=lambda d: (
                origins.index(d.origin),
                d.branch in new_feature,
                [-part for part in Version(d.version).release],
            ),
        )

    @functools.cached_property
    def _nvidia_drivers(self) -> list[DriverRow]:
        """A row per platform and branch of NVIDIA's repository, and per installer.

        A repository's row has the branch's newest known version; the lock takes it from the index.
        """
        newest = {row.branch: row.newest for row in self.catalog.driver_branches}
        rows: list[DriverRow] = []
        for source in self.catalog.nvidia_sources:
            for branch in source.drivers if source.kind == "network" else ():
                row = self._network_driver(source, branch, newest.get(branch) or branch)
                rows += [row] if row is not None else []
        for run in self.catalog.nvidia_runfiles:
            if run.kind == "driver":
                rows += self._run_drivers(run.version, run.url, run.sha256 or "", run.source)
        return rows

    def _network_driver(
        self, source: NvidiaSourceRow, branch: str, version: str
    ) -> DriverRow | None:
        """The driver of a branch in a repository; None where its package names are unknown."""
        platform = next(row for row in self.catalog.platforms if row.id == source.platform)
        if platform.architecture != source.architecture:
            return None
        for names in self.catalog.nvidia_driver_packages:
            if names.names(platform.distribution, branch):
                return self._driver(
                    platform, version, "network", source.url, "", source.source,
                    *(
                        [name.replace("<b>", branch) for name in group]
                        for group in (names.userspace, names.kernel, names.desktop)
                    ),
                )  # fmt: skip
        return None

    def _run_drivers(self, version: str, url: str, sha256: str, source: str) -> list[DriverRow]:
        """A row per platform of an installer, which is for all."""
        return [
            self._driver(platform, version, "runfile", url, sha256, source, [], [], [])
            for platform in self.catalog.platforms
            if platform.architecture == "x86_64"
        ]

    def _driver(
        self, platform: PlatformRow, version: str, origin: str, url: str, sha256: str, source: str,
        userspace: list[str], kernel: list[str], desktop: list[str],
    ) -> DriverRow:  # fmt: skip
        branch = version.split(".", maxsplit=1)[0]
        cuda = {row.branch: row.supports_cuda for row in self.catalog.driver_branches}
        return DriverRow(
            platform=platform.id, branch=branch, version=version, origin=origin, url=url,
            sha256=sha256, supports_cuda=cuda.get(branch) or "", userspace=userspace,
            kernel=kernel, desktop=desktop, branch_sources=[], source=source,
        )  # fmt: skip

    def _exact_drivers(self, wish: Wish) -> list[DriverRow]:
        """Rows for a wished version that no row has; the lock finds out whether it exists.

        None of Debian's own drivers: the catalog has all their versions.
        """
        version = str(wish.driver_branch)
        branch = version.split(".", maxsplit=1)[0]
        drivers = [*self.catalog.drivers, *self._nvidia_drivers]
        if branch not in [row.branch for row in self.catalog.driver_branches]:
            return []
        if wish.driver_sha256 is not None:
            urls = [d.url for d in drivers if d.origin == "runfile" and d.version == version]
            url = (urls or [RUNFILE.format(version)])[0]
            return self._run_drivers(version, url, wish.driver_sha256, f"{url} by its hash")
        rows: list[DriverRow] = []
        ubuntu = [row.id for row in self.catalog.platforms if row.distribution == "ubuntu"]
        for row in drivers:
            source = (row.platform, row.origin)
            versions = {d.version for d in drivers if (d.platform, d.origin) == source}
            added = any((d.platform, d.origin) == source for d in rows)
            if row.branch != branch or version in versions or added or row.origin == "runfile":
                continue
            if row.origin == "network" or row.platform in ubuntu:
                rows.append(row.model_copy(update={"version": version}))
        if not any(d.origin == "runfile" and d.version == version for d in drivers):
            url = RUNFILE.format(version)
            rows += self._run_drivers(version, url, "", f"inferred from others: {url}")
        return rows

    def is_branch(self, text: str) -> bool:
        """Whether this is a driver branch of NVIDIA's, with or without packages."""
        return text in [row.branch for row in self.catalog.driver_branches]
