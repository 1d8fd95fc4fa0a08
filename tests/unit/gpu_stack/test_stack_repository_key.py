"""Of what holds a repository's key only the expected key is taken, and nothing of it stays."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.provision.gpu.plugins.modules import repository_key as module
from gpu_stack.host import repository_key
from gpu_stack.host.context import Result, run_program

from tests.ground.adopted_key import adopting
from tests.ground.repository import Key, key
from tests.served import Quiet, serving

PLACE = "https://ada:cret@mirror.example.org/cuda"
BARE = "https://mirror.example.org/cuda"


@pytest.fixture(scope="module")
def right() -> Key:
    return key("right")


@pytest.fixture(scope="module")
def wrong() -> Key:
    return key("wrong")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(repository_key.tempfile, "tempdir", str(place))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield place
    assert list(place.iterdir()) == []


@pytest.fixture
def served() -> Iterator[tuple[str, dict[str, bytes]]]:
    """An address, and what is at its paths."""
    files: dict[str, bytes] = {}

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path in files else 404)
            self.end_headers()
            self.wfile.write(files.get(self.path, b""))

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        yield url, files


def settle(fingerprints: list[str], *, check_mode: bool = False, **more: Any) -> str:
    params = {
        "fingerprints": fingerprints, "text": "", "directory": "", "url": "", "ca_bundle": "",
        "place": PLACE, "owner": "NVIDIA", "given": "", "renewed": "lock again", "untouched": "",
    }  # fmt: skip
    assert more.keys() <= params.keys()
    result = repository_key.settle({**params, **more}, check_mode)
    assert result["changed"] is False
    return str(result["key"])


def packets(text: str) -> str:
    """The base64 lines of an armored key."""
    return "".join(line for line in text.splitlines() if line and not line.startswith(("-", "=")))


def test_of_several_keys_the_expected_one_is_taken(right: Key, wrong: Key) -> None:
    both = wrong.armored + right.armored
    taken = settle([right.fingerprint], text=both)
    assert packets(taken) == packets(right.armored)
    assert taken == taken.strip()
    assert packets(settle([right.fingerprint.lower()], text=both)) == packets(right.armored)
    assert settle([right.fingerprint, wrong.fingerprint], text=both).count("BEGIN PGP") == 1


def test_a_key_is_fetched(right: Key, served: tuple[str, dict[str, bytes]]) -> None:
    url, files = served
    files["/3bf863cc.pub"] = right.dearmored()
    taken = settle([right.fingerprint], url=f"{url}/3bf863cc.pub")
    assert packets(taken) == packets(right.armored)


def test_an_address_that_has_none_is_named_without_its_password(
    served: tuple[str, dict[str, bytes]],
) -> None:
    url = served[0].replace("//", "//ada:cret@") + "/gpg"
    with pytest.raises(repository_key.RefusalError) as refused:
        settle(["A" * 40], url=url, untouched="CUDA")
    assert str(refused.value) == (
        f"The key of {BARE} could not be fetched from {served[0]}/gpg: HTTP Error 404: Not Found."
        " CUDA was not touched."
    )


def test_a_local_repository_holds_it_in_a_file_of_such_a_name(
    right: Key, wrong: Key, tmp_path: Path
) -> None:
    place = tmp_path / "cuda-repo"
    (place / "below.pub").mkdir(parents=True)
    (place / "readme").write_text(right.armored)
    (place / "link.pub").symlink_to(place / "readme")
    with pytest.raises(repository_key.RefusalError, match="found no key"):
        settle([right.fingerprint], directory=str(place))
    for name, data in {
        "cuda-keyring.gpg": right.dearmored(), "7fa2af80.pub": wrong.armored.encode(),
        "broken.asc": b"no key",
    }.items():  # fmt: skip
        (place / name).write_bytes(data)
    taken = settle([right.fingerprint], directory=str(place))
    assert packets(taken) == packets(right.armored)
    with pytest.raises(repository_key.RefusalError, match="found no key"):
        settle([right.fingerprint], directory=str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            {"untouched": "CUDA"},
            "Where NVIDIA has changed its key, lock again; CUDA was not touched.",
        ),
        (
            {"owner": "Docker", "renewed": "say so in x"},
            "Where Docker has changed its key, say so in x; nothing was changed.",
        ),
    ],
)
def test_another_key_is_refused(
    wrong: Key, right: Key, more: dict[str, str], expected: str
) -> None:
    other = "A" * 40
    for text, there in (
        (wrong.armored, wrong.fingerprint),
        ("<html>log in</html>", "no key"),
        # Half of a key is none.
        (right.armored[:300], "no key"),
    ):
        with pytest.raises(repository_key.RefusalError) as refused:
            settle([right.fingerprint, other], text=text, **more)
        assert str(refused.value) == (
            f"The key of {BARE} is not the one it has to be: expected {right.fingerprint} or"
            f" {other}, found {there}. {expected}"
        )


def test_a_key_whose_subkey_is_the_expected_one_is_refused(right: Key, tmp_path: Path) -> None:
    """To gpg the expected fingerprint names that key too, and apt would trust its signatures."""
    adopted = adopting(right.dearmored())
    alone, both = tmp_path / "alone", tmp_path / "both"
    for place, data in ((alone, adopted), (both, right.dearmored() + adopted)):
        place.mkdir()
        (place / "cuda-keyring.gpg").write_bytes(data)
        with pytest.raises(repository_key.RefusalError) as refused:
            settle([right.fingerprint], directory=str(place))
        assert f"expected {right.fingerprint}, found " in str(refused.value)
        assert "a key that has it only as a subkey" in str(refused.value)


def test_a_key_that_gpg_can_not_list_again_is_refused(
    right: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(argv: list[str], patience: float) -> Result:
        return Result(2, "", "broken") if "--show-keys" in argv else run_program(argv, patience)

    monkeypatch.setattr(repository_key, "run_program", broken)
    with pytest.raises(repository_key.RefusalError, match="found none, a key that has it only as"):
        settle([right.fingerprint], text=right.armored)


def test_without_a_fingerprint_there_is_no_right_key(right: Key) -> None:
    """gpg exports all where none is named."""
    with pytest.raises(repository_key.RefusalError, match="is not the one it has to be"):
        settle([], text=right.armored)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            {"given": "give the key's armored text in cuda_repository.key", "untouched": "CUDA"},
            "NVIDIA's key cannot be compared. Install gpg (apt install gpg), or give the key's"
            " armored text in cuda_repository.key. CUDA was not touched.",
        ),
        (
            {"owner": "Docker"},
            "Docker's key cannot be compared. Install gpg (apt install gpg). Nothing was changed.",
        ),
    ],
)
def test_without_gpg_no_key_is_believed(
    right: Key, monkeypatch: pytest.MonkeyPatch, more: dict[str, str], expected: str
) -> None:
    monkeypatch.setattr(repository_key, "run_program", lambda *_call: Result(127, "", "no gpg"))
    with pytest.raises(repository_key.RefusalError) as refused:
        settle([right.fingerprint], text=right.armored, **more)
    assert str(refused.value) == f"gpg is not installed, so the fingerprint of {expected}"


def test_each_call_has_an_end_and_its_own_home(
    right: Key, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    calls: list[tuple[list[str], float]] = []

    def noted(argv: list[str], patience: float) -> Result:
        calls.append((argv, patience))
        return run_program(argv, patience)

    monkeypatch.setattr(repository_key, "run_program", noted)
    settle([right.fingerprint], text=right.armored)
    assert {patience for _argv, patience in calls} == {60.0}
    homes = {argv[argv.index("--homedir") + 1] for argv, _patience in calls if "--batch" in argv}
    assert len(calls) == 5
    assert [os.path.dirname(home) for home in homes] == [str(temporary)]


def ran(capsys: pytest.CaptureFixture[str], **options: Any) -> tuple[Any, dict[str, Any]]:
    """(exit code, result) of the module."""
    with (
        patch_module_args({"place": PLACE, "owner": "NVIDIA", **options}),
        pytest.raises(SystemExit) as ended,
    ):
        module.main()
    return ended.value.code, json.loads(capsys.readouterr().out)


def test_the_module_says_no_password_and_fetches_nothing_in_check_mode(
    right: Key, served: tuple[str, dict[str, bytes]], capsys: pytest.CaptureFixture[str]
) -> None:
    url, files = served
    options = {
        "url": url.replace("//", "//ada:cret@") + "/gpg", "fingerprints": [right.fingerprint],
    }  # fmt: skip
    code, result = ran(capsys, **options, _ansible_check_mode=True)
    assert (code, result["changed"], result["key"]) == (0, False, "")
    code, result = ran(capsys, **options)
    assert (code, url in result["msg"]) == (1, True)
    assert "cret" not in json.dumps(result)
    files["/gpg"] = right.armored.encode()
    code, result = ran(capsys, **options)
    assert (code, packets(result["key"])) == (0, packets(right.armored))
    assert "cret" not in json.dumps(result)
