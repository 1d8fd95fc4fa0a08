"""No index is believed unless a pinned key signed it and its hash is the signed one."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import tracemalloc
import urllib.error
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import Any, ClassVar

import pytest
from debian.deb822 import Release

from provision.catalog import keys, load
from provision.catalog.rows import Archive, PlatformRow
from provision.errors import InputError, MachineError, UnsatisfiableError
from provision.upstream import debian, download, release, wheels
from provision.upstream.keys import dearmor
from tests.unit.generator.recorded import DATA

IN_RELEASE = (DATA / "bullseye-security.InRelease").read_bytes()
SECURITY = load().platforms[0].archives[2]


def test_debians_own_signature_holds() -> None:
    text, pinned = release.verify(IN_RELEASE, SECURITY, keys())
    assert Release(text)["Codename"] == "bullseye-security"
    assert pinned == SECURITY.signed_by


def test_one_changed_byte_is_refused() -> None:
    changed = IN_RELEASE.replace(b"Codename: bullseye-security", b"Codename: bullseye-sekurity")
    with pytest.raises(InputError, match="signature does not hold") as caught:
        release.verify(changed, SECURITY, keys())
    assert "BADSIG" in caught.value.got


def test_a_signature_by_a_key_that_is_not_pinned_is_refused() -> None:
    """Debian's archive key is in the keyring too, but security is not signed by it."""
    other = SECURITY.model_copy(update={"signed_by": ["A4285295FC7B1A81600062A9605C66F00D6C9793"]})
    with pytest.raises(InputError, match="signature does not hold"):
        release.verify(IN_RELEASE, other, keys())


@pytest.mark.parametrize("data", [b"", b"<html>login</html>", b"Origin: Debian\n"])
def test_what_is_not_signed_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match="signature does not hold"):
        release.verify(data, SECURITY, keys())


def test_text_around_the_signed_part_is_not_read() -> None:
    """Only what gpgv verified counts; a prepended field must not."""
    try:
        text, _ = release.verify(b"Codename: forged\n\n" + IN_RELEASE, SECURITY, keys())
    except InputError:
        return
    assert "forged" not in text


def test_no_gpgv_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MachineError, match="gpgv is not installed") as caught:
        release.verify(IN_RELEASE, SECURITY, keys())
    assert caught.value.exit_code == 7


def fingerprint(key: bytes) -> str:
    """Of a key's first packet, its primary key (RFC 4880, 12.2: SHA-1 over 0x99, length, body).

    A short key (Ed25519) has its packet's length in one byte, an RSA key in two (RFC 4880, 4.2.1).
    """
    assert key[0] in (0x98, 0x99), "an old-format public-key packet"
    size = 1 if key[0] == 0x98 else 2
    length = int.from_bytes(key[1 : 1 + size], "big")
    body = key[1 + size : 1 + size + length]
    hashed = b"\x99" + length.to_bytes(2, "big") + body
    return hashlib.sha1(hashed).hexdigest().upper()  # noqa: S324  OpenPGP says so


def test_the_shipped_keys_are_the_pinned_ones() -> None:
    """Every pinned fingerprint can be checked with what ships, and nothing more ships."""
    shipped = {fingerprint(dearmor(text)) for text in keys().values()}
    assert shipped == {k for p in load().platforms for a in p.archives for k in a.signed_by}


