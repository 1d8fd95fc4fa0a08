"""What the proving ground makes, dpkg, gpgv and apt take for a real package and repository."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import own_apt
from tests.ground import cuda, deb, repository
from tests.ground import site as sites
from tests.ground.server import Authority, WebServer
from tests.ground.site import Site

pytestmark = pytest.mark.usefixtures("own_cache")


def package(directory: Path, name: str, version: str = "1.0-1", **more: str) -> Path:
    fields = {
        "Package": name,
        "Version": version,
        "Architecture": "amd64",
        "Maintainer": "nobody <nobody@example.test>",
        **more,
        "Description": "made by a test",
    }
    made = deb.Writer(
        directory / f"{name}_{version}_amd64.deb", fields, {"postinst": "#!/bin/sh\n"}
    )
    made.file("usr/local/cuda-11.2/bin/nvcc", b"#!/bin/sh\n", 0o755)
    made.link("usr/local/cuda-11.2/lib64", "targets/x86_64-linux/lib")
    made.file("etc/ld.so.conf.d/988_cuda-11.conf", "/usr/local/cuda-11\n")
    return made.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A site of one small package."""
    (tmp_path / "made").mkdir()
    made = package(tmp_path / "made", "cuda-nvcc-11-2", "11.2.152-1")
    root = tmp_path / "www"
    signer = repository.key("3bf863cc")
    sites.lay_out(root, [made], signer)
    authority = Authority(tmp_path / "tls")
    with WebServer(root, authority, address="127.0.0.1") as web:
        yield Site(root, web, signer, signer)


# gpgconf on a busy machine: it returns long before the agent has ended.
SLOW_END = """\
#!/bin/sh
case "$*" in
*--kill*) (sleep 1; exec {gpgconf} "$@") >/dev/null 2>&1 & ;;
*) exec {gpgconf} "$@" ;;
esac
"""


def test_a_signature_leaves_no_agent_that_is_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = repository.key("3bf863cc")
    gpgconf = tmp_path / "gpgconf"
    gpgconf.write_text(SLOW_END.format(gpgconf=shutil.which("gpgconf")))
    gpgconf.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert b"BEGIN PGP SIGNED MESSAGE" in signer.clearsign("Suite: focal\n")
    agent = ["gpg-connect-agent", "--no-autostart", "--homedir", str(signer.home), "/bye"]
    done = subprocess.run(agent, capture_output=True, text=True, check=False)
    assert "no gpg-agent running" in done.stderr, done


def dpkg(*arguments: str) -> str:
    return subprocess.run(
        ["dpkg-deb", *arguments], capture_output=True, text=True, check=True
    ).stdout


def test_dpkg_reads_a_package(tmp_path: Path) -> None:
    made = package(tmp_path, "one", Depends="libc6")
    assert dpkg("--field", str(made), "Package", "Depends").split() == [
        *("Package:", "one", "Depends:", "libc6"),
    ]
    listed = dpkg("--contents", str(made))
    assert "-rwxr-xr-x root/root" in listed
    assert "./usr/local/cuda-11.2/lib64 -> targets/x86_64-linux/lib" in listed
    out = tmp_path / "control"
    dpkg("--control", str(made), str(out))
    assert (out / "conffiles").read_text() == "/etc/ld.so.conf.d/988_cuda-11.conf\n"
    assert (out / "postinst").stat().st_mode & 0o111


def test_the_same_contents_are_the_same_bytes(tmp_path: Path) -> None:
    texts = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        texts.append(package(tmp_path / name, "one").read_bytes())
    assert texts[0] == texts[1]


def test_a_package_can_be_read_without_dpkg(tmp_path: Path) -> None:
    made = package(tmp_path, "one")
    found = {path: entry for path, entry, _ in deb.files(made)}
    assert found["usr/local/cuda-11.2/lib64"].linkname == "targets/x86_64-linux/lib"
    assert "Package: one" in deb.control(made)


