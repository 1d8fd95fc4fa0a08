"""Builds or repairs one environment, and makes it current.

Read `bring` top to bottom. A damaged environment is never repaired file by file: a new one is built
beside it (`venv_place`), and a build that fails leaves the old one as it was. Where only wheels are
missing or of another version, pip installs them in the environment itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from typing import Any

from ...host import background, boots, code_users, origin, package_files
from ...host.context import Context
from .. import tensorflow
from . import (
    activation_file,
    cuda_links,
    pip_install,
    venv_files,
    venv_place,
    venv_trust,
    wheel_files,
)
from .venv_place import RefusedError

# The wheels are 0.6 GB to download and 2.1 GB unpacked; pip holds both for a while. With CUDA and
# cuDNN among them it is about 7 GB more (estimated).
NEEDED, NEEDED_WITH_CUDA = 4294967296, 11811160064
GIB = 1073741824
# Seconds for `python -m venv`, which takes five.
VENV_LONGEST = 600
# EX_TEMPFAIL of sysexits.h: not done, may be tried again.
ENDED = 75


class Environment(object):
    """One environment on the host of `context`; `dry`: nothing is changed.

    `wish`: root, version, python, interpreter, requirements (their text), requirements_sha256,
    requirements_name, prefix (the tree of CUDA, or "") and reinstall.
    """

    def __init__(self, context: Context, wish: dict[str, Any], dry: bool = False) -> None:
        self.context = context
        self.wish = wish
        self.dry = dry
        self.owner = venv_trust.Owner(context)
        self.root: str = wish["root"].rstrip("/")
        self.name = tensorflow.directory(wish)
        self.path = f"{self.root}/{self.name}"
        self.building = f"{self.root}/{venv_trust.BUILDING}{self.name}"
        self.pins = venv_files.pins(wish["requirements"])
        self.diff: list[dict[str, str]] = []

    @property
    def of_cuda(self) -> bool:
        """Whether CUDA's libraries are among the wheels."""
        return any(name.startswith("nvidia-") for name in self.pins)

    @property
    def mark(self) -> str:
        """The content of the marker, which is written last."""
        return json.dumps(tensorflow.mark(self.wish))

    def works(self) -> bool:
        """Whether there is a current version."""
        return bool(self.context.exists(f"{self.root}/{venv_place.CURRENT}/bin/python"))

    def site(self, place: str) -> str:
        """The site-packages of the environment at `place`."""
        return f"{place}/lib/python{self.wish['python']}/site-packages"

    # the look

    def check(self) -> None:
        """Refuses requirements whose SHA-256 or version differs from the wish's."""
        text, name = self.wish["requirements"], self.wish["requirements_name"]
        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
        if digest != self.wish["requirements_sha256"]:
            raise RefusedError(
                f"{name} has SHA-256 {digest}, but tensorflow_requirements_sha256 says "
                f"{self.wish['requirements_sha256']}: they were not made together."
            )
        version = self.wish["version"]
        pinned = {"tensorflow": [self.pins.get("tensorflow", "")]}
        if venv_files.missing({"tensorflow": version}, pinned):
            raise RefusedError(f"{name} does not pin tensorflow=={version}.")

    def look(self) -> dict[str, Any]:
        """{finished, complete, missing}; a refusal where others may write above it.

        `finished`: it needs no new one beside it. One where others may write is not: root runs
        nothing in it, for its content can't be trusted.
        """
        parents = venv_trust.parents(self.context, self.root)
        if parents is not None:
            raise RefusedError(
                f"{parents}: who may write there can put anything in the place of {self.root}. "
                "Give it to root alone (chown root, chmod go-w), or set tensorflow_root to a "
                "directory that is. Nothing was touched."
            )
        state = {"marker": tensorflow.marker(self.context, self.path + "/" + tensorflow.MARKER)}
        finished = (
            not self.wish["reinstall"]
            and tensorflow.finished(self.wish, state)
            and self.context.exists(self.path + "/bin/python")
            and not venv_trust.look(self.context, self.path, self.wish["python"])
        )
        installed = wheel_files.wheels(self.context.listdir(self.site(self.path)))
        missing = venv_files.missing(self.pins, installed)
        digest = package_files.digest(self.context, self.path + "/requirements.txt", "sha256")
        as_locked = digest == self.wish["requirements_sha256"]
        return {
            "finished": finished,
            "complete": finished and not missing and as_locked,
            "missing": missing,
        }

    def refuse_in_use(self) -> None:
        """Refuses to change libraries under a running program."""
        users = code_users.names_of_users(self.context, [self.path])
        if users:
            raise RefusedError(
                f"{self.path} would be changed, and is in use by {', '.join(users[:5])}. Run again "
                "when they have ended; none is ever ended for you. Nothing was touched."
            )

    # the changes

    def bring(
        self, pip: dict[str, Any], begun: bool = False, job: str = pip_install.JOB
    ) -> dict[str, Any]:
        """Builds or repairs it; {changed, kept}. `begun`: `begin` has started pip."""
        if begun:
            outcome = self._job_result(job)
            changed, kept = True, self._conclude(outcome)
        else:
            state = self.look()
            changed, kept = not state["complete"], None
            if self.dry:
                changed = changed or bool(venv_trust.left_in(self.context, self.root))
            elif state["complete"]:
                changed = venv_place.clean(self.context, self.root)
            else:
                kept = self._conclude(self._prepare(state["finished"], pip)())
        if self.of_cuda:
            changed = bool(cuda_links.bring(self.site(self.path), self.dry)) or changed
        changed = self._activate(self.path) or changed
        changed = bool(self._open_to_all()) or changed
        return {"changed": changed, "kept": [kept] if kept else []}

    def begin(self, pip: dict[str, Any], job: str = pip_install.JOB) -> bool:
        """Prepares the environment, and starts pip in the background; False where it can't."""
        state = self.look()
        if state["complete"] or self.dry:
            return False
        work = self._prepare(state["finished"], pip)
        try:
            background.begin(job, lambda: self._readied(work()))
        except (background.BusyError, OSError):
            return False  # `bring` does it then
        return True

    def _readied(self, outcome: dict[str, Any]) -> dict[str, Any]:
        """The outcome of pip; in the background a new environment is checked and flushed too."""
        if outcome["rc"] or outcome["place"] == self.path:
            return outcome
        return dict(outcome, prepared=venv_place.prepared(self.root, self.name))

    def _job_result(self, job: str) -> dict[str, Any]:
        """The outcome of the job that `begin` started."""
        try:
            outcome = background.result(job)
        except background.EndedError as error:
            outcome, why = None, str(error)
        else:
            why = background.KILLED
        if outcome is None:
            place = self.path if self.look()["finished"] else self.building
            return {"place": place, "made": False, "rc": ENDED, "err": why}
        return dict(outcome)

    def _prepare(self, finished: bool, pip: dict[str, Any]) -> Callable[[], dict[str, Any]]:
        """Creates the environment where it needs a new one; the remaining work, as a function."""
        self.refuse_in_use()
        place, root_is_new = self.path, False
        if not finished:
            place = self.building
            self._refuse_without_room()
            root_is_new = self._make_root()
        venv_place.clean(self.context, self.root)
        if not finished:
            error = self._make_venv(place)
            if error is not None:
                self._conclude({"place": place, "made": root_is_new, "rc": 1, "err": error})
        self._write_requirements(place)
        # pip unpacks beside what it installs, and one that was killed leaves hundreds of megabytes.
        for name in venv_files.listed(place):
            path = os.path.join(place, name)
            if name.startswith("pip-") and os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)

        def work() -> dict[str, Any]:
            rc, err = pip_install.install(place, pip)
            return {"place": place, "made": root_is_new, "rc": rc, "err": err}

        return work

    def _refuse_without_room(self) -> None:
        free = self.context.disk_free(self.root)
        needed = NEEDED_WITH_CUDA if self.of_cuda else NEEDED
        if free is not None and free < needed:
            raise RefusedError(
                f"{self.root} has {round(free / GIB, 1)} GiB free; TensorFlow "
                f"{self.wish['version']} needs {round(needed / GIB, 1)} GiB while it is being "
                "installed. Make room, or set tensorflow_root to another filesystem. The venv was "
                "not touched."
            )

    def _make_root(self) -> bool:
        """Creates the directory of all environments, root's and readable for all; whether it was
        missing.
        """
        missing = []
        path = os.path.realpath(self.root)
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for path in reversed(missing):
            os.mkdir(path, 0o755)
        for path in missing or [self.root]:
            os.chown(path, self.owner.uid, self.owner.groups[0])
            os.chmod(path, 0o755)  # noqa: S103  everybody runs what is in it
        return bool(missing)

    def _make_venv(self, place: str) -> str | None:
        """Creates an empty environment; None, or the error."""
        argv = [self.wish["interpreter"], "-I", "-m", "venv", place]
        try:
            with pip_install.readable():
                process = subprocess.run(
                    argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, check=False, timeout=VENV_LONGEST,
                )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            return str(error)
        if not process.returncode:
            return None
        return f"{' '.join(argv)}: {process.stdout.decode('utf-8', 'replace')}"

    def _write_requirements(self, place: str) -> None:
        path, text = place + "/requirements.txt", self.wish["requirements"]
        before = venv_files.content(path)
        if before != text.encode("utf-8"):
            self._note(path, (before or b"").decode("utf-8", "replace"), text)
            venv_place.replace(path, text.encode("utf-8"))
        os.chown(path, self.owner.uid, self.owner.groups[0])
        os.chmod(path, 0o644)

    def _conclude(self, outcome: dict[str, Any]) -> str | None:
        """Puts the environment in place after pip, or refuses with pip's reasons; the path where
        an old one is kept, or None.
        """
        place, finished = outcome["place"], outcome["place"] == self.path
        if outcome["rc"]:
            if not finished:
                venv_place.clean(self.context, self.root)
                if outcome["made"]:  # for this one
                    with contextlib.suppress(OSError):
                        os.rmdir(self.root)
            raise RefusedError(self._not_installed(pip_install.reasons(outcome["err"], self.root)))
        try:
            # Everything is on the disk before the marker: after a power cut too a marker means a
            # complete venv. It is newer than all files: a file newer than it was changed later.
            if finished:
                venv_place.write_mark(self.path, self.mark)
                return None
            if self.of_cuda:
                cuda_links.bring(self.site(place))
            self._activate(place)
            prepared = outcome.get("prepared", False)
            kept = venv_place.finish(self.context, self.root, self.name, self.mark, prepared)
            boots.note(self.context, [self.path])
            return kept
        except (RefusedError, OSError, subprocess.SubprocessError) as error:
            venv_place.clean(self.context, self.root)
            raise RefusedError(self._not_installed(str(error))) from error

    def _not_installed(self, why: str) -> str:
        return pip_install.not_installed(self.wish["version"], why, self.works())

    def _activate(self, place: str) -> bool:
        """Sets the CUDA of `bin/activate`; whether that changed it."""
        path = place + "/bin/activate"
        before, after = activation_file.bring(path, self.wish["prefix"], dry=self.dry)
        if before == after:
            return False
        self._note(path, before, after)
        return True

    def _open_to_all(self) -> list[str]:
        """Makes its directories readable for all, and the root writable for root alone; paths that
        were not.
        """
        repaired = []
        info = self.context.stat(self.root)
        uid = self.owner.uid
        if info is not None and (info.st_uid != uid or info.st_mode & 0o022):
            repaired.append(self.root)
            if not self.dry:
                os.chown(self.root, uid, -1)
                os.chmod(self.root, stat.S_IMODE(info.st_mode) & ~0o022)
        site = self.site(self.path)
        paths = [self.root, self.path, self.path + "/bin", self.path + "/lib"]
        closed = tensorflow.closed(self.context, [*paths, os.path.dirname(site), site], 0o555)
        for path in closed if not self.dry else ():
            os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | 0o555)  # noqa: S103
        return repaired + closed

    def switch(self, keep_old: bool, beside: list[str]) -> bool:
        """Makes it the current one, and removes the others where they are not kept; whether
        something was changed.
        """
        current = self.root + "/" + venv_place.CURRENT
        root = self.owner.uid, self.owner.groups[0]
        info = self.context.lstat(current)
        changed = False
        if info is not None and not stat.S_ISLNK(info.st_mode):
            changed = True
            if not self.dry:
                os.rename(current, f"{current}.backup-{int(info.st_mtime)}")
        if self.context.readlink(current) != self.name:
            changed = True
            if not self.dry:
                venv_place.put_link(current, self.name)
        elif info is not None and (info.st_uid, info.st_gid) != root:
            changed = True
        if changed and not self.dry:
            os.lchown(current, *root)
        if keep_old:
            return changed
        staying = [self.name, *beside]
        if self.dry:
            return venv_place.would_remove(self.context, self.root, *staying) or changed
        return venv_place.remove(self.context, self.root, *staying)["changed"] or changed

    def _note(self, path: str, before: str, after: str) -> None:
        header = {"before_header": path, "after_header": path}
        self.diff.append(dict(header, before=before, after=after))


