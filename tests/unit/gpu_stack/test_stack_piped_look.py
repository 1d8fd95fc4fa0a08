"""What a run keeps of the look's compiled modules, and whom it believes that they are its own."""

from __future__ import annotations

import base64
import json
import marshal
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.provision.gpu.plugins.module_utils import piped_look

DIGEST = "5" * 64
# A look of two modules and a package, which says how often one of them was run.
TEXTS = {
    "gpu_stack.__init__": "",
    "gpu_stack.look": (
        "from .sums import one\n"
        "def answer(parameters, check_mode):\n"
        "    if parameters.get('fails'):\n"
        "        raise ValueError('no such card')\n"
        "    if parameters.get('more'):\n"
        "        from . import more\n"
        "    return dict(parameters, one=one, check_mode=check_mode)\n"
    ),
    "gpu_stack.sums": "one = 1\n",
    "gpu_stack.more": "",
}


def packed(texts: dict[str, str]) -> str:
    return base64.b64encode(zlib.compress(json.dumps(texts).encode())).decode()


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The file, in a directory that is the current user's alone."""
    (tmp_path / "cache").mkdir(mode=0o755)
    return tmp_path / "cache" / "provision-look"


def taken() -> dict[str, ModuleType]:
    """The imported modules of a look, which Python forgets."""
    names = [name for name in sys.modules if name.split(".")[0] == "gpu_stack"]
    return {name: sys.modules.pop(name) for name in names}


COMPILER: Any = getattr(re, "_compiler", None) or vars(re)["sre_compile"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each look imports the sources anew, as a Python of its own does; who looks is root."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name in ("compile", "_code"):
        monkeypatch.setattr(COMPILER, name, getattr(COMPILER, name))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    of_root = piped_look._of_root
    own = os.getuid()
    others = taken()
    monkeypatch.setattr(
        piped_look,
        "_of_root",
        lambda info: of_root(
            os.stat_result([*info[:4], 0 if info.st_uid == own else info.st_uid, *info[5:10]])
        ),
    )
    yield
    taken()
    sys.modules.update(others)


def look(
    path: Path,
    parameters: dict[str, Any] | None = None,
    texts: dict[str, str] | None = None,
    digest: str = DIGEST,
    check_mode: bool = False,
    state: Path | None = None,
) -> dict[str, Any]:
    taken()
    return piped_look.look(
        packed(TEXTS if texts is None else texts), digest, json.dumps(parameters or {}), check_mode,
        path=str(path), state=str(state or path.parent),
    )  # fmt: skip


def other(number: int) -> dict[str, str]:
    """The same look with another constant: whose answer tells which text was run."""
    return TEXTS | {"gpu_stack.sums": f"one = {number}\n"}


def test_the_second_look_begins_with_what_the_first_has_compiled(kept: Path) -> None:
    assert look(kept) == {"one": 1, "check_mode": False}
    assert kept.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]
    assert look(kept, texts=other(2))["one"] == 1  # not compiled again
    assert look(kept, texts={})["one"] == 1
    # Nor are the sources even unpacked.
    taken()
    options: dict[str, Any] = {"path": str(kept), "state": str(kept.parent)}
    assert piped_look.look("no base64", DIGEST, "{}", False, **options)["one"] == 1


def test_what_is_complete_is_not_written_again(kept: Path) -> None:
    look(kept)
    written = kept.stat().st_ino
    look(kept)
    assert kept.stat().st_ino == written


def test_a_module_that_only_a_later_look_needs_is_added(kept: Path) -> None:
    look(kept)
    look(kept, {"more": True})
    assert set(piped_look.kept(DIGEST, str(kept))[0]) == set(TEXTS)


def test_other_sources_are_compiled(kept: Path) -> None:
    look(kept)
    assert look(kept, texts=other(2), digest="6" * 64)["one"] == 2


