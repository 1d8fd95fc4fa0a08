"""The lock: a stack made exact, and the only thing the tree is rendered from.

`make` is pure: the same choices, indices and requirements give the same bytes. The lock is per
platform and wish, never per host, and in two documents: `gpu_lock` travels to hosts and stays
small, `gpu_lock_details` (hashes, sources, reasons) stays on the controller.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from provision import inputs, lockshape
from provision.catalog import load
from provision.errors import InputError, UnsatisfiableError
from provision.inventory import Fleet
from provision.models import HostFacts, plain
from provision.registry import NEEDS
from provision.resolve import Choice, ContainerToolkit, Stack
from provision.upstream.closure import (
    Branch,
    Universe,
    close,
    driver_packages,
    minus,
    without_kernels,
)
from provision.upstream.packages import Indices, Package, Repository, Source, compare, upstream
from provision.yaml_c import Dumper

FORMAT = 1
HEADER = (
    "# Made by `provision lock`; commit it. To change it, change gpu_stack in lab/, lock again.\n"
)


@dataclass(frozen=True)
class Lock:
    """A lock as plain data; `slim` is what hosts get."""

    slim: Mapping[str, Any]
    details: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """`sha256:...` of everything else in the lock."""
        return str(self.slim["digest"])

    @property
    def stacks(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """Stack id -> component -> its part."""
        stacks: Mapping[str, Mapping[str, Mapping[str, Any]]] = self.slim["stacks"]
        return stacks

    @property
    def requirements(self) -> Mapping[str, str]:
        """Stack id -> text of its hash-locked requirements."""
        texts: Mapping[str, str] = self.details["requirements"]
        return texts


def row_of(choice: Choice) -> dict[str, Any]:
    """What a row of the lock says of the hosts that it is for."""
    row: dict[str, Any] = {
        "platform": choice.platform.platform.as_data(),
        "wish": plain(choice.wish.literal),
    }
    return row | ({"generations": list(choice.generations)} if choice.generations else {})


def names_of(row: Mapping[str, Any]) -> list[str]:
    """The stacks of a row: its own, and those beside it."""
    return [row["stack"], *row.get("beside", ())]


# What hosts get, and the names of GPUs that any number of the hosts may have.
_GIVEN = ("stack", "beside", "models")


def hosts_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row says of its hosts, without what they get."""
    return {key: value for key, value in plain(row).items() if key not in _GIVEN}


def stacks_of(choice: Choice) -> list[Stack]:
    """The stack of a choice and those beside it, as `names_of` a row."""
    return [choice.stack, *choice.beside]


def locked_names(lock: Lock | None, choice: Choice) -> list[str]:
    """The names of the stacks that a lock has for just these hosts; none without a row.

    GPUs of another generation may have come since: then what these hosts had was for all. Another
    list of packages beside TensorFlow is no reason to move what else is locked.
    """
    wanted = row_of(choice)
    whole = {key: value for key, value in wanted.items() if key != "generations"}
    rows = lock.slim["rows"] if lock is not None else ()
    for told in (lambda hosts: hosts, _without_packages):
        for asked in (wanted, whole):
            for row in rows:
                if told(hosts_of(row)) == told(asked):
                    return names_of(row)
    return []


def _without_packages(hosts: Mapping[str, Any]) -> dict[str, Any]:
    """What a row says of its hosts but for the packages of their environments."""

    def rest(wish: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in wish.items() if key != "packages"}

    wish = rest(hosts["wish"])
    if "beside" in wish:
        wish["beside"] = [rest(one) for one in wish["beside"]]
    return {**hosts, "wish": wish}