class Server:
    """Answers from a mapping, and counts."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.asked: list[str] = []

    def __call__(self, url: str) -> bytes:
        self.asked.append(url)
        return self.files[url]


PACKAGES = lzma.compress(b"Package: a\nVersion: 1\nFilename: a.deb\nSize: 1\nSHA256: 00\n\n")
BASE = "http://archive.test/dists/suite"


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> PlatformRow:
    """A platform with one archive, whose signature is taken as good."""
    digest = hashlib.sha256(PACKAGES).hexdigest()
    text = f"Date: today\nSHA256:\n {digest} {len(PACKAGES)} main/binary-amd64/Packages.xz\n"

    def verify(data: bytes, archive: Archive, _keys: Any) -> tuple[str, list[str]]:
        return text, list(archive.signed_by)

    monkeypatch.setattr(debian, "verify", verify)
    archive = Archive(
        url="http://archive.test",
        suite="suite",
        label="suite",
        components=["main"],
        signed_by=["0" * 40],
    )
    return load().platforms[0].model_copy(update={"archives": [archive]})


def test_indices_are_read_and_cached(platform: PlatformRow, tmp_path: Path) -> None:
    url = f"{BASE}/main/binary-amd64/Packages.xz"
    server = Server({f"{BASE}/InRelease": b"x", url: PACKAGES})
    first = debian.read(platform, {}, cache=tmp_path, get=server)
    assert [(p.name, p.origin) for p in first.packages] == [("a", "suite/main")]
    assert debian.read(platform, {}, cache=tmp_path, get=server) == first
    assert server.asked.count(url) == 1


def test_a_damaged_cache_is_fetched_again(platform: PlatformRow, tmp_path: Path) -> None:
    url = f"{BASE}/main/binary-amd64/Packages.xz"
    server = Server({f"{BASE}/InRelease": b"x", url: PACKAGES})
    debian.read(platform, {}, cache=tmp_path, get=server)
    for file in (tmp_path / "indices").iterdir():
        file.write_bytes(b"rotten")
    debian.read(platform, {}, cache=tmp_path, get=server)
    assert server.asked.count(url) == 2


def test_an_index_with_another_hash_is_refused_and_not_kept(
    platform: PlatformRow, tmp_path: Path
) -> None:
    url = f"{BASE}/main/binary-amd64/Packages.xz"
    server = Server({f"{BASE}/InRelease": b"x", url: b"something else"})
    with pytest.raises(InputError, match="not the index that was signed"):
        debian.read(platform, {}, cache=tmp_path, get=server)
    assert not list(tmp_path.rglob("*"))


MIRROR = "http://mirror.test"


def mirrored(platform: PlatformRow) -> PlatformRow:
    archive = platform.archives[0].model_copy(update={"mirrors": [MIRROR]})
    return platform.model_copy(update={"archives": [archive]})


class Places(Server):
    """What is not there is gone; `down` can't be reached."""

    def __init__(self, files: dict[str, bytes], down: str = "nowhere") -> None:
        super().__init__(files)
        self.down = down

    def __call__(self, url: str) -> bytes:
        self.asked.append(url)
        if url.startswith(self.down):
            raise MachineError("cannot fetch a package index", where=url, got="refused")
        if url not in self.files:
            raise download.GoneError("there is no such file", where=url, got="404 Not Found")
        return self.files[url]


def files(base: str) -> dict[str, bytes]:
    at = f"{base}/dists/suite"
    return {f"{at}/InRelease": b"x", f"{at}/main/binary-amd64/Packages.xz": PACKAGES}


@pytest.mark.parametrize("down", ["nowhere", "http://archive.test"])
def test_a_suite_that_left_its_url_is_read_from_a_mirror(
    platform: PlatformRow, tmp_path: Path, down: str
) -> None:
    indices = debian.read(mirrored(platform), {}, cache=tmp_path, get=Places(files(MIRROR), down))
    assert [p.name for p in indices.packages] == ["a"]
    assert [s.url for s in indices.sources] == [MIRROR]


def test_a_mirror_is_not_asked_where_the_url_answers(platform: PlatformRow, tmp_path: Path) -> None:
    server = Places({**files("http://archive.test"), **files(MIRROR)})
    indices = debian.read(mirrored(platform), {}, cache=tmp_path, get=server)
    assert [s.url for s in indices.sources] == ["http://archive.test"]
    assert not [url for url in server.asked if url.startswith(MIRROR)]


def test_a_half_mirrored_suite_is_read_whole_from_one_place(
    platform: PlatformRow, tmp_path: Path
) -> None:
    """An index that belongs to another InRelease would have another hash."""
    server = Places({f"{BASE}/InRelease": b"x", **files(MIRROR)})
    indices = debian.read(mirrored(platform), {}, cache=tmp_path, get=server)
    assert [s.url for s in indices.sources] == [MIRROR]
    assert f"{MIRROR}/dists/suite/InRelease" in server.asked


