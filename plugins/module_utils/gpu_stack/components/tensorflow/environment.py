"""Brings one environment to what is wished: looks at it, builds or repairs it, makes it current.

Read `bring` top to bottom. A damaged environment is never repaired file by file: a new one is built
beside it (`venv_place`), and what cannot be finished leaves the old one as it was. Wheels alone
that are missing or of another version are put in place by pip, in the environment itself.
"""

import contextlib
import hashlib
import json
import os
import shutil
import stat
import subprocess

from ...host import background, package_files
from ...host.context import Context
from .. import tensorflow
from . import activation_file, cuda_links, pip_install, venv_files, venv_place, venv_trust, venv_use
from .venv_place import RefusedError

# The wheels are 0.6 GB to download and 2.1 GB unpacked; pip holds both for a while. With CUDA and
# cuDNN among them it is about 7 GB more (estimated).
NEEDED, NEEDED_WITH_CUDA = 4294967296, 11811160064
GIB = 1073741824
# As timeout(1) and sysexits.h have it: it was not done, and may be tried again.
ENDED = 75


class Environment(object):
    """One environment that is wished, on the host of `context`; `dry`: nothing is changed.

    `wished`: root, version, python, interpreter, requirements (their text), requirements_sha256,
    requirements_name, prefix (the tree of CUDA, or "") and reinstall.
    """

    def __init__(self, context, wished, dry=False):
        self.context = context
        self.wished = wished
        self.dry = dry
        self.owner = venv_trust.Owner(context)
        self.root = wished["root"].rstrip("/")
        self.name = tensorflow.directory(wished)
        self.path = "{0}/{1}".format(self.root, self.name)
        self.building = "{0}/{1}{2}".format(self.root, venv_trust.BUILDING, self.name)
        self.pins = venv_files.pins(wished["requirements"])
        self.diff = []

    @property
    def of_cuda(self):
        """Whether CUDA's libraries are among the wheels."""
        return any(name.startswith("nvidia-") for name in self.pins)

    @property
    def mark(self):
        """What the file says that is written last."""
        return json.dumps(tensorflow.mark(self.wished))

    def works(self):
        """Whether there is a current version."""
        return self.context.exists(self.root + "/" + venv_place.CURRENT + "/bin/python")

    def site(self, place):
        return "{0}/lib/python{1}/site-packages".format(place, self.wished["python"])

    # what is there

    def check(self):
        """Refuses requirements that are not the ones which are wished."""
        text, name = self.wished["requirements"], self.wished["requirements_name"]
        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
        if digest != self.wished["requirements_sha256"]:
            words = (
                "{0} has SHA-256 {1}, but tensorflow_requirements_sha256 says {2}: they were not "
                "made together."
            )
            raise RefusedError(words.format(name, digest, self.wished["requirements_sha256"]))
        version = self.wished["version"]
        pinned = {"tensorflow": [self.pins.get("tensorflow", "")]}
        if venv_files.missing({"tensorflow": version}, pinned):
            raise RefusedError("{0} does not pin tensorflow=={1}.".format(name, version))

    def look(self):
        """{finished, complete, missing}; a refusal where others may change the way to it.

        `finished`: it needs no new one beside. Where others may write, root runs nothing, and
        nobody knows what is imported: such a one is made anew.
        """
        parents = venv_trust.parents(self.context, self.root)
        if parents is not None:
            words = (
                "{0}: who may write there can put anything in the place of {1}. Give it to root "
                "alone (chown root, chmod go-w), or set tensorflow_root to a directory that is. "
                "Nothing was touched."
            )
            raise RefusedError(words.format(parents, self.root))
        found = {"marker": tensorflow.marker(self.context, self.path + "/" + tensorflow.MARKER)}
        finished = (
            not self.wished["reinstall"]
            and tensorflow.finished(self.wished, found)
            and self.context.exists(self.path + "/bin/python")
            and not venv_trust.look(self.context, self.path, self.wished["python"])
        )
        present = tensorflow.wheels(self.context.listdir(self.site(self.path)))
        missing = venv_files.missing(self.pins, present)
        digest = package_files.digest(self.context, self.path + "/requirements.txt", "sha256")
        as_locked = digest == self.wished["requirements_sha256"]
        return {
            "finished": finished,
            "complete": finished and not missing and as_locked,
            "missing": missing,
        }

    def refuse_in_use(self):
        """Nobody's libraries are changed under a running program."""
        people = venv_use.names_of_users(self.context, [self.path])
        if people:
            words = (
                "{0} would be changed, and is in use by {1}. Run again when they have ended; none "
                "is ever ended for you. Nothing was touched."
            )
            raise RefusedError(words.format(self.path, ", ".join(people[:5])))

    # the way to it

    def bring(self, pip, begun=False, job=pip_install.JOB):
        """Makes it what is wished; {"changed", "kept"}. `begun`: pip was begun by `begin`."""
        if begun:
            outcome = self._taken(job)
            changed, kept = True, self._conclude(outcome)
        else:
            seen = self.look()
            changed, kept = not seen["complete"], None
            if self.dry:
                changed = changed or bool(venv_trust.left_in(self.context, self.root))
            elif seen["complete"]:
                changed = venv_place.clean(self.context, self.root)
            else:
                kept = self._conclude(self._prepared(seen["finished"], pip)())
        if self.of_cuda:
            changed = bool(cuda_links.bring(self.site(self.path), self.dry)) or changed
        changed = self._activate(self.path) or changed
        changed = bool(self._open()) or changed
        return {"changed": changed, "kept": [kept] if kept else []}

    def begin(self, pip, job=pip_install.JOB):
        """Makes ready for the wheels, and begins pip behind other tasks; False where it can't."""
        seen = self.look()
        if seen["complete"] or self.dry:
            return False
        work = self._prepared(seen["finished"], pip)
        try:
            background.begin(job, work)
        except (background.BusyError, OSError):
            return False  # it is done in its own turn then
        return True

    def _taken(self, job):
        """What the work returned that `begin` began."""
        try:
            outcome = background.result(job)
        except background.EndedError as error:
            outcome, why = None, str(error)
        else:
            why = "what was begun behind other tasks was ended before it was done"
        if outcome is None:
            place = self.path if self.look()["finished"] else self.building
            outcome = {"place": place, "made": False, "rc": ENDED, "err": why}
        return outcome

    def _prepared(self, finished, pip):
        """Makes the place for the wheels; the work that is left, as a function."""
        self.refuse_in_use()
        place, made = self.path, False
        if not finished:
            place = self.building
            self._refuse_without_room()
            made = self._make_root()
        venv_place.clean(self.context, self.root)
        if not finished:
            said = self._make_venv(place)
            if said is not None:
                self._conclude({"place": place, "made": made, "rc": 1, "err": said})
        self._write_requirements(place)
        # pip unpacks beside what it installs, and one that was killed leaves hundreds of megabytes.
        for name in venv_files.listed(place):
            path = os.path.join(place, name)
            if name.startswith("pip-") and os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)

        def work():
            rc, err = pip_install.install(place, pip)
            return {"place": place, "made": made, "rc": rc, "err": err}

        return work

    def _refuse_without_room(self):
        free = self.context.disk_free(self.root)
        needed = NEEDED_WITH_CUDA if self.of_cuda else NEEDED
        if free is not None and free < needed:
            words = (
                "{0} has {1} GiB free; TensorFlow {2} needs {3} GiB while it is being installed. "
                "Make room, or set tensorflow_root to another filesystem. The venv was not touched."
            )
            sizes = [round(size / GIB, 1) for size in (free, needed)]
            raise RefusedError(words.format(self.root, sizes[0], self.wished["version"], sizes[1]))

    def _make_root(self):
        """The directory of all environments, root's and open to all; whether it was not there."""
        made = []
        path = os.path.realpath(self.root)
        while not os.path.isdir(path):
            made.append(path)
            path = os.path.dirname(path)
        for new in reversed(made):
            os.mkdir(new, 0o755)
        for new in made or [self.root]:
            os.chown(new, self.owner.uid, self.owner.groups[0])
            os.chmod(new, 0o755)  # noqa: S103  everybody runs what is in it
        return bool(made)

    def _make_venv(self, place):
        """Why an empty environment could not be made; None where it is there."""
        argv = [self.wished["interpreter"], "-I", "-m", "venv", place]
        with pip_install.readable():
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                check=False,
            )  # fmt: skip
        if not done.returncode:
            return None
        return "{0}: {1}".format(" ".join(argv), done.stdout.decode("utf-8", "replace"))

    def _write_requirements(self, place):
        path, text = place + "/requirements.txt", self.wished["requirements"]
        before = venv_files.content(path)
        if before != text.encode("utf-8"):
            self._note(path, (before or b"").decode("utf-8", "replace"), text)
            venv_place.replace(path, text.encode("utf-8"))
        os.chown(path, self.owner.uid, self.owner.groups[0])
        os.chmod(path, 0o644)

    def _conclude(self, outcome):
        """What comes after pip: it takes its place, or a refusal says why not; where a former one
        was kept.
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
            # Everything is on the disk before the mark is: after a power cut a mark tells of a
            # whole venv. It is newer than all its files, so that what is newer was touched later.
            if finished:
                venv_place.write_mark(self.path, self.mark)
                return None
            if self.of_cuda:
                cuda_links.bring(self.site(place))
            self._activate(place)
            return venv_place.finish(self.context, self.root, self.name, self.mark)
        except (RefusedError, OSError, subprocess.SubprocessError) as error:
            venv_place.clean(self.context, self.root)
            raise RefusedError(self._not_installed(str(error))) from error

    def _not_installed(self, why):
        return pip_install.not_installed(self.wished["version"], why, self.works())

    def _activate(self, place):
        """Names the environment's own CUDA to those who activate it; whether that was new."""
        path = place + "/bin/activate"
        before, after = activation_file.bring(path, self.wished["prefix"], dry=self.dry)
        if before == after:
            return False
        self._note(path, before, after)
        return True

    def _open(self):
        """Lets everybody into it, and nobody change what is in use; what was closed."""
        found = []
        info = self.context.stat(self.root)
        uid = self.owner.uid
        if info is not None and (info.st_uid != uid or info.st_mode & 0o022):
            found.append(self.root)
            if not self.dry:
                os.chown(self.root, uid, -1)
                os.chmod(self.root, stat.S_IMODE(info.st_mode) & ~0o022)
        site = self.site(self.path)
        ways = [self.root, self.path, self.path + "/bin", self.path + "/lib"]
        closed = tensorflow.closed(self.context, [*ways, os.path.dirname(site), site], 0o555)
        for path in closed if not self.dry else ():
            os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | 0o555)  # noqa: S103
        return found + closed

    def switch(self, keep_old, beside):
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
                os.rename(current, "{0}.backup-{1}".format(current, int(info.st_mtime)))
        if self.context.readlink(current) != self.name:
            changed = True
            if not self.dry:
                venv_place.put_link(current, self.name)
        elif (info.st_uid, info.st_gid) != root:
            changed = True
        if changed and not self.dry:
            os.lchown(current, *root)
        if keep_old:
            return changed
        staying = [self.name, *beside]
        if self.dry:
            return venv_place.would_remove(self.context, self.root, *staying) or changed
        return venv_place.remove(self.context, self.root, *staying)["changed"] or changed

    def _note(self, path, before, after):
        header = {"before_header": path, "after_header": path}
        self.diff.append(dict(header, before=before, after=after))