def make(
    choices: Sequence[Choice],
    indices: Mapping[str, Indices],
    requirements: Mapping[str, str],
    *,
    prefer: Mapping[str, Mapping[str, str]] | None = None,
    before: Lock | None = None,
) -> Lock:
    """Choices with their indices (by platform id) and requirements (by stack id), as a lock.

    `prefer` are the package versions to keep (by stack id). A stack that is as it was in `before`
    keeps the sources that it was made from: an index with another date alone is no change.
    UnsatisfiableError when the indices no longer hold what the catalog names.
    """
    rows: list[dict[str, Any]] = []
    stacks: dict[str, Any] = {}
    details: dict[str, dict[str, Any]] = {
        "packages": {},
        "requirements": {},
        "reasons": {},
        "sources": {},
    }
    for choice in choices:
        was = locked_names(before, choice)
        names = []
        for number, stack in enumerate(stacks_of(choice)):
            index, text = indices[choice.platform.id], requirements[stack.id]
            name = _add(stack, index, text, (prefer or {}).get(stack.id, {}), stacks, details)
            names.append(name)
            if before is not None and was:
                _keep_sources(before, was[number], stacks[name], details, name)
        row = {**row_of(choice), "stack": names[0]}
        if choice.beside:
            row["beside"] = names[1:]
        if choice.generations:
            row["generations"] = row.pop("generations")
        if choice.models:
            row["models"] = {word: list(choice.models[word]) for word in sorted(choice.models)}
        rows.append(row)
    rows.sort(key=lambda row: json.dumps(row, sort_keys=True))
    stacks = {name: stacks[name] for name in sorted(stacks)}
    details = {key: {n: v[n] for n in sorted(v)} for key, v in details.items()}
    digest = digest_of(rows, stacks, details)
    return Lock({"format": FORMAT, "digest": digest, "rows": rows, "stacks": stacks}, details)


def _keep_sources(
    before: Lock, was: str, part: Mapping[str, Any], details: Mapping[str, Any], name: str
) -> None:
    """A stack that is what it was, from the same places, was made from what it says."""

    def places(sources: Any) -> list[dict[str, Any]]:
        return [{k: v for k, v in one.items() if k not in ("date", "sha256")} for one in sources]

    old = before.details
    same = (
        plain(before.stacks[was]) == part
        and plain(old["packages"][was]) == details["packages"][name]
        and old["requirements"][was] == details["requirements"][name]
        and places(old["sources"][was]) == places(details["sources"][name])
    )
    if same:
        details["sources"][name] = plain(old["sources"][was])


def _add(
    stack: Stack,
    indices: Indices,
    requirements: str,
    prefer: Mapping[str, str],
    stacks: dict[str, Any],
    details: dict[str, dict[str, Any]],
) -> str:
    """Puts a stack into the lock, and tells its name there."""
    name = stack.id
    part, packages = _stack(stack, indices, requirements, prefer)
    for taken, other in stacks.items():
        if taken == name and other != part:
            # Two archives of one version with different hashes: tell them apart by the hash.
            name = f"{stack.id}-{stack.cudnn.sha256[:8]}"
    stacks[name] = part
    details["packages"][name] = {
        package.name: {
            "version": package.version,
            "sha256": package.sha256,
            "size": package.size,
            "source": package.origin,
        }
        for package in packages.values()
    }
    details["requirements"][name] = requirements
    details["reasons"][name] = {reason.component: reason.text for reason in stack.reasons}
    details["sources"][name] = [
        {
            "url": source.url,
            "suite": source.suite,
            "components": list(source.components),
            "signed_by": list(source.signed_by),
            "date": source.date,
            "sha256": source.sha256,
        }
        for source in _sources(stack, indices)
    ]
    return name


def _sources(stack: Stack, indices: Indices) -> list[Source]:
    """Those of the platform if anything of it is, and NVIDIA's repositories that a stack uses."""
    cuda, driver = stack.cuda, stack.driver
    found = list(indices.sources) if needs_archive(stack) else []
    urls = [cuda.source.url] if cuda.source is not None else []
    urls += [driver.url] if driver.origin == "network" else []
    urls += [stack.container_toolkit.row.url] if stack.container_toolkit else []
    return found + [indices.repositories[url].source for url in dict.fromkeys(urls)]


def needs_archive(stack: Stack) -> bool:
    """Does any of its packages come from the platform's own archive?"""
    return "distribution" in (stack.driver.origin, stack.cuda.origin)


