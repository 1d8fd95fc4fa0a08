"""The people of an inventory: what `provision render` refuses before any host is asked."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from provision.errors import InputError
from provision.inventory import Sources, Words, parse
from provision.roles import JUDGES, PREFIXES, all_options

SECRET = "not-for-everybody-to-read"  # noqa: S105
IMAGE = "registry.example.org/jupyter@sha256:" + "a" * 64
ADA = {"name": "ada", "gpus": [0], "port": 8801}
VAULTED = {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n3532"}
GOOD: dict[str, Any] = {
    "gpu_stack": {"tensorflow": "2.9", "container_toolkit": True},
    "gpu_workspace_image": IMAGE,
    "gpu_workspaces": [ADA],
}


def fleet(text: str = "", /, **changed: Any) -> Any:
    variables = {key: value for key, value in {**GOOD, **changed}.items() if value is not None}
    export = {
        "_meta": {"hostvars": {}},
        "all": {"children": ["gpu"]},
        "gpu": {"hosts": ["gpu01", "gpu02"], "vars": copy.deepcopy(variables)},
    }
    words = Words(all_options(), PREFIXES, JUDGES)
    return parse(export, words, Sources({"lab/hosts.yml": text}))


def refused(text: str = "", /, **changed: Any) -> InputError:
    with pytest.raises(InputError) as error:
        fleet(text, **changed)
    assert error.value.exit_code == 2
    assert SECRET not in str(error.value)
    return error.value


def test_a_good_list_is_taken() -> None:
    assert fleet().warnings == ()
    assert fleet(gpu_workspaces=None).warnings == ()
    fleet(gpu_workspaces=[])


@pytest.mark.parametrize("token", [VAULTED, "{{ vault_ada }}"])
def test_a_token_of_the_vault_or_a_template_is_ansibles(token: Any) -> None:
    fleet("gpu_workspace_tokens:\n  ada: !vault |\n", gpu_workspace_tokens={"ada": token})


def test_a_token_out_of_a_vaulted_file_is_in_no_file_to_read() -> None:
    """With the vault's password the export has it in clear, and the file does not."""
    fleet("$ANSIBLE_VAULT;1.1;AES256\n", gpu_workspace_tokens={"ada": SECRET})


def test_a_token_in_clear_text_is_refused_with_its_place_and_not_shown() -> None:
    text = f"gpu:\n  vars:\n    gpu_workspace_tokens:\n      ada: {SECRET}\n"
    error = refused(text, gpu_workspace_tokens={"ada": SECRET})
    assert error.message == "the token of ada stands in clear text in lab/hosts.yml:4"
    assert "!vault" in error.expected
    assert error.where == "lab/hosts.yml:3"


def test_a_token_for_nobody_is_refused() -> None:
    error = refused(gpu_workspace_tokens={"eve": VAULTED})
    assert "a token for eve, who has no workspace" in error.message
    assert error.expected == "ada"


@pytest.mark.parametrize(
    "people", ["{{ people }}", [{**ADA, "port": "{{ first }}"}], [{**ADA, "memory": VAULTED}]]
)
def test_who_gets_one_is_literal(people: Any) -> None:
    assert "gpu_workspaces holds a template" in refused(gpu_workspaces=people).message


@pytest.mark.parametrize("token", [SECRET, VAULTED])
def test_a_token_beside_a_name_is_sent_where_it_belongs(token: Any) -> None:
    error = refused(gpu_workspaces=[{**ADA, "token": token}])
    assert "gpu_workspace_tokens: {ada: !vault ...}" in error.message


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"gpu_workspace_image": None}, "none"),
        ({"gpu_workspace_image_file": "/x.tar"}, "gpu_workspace_image, gpu_workspace_image_file"),
        (
            {"gpu_workspace_image": None, "gpu_workspace_image_file": "/x.tar"},
            "gpu_workspace_image_file",
        ),
        ({"gpu_workspace_image_sha256": "a" * 64}, "gpu_workspace_image_sha256"),
    ],
)
def test_one_image_is_named_and_for_sure(changed: dict[str, Any], words: str) -> None:
    error = refused(**changed)
    assert "need one image" in error.message
    assert words in error.got


def test_an_image_by_a_file_needs_its_hash() -> None:
    options = {"gpu_workspace_image_file": "/x.tar", "gpu_workspace_image_sha256": "a" * 64}
    fleet(gpu_workspace_image=None, **options)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("gpu_workspace_image", "tensorflow/tensorflow:2.9.0-gpu-jupyter"),
        ("gpu_workspace_image_sha256", "A" * 64),
        ("gpu_workspace_root", "srv/homes"),
        ("gpu_workspace_root", "/srv/ho mes"),
        ("gpu_workspace_address", "gpu01.example.org"),
        ("gpu_workspace_address", "192.0.2.256"),
        ("gpu_workspace_host_memory", "much"),
    ],
)
def test_what_an_option_can_not_be(option: str, value: str) -> None:
    error = refused(**{option: value})
    assert error.message.startswith(f"{option}: {value!r} ")


def test_gpus_need_dockers_runtime() -> None:
    error = refused(gpu_stack={"tensorflow": "2.9"})
    assert "ada cannot get GPUs" in error.message
    assert "container_toolkit: true" in error.expected
    fleet(gpu_stack={"tensorflow": "2.9"}, gpu_workspaces=[{**ADA, "gpus": "none"}])


def test_memory_is_counted_where_the_hosts_is_said() -> None:
    people = [{**ADA, "memory": "3g"}, {"name": "bob", "gpus": [1], "port": 2, "memory": "1025m"}]
    fleet(gpu_workspaces=people)
    fleet(gpu_workspaces=people, gpu_workspace_host_memory="4097m")
    error = refused(gpu_workspaces=people, gpu_workspace_host_memory="4g")
    assert (error.got, "4096 MiB" in error.expected) == ("4097 MiB", True)


