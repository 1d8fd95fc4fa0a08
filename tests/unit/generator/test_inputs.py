"""Odd files in the place of ours end in one message, never in a traceback or a hang."""

from __future__ import annotations

import json
import os
import socket
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from provision import inputs, inventory, lock, tree
from provision.errors import InputError
from provision.inventory import discover
from provision.lock import diff
from provision.models import Wish, plain
from provision.render import stacks
from provision.roles import JUDGES, PREFIXES, all_options
from tests.unit.generator import recorded

DEEP = "[" * 100_000
LAUGHS = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
ODD = {
    "a date": ("a: 1\nb: 2024-01-01\n", 2, "2024-01-01 (timestamp)"),
    "a date that isn't one": ("b: 2024-13-45\n", 1, "2024-13-45 (timestamp)"),
    "a null key": ("a:\n  ? ~\n  : 1\n", 2, "~ (null) as a key"),
    "a date as a key": ("2024-01-01: 1\n", 1, "as a key"),
    "a list as a key": ("? [a]\n: 1\n", 1, "a list or mapping as a key"),
    "a recursive alias": ("a: &a [*a]\n", 1, "the alias *a"),
    "an alias": ("a: &a x\nb: *a\n", 2, "the alias *a"),
    "a number that isn't one": ("a: !!int x\n", 1, "the tag tag:yaml.org,2002:int"),
    "a number without digits": ("a: 0x_\n", 1, "0x_ (int)"),
    "a number too long for Python": (f"a: {'9' * 5000}\n", 1, "999 (int)"),
    "a set": ("a: !!set {b}\n", 1, "the tag tag:yaml.org,2002:set"),
    "bytes": ("a: !!binary '=='\n", 1, "the tag tag:yaml.org,2002:binary"),
    "a tag of Python's": ("a: !!python/object:os.x {}\n", 1, "the tag"),
    "a vault's tag": ("a: !vault x\n", 1, "the tag !vault"),
    "a merge key": ("<<: {a: 1}\n", 1, "<< (merge)"),
    "a key twice": ("a: 1\nb: 2\na: 3\n", 3, "the key a a second time"),
    "deep nesting": (DEEP, 1, "deeper nesting"),
    "deep lists without brackets": ("- " * 100_000, 1, "deeper nesting"),
    "billion laughs": (LAUGHS, 2, "the alias *a0"),
    "two documents": ("a: 1\n---\nb: 1\n", 2, "but found another document"),
    "a control character": ("a: \0\n", 0, ""),
    "no YAML": ("a: b: c\n", 1, "mapping values are not allowed"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_yaml_is_refused_with_its_line(name: str) -> None:
    """Each was "a fault of provision itself", or ended the process in libyaml."""
    text, line, got = ODD[name]
    with pytest.raises(InputError) as caught:
        inputs.load(text.encode(), where="lock.yml", subject="the lock", hint="make it anew")
    where = caught.value.where
    assert where == (f"lock.yml:{line}" if line else where)
    assert got in caught.value.got.replace("9" * 37, "")
    assert caught.value.hint == "make it anew"


def test_what_is_not_utf8_is_refused_with_its_line() -> None:
    with pytest.raises(InputError, match="not UTF-8") as caught:
        inputs.load(b"a: 1\nb: \xff\n", where="f", subject="it")
    assert caught.value.where == "f:2"


def test_a_file_of_60_mb_is_refused_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "Loader", None)
    path = tmp_path / "lock.yml"
    with path.open("wb") as file:
        file.truncate(60 << 20)
    with pytest.raises(InputError) as caught:
        inputs.load(inputs.read(path), where=str(path), subject="the lock")
    assert caught.value.expected == "at most 32 MiB"


def test_plain_data_is_what_it_was() -> None:
    data = {"a": [1, 2.5, True, None, "x: y", "2024-01-01", "~", "", "é\n"], "b": {"0": {}}}
    text = yaml.safe_dump(data, allow_unicode=True).encode()
    assert inputs.load(text, where="", subject="it") == data


@pytest.mark.parametrize("kind", ["a directory", "a named pipe", "a socket"])
def test_what_is_no_file_is_refused_and_does_not_hang(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "lock.yml"
    if kind == "a directory":
        path.mkdir()
    elif kind == "a named pipe":
        os.mkfifo(path)
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    with pytest.raises(InputError) as caught:
        inputs.read(path)
    assert caught.value.where == str(path)


def test_a_missing_file_is_not_an_odd_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        inputs.read(tmp_path / "lock.yml")


def test_aliases_of_an_inventory_are_the_users(tmp_path: Path) -> None:
    text = "all:\n  vars: &v {a: !vault x, 2024-01-01: ~}\n  children: {g: {vars: {<<: *v}}}\n"
    (tmp_path / "hosts.yml").write_text(text)
    inputs.check_inventory([tmp_path])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("group_vars/all", LAUGHS),
        ("hosts.yml", DEEP),
        ("hosts.yml", "a:\n" + "".join(" " * n + "- \n" for n in range(100))),
        ("host_vars/web.yml", "a: &a {b: *a}"),
        ("hosts.json", "[" * 100 + "]" * 100),
    ],
)
def test_an_inventory_that_ansible_would_choke_on_is_refused(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as caught:
        inputs.check_inventory([tmp_path])
    assert caught.value.where.startswith(f"{tmp_path / name}:")


def test_a_named_pipe_beside_the_hosts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("all:\n")
    (tmp_path / "group_vars").mkdir()
    os.mkfifo(tmp_path / "group_vars" / "all.yml")
    with pytest.raises(InputError, match="a named pipe"):
        inputs.check_inventory([tmp_path / "hosts.yml"])


def test_an_inventory_of_60_mb_is_refused(tmp_path: Path) -> None:
    """Ansible reads such a file for minutes."""
    with (tmp_path / "hosts.yml").open("wb") as file:
        file.truncate(60 << 20)
    with pytest.raises(InputError, match="too large") as caught:
        inputs.check_inventory([tmp_path])
    assert caught.value.where == str(tmp_path / "hosts.yml")


def test_links_in_a_circle_and_hidden_files_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "gone.yml").symlink_to(tmp_path / "nowhere")
    (tmp_path / ".hosts.yml").write_text(DEEP)
    inputs.check_inventory([tmp_path])


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("a: !!int x\n", "x (int)"),
        ("a: !!int ''\n", " (int)"),
        ("a: 2024-13-45\n", "2024-13-45 (timestamp)"),
        ("2024-01-01: 1\n", "2024-01-01 (timestamp) as a key"),
        ("[a]: 1\n", "a list or mapping as a key"),
        ("a: !!binary aGk=\n", "aGk= (binary)"),
        ("a: !!seq x\n", "x (seq)"),
    ],
)
def test_a_value_that_ansible_refuses_is_named_with_its_line(text: str, got: str) -> None:
    """Ansible lists what each of its inventory plugins has to say of it, and no line."""
    with pytest.raises(InputError) as caught:
        inputs.check_readable(f"all:\n{text}", where="hosts.yml")
    assert (caught.value.where, caught.value.got) == ("hosts.yml:2", got)