def _stack(
    stack: Stack, indices: Indices, requirements: str, prefer: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Package]]:
    """The stack's part of the lock, and every package it names."""
    # What is left of the locked versions may not fit together any more. The packages of one source
    # are made for each other: then those move of whose source something has left the indices.
    for wanted in (prefer, _whole(prefer, indices)) if prefer else ():
        try:
            return _closed(stack, indices, requirements, wanted)
        except UnsatisfiableError:
            continue
    return _closed(stack, indices, requirements, {})


def _whole(prefer: Mapping[str, str], indices: Indices) -> dict[str, str]:
    """Those of sources of which nothing is lacking."""
    everything = indices.everything
    there = {(package.name, package.version) for package in everything}
    lacking = {
        package.source
        for package in everything
        if package.name in prefer and (package.name, prefer[package.name]) not in there
    }
    moving = {package.name for package in everything if package.source in lacking}
    return {name: version for name, version in prefer.items() if name not in moving}


def package_names(stack: Stack, indices: Indices) -> list[str]:
    """The names of the packages of a driver and its CUDA."""
    driver = stack.driver
    branch = Branch(driver.version, frozenset(driver.branch_sources))
    row = stack.cuda.row
    roots = [*driver.userspace, *indices.kernel_of(driver), *driver.desktop]
    found = close(Universe.of(indices.for_driver(driver)), roots, branch)
    if stack.cuda.source is not None:
        universe = Universe.of(_of_patch(stack, indices.repositories[stack.cuda.source.url]))
        more = [*_nvidias(stack).runtime, *_nvidias(stack).toolkit]
    else:
        universe = Universe.of(indices.packages)
        more = [*row.runtime, *row.toolkit] if row else []
    return sorted({*found, *close(universe, more, branch, found)})


def _closed(
    stack: Stack, indices: Indices, requirements: str, prefer: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Package]]:
    part, driver = _driver(stack, indices, prefer)
    branch = Branch(stack.driver.version, frozenset(stack.driver.branch_sources))
    cuda, toolkit = _cuda(stack, indices, prefer, branch, driver)
    parts: dict[str, Any] = {
        "nvidia_driver": part,
        **cuda,
        "gpu_env": _gpu_env(stack),
    }
    containers: dict[str, Package] = {}
    if stack.container_toolkit is not None:
        repository = indices.repositories[stack.container_toolkit.row.url]
        containers = _container_toolkit(stack.container_toolkit, repository, prefer, stack.id)
        parts["nvidia_container_toolkit"] = {
            "version": stack.container_toolkit.version,
            "packages": {"toolkit": _versions(containers)},
            "repository": _repository(repository),
        }
    parts["tensorflow"] = _tensorflow(stack, requirements)
    packages = {**driver, **toolkit, **containers}
    return parts, {name: packages[name] for name in sorted(packages)}


def _driver(
    stack: Stack, indices: Indices, prefer: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Package]]:
    """The part `nvidia_driver`, and its packages; an installer has none."""
    row = stack.driver
    universe = Universe.of(indices.for_driver(row), prefer)
    branch = Branch(row.version, frozenset(row.branch_sources))
    userspace = close(universe, row.userspace, branch)
    roots = indices.kernel_of(row)
    kernel = without_kernels(minus(close(universe, roots, branch, userspace), userspace))
    both = {**userspace, **kernel}
    desktop = without_kernels(minus(close(universe, row.desktop, branch, both), both))
    found = {**both, **desktop}
    part: dict[str, Any] = {"branch": row.branch, "version": row.version}
    if row.origin != "distribution":
        part["source"] = row.origin
        _check_version(row.userspace, found, row.version, indices.for_driver(row), stack.id)
    part["packages"] = {
        "userspace": _versions(userspace),
        "kernel": _versions(kernel),
        "desktop": _versions(desktop),
    }
    if row.origin == "network":
        part["repository"] = _repository(indices.repositories[row.url])
    elif row.origin == "runfile":
        run = indices.runfiles[row.url]
        part["runfile"] = {"url": run.url, "sha256": run.sha256}
    return part, found


def _check_version(
    roots: Sequence[str],
    found: Mapping[str, Package],
    version: str,
    there: Iterable[Package],
    where: str,
) -> None:
    """UnsatisfiableError where a repository has the package, but not in this version."""
    for root in roots:
        if upstream(found[root].version) != version:
            offered = sorted({one.version for one in there if one.name == root})
            raise UnsatisfiableError(
                f"NVIDIA's repository has no {root} of version {version}",
                where=where,
                got=", ".join(offered),
                expected=f"{root} {version}-...",
                hint="wish for a version that is there; an exact one is driver_branch's or cuda's",
            )


