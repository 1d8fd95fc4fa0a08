"""What is accepted as an archive of cuDNN, what is refused, and what is left behind."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cudnn_archives import (
    CUDA,
    HEADER,
    LIBRARY,
    NAME,
    VERSION,
    Member,
    directory,
    everything,
    file,
    link,
    nvidia,
    pack,
    special,
    wish,
)
from gpu_stack.components.cudnn import archive as archives
from gpu_stack.components.cudnn import layout, versions
from gpu_stack.components.cudnn.layout import Version
from gpu_stack.host.context import Context

from provision.locallab import cudnn_archive

HERE = Context()


def put_and_switch(wished: Version, archive: Path, **more: Any) -> dict[str, Any]:
    """As a run does it, with the name of the directory that has the libraries."""
    result = versions.put(HERE, wished, str(archive), **more)
    switched = versions.switch(HERE, wished)
    seen = versions.look(HERE, wished)
    return {
        "changed": result["changed"] or switched["changed"],
        "backup": result["backup"] + switched["backup"],
        "library": layout.library_directory(seen["names"]),
    }


def install(root: Path, archive: Path, sha256: str, **more: Any) -> dict[str, Any]:
    return put_and_switch(wish(root, sha256), archive, **more)


def look(root: Path, sha256: str) -> dict[str, Any]:
    """As `versions.look`, with the name of the directory that has the libraries."""
    found: dict[str, Any] = versions.look(HERE, wish(root, sha256))
    return {**found, "library": layout.library_directory(found["names"])}


@pytest.fixture
def installed(root: Path, archive: Path) -> str:
    """The hash of an archive that is installed."""
    sha256: str = pack(archive, nvidia())
    install(root, archive, sha256)
    return sha256


def refusal(root: Path, archive: Path, sha256: str) -> str:
    """The message of a refused archive, which must leave nothing on the host."""
    before = everything(root.parents[2])
    with pytest.raises(archives.RefusalError) as caught:
        install(root, archive, sha256)
    assert everything(root.parents[2]) == before
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("library", ["lib64", "lib"])
@pytest.mark.parametrize("compression", ["gz", "xz"])
def test_a_good_archive_becomes_the_current_version(
    root: Path, archive: Path, library: str, compression: str
) -> None:
    sha256 = pack(archive, nvidia(library), compression)
    assert not look(root, sha256)["complete"]
    assert install(root, archive, sha256) == {"changed": True, "backup": [], "library": library}
    assert os.readlink(root / "current") == NAME
    assert (root / "current" / library / "libcudnn.so").read_bytes() == LIBRARY
    seen = look(root, sha256)
    assert (seen["complete"], seen["current"], seen["library"]) == (True, True, library)
    assert everything(root.parent) >= {f"cudnn/{NAME}/{library}/libcudnn.so.8"}
    assert not [name for name in os.listdir(root) if name.startswith(".")]


def test_an_archive_of_8_3_or_later_has_another_layout(root: Path, tmp_path: Path) -> None:
    """A directory of its own name, lib instead of lib64, static libraries, xz."""
    version, cuda, top = "8.7.0.84", "11", "cudnn-linux-x86_64-8.7.0.84_cuda11-archive"
    header = HEADER.replace(b"MINOR 1", b"MINOR 7")
    members = [
        directory(top + "/"),
        file(f"{top}/LICENSE", b"terms"),
        directory(f"{top}/include"),
        file(f"{top}/include/cudnn.h", b'#include "cudnn_version.h"'),
        file(f"{top}/include/cudnn_version.h", header),
        directory(f"{top}/lib"),
        link(f"{top}/lib/libcudnn.so", "libcudnn.so.8"),
        link(f"{top}/lib/libcudnn.so.8", "libcudnn.so.8.7.0"),
        file(f"{top}/lib/libcudnn.so.8.7.0", LIBRARY, 0o755),
        file(f"{top}/lib/libcudnn_ops_infer_static_v8.a", b"!<arch>"),
        link(f"{top}/lib/libcudnn_ops_infer_static.a", "libcudnn_ops_infer_static_v8.a"),
    ]
    archive = tmp_path / (top + ".tar.xz")
    sha256 = pack(archive, members, "xz")
    result = put_and_switch(wish(root, sha256, version, cuda), archive)
    assert result == {"changed": True, "backup": [], "library": "lib"}
    seen = versions.look(HERE, wish(root, sha256, version, cuda))
    assert (seen["complete"], seen["current"]) == (True, True)
    assert os.readlink(root / "current") == "8.7.0.84-cuda11"
    assert (root / "current" / "lib" / "libcudnn.so").read_bytes() == LIBRARY
    assert (root / "current" / "LICENSE").read_bytes() == b"terms"
    assert not (root / "current" / top).exists()


def test_what_a_lab_packs_is_what_the_role_unpacks(root: Path, tmp_path: Path) -> None:
    for version, build in cudnn_archive.BUILDS.items():
        numbers = dict(zip((b"MAJOR", b"MINOR", b"PATCHLEVEL"), version.split("."), strict=False))

        def fetch(where: Path, numbers: dict[bytes, str] = numbers) -> None:
            lines = [b"#define CUDNN_%s %s\n" % (k, n.encode()) for k, n in numbers.items()]
            for name, content in (
                ("include/cudnn_version.h", b"".join(lines)),
                ("lib/libcudnn.so.8", LIBRARY),
            ):
                path = where / "nvidia" / "cudnn" / name
                path.parent.mkdir(parents=True)
                path.write_bytes(content)

        made = cudnn_archive.pack(tmp_path / "cache", version=version, fetch=fetch)
        wanted = (made.version, made.cuda, made.sha256)
        result = put_and_switch(Version(str(root), *wanted), made.path)
        assert result["library"] == build.library
        assert versions.look(HERE, Version(str(root), *wanted))["complete"]


def damage(path: Path) -> str:
    """Nothing but ones in the middle; returns the SHA-256 of what is there now."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 1000] = b"\xff" * 1000
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def test_a_damaged_xz_archive_is_refused_in_one_line(root: Path, archive: Path) -> None:
    """lzma has an error class of its own, which tarfile hands through."""
    # Such content as is really compressed: what is only stored can change without notice.
    content = b"".join(hashlib.sha256(b"%d" % n).hexdigest().encode() for n in range(8000))
    sha256 = pack(archive, [*nvidia(), file("cuda/big", content)], "xz")
    damaged = damage(archive)
    assert "it is another archive, or was changed on its way" in refusal(root, archive, sha256)
    # and where the wished hash is that of the damaged file
    assert "cannot be unpacked" in refusal(root, archive, damaged)