def test_a_wrong_signature_is_not_passed_over(
    platform: PlatformRow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who can answer for the archive must not be able to send us elsewhere."""

    def refuse(_data: bytes, archive: Archive, _keys: Any) -> tuple[str, list[str]]:
        raise InputError("the index's signature does not hold", where=archive.url)

    monkeypatch.setattr(debian, "verify", refuse)
    server = Places({**files("http://archive.test"), **files(MIRROR)})
    with pytest.raises(InputError, match="does not hold") as caught:
        debian.read(mirrored(platform), {}, cache=tmp_path, get=server)
    assert caught.value.where == "http://archive.test"


def test_a_mirror_is_held_to_the_same_keys(
    platform: PlatformRow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def refuse(_data: bytes, archive: Archive, _keys: Any) -> tuple[str, list[str]]:
        seen.append((archive.url, archive.signed_by))
        raise InputError("the index's signature does not hold", where=archive.url)

    monkeypatch.setattr(debian, "verify", refuse)
    with pytest.raises(InputError):
        debian.read(mirrored(platform), {}, cache=tmp_path, get=Places(files(MIRROR)))
    assert seen == [(MIRROR, ["0" * 40])]


def test_a_suite_that_is_gone_everywhere_says_what_helps(
    platform: PlatformRow, tmp_path: Path
) -> None:
    with pytest.raises(download.GoneError, match="the suite is gone") as caught:
        debian.read(mirrored(platform), {}, cache=tmp_path, get=Places({}))
    assert caught.value.expected == f"http://archive.test or {MIRROR}"
    assert "404" in caught.value.got
    assert "snapshot.debian.org" in caught.value.hint
    gone: list[Archive] = []
    indices = debian.read(mirrored(platform), {}, cache=tmp_path, get=Places({}), gone=gone)
    assert [a.suite for a in gone] == ["suite"]
    assert indices.packages == ()


def test_a_suite_that_cannot_be_reached_is_not_gone(platform: PlatformRow, tmp_path: Path) -> None:
    gone: list[Archive] = []
    server = Places({}, down=MIRROR)
    with pytest.raises(MachineError, match="no place has the suite") as caught:
        debian.read(mirrored(platform), {}, cache=tmp_path, get=server, gone=gone)
    assert not isinstance(caught.value, download.GoneError)
    assert gone == []


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("SHA256:\n aa 1 p\n bb  22 ./q\nSHA512:\n cc 1 p\n", {"p": ("aa", 1), "./q": ("bb", 22)}),
        ("SHA512:\n cc 1 p\n", {"p": ("cc", 1)}),
        ("SHA256: aa 1 p\n", {"p": ("aa", 1)}),
        ("SHA256:\nDate: today\n", {}),
        ("MD5Sum:\n dd 1 p\n", {}),
    ],
)
def test_the_checksums_of_a_release(text: str, known: dict[str, tuple[str, int]]) -> None:
    assert release.checksums(Release(text), where="x") == known


@pytest.mark.parametrize("line", ["aa 1", "aa p 1"])
def test_checksums_that_are_none(line: str) -> None:
    """They ended in a traceback."""
    with pytest.raises(InputError, match="an index can't be read") as caught:
        release.checksums(Release(f"SHA256:\n {line}\n bb 1 q\n"), where="http://a.test/InRelease")
    assert caught.value.where == "http://a.test/InRelease"


def signed(monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    """What is signed says this too."""
    before = debian.verify

    def verify(*arguments: Any) -> tuple[str, list[str]]:
        text, pinned = before(*arguments)
        return f"{field}\n{text}", pinned

    monkeypatch.setattr(debian, "verify", verify)


@pytest.mark.parametrize("until", ["Sat, 08 Aug 2026 09:16:30 UTC", "some day"])
def test_an_index_that_has_expired_is_refused(
    platform: PlatformRow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: str
) -> None:
    """An old InRelease of an archive that is plain HTTP was taken, with the holes of its time."""
    signed(monkeypatch, f"Valid-Until: {until}")
    with pytest.raises(InputError, match="the index has expired") as caught:
        debian.read(platform, {}, cache=tmp_path, get=Places(files("http://archive.test")))
    assert caught.value.where == f"{BASE}/InRelease"
    assert caught.value.got == f"Valid-Until: {until}"


@pytest.mark.parametrize(
    "field", ["Valid-Until: Thu, 28 Nov 2999 00:53:02 UTC", "Suite: oldstable"]
)
def test_an_index_that_is_valid_or_never_expires_is_read(
    platform: PlatformRow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    """Debian's main suites, and all of a release that gets no updates, have no such field."""
    signed(monkeypatch, field)
    indices = debian.read(platform, {}, cache=tmp_path, get=Places(files("http://archive.test")))
    assert [p.name for p in indices.packages] == ["a"]


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("https://snapshot.debian.org/archive/debian/20260801T000000Z", True),
        ("http://snapshot.test/archive/debian/20260801T000000Z", True),
        ("https://snapshot.ubuntu.com/ubuntu/20260801T000000Z", True),
        ("http://archive.debian.org/debian", True),
        ("http://old-releases.ubuntu.com/ubuntu", True),
        ("http://archive.debian.org.mirror.test/debian", False),
        ("http://mirror.test/20260801", False),
    ],
)
def test_a_snapshot_that_the_user_names_has_expired_on_purpose(
    platform: PlatformRow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, taken: bool
) -> None:
    signed(monkeypatch, "Valid-Until: Sat, 08 Aug 2026 09:16:30 UTC")
    archive = platform.archives[0].model_copy(update={"url": url})
    row = platform.model_copy(update={"archives": [archive]})
    if taken:
        assert debian.read(row, {}, cache=tmp_path, get=Places(files(url))).packages
    else:
        with pytest.raises(InputError, match="expired"):
            debian.read(row, {}, cache=tmp_path, get=Places(files(url)))