def _container_toolkit(
    toolkit: ContainerToolkit, repository: Repository, prefer: Mapping[str, str], where: str
) -> dict[str, Package]:
    """The toolkit's packages, all of the very version that was chosen.

    They depend on each other in exactly their own version, and on nothing else of the repository.
    """
    found: dict[str, Package] = {}
    for name in sorted(toolkit.row.packages):
        offered = [one for one in repository.packages if one.name == name]
        fit = [one for one in offered if upstream(one.version) == toolkit.version]
        if not fit:
            raise UnsatisfiableError(
                f"NVIDIA's repository has no {name} of version {toolkit.version}",
                where=where,
                got=", ".join(sorted({one.version for one in offered})) or "none at all",
                expected=f"{name} {toolkit.version}-...",
                hint="wish for a version that is there: container_toolkit in gpu_stack",
            )
        kept = [one for one in fit if one.version == prefer.get(name)]
        found[name] = (kept or sorted(fit, key=functools.cmp_to_key(_older_first)))[-1]
    return found


def _older_first(one: Package, other: Package) -> int:
    return compare(one.version, other.version)


def _repository(repository: Repository) -> dict[str, Any]:
    return {
        "url": repository.url,
        "suite": repository.suite,
        "key": repository.key,
        "fingerprints": list(repository.fingerprints),
    }


@dataclass(frozen=True)
class _Names:
    """What of NVIDIA's repository makes the CUDA of a stack."""

    runtime: Sequence[str]
    toolkit: Sequence[str]
    sonames: Mapping[str, str]
    files: Mapping[str, Mapping[str, str]]


def _nvidias(stack: Stack) -> _Names:
    """The names of packages, of libraries with their packages, and of files, for its release."""
    cuda = stack.cuda
    names, facts = cuda.names, cuda.facts
    if names is None or facts is None:
        raise UnsatisfiableError(f"this version can't install {stack.missing}", where=stack.id)
    owners = {key: names.of(package, cuda.release) for key, package in names.sonames.items()}
    return _Names(
        runtime=[names.of(one, cuda.release) for one in (*names.runtime, *names.nvcc)],
        toolkit=[names.of(one, cuda.release) for one in names.toolkit],
        sonames={one: owners[one.partition(".so")[0]] for one in facts.sonames},
        files={
            key: {
                "path": f"{cuda.prefix}/{names.of(file.path, cuda.release)}",
                "package": names.of(file.package, cuda.release),
            }
            for key, file in names.files.items()
        },
    )


def _cuda(
    stack: Stack,
    indices: Indices,
    prefer: Mapping[str, str],
    branch: Branch,
    driver: Mapping[str, Package],
) -> tuple[dict[str, Any], dict[str, Package]]:
    """The parts `cuda` and `cudnn`, and CUDA's packages; neither where they come as wheels."""
    row, source = stack.cuda.row, stack.cuda.source
    if stack.cuda.origin == "wheels":
        return {}, {}
    if row is not None:
        files = {
            key: {"path": file.path, "package": file.package} for key, file in row.files.items()
        }
        names = _Names(row.runtime, row.toolkit, row.sonames, files)
        universe = Universe.of(indices.packages, prefer)
    elif source is not None:
        names = _nvidias(stack)
        universe = Universe.of(_of_patch(stack, indices.repositories[source.url]), prefer)
    else:
        raise UnsatisfiableError(f"this version can't install {stack.missing}", where=stack.id)
    # The driver's libraries are the driver's to install: CUDA only names what is its own.
    runtime = minus(close(universe, names.runtime, branch, driver), driver)
    both = {**driver, **runtime}
    toolkit = minus(close(universe, [*names.runtime, *names.toolkit], branch, both), driver)
    for needed, package in [
        *names.sonames.items(),
        *((file["path"], file["package"]) for file in names.files.values() if source is not None),
    ]:
        if package not in runtime:
            raise UnsatisfiableError(
                f"{needed} should come from {package}, which is not in the set"
            )
    part: dict[str, Any] = {
        "release": stack.cuda.release,
        "version": stack.cuda.version,
        "packages": {"runtime": _versions(runtime), "toolkit": _versions(toolkit)},
        "sonames": dict(names.sonames),
        "files": {key: dict(file) for key, file in names.files.items()},
    }
    if source is not None:
        repository = indices.repositories[source.url]
        _check_nvidias(stack, names, toolkit, repository)
        part = _with_source(stack, part, repository)
    cudnn = {
        "version": stack.cudnn.version,
        "cuda": stack.cudnn.cuda,
        "sha256": stack.cudnn.sha256,
        "soname": stack.cudnn.soname,
        "minimum": stack.cudnn.minimum,
    }
    return {"cuda": part, "cudnn": cudnn}, toolkit