def test_everybody_may_read_what_was_unpacked_whatever_the_umask(root: Path, archive: Path) -> None:
    sha256 = pack(archive, nvidia())
    before = os.umask(0o077)
    try:
        install(root, archive, sha256)
    finally:
        os.umask(before)
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            wanted = 0o755 if path.is_dir() or path.name.startswith("libcudnn") else 0o644
            assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_the_manifest_describes_every_file(root: Path, installed: str) -> None:
    manifest = json.loads((root / NAME / ".provision-manifest.json").read_text())
    assert manifest == {
        "format": 1,
        "version": VERSION,
        "cuda": CUDA,
        "archive_sha256": installed,
        "files": {
            "include/cudnn_version.h": {
                "size": len(HEADER),
                "sha256": hashlib.sha256(HEADER).hexdigest(),
                "mode": "0644",
            },
            "lib64/libcudnn.so.8.1.0": {
                "size": len(LIBRARY),
                "sha256": hashlib.sha256(LIBRARY).hexdigest(),
                "mode": "0755",
            },
            "lib64/libcudnn.so.8": {"link": "libcudnn.so.8.1.0"},
            "lib64/libcudnn.so": {"link": "libcudnn.so.8"},
        },
    }


def test_a_second_run_changes_nothing_and_needs_no_archive(
    root: Path, archive: Path, installed: str
) -> None:
    archive.unlink()
    assert install(root, archive, installed)["changed"] is False


def test_hard_links_inside_the_archive_become_files(root: Path, archive: Path) -> None:
    members = [
        *nvidia(),
        link("cuda/lib64/copy.so", "cuda/lib64/libcudnn.so.8.1.0", tarfile.LNKTYPE),
    ]
    sha256 = pack(archive, members)
    install(root, archive, sha256)
    copy = root / NAME / "lib64" / "copy.so"
    assert copy.read_bytes() == LIBRARY
    assert copy.stat().st_nlink == 1


BAD_MEMBERS: list[tuple[str, Member, str]] = [
    ("absolute", file("/etc/cron.d/evil"), "absolute path '/etc/cron.d/evil'"),
    ("parent", file("cuda/../../evil"), "leaves its directory"),
    ("top-level", file("evil"), "more than one top directory"),
    ("device", special("cuda/null", tarfile.CHRTYPE), "device"),
    ("block", special("cuda/sda", tarfile.BLKTYPE), "device"),
    ("fifo", special("cuda/pipe", tarfile.FIFOTYPE), "special file"),
    ("link-out", link("cuda/lib64/x", "../../evil"), "leaves its directory"),
    ("link-absolute", link("cuda/lib64/x", "/etc/passwd"), "absolute path '/etc/passwd'"),
    ("hard-out", link("cuda/x", "cuda/../../evil", tarfile.LNKTYPE), "leaves its directory"),
    ("hard-absolute", link("cuda/x", "/etc/passwd", tarfile.LNKTYPE), "leaves its directory"),
    ("hard-nothing", link("cuda/x", "cuda/none", tarfile.LNKTYPE), "to nothing it holds"),
    ("twice", file("cuda/include/cudnn_version.h"), "twice"),
    ("through-file", file("cuda/include/cudnn_version.h/x"), "as a directory"),
    ("second-top", file("other/x"), "more than one top directory ('cuda' and 'other')"),
]


