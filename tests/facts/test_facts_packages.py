"""What dpkg, update-alternatives and pip recorded on a real host, and what is read from it."""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path

import pytest
from gpu_stack.components.tensorflow import wheel_files
from gpu_stack.host import file_state, loader, package_files
from gpu_stack.host.context import Context, run_nothing

from tests import host_tree

DATA = Path(__file__).parent / "debian11"
BUILT, INSTALLED, LATER = 1_655_664_320, 1_760_000_000, 1_770_000_000
LIB = "/usr/lib/x86_64-linux-gnu"
NAME = "libcupti11.2"


def recorded(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


class Tree:
    """libcupti11.2 as dpkg unpacked it: its real file list, small contents, dpkg's times."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = [p for p in recorded(f"{NAME}.list").split() if p.count("/") > 3]
        self.files = [p for p in self.files if "." in p.rsplit("/", 1)[-1] or p.endswith("right")]
        self.files.append(f"/usr/share/lintian/overrides/{NAME}")
        self.files = sorted(set(self.files) - {f"/usr/share/doc/{NAME}"})
        sums = []
        for path in self.files:
            if path.endswith(".so.11.2"):
                self.link(path, "libcupti.so.2020.3.1", BUILT)
                continue
            self.write(path, path, BUILT)
            digest = hashlib.md5(path.encode()).hexdigest()  # noqa: S324  dpkg's own
            sums.append(f"{digest}  {path.lstrip('/')}\n")
        self.write(f"/var/lib/dpkg/info/{NAME}:amd64.md5sums", "".join(sums), BUILT)
        self.write(f"/var/lib/dpkg/info/{NAME}:amd64.list", recorded(f"{NAME}.list"), INSTALLED)
        self.status(NAME)

    def status(self, name: str) -> None:
        text = f"Package: {name}\nStatus: hold ok installed\nArchitecture: amd64\nVersion: 1\n"
        self.write("/var/lib/dpkg/status", text, INSTALLED)

    def write(self, path: str, text: str, when: int = LATER) -> None:
        os.utime(host_tree.put(self.root, path, text), (when, when))

    def link(self, path: str, target: str, when: int = LATER) -> None:
        link = host_tree.link(self.root, path, target)
        os.utime(link, (when, when), follow_symlinks=False)

    def context(self, *, deep: bool = False) -> Context:
        return Context(root=str(self.root), deep=deep, runner=run_nothing)

    def flaws(self, *, deep: bool = False, name: str = NAME) -> list[tuple[str, str]]:
        found = package_files.flaws(self.context(deep=deep), [name])
        return [(entry["path"], entry["fault"]) for entry in found]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_package_as_it_was_unpacked_has_no_flaw(tree: Tree) -> None:
    assert len(tree.files) == 7
    assert tree.flaws() == []
    assert tree.flaws(deep=True) == []


def test_a_file_that_is_gone(tree: Tree) -> None:
    (tree.root / f"usr/lib/x86_64-linux-gnu/{'libnvperf_host.so'}").unlink()
    assert tree.flaws() == [(f"{LIB}/libnvperf_host.so", "missing")]


def test_a_newer_file_is_read_and_named_where_its_content_is_another(tree: Tree) -> None:
    tree.write(f"{LIB}/libnvperf_host.so", "x")
    assert tree.flaws() == [(f"{LIB}/libnvperf_host.so", "altered")]


def test_a_file_that_was_only_touched_is_whole(tree: Tree) -> None:
    tree.write(f"{LIB}/libnvperf_host.so", f"{LIB}/libnvperf_host.so")
    assert tree.flaws() == []


def test_a_change_that_kept_the_time_is_seen_by_a_deep_look_alone(tree: Tree) -> None:
    tree.write(f"{LIB}/libnvperf_host.so", "x", BUILT)
    assert tree.flaws() == []
    assert tree.flaws(deep=True) == [(f"{LIB}/libnvperf_host.so", "altered")]


def test_a_file_emptied_by_a_crash_keeps_no_secret_behind_its_time(tree: Tree) -> None:
    tree.write(f"{LIB}/libnvperf_host.so", "", BUILT)
    assert tree.flaws() == [(f"{LIB}/libnvperf_host.so", "empty")]


def test_a_file_became_a_directory_or_a_link(tree: Tree) -> None:
    place = tree.root / f"{LIB}/libnvperf_host.so".lstrip("/")
    place.unlink()
    place.mkdir()
    tree.link(f"{LIB}/libnvperf_target.so", "/opt/x.so")
    assert tree.flaws() == [
        (f"{LIB}/libnvperf_host.so", "a directory"),
        (f"{LIB}/libnvperf_target.so", "a link to /opt/x.so"),
    ]


def test_a_link_that_was_made_anew_is_named_for_dpkg_keeps_no_targets(tree: Tree) -> None:
    tree.link(f"{LIB}/libcupti.so.11.2", "libnvperf_host.so")
    assert tree.flaws() == [(f"{LIB}/libcupti.so.11.2", "relinked")]


def test_a_link_is_no_flaw_where_only_its_target_is_gone(tree: Tree) -> None:
    (tree.root / f"{LIB}/libcupti.so.2020.3.1".lstrip("/")).unlink()
    assert tree.flaws() == [(f"{LIB}/libcupti.so.2020.3.1", "missing")]


def test_a_file_closed_to_users(tree: Tree) -> None:
    (tree.root / f"{LIB}/libnvperf_host.so".lstrip("/")).chmod(0o600)
    assert tree.flaws() == [(f"{LIB}/libnvperf_host.so", "mode 0600")]


def test_a_mode_that_the_administrator_has_set_is_theirs(tree: Tree) -> None:
    (tree.root / f"{LIB}/libnvperf_host.so".lstrip("/")).chmod(0o640)
    tree.write("/var/lib/dpkg/statoverride", f"root gpu 0640 {LIB}/libnvperf_host.so\n")
    assert tree.flaws() == []


def test_documents_are_for_the_deep_look_and_may_be_excluded(tree: Tree) -> None:
    path = f"/usr/share/doc/{NAME}/copyright"
    (tree.root / path.lstrip("/")).unlink()
    assert tree.flaws() == []
    assert tree.flaws(deep=True) == [(path, "missing")]
    excludes = "path-exclude=/usr/share/doc/*\npath-include /usr/share/doc/*/changelog*\n"
    tree.write("/etc/dpkg/dpkg.cfg.d/docker", excludes)
    assert tree.flaws(deep=True) == []


def test_a_diverted_file_is_looked_for_where_it_was_moved(tree: Tree) -> None:
    """glx-diversions moves other packages' libGL aside; the list names the old place."""
    moved = recorded("diversions").splitlines()
    assert len(moved) % 3 == 0
    assert package_files.diversions(Context(root=str(tree.root), runner=run_nothing)) == {}
    old, new = f"{LIB}/libnvperf_host.so", f"{LIB}/aside/libnvperf_host.so"
    tree.write(new, old, BUILT)
    (tree.root / old.lstrip("/")).unlink()
    tree.write("/var/lib/dpkg/diversions", f"{old}\n{new}\nglx-diversions\n")
    assert tree.flaws() == []
    assert tree.flaws(deep=True) == []
    tree.write(new, "x")
    assert tree.flaws() == [(new, "altered")]


def test_dpkgs_own_records_that_are_gone_or_edited(tree: Tree) -> None:
    record = f"/var/lib/dpkg/info/{NAME}:amd64"
    sums = (tree.root / f"{record}.md5sums".lstrip("/")).read_text()
    tree.write(f"{record}.md5sums", sums.replace("0", "1"))
    assert ("checksums", "changed") in tree.flaws()
    (tree.root / f"{record}.md5sums".lstrip("/")).unlink()
    assert tree.flaws() == []
    assert tree.flaws(deep=True) == [("checksums", "missing")]
    tree.write(f"{record}.list", "")
    assert tree.flaws() == [("file list", "missing")]


def test_a_clock_that_was_wrong_on_the_day_of_installation_alarms_nobody(tree: Tree) -> None:
    record = tree.root / f"var/lib/dpkg/info/{NAME}:amd64.list"
    os.utime(record, (1_000_000, 1_000_000))
    assert tree.flaws() == []


def test_a_missing_configuration_file_is_named_an_edited_one_is_the_administrators(
    tree: Tree,
) -> None:
    name = "nvidia-cuda-toolkit"
    tree.write("/var/lib/dpkg/status", recorded("dpkg-status-toolkit.txt"))
    assert package_files.conffiles(tree.context(), [name]) == {
        "/etc/nvcc.profile": "0c63448341cca826f014df0157f182f7"
    }
    tree.write(f"/var/lib/dpkg/info/{name}.list", "/.\n/etc\n/etc/nvcc.profile\n", INSTALLED)
    tree.write(f"/var/lib/dpkg/info/{name}.md5sums", "", BUILT)
    assert tree.flaws(name=name) == [("/etc/nvcc.profile", "missing")]
    tree.write("/etc/nvcc.profile", "edited")
    assert tree.flaws(name=name) == []
    assert tree.flaws(name=name, deep=True) == [("/etc/nvcc.profile", "altered")]
    [change] = package_files.flaw_changes(
        "cuda", package_files.flaws(tree.context(deep=True), [name])
    )
    assert change["repair"] == {"cuda_reinstall": [name], "cuda_conffiles": ["/etc/nvcc.profile"]}


def test_many_flaws_of_a_package_are_one_item(tree: Tree) -> None:
    for path in tree.files:
        (tree.root / path.lstrip("/")).unlink()
    [change] = package_files.flaw_changes(
        "cuda", package_files.flaws(tree.context(deep=True), [NAME])
    )
    assert (change["item"], change["from"]) == (f"{NAME} files", "7 files: missing")
    assert change["repair"] == {"cuda_reinstall": [NAME]}


def test_the_journal_of_a_killed_dpkg_is_read_after_its_status(tree: Tree) -> None:
    text = recorded("dpkg-status-toolkit.txt")
    tree.write("/var/lib/dpkg/status", text)
    assert tree.context().packages["nvidia-cuda-toolkit"]["status"] == "installed"
    journal = text.replace("hold ok installed", "hold ok half-configured")
    tree.write("/var/lib/dpkg/updates/0001", journal)
    assert tree.context().packages["nvidia-cuda-toolkit"]["status"] == "half-configured"


def _alternatives(tree: Tree) -> Context:
    text = recorded("alternatives-nvidia")
    tree.write("/var/lib/dpkg/alternatives/nvidia", text)
    lines = text.splitlines()
    tree.link(lines[1], "/etc/alternatives/nvidia")
    for name, link, target in zip(lines[2:18:2], lines[3:18:2], lines[21:29], strict=True):
        tree.write(target, "x")
        tree.link(link, "/etc/alternatives/" + name)
        tree.link("/etc/alternatives/" + name, target)
    tree.link("/etc/alternatives/nvidia", "/usr/lib/nvidia/current")
    return tree.context()


def test_the_record_of_an_alternative(tree: Tree) -> None:
    context = _alternatives(tree)
    record = package_files.alternative(context, "nvidia")
    assert record is not None
    assert record["mode"] == "auto"
    assert record["choices"] == ["/usr/lib/nvidia/current"]
    assert len(record["links"]) == 9
    assert package_files.broken_links(context, record) == []


def test_links_of_an_alternative_that_lead_elsewhere(tree: Tree) -> None:
    context = _alternatives(tree)
    tree.link("/etc/alternatives/nvidia--nvidia-smi", "/opt/nvidia-smi")
    (tree.root / "usr/lib/x86_64-linux-gnu/libcuda.so.1").unlink()
    record = package_files.alternative(context, "nvidia")
    assert package_files.broken_links(context, record) == [
        "/etc/alternatives/nvidia--nvidia-smi",
        "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    ]


@pytest.mark.parametrize("text", ["", "auto\n", "nonsense\n\n\n", "auto\n/x\n\n\n"])
def test_a_record_that_says_nothing(tree: Tree, text: str) -> None:
    tree.write("/var/lib/dpkg/alternatives/nvidia", text)
    assert package_files.alternative(tree.context(), "nvidia") is None


def test_a_wheels_record() -> None:
    text = recorded("wrapt-RECORD")
    lines = list(wheel_files.record_lines(text))
    assert len(lines) == len(text.splitlines())
    assert ("wrapt/__pycache__/doc.cpython-39.pyc", None, None) in lines
    assert list(wheel_files.record_lines(text, ".so")) == [
        (
            "wrapt/_wrappers.cpython-39-x86_64-linux-gnu.so",
            "hv2fhvIKqIHqcdWPrRYAryq_ZiniifoO4rvkBNKPQ0k",
            548672,
        )
    ]


def test_a_record_line_with_a_comma_in_its_path() -> None:
    assert list(wheel_files.record_lines('"a,b.so",sha256=x,3\n', ".so")) == [("a,b.so", "x", 3)]


def test_an_elf_file_that_ends_before_its_section_headers() -> None:
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", head, 0x28, 1000)
    struct.pack_into("<HH", head, 0x3A, 64, 10)
    assert not loader.cut_short(bytes(head), 1640)
    assert loader.cut_short(bytes(head), 1639)
    assert not loader.cut_short(b"\x7fELF\x01\x01" + bytes(head[6:]), 100)  # 32 bit: not judged
    assert not loader.cut_short(b"\x7fELF", 4)


def test_what_can_be_wrong_with_a_written_file(tree: Tree) -> None:
    context = tree.context()
    assert file_state.fault(context, "/etc/x") is None
    tree.write("/etc/x", "text")
    assert file_state.fault(context, "/etc/x") is None
    (tree.root / "etc/x").chmod(0o600)
    assert file_state.fault(context, "/etc/x") == "mode 0600"
    (tree.root / "etc/x").rename(tree.root / "etc/y")
    tree.link("/etc/x", "y")
    assert file_state.fault(context, "/etc/x") == "a link to y"
    (tree.root / "etc/x").unlink()
    (tree.root / "etc/x").mkdir()
    assert file_state.fault(context, "/etc/x") == "a directory"
    assert file_state.complaint(None, "text", "a directory") == "a directory"
    assert file_state.complaint(None, None, None) is None
    assert file_state.complaint("text", None, None) == "present"
    assert file_state.complaint("text", "text", None) is None
    assert file_state.complaint("other", "text", None) == "other content"


def test_an_empty_file_whose_checksum_was_lost_with_it(tree: Tree) -> None:
    tree.write(f"{LIB}/libnvperf_host.so", "", BUILT)
    tree.write(f"/var/lib/dpkg/info/{NAME}:amd64.md5sums", "", BUILT)
    assert tree.flaws() == [(f"{LIB}/libnvperf_host.so", "empty")]


def test_an_empty_file_that_the_package_ships_empty(tree: Tree) -> None:
    path = f"{LIB}/libnvperf_host.so"
    record = f"/var/lib/dpkg/info/{NAME}:amd64.md5sums"
    sums = (tree.root / record.lstrip("/")).read_text("utf-8")
    old = hashlib.md5(path.encode()).hexdigest()  # noqa: S324  dpkg's own
    tree.write(record, sums.replace(old, hashlib.md5(b"").hexdigest()), BUILT)  # noqa: S324
    tree.write(path, "", BUILT)
    assert tree.flaws() == []
