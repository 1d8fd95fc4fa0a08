"""Files that roles write whole: written, put right and taken away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_stack import removal
from gpu_stack.components import nvidia_driver
from gpu_stack.components.cuda import nvidia_cuda
from gpu_stack.host import managed_files
from gpu_stack.host.context import Context
from gpu_stack.host.managed_files import Entry, RefusalError
from gpu_stack.host.owned_files import owned, paths

from tests.collection import ACTIONS, IMPORTABLE, altered, module, programs, writes_json
from tests.host_tree import put

NEWEST = Path(sys.executable).parent / "ansible-playbook"
CONF = "/etc/ld.so.conf.d/ours.conf"
OTHER = "/etc/profile.d/ours.sh"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for path in (CONF, OTHER):
        (tmp_path / path[1:]).parent.mkdir(parents=True, exist_ok=True)
    return tmp_path


def bring(host: Path, *files: Entry, dry: bool = False) -> list[str]:
    differences = managed_files.bring(Context(root=str(host)), files, dry)
    return [difference["after_header"] for difference in differences]


def remove(host: Path, *files: Entry, **more: Any) -> dict[str, list[str]]:
    return managed_files.remove(Context(root=str(host)), files, **more)


def names(host: Path, path: str) -> list[str]:
    return sorted(os.listdir((host / path.lstrip("/")).parent))


# what is to be there


def test_a_missing_file_is_written_and_one_that_is_right_is_left(host: Path) -> None:
    assert bring(host, Entry(CONF, "/opt/lib\n")) == [CONF]
    place = host / CONF[1:]
    assert (place.read_text("utf-8"), place.stat().st_mode & 0o7777) == ("/opt/lib\n", 0o644)
    before = place.stat()
    assert bring(host, Entry(CONF, "/opt/lib\n")) == []
    assert place.stat().st_ino == before.st_ino
    assert names(host, CONF) == ["ours.conf"]


@pytest.mark.parametrize("fault", ["text", "mode", "link", "empty directory", "pipe"])
def test_what_the_look_complains_of_is_put_right(host: Path, fault: str) -> None:
    place, theirs = host / CONF[1:], put(host, "/etc/theirs", "/opt/lib\n")
    if fault == "text":
        put(host, CONF, "/opt/other\n")
    elif fault == "mode":
        put(host, CONF, "/opt/lib\n", 0o600)
    elif fault == "link":
        place.symlink_to(theirs)
    elif fault == "empty directory":
        place.mkdir()
    else:
        os.mkfifo(place)
    assert bring(host, Entry(CONF, "/opt/lib\n"), dry=True) == [CONF]
    assert bring(host, Entry(CONF, "/opt/lib\n")) == [CONF]
    assert place.is_file()
    assert not place.is_symlink()
    assert place.read_text("utf-8") == "/opt/lib\n"
    assert place.stat().st_mode & 0o7777 == 0o644
    assert theirs.read_text("utf-8") == "/opt/lib\n"
    assert bring(host, Entry(CONF, "/opt/lib\n")) == []


@pytest.mark.parametrize("what", ["link", "empty directory", "pipe"])
def test_what_is_no_file_goes_where_a_later_task_writes_one(host: Path, what: str) -> None:
    place, theirs = host / CONF[1:], put(host, "/etc/theirs", "theirs\n")
    if what == "link":
        place.symlink_to(theirs)
    elif what == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    context = Context(root=str(host))
    for dry in (True, False):
        assert os.path.lexists(place)
        (difference,) = managed_files.clear(context, [CONF, OTHER], dry)
        assert difference["after_header"] == CONF
    assert not os.path.lexists(place)
    assert theirs.read_text("utf-8") == "theirs\n"
    put(host, CONF, "a file\n")
    assert managed_files.clear(context, [CONF, OTHER]) == []
    assert place.read_text("utf-8") == "a file\n"


def test_a_full_directory_where_a_later_task_writes_a_file_is_refused(host: Path) -> None:
    put(host, f"{CONF}/theirs", "theirs\n")
    with pytest.raises(RefusalError, match=f"cannot remove '{CONF}': Directory not empty"):
        managed_files.clear(Context(root=str(host)), [CONF])
    assert (host / CONF[1:] / "theirs").is_file()


def test_a_mode_of_its_own_is_set(host: Path) -> None:
    bring(host, Entry(CONF, "secret\n", 0o600))
    assert (host / CONF[1:]).stat().st_mode & 0o7777 == 0o600


def test_a_file_with_another_text_is_backed_up_where_that_is_asked_for(host: Path) -> None:
    entry = Entry(CONF, "new\n", backup=True)
    bring(host, entry)
    put(host, CONF, "new\n", 0o600)
    bring(host, entry)
    assert names(host, CONF) == ["ours.conf"]
    put(host, CONF, "mine\n", 0o640)
    bring(host, entry, dry=True)
    assert names(host, CONF) == ["ours.conf"]
    bring(host, entry)
    name, backup = names(host, CONF)
    assert (name, backup[-1]) == ("ours.conf", "~")
    copy = (host / CONF[1:]).with_name(backup)
    assert (copy.read_text("utf-8"), copy.stat().st_mode & 0o777) == ("mine\n", 0o640)
    assert (host / CONF[1:]).read_text("utf-8") == "new\n"


def test_a_file_whose_mode_alone_was_wrong_keeps_its_age(host: Path) -> None:
    """An initramfs that is older than a file in it is built anew, which takes minutes."""
    place = put(host, CONF, "/opt/lib\n", 0o600)
    os.utime(place, (1e9, 1e9))
    assert bring(host, Entry(CONF, "/opt/lib\n")) == [CONF]
    assert place.stat().st_mtime == 1e9
    assert bring(host, Entry(CONF, "/opt/other\n")) == [CONF]
    assert place.stat().st_mtime > 1e9


def test_nothing_is_written_where_one_of_the_files_cannot_be(host: Path) -> None:
    (host / OTHER[1:] / "full").mkdir(parents=True)
    files = [Entry(CONF, "/opt/lib\n"), Entry(OTHER, "export A=1\n")]
    with pytest.raises(RefusalError, match=f"^cannot remove '{OTHER}': Directory not empty$"):
        bring(host, *files)
    with pytest.raises(RefusalError, match=r"^Destination directory /etc/nowhere does not exist$"):
        bring(host, files[0], Entry("/etc/nowhere/file", "x"))
    assert not (host / CONF[1:]).exists()


def test_a_dry_run_writes_nothing(host: Path) -> None:
    put(host, OTHER, "old\n")
    files = [
        Entry(CONF, "/opt/lib\n"),
        Entry(OTHER, None),
        Entry("/etc/new/f", "x", directory=True),
    ]
    assert bring(host, *files, dry=True) == [CONF, OTHER, "/etc/new", "/etc/new/f"]
    assert names(host, CONF) == []
    assert names(host, OTHER) == ["ours.sh"]
    assert not (host / "etc/new").exists()


def test_a_file_that_is_not_wanted_goes(host: Path) -> None:
    put(host, CONF, "/opt/lib\n")
    assert bring(host, Entry(CONF, None)) == [CONF]
    assert bring(host, Entry(CONF, None)) == []
    (host / CONF[1:]).symlink_to("nowhere")
    assert bring(host, Entry(CONF, None)) == [CONF]
    assert names(host, CONF) == []


def test_a_directory_is_made_and_set_right_where_it_is_asked_for(host: Path) -> None:
    entry = Entry("/etc/new/deep/file", "x\n", directory=True)
    assert bring(host, entry) == ["/etc/new/deep", "/etc/new/deep/file"]
    folder = host / "etc/new/deep"
    assert folder.stat().st_mode & 0o7777 == 0o755
    folder.chmod(0o700)
    assert bring(host, entry) == ["/etc/new/deep"]
    assert folder.stat().st_mode & 0o7777 == 0o755
    assert bring(host, entry) == []
    put(host, "/etc/plain", "")
    with pytest.raises(RefusalError, match=r"^/etc/plain already exists as a file$"):
        bring(host, Entry("/etc/plain/file", "x", directory=True))


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = put(host, CONF, "old\n")

    def fails(*_arguments: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(managed_files.os, "replace", fails)
    with pytest.raises(OSError, match="no space"):
        bring(host, Entry(CONF, "new\n"))
    assert place.read_text("utf-8") == "old\n"
    assert names(host, CONF) == ["ours.conf"]


# modes


def set_modes(host: Path, *wishes: str, **more: bool) -> list[str]:
    differences = managed_files.set_modes(Context(root=str(host)), wishes, **more)
    return [difference["after_header"] for difference in differences]


def test_modes_are_set_of_files_and_directories(host: Path) -> None:
    closed, place = host / "etc/profile.d", put(host, CONF, "x", 0o666)
    closed.chmod(0o700)
    wishes = ["/etc/profile.d 0755", f"{CONF} 0644"]
    assert set_modes(host, *wishes, dry=True) == ["/etc/profile.d", CONF]
    assert closed.stat().st_mode & 0o7777 == 0o700
    assert set_modes(host, *wishes) == ["/etc/profile.d", CONF]
    assert [path.stat().st_mode & 0o7777 for path in (closed, place)] == [0o755, 0o644]
    assert set_modes(host, *wishes) == []


def test_a_link_is_followed_only_where_it_may_be(host: Path) -> None:
    theirs = put(host, "/etc/theirs", "x", 0o600)
    (host / CONF[1:]).symlink_to("../theirs")
    assert set_modes(host, f"{CONF} 0644") == []
    assert theirs.stat().st_mode & 0o7777 == 0o600
    assert set_modes(host, f"{CONF} 0644", follow=True) == [CONF]
    assert theirs.stat().st_mode & 0o7777 == 0o644


def test_a_link_that_is_put_there_meanwhile_is_not_followed(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = put(host, "/etc/theirs", "x", 0o600)
    (host / CONF[1:]).symlink_to("../theirs")
    before = theirs.lstat()
    monkeypatch.setattr(Context, "lstat", lambda _self, _path: before)
    with pytest.raises(OSError, match="symbolic links"):
        set_modes(host, f"{CONF} 0644")
    assert theirs.stat().st_mode & 0o7777 == 0o600


def test_a_mode_of_what_is_missing_or_no_file_is_refused(host: Path) -> None:
    with pytest.raises(RefusalError, match=r"^file \(/etc/gone\) is absent, cannot continue$"):
        set_modes(host, "/etc/gone 0644")
    os.mkfifo(host / CONF[1:])
    with pytest.raises(RefusalError, match="is neither a file nor a directory"):
        set_modes(host, f"{CONF} 0644")


# what is to go


def test_an_unedited_file_goes_and_an_edited_one_is_kept(host: Path) -> None:
    put(host, CONF, "/opt/lib\n")
    put(host, OTHER, "export A=1\n# mine\n")
    files = [Entry(CONF, "/opt/lib\n"), Entry(OTHER, "export A=1\n"), Entry("/etc/gone", "x")]
    expected = {"removed": [CONF, OTHER], "kept": [OTHER + ".save"]}
    assert remove(host, *files, dry=True) == expected
    assert names(host, CONF) == ["ours.conf"]
    assert remove(host, *files) == expected
    assert names(host, CONF) == []
    assert names(host, OTHER) == ["ours.sh.save"]
    assert (host / OTHER[1:]).with_name("ours.sh.save").read_text("utf-8").endswith("# mine\n")
    assert remove(host, *files) == {"removed": [], "kept": []}


def test_earlier_kept_files_are_numbered(host: Path) -> None:
    for text in ("first", "second", "third"):
        put(host, CONF, text)
        remove(host, Entry(CONF, ""))
    folder = (host / CONF[1:]).parent
    assert {path.name: path.read_text("utf-8") for path in folder.iterdir()} == {
        "ours.conf.save.~1~": "first",
        "ours.conf.save.~2~": "second",
        "ours.conf.save": "third",
    }


@pytest.mark.parametrize("fault", ["mode", "link", "directory"])
def test_what_is_no_file_of_ours_any_more_is_kept(host: Path, fault: str) -> None:
    place, theirs = host / CONF[1:], put(host, "/etc/theirs", "text")
    if fault == "mode":
        put(host, CONF, "text", 0o600)
    elif fault == "link":
        place.symlink_to("../theirs")
    else:
        put(host / CONF[1:], "mine", "x") if place.mkdir() else None
    assert remove(host, Entry(CONF, "text"))["kept"] == [CONF + ".save"]
    assert names(host, CONF) == ["ours.conf.save"]
    assert theirs.read_text("utf-8") == "text"


def test_a_file_that_cannot_be_compared_stops_the_removal_where_it_is_there(host: Path) -> None:
    entry = Entry(CONF, None, unrendered="'version' is undefined")
    assert remove(host, entry)["removed"] == []
    put(host, CONF, "x")
    with pytest.raises(RefusalError, match=r"^'version' is undefined$"):
        remove(host, entry)
    assert names(host, CONF) == ["ours.conf"]


def test_others_go_as_they_are_and_links_are_not_followed(host: Path) -> None:
    put(host, "/etc/key", "edited")
    theirs = put(host, "/etc/theirs", "x")
    (host / "etc/link").symlink_to("theirs")
    result = remove(host, others=["/etc/key", "/etc/link", "/etc/gone"])
    assert result == {"removed": ["/etc/key", "/etc/link"], "kept": []}
    assert theirs.exists()


def test_a_directory_goes_where_nothing_is_left_in_it(host: Path) -> None:
    put(host, OTHER, "x")
    put(host, CONF, "edited")
    files = [Entry(OTHER, "x"), Entry(CONF, "x")]
    emptied = ["/etc/profile.d", "/etc/ld.so.conf.d", "/etc/gone"]
    expected = [OTHER, CONF, "/etc/profile.d"]
    assert remove(host, *files, emptied=emptied, dry=True)["removed"] == expected
    assert remove(host, *files, emptied=emptied)["removed"] == expected
    assert sorted(os.listdir(host / "etc")) == ["ld.so.conf.d"]


# Ansible's own way


def play(folder: Path, program: str, *tasks: dict[str, Any], **more: Any) -> tuple[Any, str]:
    """(each task's result, all that was said) of tasks with the module's options."""
    book = [
        {
            "provision.gpu.managed_files": words["options"],
            **{key: value for key, value in words.items() if key != "options"},
            "register": f"result{number}",
            "ignore_errors": True,
        }
        for number, words in enumerate(tasks)
    ]
    answer = ", ".join(f"result{number}" for number in range(len(tasks)))
    last = writes_json(folder / "out.json", "{{ [" + answer + "] | to_json }}")
    more["ansible_python_interpreter"] = sys.executable
    play = {"hosts": "localhost", "gather_facts": False, "vars": more, "tasks": [*book, last]}
    (folder / "book.yml").write_text(json.dumps([play]), "utf-8")
    done = subprocess.run(
        [str(program), "-i", "localhost,", "-c", "local", "--diff", "book.yml"],
        cwd=folder,
        env={
            **os.environ,
            **ACTIONS,
            "ANSIBLE_COLLECTIONS_PATH": str(IMPORTABLE),
            "ANSIBLE_NOCOLOR": "1",
        },
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    return json.loads((folder / "out.json").read_text("utf-8")), output


@pytest.mark.parametrize("program", programs("ansible-playbook"))
def test_ansible_renders_writes_and_takes_away(tmp_path: Path, program: str) -> None:
    (tmp_path / "templates/etc").mkdir(parents=True)
    template = "{% for one in directories %}\n{{ one }}\n{% endfor %}\n"
    (tmp_path / "templates/etc/ours.j2").write_text(template, "utf-8")
    (tmp_path / "templates/etc/unset.j2").write_text("{{ nobody_said }}\n", "utf-8")
    dest = tmp_path / "root/ours.conf"
    ours = {"src": "etc/ours.j2", "dest": str(dest), "directory": True}
    unwanted = {**ours, "wanted": "{{ directories | length > 9 }}"}
    unrendered = {"src": "etc/unset.j2", "dest": str(tmp_path / "root/none")}
    results, output = play(
        tmp_path,
        program,
        {"options": {"files": [ours]}, "check_mode": True},
        {"options": {"files": [ours]}},
        {"options": {"files": [ours]}, "diff": False},
        {"options": {"files": [unwanted]}, "diff": False, "check_mode": True},
        {"options": {"modes": [f"{dest} 0600"]}},
        {"options": {"files": [unrendered]}},
        {"options": {"state": "absent", "files": [ours, unrendered]}},
        directories=["/opt/a", "/opt/b"],
    )  # fmt: skip
    assert [result.get("changed", False) for result in results] == [
        *(True, True, False, True, True, False, True),
    ]
    assert [result.get("failed", False) for result in results] == [False] * 5 + [True, False]
    assert results[0]["written"] == results[1]["written"] == [str(dest.parent), str(dest)]
    assert output.count("+/opt/a") == 2
    assert "diff" not in results[3]
    assert "nobody_said" in results[5]["msg"]
    # What can't be rendered any more, and is not there, is in nobody's way.
    assert results[6]["removed"] == [str(dest)]
    assert results[6]["kept"] == [f"{dest}.save"]
    kept = Path(f"{dest}.save")
    assert kept.read_text("utf-8") == "/opt/a\n/opt/b\n"
    assert "edited" not in output


def test_what_a_plan_names_of_a_component_goes_as_it_is(tmp_path: Path) -> None:
    key = tmp_path / "cuda.asc"
    key.write_text("edited", "utf-8")
    rows = (
        "\n\ndef files(name, part):\n"
        f"    pattern = {str(tmp_path)!r} + '/' + name + '.a*'\n"
        "    return owned_files.owned(pattern) if part == 'keys' else []\n"
    )
    options = {"state": "absent", "component": "cuda", "part": "keys"}
    collections = altered(tmp_path / "collections", {"gpu_stack/removal.py": rows})
    more = ("-e", f"ansible_python_interpreter={sys.executable}")
    for check in (["--check"], []):
        assert key.exists()
        answer, _ = module(
            str(NEWEST.with_name("ansible")), "managed_files", options, *more, *check,
            path=collections,
        )  # fmt: skip
        assert (answer["changed"], answer["removed"]) == (True, [str(key)])
    assert not key.exists()


def test_no_component_has_no_files() -> None:
    assert removal.files("") == removal.files("tensorflow") == []


def test_files_stay_while_another_needs_them(host: Path) -> None:
    put(host, CONF, "x")
    put(host, OTHER, "# Source: network\n")
    context = Context(root=str(host))
    in_folder = "/etc/ld.so.conf.d/*"
    assert paths(context, owned(in_folder)) == [CONF]
    assert paths(context, owned(in_folder, needed_by="/etc/none")) == [CONF]
    assert paths(context, owned(in_folder, needed_by=OTHER)) == []
    assert paths(context, owned(in_folder, needed_by=OTHER, saying="Source: network")) == []
    assert paths(context, owned(in_folder, needed_by=OTHER, saying="Source: runfile")) == [CONF]


def test_with_cuda_from_the_platform_a_mirror_and_what_the_driver_needs_stay(host: Path) -> None:
    put(host, CONF, "")
    folders = ("preferences.d", "apt.conf.d", "sources.list.d")
    for name in folders:
        (host / "etc/apt" / name).mkdir(parents=True)
    (host / "usr/share/keyrings").mkdir(parents=True)
    loader, low = nvidia_cuda.LOADER, nvidia_cuda.LOW
    source = (nvidia_cuda.APT, nvidia_cuda.SOURCES, nvidia_cuda.KEY)
    mirror = "/etc/apt/sources.list.d/provision-cuda-mirror.sources"
    for path in (loader, low, *source, mirror):
        put(host, path, "x")
    nvidia = removal.files("cuda", "nvidia")
    assert paths(Context(root=str(host)), nvidia) == [loader, low, *source]
    put(host, nvidia_driver.PINS, "# Source: runfile\n")
    assert paths(Context(root=str(host)), nvidia) == [loader, low, *source]
    put(host, nvidia_driver.PINS, "# Source: network\n")
    assert paths(Context(root=str(host)), nvidia) == [loader, low]