def _of_patch(stack: Stack, repository: Repository) -> list[Package]:
    """A repository without the sets of a release's other patches, which have its version."""
    found = repository.packages
    exact = {one.name for one in found if upstream(one.version) == stack.cuda.version}
    return [
        one for one in found if one.name not in exact or upstream(one.version) == stack.cuda.version
    ]


def _check_nvidias(
    stack: Stack, names: _Names, toolkit: Mapping[str, Package], repository: Repository
) -> None:
    """CUDA of NVIDIA's own is of the version that it says, and brings no driver."""
    _check_version(names.toolkit, toolkit, stack.cuda.version, repository.packages, stack.id)
    brought = driver_packages(toolkit.values())
    if brought:
        raise UnsatisfiableError(
            f"the packages of CUDA {stack.cuda.release} would bring a driver",
            where=repository.url,
            got=", ".join(brought),
            expected="CUDA alone: the driver is a component of its own",
            hint="a fault of the repository, or of the catalog's row for its packages",
        )


def _with_source(stack: Stack, part: Mapping[str, Any], repository: Repository) -> dict[str, Any]:
    """The part `cuda` of NVIDIA's own: where it comes from, and where it lies."""
    found = {"release": part["release"], "version": part["version"], "source": stack.cuda.origin}
    found |= {key: value for key, value in part.items() if key not in found}
    found["prefix"] = stack.cuda.prefix
    if not repository.sha256:
        return found | {"repository": _repository(repository)}
    installer = {
        "url": repository.url,
        "sha256": repository.sha256,
        "key": repository.key,
        "fingerprints": list(repository.fingerprints),
        "directory": repository.directory,
    }
    return found | {"installer": installer}


def _gpu_env(stack: Stack) -> dict[str, Any]:
    """Nothing of it where CUDA comes as wheels: TensorFlow finds those from where it lies itself.

    Libraries by RUNPATH and by links beside its own; libdevice and ptxas in ../nvidia/cuda_nvcc,
    which XLA looks into by itself (docs/decisions/0006-cuda-as-wheels.md).
    """
    row, prefix = stack.cuda.row, stack.cuda.prefix
    if prefix:
        return {
            "xla_cuda_data_dir": prefix,
            "path": [f"{prefix}/bin"],
            "library": [f"{prefix}/lib64"],
        }
    return {
        "xla_cuda_data_dir": row.xla_cuda_data_dir if row else "",
        "path": list(row.path) if row else [],
        "library": list(row.library) if row else [],
    }


def _tensorflow(stack: Stack, requirements: str) -> dict[str, Any]:
    """The part `tensorflow`; with CUDA as wheels, the wheel of each library that it opens too."""
    locked = wheels(requirements)
    part: dict[str, Any] = {"version": stack.tensorflow, "python": stack.python}
    if stack.cuda.origin == "wheels":
        part["cuda_source"] = "wheels"
        part["sonames"] = _wheels_of(stack.row.sonames if stack.row else [], locked)
    part["wheels"] = locked
    part["requirements_sha256"] = hashlib.sha256(requirements.encode()).hexdigest()
    return part