def test_what_ansible_reads_is_not_named() -> None:
    text = "a: !vault |\n  $ANSIBLE_VAULT\nb: !unsafe x\nc: 2024-01-01\n1: &x {y: ~}\nd: {<<: *x}\n"
    inputs.check_readable(text, where="hosts.yml")


# fuzz: a value, or a ProvisionError with exit code 2; nothing else ever

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
SCALARS = st.one_of(
    TEXTS,
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.dates(),
    st.binary(max_size=6),
    st.sampled_from(["2.9", "debian12", "gpus", "10de:1eb8", "sha256:0"]),
)
WORDS = [
    *("gpu_lock", "gpu_lock_details", "format", "digest", "rows", "stacks", "wish", "platform"),
    *("packages", "requirements", "reasons", "sources", "hosts", "gpus", "id", "name", "count"),
    *("system", "stack", "beside", "models", "generations", *inventory.WISH_WORDS),
]
DATA = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(st.sampled_from(WORDS), SCALARS.filter(lambda x: x.__hash__ is not None)),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=25,
)
BITS = st.lists(
    st.one_of(
        st.sampled_from([*WORDS, "&a ", "*a ", "!!int ", "- ", "? ", ": ", "\n", "  "]),
        st.sampled_from(["[", "]", "{", "}", ", ", "|", ">", "# ", "~", "<<"]),
        st.sampled_from(["---\n", "%TAG ! x\n", "!!set", "\t", "'", '"', "\x85", "\ufeff"]),
        st.text(string.printable, max_size=4),
    ),
    max_size=40,
).map("".join)
FILES = st.one_of(
    st.binary(max_size=200),
    BITS.map(lambda text: text.encode()),
    DATA.map(lambda data: yaml.safe_dump(data, allow_unicode=True).encode()),
)


JSON = st.recursive(
    st.one_of(TEXTS, st.integers(), st.floats(), st.booleans(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(WORDS), TEXTS), inner, max_size=5),
    ),
    max_leaves=15,
)


def refusal(read: Callable[[], object]) -> InputError | None:
    """What `read` refuses; anything but an InputError is a fault of ours, and fails the test."""
    try:
        read()
    except InputError as error:
        return error
    return None