@pytest.mark.parametrize(("code", "gone"), [(404, True), (410, True), (503, False)])
def test_a_server_says_what_is_gone(monkeypatch: pytest.MonkeyPatch, code: int, gone: bool) -> None:
    def answer(_opener: object, url: str, **_k: Any) -> None:
        raise urllib.error.HTTPError(url, code, "so it is", Message(), None)

    monkeypatch.setattr("urllib.request.OpenerDirector.open", answer)
    with pytest.raises(MachineError) as caught:
        download.fetch("http://deb.debian.org/x")
    assert isinstance(caught.value, download.GoneError) == gone
    assert caught.value.got == f"{code} so it is"
    assert "--archive-mirror" in caught.value.hint
    assert caught.value.exit_code == 7


def test_an_answer_without_an_end_is_not_read_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless:
        """As an answer of urllib's; nothing of a body without a limit comes to an end."""

        status = 200
        headers: ClassVar[dict[str, str]] = {}

        def __enter__(self) -> Endless:
            return self

        def __exit__(self, *_a: object) -> None:
            pass

        def read1(self, size: int = -1) -> bytes:
            assert size > 0, "it would never end"
            return b"x" * size

    monkeypatch.setattr(download, "LARGEST", 1000)
    monkeypatch.setattr("urllib.request.OpenerDirector.open", lambda *_a, **_k: Endless())
    with pytest.raises(MachineError, match="larger than any package index"):
        download.fetch("http://deb.debian.org/x")


@pytest.mark.parametrize(
    ("path", "pack"), [("Packages.xz", lzma.compress), ("./Packages.gz", gzip.compress)]
)
@pytest.mark.parametrize("listed", [True, False])
def test_an_index_is_not_unpacked_without_end(
    monkeypatch: pytest.MonkeyPatch, path: str, pack: Callable[[bytes], bytes], listed: bool
) -> None:
    """To what the release file says, and where that says nothing to what no index has."""
    sizes = {path.rpartition(".")[0]: ("0" * 64, 1000)} if listed else {}
    if not listed:
        monkeypatch.setattr(release, "_LARGEST", 1000)
    assert release.unpacked(path, pack(b"x" * 1000), sizes) == "x" * 1000
    if listed:
        with pytest.raises(InputError, match="unpacks to more"):
            release.unpacked(path, pack(b"x"), {path.rpartition(".")[0]: ("", -9)})
    for body in (pack(b"x" * 1001), pack(b"x" * 600) * 2, pack(bytes(50 << 20))):
        tracemalloc.start()
        with pytest.raises(InputError, match="unpacks to more than it should") as caught:
            release.unpacked(path, body, sizes)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
        tracemalloc.stop()
        assert caught.value.where == path


