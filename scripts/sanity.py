"""Runs `ansible-test sanity` on the collection as its tarball installs it: `make sanity`.

What is not followed stands in tests/sanity/ignore.txt, each line with its reason. PowerShell's
analyser is left out: the collection has none. ansible-test makes a virtual environment per test and
fetches pip's bootstrap script from a site of Ansible's; pip's wheel of the same version, from PyPI
by its hash, does the same work, so PyPI is enough.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
IGNORED = ROOT / "tests" / "sanity" / "ignore.txt"
# What ansible-test of ansible-core 2.17 to 2.19 installs (python_requirements.py), and PyPI's hash.
PIP = "24.2"
PIP_SHA256 = "2cd581cf58ab7fcfca4ce8efa6dcacd0de5bf8d0a3eb9ec927e07405f4d9e2a2"
# The options are those of get-pip.py, which leaves setuptools and wheel out by itself.
BOOTSTRAP = """\
import sys
sys.path.insert(0, {wheel!r})
from pip._internal.cli.main import main
own = ("--no-setuptools", "--no-wheel")
sys.exit(main(["install", "--upgrade", *(word for word in sys.argv[1:] if word not in own)]))
"""


def run(*argv: str, cwd: Path, env: dict[str, str] | None = None) -> None:
    subprocess.run(argv, cwd=cwd, env=env, check=True)


def bootstrap(home: Path) -> None:
    """Puts pip's bootstrap script where ansible-test looks before it downloads one."""
    wheels = home / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    wanted = wheels / "pip.txt"
    wanted.write_text(f"pip=={PIP} --hash=sha256:{PIP_SHA256}\n", "ascii")
    run(
        sys.executable, "-m", "pip", "--quiet", "download", "--no-deps", "--require-hashes",
        "--dest", str(wheels), "--requirement", str(wanted), cwd=home,
    )  # fmt: skip
    (wheel,) = wheels.glob(f"pip-{PIP}-*.whl")
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    script = cache / f"get_pip_{PIP.replace('.', '_')}.py"
    script.write_text(BOOTSTRAP.format(wheel=str(wheel)), "utf-8")


def install(folder: Path) -> Path:
    """The collection, installed from its tarball below `folder`, and what is ignored in it."""
    run(str(BIN / "ansible-galaxy"), "collection", "build", str(ROOT), "--output-path", str(folder),
        cwd=folder)  # fmt: skip
    (tarball,) = folder.glob("provision-gpu-*.tar.gz")
    run(str(BIN / "ansible-galaxy"), "collection", "install", "--offline", "-p", str(folder),
        str(tarball), cwd=folder)  # fmt: skip
    place = folder / "ansible_collections" / "provision" / "gpu"
    version = subprocess.run(
        [sys.executable, "-c", "import ansible.release; print(ansible.release.__version__)"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    name = "ignore-{}.{}.txt".format(*version.split(".")[:2])
    (place / "tests" / "sanity").mkdir(parents=True)
    # Its import test is ignored by the version of the Python that imports.
    ignored = IGNORED.read_text("utf-8").replace(
        "import-PYTHON", "import-{}.{}".format(*sys.version_info[:2])
    )
    (place / "tests" / "sanity" / name).write_text(ignored + without_licence(place), "utf-8")
    # ansible-test asks git which files there are.
    run("git", "init", "--quiet", ".", cwd=place)
    run("git", "add", "--all", cwd=place)
    return place


def without_licence(place: Path) -> str:
    """Lines that let every plugin be without a licence of its own, which ansible-test asks for."""
    plugins = [path for kind in ("callback", "lookup", "modules")
               for path in sorted((place / "plugins" / kind).glob("*.py"))]  # fmt: skip
    return "".join(
        f"{path.relative_to(place)} validate-modules:missing-gplv3-license # it is in LICENSE\n"
        for path in plugins
    )


def main(arguments: Sequence[str]) -> int:
    """The exit status of `ansible-test sanity`; `arguments` are further ones of its own."""
    with tempfile.TemporaryDirectory(prefix="provision-sanity-") as made:
        home = Path(made) / "home"
        home.mkdir()
        bootstrap(home)
        place = install(Path(made))
        version = "{}.{}".format(*sys.version_info)
        done = subprocess.run(
            [
                str(BIN / "ansible-test"), "sanity", "--requirements", "--python", version,
                "--skip-test", "pslint", *arguments,
            ],
            cwd=place, check=False,
            env={**os.environ, "HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}"},
        )  # fmt: skip
        return done.returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