@pytest.mark.parametrize(
    ("member", "words"), [case[1:] for case in BAD_MEMBERS], ids=[c[0] for c in BAD_MEMBERS]
)
def test_a_dangerous_member_is_refused(
    root: Path, archive: Path, member: Member, words: str
) -> None:
    sha256 = pack(archive, [*nvidia(), member])
    assert words in refusal(root, archive, sha256)


def test_nothing_is_written_through_a_link(root: Path, archive: Path) -> None:
    """A link that stays inside, and a file below it: the link would be followed while unpacking."""
    members = [*nvidia(), link("cuda/bin", "include"), file("cuda/bin/tool")]
    sha256 = pack(archive, members)
    assert "both as a link and as a directory" in refusal(root, archive, sha256)


def test_another_hash_is_refused_with_both_hashes(root: Path, archive: Path) -> None:
    sha256 = pack(archive, nvidia())
    message = refusal(root, archive, "0" * 64)
    assert sha256 in message
    assert "0" * 64 in message
    assert "another archive" in message


@pytest.mark.parametrize("how", ["written", "replaced"])
def test_what_was_hashed_is_what_is_unpacked(
    root: Path, archive: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cudnn_host_file lies where a user writes: the file was opened again after it was hashed."""
    sha256 = pack(archive, nvidia())
    archive.parent.chmod(0o755)
    evil = archive.with_name("evil.tgz")
    pack(evil, [*nvidia(), file("cuda/lib64/evil.so")])
    unpack = archives.unpack

    def swapped(*arguments: Any) -> Any:
        if how == "written":
            archive.write_bytes(evil.read_bytes())
        else:
            evil.replace(archive)
        return unpack(*arguments)

    monkeypatch.setattr(versions, "unpack", swapped)
    install(root, archive, sha256)
    assert (root / "current/lib64/libcudnn.so.8").exists()
    assert not list(root.rglob("evil.so"))
    assert not list(root.glob(".staging-*"))


def test_a_file_that_only_we_can_write_is_not_copied(root: Path, archive: Path) -> None:
    pack(archive, nvidia())
    for mode, private in ((0o700, True), (0o755, False), (0o770, False)):
        archive.parent.chmod(mode)
        with archives.open_archive(str(archive)) as stream:
            assert archives.is_private(str(archive), stream) is private


@pytest.mark.parametrize("kind", ["fifo", "directory", "loop"])
def test_only_a_regular_file_is_an_archive(root: Path, archive: Path, kind: str) -> None:
    """A named pipe in its place held the run for ever."""
    if kind == "fifo":
        os.mkfifo(archive)
    elif kind == "directory":
        archive.mkdir()
    else:
        archive.symlink_to(archive.name)
    assert f"cannot read {archive}" in refusal(root, archive, "0" * 64)


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's link needs root")
def test_a_users_link_is_not_followed(root: Path, archive: Path) -> None:
    sha256 = pack(archive.with_name("real.tgz"), nvidia())
    archive.symlink_to("real.tgz")
    install(root, archive, sha256)
    os.chown(archive, 65534, 65534, follow_symlinks=False)
    with pytest.raises(archives.RefusalError, match="was made by a user"):
        install(root, archive, sha256, again=True)


def test_a_truncated_archive_is_called_so(root: Path, archive: Path) -> None:
    sha256 = pack(archive, [*nvidia(), file("cuda/lib64/big", os.urandom(500_000))])
    archive.write_bytes(archive.read_bytes()[:200_000])
    assert "cut short after 200000 bytes" in refusal(root, archive, sha256)


def test_a_truncated_archive_of_the_wished_hash_is_refused_too(root: Path, archive: Path) -> None:
    pack(archive, [*nvidia(), file("cuda/lib64/big", os.urandom(500_000))])
    archive.write_bytes(archive.read_bytes()[:200_000])
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert "cannot be unpacked" in refusal(root, archive, sha256)


@pytest.mark.parametrize("page", [b"<!DOCTYPE html><html>Log in</html>", b"\n <HTML lang=en>"])
def test_a_login_page_is_called_a_web_page(root: Path, archive: Path, page: bytes) -> None:
    archive.write_bytes(page)
    assert "is a web page" in refusal(root, archive, "0" * 64)


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "is empty"), (b"PK\x03\x04", "not a compressed")]
)
def test_what_is_no_archive_is_called_so(
    root: Path, archive: Path, content: bytes, words: str
) -> None:
    archive.write_bytes(content)
    assert words in refusal(root, archive, "0" * 64)


def test_a_file_that_is_not_there_is_named(root: Path, archive: Path) -> None:
    assert f"cannot read {archive}" in refusal(root, archive, "0" * 64)


def test_another_version_than_the_wished_is_refused(root: Path, archive: Path) -> None:
    sha256 = pack(archive, nvidia(header=HEADER.replace(b"MINOR 1", b"MINOR 5")))
    assert "holds cuDNN 8.5.0, not 8.1.0.77" in refusal(root, archive, sha256)


def test_an_archive_without_header_or_library_is_refused(root: Path, archive: Path) -> None:
    sha256 = pack(archive, [file("cuda/lib64/libcudnn.so.8")])
    assert "no include/cudnn_version.h" in refusal(root, archive, sha256)
    sha256 = pack(archive, [file("cuda/include/cudnn_version.h", HEADER)])
    assert "no lib/libcudnn.so.8" in refusal(root, archive, sha256)


def test_a_full_disk_is_one_sentence_and_leaves_nothing(
    root: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha256 = pack(archive, nvidia())

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(versions, "write_manifest", full)
    assert "no space left" in refusal(root, archive, sha256)


def test_a_refused_archive_leaves_the_version_in_use(
    root: Path, tmp_path: Path, installed: str
) -> None:
    bad = tmp_path / "bad.tgz"
    other = pack(bad, [*nvidia(), file("/evil")])
    with pytest.raises(archives.RefusalError):
        put_and_switch(wish(root, other, "8.2.0.1", CUDA), bad)
    assert look(root, installed)["complete"]
    assert sorted(os.listdir(root)) == [NAME, "current"]


def remove(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    path.write_bytes(b"short")


def hide(path: Path) -> None:
    path.chmod(0o600)


DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (remove, "missing"),
    (truncate, "bytes"),
    (hide, "mode 0600"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGES)
def test_a_damaged_version_is_seen_and_rebuilt(
    root: Path, archive: Path, damage: Callable[[Path], None], words: str, installed: str
) -> None:
    damage(root / NAME / "lib64" / "libcudnn.so.8.1.0")
    assert words in look(root, installed)["problems"][0]
    assert install(root, archive, installed)["changed"] is True
    assert look(root, installed)["complete"]
    # Other content is kept, for somebody may have written it.
    others = {name.partition(".backup-")[0] for name in os.listdir(root)}
    assert others == {NAME, "current"}


def test_a_redirected_link_is_seen(root: Path, installed: str) -> None:
    path = root / NAME / "lib64" / "libcudnn.so.8"
    path.unlink()
    path.symlink_to("/tmp/libcudnn.so.8")
    assert "not a link to libcudnn.so.8.1.0" in look(root, installed)["problems"][0]


def test_damage_that_only_a_hash_shows_is_repaired_on_request(
    root: Path, archive: Path, installed: str
) -> None:
    path = root / NAME / "lib64" / "libcudnn.so.8.1.0"
    path.write_bytes(LIBRARY[::-1])
    assert install(root, archive, installed)["changed"] is False
    assert install(root, archive, installed, again=True)["changed"] is True
    assert path.read_bytes() == LIBRARY


def test_foreign_things_in_the_way_are_kept(root: Path, archive: Path) -> None:
    sha256 = pack(archive, nvidia())
    (root / NAME).mkdir(parents=True)
    (root / NAME / "mine").write_text("keep")
    (root / "current").mkdir()
    (root / "current" / "also mine").write_text("keep")
    backup = install(root, archive, sha256)["backup"]
    assert len(backup) == 2
    assert Path(backup[0], "mine").read_text() == "keep"
    assert Path(backup[1], "also mine").read_text() == "keep"
    assert look(root, sha256)["complete"]


def test_switching_back_needs_no_archive_and_pruning_spares_what_is_foreign(
    root: Path, tmp_path: Path, installed: str
) -> None:
    newer = tmp_path / "newer.tgz"
    other = pack(newer, nvidia(header=HEADER.replace(b"MINOR 1", b"MINOR 2")))
    put_and_switch(wish(root, other, "8.2.0.53", CUDA), newer)
    assert os.readlink(root / "current") == "8.2.0.53-cuda11.2"
    (root / "someone-elses").mkdir()
    assert versions.switch(HERE, wish(root, installed))["changed"] is True
    assert os.readlink(root / "current") == NAME
    assert versions.prune(HERE, wish(root, installed)) == []
    assert sorted(os.listdir(root)) == [NAME, "current", "someone-elses"]


def test_what_a_killed_run_left_is_removed(root: Path, archive: Path) -> None:
    sha256 = pack(archive, nvidia())
    (root / ".staging-killed" / "lib64").mkdir(parents=True)
    install(root, archive, sha256)
    assert sorted(os.listdir(root)) == [NAME, "current"]