# Library -> the word in its wheel's name: libcublasLt.so.12 is in nvidia-cublas-cu12.
_WHEELS = {
    "libcudart": "cuda-runtime",
    "libcublas": "cublas",
    "libcublasLt": "cublas",
    "libcufft": "cufft",
    "libcurand": "curand",
    "libcusolver": "cusolver",
    "libcusparse": "cusparse",
    "libcudnn": "cudnn",
    "libcupti": "cuda-cupti",
    "libnccl": "nccl",
    "libnvJitLink": "nvjitlink",
    "libnvrtc": "cuda-nvrtc",
}


def _wheels_of(sonames: Sequence[str], locked: Mapping[str, str]) -> dict[str, str]:
    """Library -> its wheel. UnsatisfiableError for one that no locked wheel brings."""
    found = {}
    for soname in sonames:
        word = _WHEELS.get(soname.partition(".so")[0])
        names = [name for name in locked if re.fullmatch(rf"nvidia-{word}(-cu\d+)?", name)]
        if word is None or len(names) != 1:
            raise UnsatisfiableError(
                f"no wheel brings {soname}",
                got=", ".join(name for name in locked if name.startswith("nvidia-")) or "none",
                expected=f"nvidia-{word}-cu..." if word else "a library of CUDA's or cuDNN's",
            )
        found[soname] = names[0]
    return found


def wanted(stack: Stack) -> list[str]:
    """What the venv is asked to hold; the stack's constraints say the exact wheels of its extra."""
    extra = "[and-cuda]" if stack.cuda.origin == "wheels" else ""
    return [f"tensorflow{extra}=={stack.tensorflow}", *stack.packages]


def _versions(packages: Mapping[str, Package]) -> dict[str, str]:
    return {name: package.version for name, package in packages.items()}