def test_a_host_of_its_own_words_is_judged_by_them(tmp_path: Path) -> None:
    export = {
        "_meta": {"hostvars": {"gpu02": {"gpu_workspace_host_memory": "1g"}}},
        "all": {"children": ["gpu"]},
        "gpu": {
            "hosts": ["gpu01", "gpu02"],
            "vars": {**GOOD, "gpu_workspaces": [{**ADA, "memory": "2g"}]},
        },
    }
    with pytest.raises(InputError, match="more memory together"):
        parse(export, Words(all_options(), PREFIXES, JUDGES), Sources({}))


def test_two_groups_that_differ_show_no_values() -> None:
    export = {
        "_meta": {"hostvars": {}},
        "all": {"children": ["a", "b"]},
        "a": {"hosts": ["gpu01"], "vars": {**GOOD, "gpu_workspace_tokens": {"ada": SECRET}}},
        "b": {"hosts": ["gpu01"], "vars": {"gpu_workspace_tokens": {"ada": SECRET + "2"}}},
    }
    with pytest.raises(InputError, match="differ in gpu_workspace_tokens") as error:
        parse(export, Words(all_options(), PREFIXES, JUDGES), Sources({}))
    assert (SECRET in error.value.got, error.value.got) == (False, "a: ...; b: ...")


BASE = "docker.io/library/debian@sha256:" + "b" * 64
BUILT: dict[str, Any] = {
    "gpu_stack": {"tensorflow": "2.9", "container_toolkit": True, "packages": ["jupyterlab"]},
    "gpu_workspace_image": None,
    "gpu_workspace_base": BASE,
}
KEY = "ssh-ed25519 " + "A" * 68
SSH = {"name": "ada", "kind": "ssh", "gpus": [0], "ssh_port": 2201, "ssh_keys": [KEY]}


HASHED = "$6$salt$" + "a" * 86


def password_refused(text: str, hashed: Any, name: str = "ada") -> InputError:
    return refused(text, gpu_workspaces=[SSH], gpu_workspace_passwords={name: hashed})


@pytest.mark.parametrize("hashed", [VAULTED, "{{ vault_ada }}", HASHED])
def test_a_passwords_hash_is_ansibles(hashed: Any) -> None:
    """With the vault's password the export has the hash in clear, and the file does not."""
    options = {"gpu_workspaces": [SSH], "gpu_workspace_passwords": {"ada": hashed}}
    fleet("$ANSIBLE_VAULT;1.1;AES256\n", **options)


@pytest.mark.parametrize("hashed", ["in clear text", "$1$salt$" + "a" * 22, "aaBBccDDeeFFg"])
def test_what_is_no_hash_is_refused_and_not_shown(hashed: str) -> None:
    error = password_refused("", hashed)
    assert error.message == ("the password of ada is no hash of crypt(3) by SHA-512 or yescrypt")
    assert "openssl passwd -6" in error.hint
    assert hashed not in str(error)


def test_a_hash_that_anybody_can_read_is_refused_and_not_shown() -> None:
    text = f"gpu:\n  vars:\n    gpu_workspace_passwords:\n      ada: {HASHED}\n"
    error = password_refused(text, HASHED)
    assert error.message == "the password's hash of ada stands in clear text in lab/hosts.yml:4"
    assert HASHED not in str(error)


def test_a_password_for_who_has_no_ssh_is_refused() -> None:
    assert "for eve, who has no SSH" in password_refused("", VAULTED, "eve").message
    options = {"gpu_workspaces": [ADA], "gpu_workspace_passwords": {"ada": VAULTED}}
    assert "for ada, who has no SSH" in refused(**options).message


def test_a_password_beside_a_name_is_sent_where_it_belongs() -> None:
    error = refused(gpu_workspaces=[{**SSH, "password_hash": HASHED}])
    assert "its hash in gpu_workspace_passwords: {ada: !vault ...}" in error.message
    assert HASHED not in str(error)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"gpu_stack": {**BUILT["gpu_stack"], "packages": ["notebook>=6", "pandas"]}},
        {
            "gpu_workspace_base": None,
            "gpu_workspace_base_file": "/a",
            "gpu_workspace_base_sha256": "a" * 64,
        },
        # Nobody has Jupyter there.
        {"gpu_stack": GOOD["gpu_stack"], "gpu_workspaces": [SSH]},
    ],
)
def test_an_image_can_be_built(changed: dict[str, Any]) -> None:
    fleet(**{**BUILT, **changed})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"gpu_workspace_image": IMAGE}, "got: gpu_workspace_image, gpu_workspace_base"),
        ({"gpu_workspace_base": "debian:11"}, "names no one image"),
        ({"gpu_workspace_base_sha256": "a" * 64, "gpu_workspace_base": None}, "need one image"),
        ({"gpu_workspace_base_sha256": "a" * 64}, "need one image"),
        (
            {"gpu_workspace_base": None, "gpu_workspace_base_file": "/a"},
            "the workspaces need one image",
        ),
        ({"gpu_stack": GOOD["gpu_stack"]}, "ada cannot get Jupyter"),
        ({"gpu_stack": {**BUILT["gpu_stack"], "packages": ["pandas"]}}, "got: packages: [pandas]"),
        (
            {"gpu_workspaces": [SSH], "gpu_workspace_packages": ["git"]},
            "ada cannot get SSH: the image is built without sshd",
        ),
        ({"gpu_workspace_packages": ["git; reboot"]}, "is no name of a package"),
    ],
)
def test_an_image_that_could_not_serve_them_is_refused(changed: dict[str, Any], words: str) -> None:
    assert words in str(refused(**{**BUILT, **changed}))