def test_another_python_compiles(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look(kept)
    monkeypatch.setattr(sys, "version", "3.99")
    assert look(kept, texts=other(2))["one"] == 2


@pytest.mark.parametrize("spoil", ["cut", "changed", "empty", "zeroes", "header"])
def test_a_spoiled_file_is_compiled_anew_and_replaced(kept: Path, spoil: str) -> None:
    look(kept)
    content = kept.read_bytes()
    bodies = {
        "cut": content[:-1],
        "changed": content[:-1] + bytes([content[-1] ^ 1]),
        "empty": b"",
        "zeroes": bytes(len(content)),
        "header": content.split(b"\n")[0],
    }
    kept.write_bytes(bodies[spoil])
    assert look(kept, texts=other(2))["one"] == 2
    assert look(kept, texts=other(3))["one"] == 2


def test_what_others_can_write_is_not_believed(kept: Path) -> None:
    look(kept)
    for mode in (0o620, 0o602):
        kept.chmod(mode)
        assert piped_look.kept(DIGEST, str(kept)) == ({}, {})
    kept.chmod(0o600)
    for mode in (0o775, 0o757, 0o1777):
        kept.parent.chmod(mode)
        assert piped_look.kept(DIGEST, str(kept)) == ({}, {})
    kept.parent.chmod(0o755)
    assert set(piped_look.kept(DIGEST, str(kept))[0]) >= {"gpu_stack.look"}


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a file to another user")
def test_what_is_another_users_is_not_believed(kept: Path) -> None:
    look(kept)
    os.chown(kept, 1000, 1000)
    assert piped_look.kept(DIGEST, str(kept)) == ({}, {})
    os.chown(kept, 0, 0)
    os.chown(kept.parent, 1000, 1000)
    assert piped_look.kept(DIGEST, str(kept)) == ({}, {})


def test_a_second_name_of_the_file_is_not_believed(kept: Path) -> None:
    look(kept)
    os.link(kept, kept.parent / "second")
    assert piped_look.kept(DIGEST, str(kept)) == ({}, {})


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_what_is_no_file_is_not_opened(kept: Path, tmp_path: Path, kind: str) -> None:
    look(kept)
    elsewhere = tmp_path / "elsewhere"
    kept.rename(elsewhere)
    {"link": lambda: kept.symlink_to(elsewhere), "fifo": lambda: os.mkfifo(kept),
     "directory": kept.mkdir}[kind]()  # fmt: skip
    assert look(kept, texts=other(2))["one"] == 2


def test_a_linked_directory_is_not_entered(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(kept.parent)
    look(tmp_path / "linked" / kept.name)
    assert not kept.exists()


def test_a_file_too_large_is_not_read(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look(kept)
    monkeypatch.setattr(piped_look, "LIMIT", kept.stat().st_size)
    assert piped_look.kept(DIGEST, str(kept)) == ({}, {})


@pytest.mark.parametrize(
    "answer", [{"failed": True}, {"components": ["cuda"]}, {"blockers": [{"id": "room"}]}]
)
def test_only_a_settled_host_keeps_it(kept: Path, answer: dict[str, Any]) -> None:
    look(kept, answer)
    assert not kept.exists()


def test_check_mode_the_doctor_and_other_users_leave_nothing(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(kept, check_mode=True)
    look(kept, digest="")  # the doctor's
    look(kept, state=kept.parent / "no-run-has-been-here")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    look(kept)
    assert not kept.exists()


def test_the_doctor_and_other_users_do_not_read_it(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(kept)
    assert look(kept, digest="", texts=other(2))["one"] == 2
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert look(kept, texts=other(2))["one"] == 2


def test_where_nothing_can_be_written_the_look_answers(kept: Path) -> None:
    assert look(kept.parent / "missing" / "file", state=kept.parent)["one"] == 1
    kept.mkdir()
    assert look(kept)["one"] == 1
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]


def test_what_a_killed_look_has_left_is_cleared_away(kept: Path) -> None:
    fresh = kept.with_name(kept.name + ".new")
    fresh.write_bytes(b"half")
    look(kept)
    assert not fresh.exists()
    assert not kept.exists()
    look(kept)
    assert kept.exists()


class Word(str):
    """marshal takes str, and no class that is made of it."""

    __slots__ = ()


def test_what_marshal_does_not_take_fails_no_look(kept: Path) -> None:
    key = (Word("a+"), 0)
    piped_look.keep(DIGEST, {}, {key: (*key, [], 0, {}, ())}, str(kept))
    assert list(kept.parent.iterdir()) == []


def test_an_expression_of_a_class_of_strs_is_compiled_and_the_rest_is_kept(kept: Path) -> None:
    sums = "import re\nclass Word(str):\n    pass\nre.compile(Word('w+[xy]'))\none = 1\n"
    assert look(kept, texts=TEXTS | {"gpu_stack.sums": sums})["one"] == 1
    modules, patterns = piped_look.kept(DIGEST, str(kept))
    assert set(modules) >= {"gpu_stack.look", "gpu_stack.sums"}
    assert not any(pattern == "w+[xy]" for pattern, _flags in patterns)


def test_a_failed_look_says_where(kept: Path) -> None:
    answer = look(kept, {"fails": True})
    assert answer["failed"] is True
    assert answer["msg"] == "the look failed: ValueError: no such card"
    assert 'File "<gpu_stack.look>", line 4, in answer' in answer["exception"]


def test_a_module_that_the_sources_lack_is_missing(kept: Path) -> None:
    texts = {name: text for name, text in TEXTS.items() if name != "gpu_stack.more"}
    assert "cannot import name 'more'" in look(kept, {"more": True}, texts)["msg"]


def asked(kept: Path, parameters: dict[str, Any], digest: str = DIGEST) -> dict[str, Any]:
    """The answer to a look that is sent without its sources."""
    taken()
    return piped_look.look(
        "", digest, json.dumps(parameters), False, path=str(kept), state=str(kept.parent)
    )


def test_without_sources_what_is_kept_answers(kept: Path) -> None:
    look(kept)
    written = kept.stat().st_ino
    assert asked(kept, {"say": 1}) == {"say": 1, "one": 1, "check_mode": False}
    assert kept.stat().st_ino == written


def test_sources_are_wanted_where_nothing_is_kept(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {piped_look.WANTED: True}
    assert asked(kept, {}) == wanted
    look(kept)
    assert asked(kept, {}, digest="6" * 64) == wanted
    assert asked(kept, {}, digest="") == wanted
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert asked(kept, {}) == wanted


def test_sources_are_wanted_where_a_module_is_not_kept(kept: Path) -> None:
    look(kept)
    assert asked(kept, {"more": True}) == {piped_look.WANTED: True}
    assert set(piped_look.kept(DIGEST, str(kept))[0]) == set(TEXTS) - {"gpu_stack.more"}


EXPRESSION = r"(?P<name>[a-z]+)-(\d+)|(?i:x)(?P<rest>.*)"
# A look that compiles expressions, and counts what Python's own compiler does for them.
EXPRESSIONS = TEXTS | {
    "gpu_stack.look": (
        "import re\n"
        f"WORD, BYTES = re.compile({EXPRESSION!r}), re.compile(b'a+')\n"
        "def answer(parameters, check_mode):\n"
        "    match = WORD.match('card-12')\n"
        "    return {'groups': list(match.groups()), 'names': match.groupdict(),\n"
        "            'flags': WORD.flags, 'other': bool(re.match(parameters['say'], 'host'))}\n"
    )
}


def expressions(kept: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[Any]]:
    """A look's answer, and which of its expressions Python has compiled for it."""
    compiled: list[Any] = []
    with monkeypatch.context() as patch:
        own = COMPILER._code

        def counted(parsed: Any, flags: int) -> Any:
            compiled.append(parsed)
            return own(parsed, flags)

        patch.setattr(COMPILER, "_code", counted)
        patch.setattr(COMPILER, "compile", COMPILER.compile)
        re.purge()
        answer = look(kept, {"say": text}, texts=EXPRESSIONS)
    return answer, compiled


def test_expressions_are_compiled_once(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, compiled = expressions(kept, "h.st", monkeypatch)
    assert len(compiled) >= 3
    assert first["names"] == {"name": "card", "rest": None}
    again, compiled = expressions(kept, "h.st", monkeypatch)
    assert again == first
    assert len(compiled) == 1  # of bytes, which no look has at its import


def test_an_expression_of_the_hosts_own_words_does_not_write_the_file_again(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expressions(kept, "h.st", monkeypatch)
    written = kept.stat().st_ino
    answer, _compiled = expressions(kept, "ho.*", monkeypatch)
    assert answer["other"] is True
    assert kept.stat().st_ino == written


def test_kept_expressions_are_pythons_own(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the expressions of the look are: a kept one equals what Python would compile."""
    monkeypatch.setattr(COMPILER, "compile", COMPILER.compile)
    plain = ("(?P<last>a)", "(?x) a  # remark", "[^\\W\\d_]+", "(?s).$", "é+")
    texts = (EXPRESSION, "(a)(?P<b>b)?(?P=b)?", *plain)
    patterns = piped_look.Patterns({})
    patterns.install()
    own = {(text, flags): patterns.compile(text, flags) for text in texts for flags in (0, re.M)}
    written = marshal.dumps(patterns.compiled)
    later = piped_look.Patterns(marshal.loads(written))  # noqa: S302  its own
    assert set(later.compiled) == set(own)
    for (text, flags), found in own.items():
        kept_one = later.compile(text, flags)
        assert kept_one == found
        assert (kept_one.groupindex, kept_one.groups) == (found.groupindex, found.groups)
        matches = [expression.search("a xab-1") for expression in (kept_one, found)]
        assert len({match and match.lastgroup for match in matches}) == 1


def test_a_compiler_that_is_made_otherwise_is_left_alone(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(COMPILER, "_code")
    compiler = COMPILER.compile
    piped_look.Patterns({}).install()
    assert COMPILER.compile is compiler


@pytest.mark.parametrize("fails", [False, True])
def test_the_answer_is_printed_behind_the_mark(fails: bool) -> None:
    """In a Python of its own, which ends at once."""
    program = (
        "import atexit, sys\n"
        "atexit.register(print, 'tidied')\n"
        f"sys.path.insert(0, {str(Path(piped_look.__file__).parent)!r})\n"
        "import piped_look\n"
        f"given = {packed(TEXTS)!r}, '', {json.dumps({'fails': fails})!r}, True\n"
        "piped_look.respond('MARK:', *given)\n"
    )
    done = subprocess.run(
        [sys.executable, "-IS", "-"], input=program, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    mark, _colon, answer = done.stdout.partition(":")
    assert mark == "MARK"
    assert json.loads(answer).get("failed", False) is fails