def answer(params: dict[str, Any], dry: bool = False) -> dict[str, Any]:
    """The result of the module `gpu_venv`; RefusedError and OSError are its failures."""
    environment = Environment(Context(), params["venv"], dry)
    environment.check()
    pip = origin.current().pip(params["pip"])
    result = {"changed": False, "venv": environment.path, "kept": [], "would": ""}
    if params["state"] == "absent":
        result.update(_absent(environment))
    elif params["begin"]:
        result["begun"] = result["changed"] = environment.begin(pip)
    elif params["state"] == "looked":
        result.update(environment.look())
        if not (result["complete"] or dry):
            environment.refuse_in_use()
    else:
        result.update(_present(environment, dict(params, pip=pip)))
    return dict(result, diff=environment.diff)


def _absent(environment: Environment) -> dict[str, Any]:
    if not environment.dry:
        return venv_place.remove(environment.context, environment.root)
    if not venv_place.would_remove(environment.context, environment.root):
        return {}
    would = f"Would remove the venvs that this role made below {environment.root}"
    return {"changed": True, "would": would}


def _present(environment: Environment, params: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    state = environment.look() if environment.dry else None
    if state is not None and not state["complete"]:
        verb = "repair" if state["finished"] else "make"
        result["would"] = f"Would {verb} {environment.path}: {', '.join(state['missing'])}"
    result.update(environment.bring(params["pip"], begun=params["begun"]))
    if params["switch"]:
        switched = environment.switch(params["keep_old"], params["beside"])
        result["changed"] = switched or result["changed"]
    return result