def wheels(requirements: str) -> dict[str, str]:
    """Name -> version of a requirements text, sorted; InputError for anything unpinned."""
    found = {}
    for line in requirements.splitlines():
        if not line or line[0] in " #-":
            continue
        pinned = re.match(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", line)
        if pinned is None:
            raise InputError("a requirement is not pinned", got=line)
        found[pinned.group(1).lower()] = pinned.group(2)
    return {name: found[name] for name in sorted(found)}


def digest_of(rows: Any, stacks: Any, details: Any) -> str:
    """SHA-256 of the canonical JSON of everything but format and digest."""
    text = json.dumps(
        {"rows": rows, "stacks": stacks, "details": details},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=True,
    )
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


class _Line(dict[str, Any]):
    """A mapping that is written on one line."""


class _Dumper(Dumper):
    """Block style, multi-line texts as literal blocks, no aliases."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_line(dumper: _Dumper, line: _Line) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", line.items(), flow_style=True)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(_Line, _represent_line)
# No line is ever broken: a new word in a sentence would move all the others.
_WIDTH = 1 << 20


def dump(lock: Lock) -> bytes:
    """The bytes of lock.yml: a line per package, wheel and reason, so that a diff is a list."""
    details = plain(lock.details)
    for packages in details["packages"].values():
        for name, package in packages.items():
            packages[name] = _Line(package)
    text = yaml.dump(
        {"gpu_lock": plain(lock.slim), "gpu_lock_details": details},
        Dumper=_Dumper,
        sort_keys=False,
        width=_WIDTH,
        allow_unicode=True,
    )
    return (HEADER + "---\n" + text).encode()


ANEW = "`provision lock --upgrade` makes it anew"


def parse(data: bytes, *, where: str) -> Lock:
    """lock.yml's bytes, checked: format, shape and digest. InputError says what is wrong."""
    hint = f"{ANEW}; of a merge, take either side and `provision lock`"
    document = inputs.load(data, where=where, what="the lock", hint=hint)
    slim = document.get("gpu_lock") if isinstance(document, dict) else None
    details = document.get("gpu_lock_details") if isinstance(document, dict) else None
    if not isinstance(slim, dict) or not isinstance(details, dict):
        raise InputError(
            "the lock lacks its two parts",
            where=where,
            expected="gpu_lock and gpu_lock_details",
            hint=hint,
        )
    if slim.get("format") != FORMAT:
        raise InputError(
            "the lock has a format of another provision",
            where=where,
            got=f"format {slim.get('format')!r}",
            expected=f"format {FORMAT}",
            hint=hint,
        )
    found = digest_of(slim.get("rows"), slim.get("stacks"), details)
    if slim.get("digest") != found:
        raise InputError(
            "the lock was edited: its digest does not match its content",
            where=where,
            got=str(slim.get("digest")),
            expected=found,
            hint=f"change gpu_stack in lab/ instead; {ANEW}",
        )
    strange = next(lockshape.faults(slim, details), "") or next(
        lockshape.missing_names(slim, details), ""
    )
    if strange:
        raise InputError(
            "the lock was made by another version of provision",
            where=where,
            got=f"{strange} is missing, or not as this version writes it",
            hint=hint,
        )
    return Lock(slim, details)


def check_fits(lock: Lock, fleet: Fleet, *, where: str) -> None:
    """Every wish of the inventory must have a row, on the platform of a host that has one.

    And every GPU that the inventory names must be in it, for the run compares by that. InputError
    names the hosts.
    """
    for wish, kinds in fleet.kinds():
        rows = [row for row in lock.slim["rows"] if row["wish"] == plain(wish.literal)]
        if not rows:
            raise _not_locked(
                "the lock has no row for the gpu_stack of "
                + names(host for _, hosts in kinds for host in hosts),
                where=where,
                got=json.dumps(plain(wish.literal)),
                expected=" or ".join(json.dumps(row["wish"]) for row in lock.slim["rows"]),
            )
        known = {word for row in rows for word in row.get("models", {})}
        for facts, hosts in kinds:
            there = [row["platform"] for row in rows]
            if facts.platform is not None and _platform(facts.platform) not in there:
                raise _not_locked(
                    f"the lock has no row for the platform of {names(hosts)}",
                    where=where,
                    got=facts.platform,
                    expected=" or ".join(" ".join(one.values()) for one in there),
                )
            lacking = [word for word in facts.models if word not in known]
            if lacking:
                raise _not_locked(
                    f"the lock doesn't know the gpu_models of {names(hosts)}",
                    where=where,
                    got=", ".join(lacking),
                    expected=", ".join(known) or "none",
                )
            for host in hosts:
                _check_absent(lock, fleet, host, facts, rows)


def _check_absent(
    lock: Lock, fleet: Fleet, host: str, facts: HostFacts, rows: Sequence[Mapping[str, Any]]
) -> None:
    """A host can't be without what another component of its stack needs.

    InputError where that is so on every platform that the host may be.
    """
    gone = fleet.absent.get(host, ())
    if not gone:
        return
    if facts.platform is not None:
        rows = [row for row in rows if row["platform"] == _platform(facts.platform)]
    found = [_contradiction(lock.stacks[row["stack"]], gone) for row in rows]
    if found and all(found):
        name, lacking = found[0] or ("", [])
        raise InputError(
            f"{name} of {host} does not work without {' and '.join(lacking)}",
            where=fleet.sources.where(f"{lacking[0]}_state") or host,
            got=", ".join(f"{one}_state: absent" for one in gone),
            expected=f"{name}_state: absent as well, or {' and '.join(lacking)} present",
        )


def _contradiction(stack: Mapping[str, Any], gone: Sequence[str]) -> tuple[str, list[str]] | None:
    """(component, what it lacks) of the first one that can't do without what is wished away."""
    for name, needs in NEEDS.items():
        lacking = [one for one in needs if one in gone and one in stack]
        if name in stack and name not in gone and lacking:
            return name, lacking
    return None


def _platform(name: str) -> dict[str, str]:
    """A platform of the catalog as the lock's rows have it; most inventories declare none, and
    rendering needs no catalog then."""
    return next(row.platform.as_data() for row in load().platforms if row.id == name)


def _not_locked(message: str, *, where: str, got: str, expected: str) -> InputError:
    hint = "the inventory changed since: `provision lock`"
    return InputError(message, where=where, got=got, expected=expected, hint=hint)


def names(of: Iterable[str]) -> str:
    """ "gpu01, gpu02, gpu03 and 9 more"."""
    every = list(of)
    return ", ".join(every[:3]) + (f" and {len(every) - 3} more" if len(every) > 3 else "")