def test_both_signatures_verify(site: Site, tmp_path: Path) -> None:
    top = site.root / sites.CUDA
    keyring = tmp_path / "key.gpg"
    keyring.write_bytes(site.key.dearmored())
    for arguments in (["InRelease"], ["Release.gpg", "Release"]):
        subprocess.run(["gpgv", "--keyring", str(keyring), *arguments], cwd=top, check=True)


def test_the_layout_is_nvidias(site: Site) -> None:
    names = {path.name for path in (site.root / sites.CUDA).iterdir()}
    assert {
        *("Packages", "Packages.gz", "Release", "Release.gpg", "InRelease", "3bf863cc.pub"),
        *("cuda-ubuntu2004.pin", "cuda-keyring_1.1-1_all.deb"),
        "cuda-nvcc-11-2_11.2.152-1_amd64.deb",
    } <= names
    key = (site.root / sites.CUDA / "3bf863cc.pub").read_text()
    assert key.startswith("-----BEGIN PGP PUBLIC KEY BLOCK-----")
    assert site.key.fingerprint != "EB693B3035CD5710E231E123A4B469963BF863CC"


def apt(
    site: Site, where: Path, *arguments: str, key: str = ""
) -> subprocess.CompletedProcess[str]:
    """This machine's apt with directories of its own, asking the site over TLS."""
    options = {
        "Acquire__https__CAInfo": site.ca,
        "Acquire__https__Proxy": "DIRECT",
        "Acquire__Retries": "0",
        "Acquire__Check-Date": "true",
        "Acquire__Check-Valid-Until": "true",
    }
    return own_apt.run(where, site.cuda_url, key or site.key.armored, *arguments, **options)


def test_apt_reads_it_and_gets_a_package(site: Site, tmp_path: Path) -> None:
    done = apt(site, tmp_path, "update")
    assert done.returncode == 0, done.stderr
    done = apt(site, tmp_path, "download", "cuda-nvcc-11-2")
    assert done.returncode == 0, done.stderr
    sent = {path.rsplit("/", 1)[1] for path in site.web.sent}
    assert "cuda-nvcc-11-2_11.2.152-1_amd64.deb" in sent


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("expired", "is expired"),
        ("expired-key", "EXPKEYSIG"),
        ("wrong-key", "NO_PUBKEY"),
        ("unsigned", "is not signed"),
        ("damaged", "unexpected size"),
    ],
)
def test_apt_refuses_what_is_spoiled_and_takes_it_again(
    site: Site, tmp_path: Path, how: str, expected: str
) -> None:
    site.spoil(how)
    key = (site.root / sites.CUDA / "3bf863cc.pub").read_text()
    done = apt(site, tmp_path, "update", key=key)
    assert done.returncode, done.stdout
    assert expected in done.stdout + done.stderr
    site.spoil("none")
    done = apt(site, tmp_path, "update")
    assert done.returncode == 0, done.stderr


def test_a_key_bound_with_sha1() -> None:
    def digests(key: repository.Key) -> set[str]:
        packets = subprocess.run(
            ["gpg", "--list-packets"], input=key.dearmored(), capture_output=True, check=True
        ).stdout.decode()
        return {
            line.split()[2].rstrip(",") for line in packets.splitlines() if "digest algo" in line
        }

    assert digests(repository.key("sha1")) == {"2"}
    assert "2" not in digests(repository.key("3bf863cc"))


def test_the_names_of_the_catalog_are_made() -> None:
    """What a lock asks of NVIDIA's repository for the runtime, the toolkit and nvcc."""
    import yaml

    text = (Path(__file__).parents[3] / "provision/catalog/sources.yml").read_text("utf-8")
    made = {f"{name}-<r>" for name in (*cuda.CONTENTS, *cuda.METAPACKAGES)}
    for row in yaml.safe_load(text)["nvidia_packages"]:
        for part in ("toolkit", "runtime", "nvcc"):
            assert set(row[part]) <= made