def answer(params, dry=False):
    """What the module `gpu_venv` returns; RefusedError and OSError say what a person reads."""
    here = Environment(Context(), params["venv"], dry)
    here.check()
    result = {"changed": False, "venv": here.path, "kept": [], "would": ""}
    if params["state"] == "absent":
        result.update(_absent(here))
    elif params["begin"]:
        result["begun"] = result["changed"] = here.begin(params["pip"])
    elif params["state"] == "looked":
        result.update(here.look())
        if not (result["complete"] or dry):
            here.refuse_in_use()
    else:
        result.update(_present(here, params))
    return dict(result, diff=here.diff)


def _absent(here):
    if not here.dry:
        return venv_place.remove(here.context, here.root)
    if not venv_place.would_remove(here.context, here.root):
        return {}
    words = "Would remove the venvs that this role made below {0}"
    return {"changed": True, "would": words.format(here.root)}


def _present(here, params):
    result = {}
    seen = here.look() if here.dry else None
    if seen is not None and not seen["complete"]:
        does = "repair" if seen["finished"] else "make"
        listed = ", ".join(seen["missing"])
        result["would"] = "Would {0} {1}: {2}".format(does, here.path, listed)
    result.update(here.bring(params["pip"], begun=params["begun"]))
    if params["switch"]:
        switched = here.switch(params["keep_old"], params["beside"])
        result["changed"] = switched or result["changed"]
    return result