@pytest.mark.parametrize("program", ["uv", "gpgv"])
def test_a_program_that_hangs_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str
) -> None:
    hanging = tmp_path / program
    hanging.write_text("#!/bin/sh\nexec sleep 600\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(wheels, "uv", lambda: str(hanging))
    monkeypatch.setattr(wheels, "UV_TIMEOUT", 1)
    monkeypatch.setattr(release, "_TIMEOUT", 1)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    asked: dict[str, Callable[[], Any]] = {
        "uv": lambda: wheels.requirements(["numpy"], [], **ASKED),
        "gpgv": lambda: release.verify(IN_RELEASE, SECURITY, keys()),
    }
    with pytest.raises(MachineError, match=f"{program} did not end"):
        asked[program]()


@pytest.fixture
def uv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A uv that keeps what it was given, and answers with what `answer` says."""
    program = tmp_path / "uv"
    program.write_text(
        "#!/bin/sh\n"
        f'cp locked.txt {tmp_path}/seed; echo "$@" > {tmp_path}/arguments\n'
        f"echo 'numpy==1' > locked.txt; . {tmp_path}/answer\n"
    )
    program.chmod(0o755)
    (tmp_path / "answer").write_text("exit 0\n")
    monkeypatch.setattr(wheels, "uv", lambda: str(program))
    return tmp_path


ASKED = {"python": "3.9", "wheel_platform": "x86_64-manylinux_2_31"}


def test_uv_is_given_the_locked_versions_without_their_hashes(uv: Path) -> None:
    """uv takes over the hashes of its output file without asking the index."""
    text = wheels.requirements(["numpy"], [], prefer={"six": "1.17.0", "numpy": "1"}, **ASKED)
    assert text == "numpy==1\n"
    assert (uv / "seed").read_text() == "numpy==1\nsix==1.17.0\n"
    assert "--generate-hashes" in (uv / "arguments").read_text()


def test_no_solution_is_not_a_fault_of_the_network(uv: Path) -> None:
    (uv / "answer").write_text("echo 'No solution found when resolving' >&2; exit 1\n")
    with pytest.raises(UnsatisfiableError, match="no set of wheels that fits"):
        wheels.requirements(["numpy"], [], **ASKED)
    assert not wheels.has_wheel("numpy", "9", **ASKED)
    (uv / "answer").write_text("echo 'Failed to fetch' >&2; exit 2\n")
    with pytest.raises(MachineError, match="could not lock"):
        wheels.has_wheel("numpy", "9", **ASKED)


def test_no_network_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_a: Any, **_k: Any) -> None:
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr("urllib.request.OpenerDirector.open", refuse)
    for url, option in (
        ("http://deb.debian.org/debian/dists/bullseye/InRelease", "--archive-mirror PLATFORM=URL"),
        ("https://developer.download.nvidia.com/compute/cuda/x/InRelease", "--nvidia-mirror URL"),
    ):
        with pytest.raises(MachineError, match="cannot fetch") as caught:
            download.fetch(url)
        assert "Name or service not known" in caught.value.got
        assert f"; {option}" in caught.value.hint
        assert caught.value.exit_code == 7


def test_uv_that_finds_no_index_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_CACHE_DIR", "/tmp/provision-test-uv")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    with pytest.raises(MachineError, match="could not lock the wheels"):
        wheels.requirements(
            ["tensorflow==2.9.3"], [], python="3.9", wheel_platform="x86_64-manylinux_2_31"
        )


@pytest.mark.parametrize(
    ("environment", "hosts"),
    [
        ({"UV_DEFAULT_INDEX": "http://ada:s3cret@pypi.test/simple"}, ["pypi.test"]),
        ({"UV_INDEX": "lab=http://a.test/x https://b.test/y http://c.test"}, ["a.test", "c.test"]),
        ({"UV_FIND_LINKS": "/srv/wheels,http://w.test"}, ["w.test"]),
        ({"UV_INDEX_URL": "https://pypi.test/simple"}, []),
        ({"UV_INDEX_URL": "http://127.0.0.1:3141/root/pypi"}, []),
        ({}, []),
    ],
)
def test_an_index_of_wheels_over_plain_http_is_warned_of(
    environment: dict[str, str], hosts: list[str]
) -> None:
    """Its hashes were locked without a word."""
    messages = wheels.plain_indexes(environment)
    assert [text.split(" names ")[1].split(" ")[0] for text in messages] == hosts
    assert "s3cret" not in "".join(messages)