@given(data=FILES)
def test_any_bytes_are_plain_data_or_refused(data: bytes) -> None:
    refused = refusal(
        lambda: json.dumps(inputs.load(data, where="f", subject="it"), sort_keys=True)
    )
    assert refused is None or refused.where.startswith("f")


@given(data=FILES)
def test_any_bytes_are_a_lock_or_refused(data: bytes) -> None:
    assert refusal(lambda: lock.parse(data, where="f")) is not None


@given(data=FILES)
def test_any_bytes_are_what_was_discovered_or_refused(data: bytes) -> None:
    refusal(lambda: discover.dump(discover.parse(data, where="f")))


@given(hosts=st.dictionaries(TEXTS, JSON, max_size=2))
def test_any_hosts_are_what_was_discovered_or_refused(hosts: Any) -> None:
    data = yaml.safe_dump({"hosts": hosts}, allow_unicode=True).encode()

    def read() -> None:
        fleet = inventory.Fleet({host: Wish() for host in hosts})
        discover.with_facts(fleet, discover.parse(data, where="f")).kinds()

    refusal(read)


@given(data=FILES)
def test_any_bytes_are_a_manifest_or_refused(data: bytes, tmp_path_factory: Any) -> None:
    root = tmp_path_factory.mktemp("tree")
    (root / tree.MANIFEST).write_bytes(data)
    refusal(lambda: tree.difference(root, {}))


@given(files=st.dictionaries(st.text(max_size=8), JSON, max_size=3))
def test_any_names_in_a_manifest_stay_inside(files: Any, tmp_path_factory: Any) -> None:
    root = tmp_path_factory.mktemp("tree")
    (root / tree.MANIFEST).write_text(json.dumps({"format": 1, "files": files}))
    assert tree.difference(root, {}).empty


LOCK = recorded.lock()


def signed(slim: dict[str, Any], details: dict[str, Any]) -> bytes:
    """A lock with the right digest for what it holds."""
    slim["digest"] = lock.digest_of(slim.get("rows"), slim.get("stacks"), details)
    return yaml.safe_dump({"gpu_lock": slim, "gpu_lock_details": details}).encode()


def places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything below."""
    found: list[tuple[Any, Any]] = []
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        found += [(value, key), *places(value[key])]
    return found


@given(data=st.data(), other=JSON)
def test_a_lock_of_another_version_is_refused_or_serves(data: st.DataObject, other: Any) -> None:
    """With a right digest: whatever its rows and details hold, no reader falls over it."""
    made = LOCK
    slim, details = plain(made.slim), plain(made.details)
    parts = [*places({"rows": slim["rows"]})[1:], *places(details), (slim, "stacks")]
    part, key = data.draw(st.sampled_from([part for part in parts if part[1] != "wish"]))
    if data.draw(st.booleans()):
        part[key] = other
    else:
        del part[key]

    def read() -> None:
        found = lock.parse(signed(slim, details), where="f")
        lock.dump(found)
        diff.lines(diff.difference(found, made, inventory.Fleet({})))
        stacks.render(found)

    refusal(read)


@given(value=JSON)
def test_any_wish_is_one_or_refused(value: Any) -> None:
    refusal(lambda: inventory.parse_wish(value, where="f"))


@given(data=st.data())
def test_any_value_of_our_words_is_one_or_refused(data: st.DataObject) -> None:
    options = all_options()
    names = [inventory.WISH, inventory.PLATFORM, inventory.MODELS, *options]
    variables = data.draw(st.dictionaries(st.sampled_from(names), JSON, max_size=3))
    variables.setdefault(inventory.WISH, {"tensorflow": "2.9"})
    export = {"_meta": {"hostvars": {"a": variables}}, "all": {"hosts": ["a"]}}
    words = inventory.Words(options, PREFIXES, JUDGES)
    refusal(lambda: inventory.parse(export, words).kinds())


@given(word=st.sampled_from(inventory.WISH_KEYS), value=JSON)
def test_any_value_of_a_word_of_a_wish_is_one_or_refused(word: str, value: Any) -> None:
    wish = {"tensorflow": "2.9", word: value}
    refusal(lambda: inventory.parse_wish(wish, where="f"))


@given(text=BITS)
def test_any_text_of_an_inventory_is_checked_or_refused(text: str, tmp_path_factory: Any) -> None:
    refusal(lambda: inputs.check_readable(text, where="f"))
    folder = tmp_path_factory.mktemp("lab")
    (folder / "hosts.yml").write_text(text)
    refusal(lambda: inputs.check_inventory([folder]))
