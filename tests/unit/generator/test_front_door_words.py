"""The front door's words of an inventory: what is refused before any host is asked."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from provision.errors import InputError
from provision.inventory import Sources, Words, parse
from provision.roles import JUDGES, PREFIXES, all_options

ADA = {"name": "ada", "gpus": [0], "port": 8801}
GOOD: dict[str, Any] = {
    "gpu_stack": {"tensorflow": "2.9", "container_toolkit": True},
    "gpu_workspace_image": "registry.example.org/jupyter@sha256:" + "a" * 64,
    "gpu_workspaces": [ADA],
    "gpu_front_door_name": "gpu07.example.org",
}
ACME = {"gpu_front_door_tls": "acme", "gpu_front_door_acme_agree": True}
FILES = {"gpu_front_door_certificate": "/etc/tls/chain.pem", "gpu_front_door_key": "/etc/tls/key"}


def fleet(**changed: Any) -> Any:
    variables = {key: value for key, value in {**GOOD, **changed}.items() if value is not None}
    export = {
        "_meta": {"hostvars": {}},
        "all": {"children": ["gpu"]},
        "gpu": {"hosts": ["gpu01"], "vars": copy.deepcopy(variables)},
    }
    text = "".join(f"{key}: x\n" for key in variables)
    words = Words(all_options(), PREFIXES, JUDGES)
    return parse(export, words, Sources({"lab/hosts.yml": text}))


def refused(**changed: Any) -> InputError:
    with pytest.raises(InputError) as error:
        fleet(**changed)
    assert error.value.exit_code == 2
    return error.value


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"gpu_front_door_name": ""},
        {"gpu_front_door_name": "", "gpu_workspaces": None},
        {"gpu_front_door_name": "{{ inventory_hostname }}", "gpu_workspaces": None},
        {"gpu_front_door_tls": "given", **FILES},
        {"gpu_front_door_tls": "host", **FILES},
        {"gpu_front_door_tls": "{{ way }}", **FILES},
        {"gpu_front_door_redirect": True},
        {"gpu_front_door_address": "::"},
        {"gpu_front_door_address": "2001:db8::7"},
        ACME,
        {**ACME, "gpu_front_door_acme_agree": "{{ agreed }}"},
        {**ACME, "gpu_front_door_acme_email": "lab+gpu@example.org"},
        {**ACME, "gpu_front_door_acme_ca": "/srv/tls/ca.pem", "gpu_front_door_redirect": True},
        {
            **ACME,
            "gpu_front_door_acme_directory": "https://ca.example.org:9000/acme/acme/directory",
        },
        # Words that wait for it to come back.
        {"gpu_front_door_acme_email": "lab@example.org", "gpu_front_door_acme_agree": False},
        {"gpu_front_door_port": 8443, "gpu_workspaces": [{**ADA, "port": 443}]},
        {"gpu_front_door_port": 80},
    ],
)
def test_what_is_good_is_taken(changed: dict[str, Any]) -> None:
    assert fleet(**changed).warnings == ()


@pytest.mark.parametrize("name", ["Gpu07.example.org", "gpu_07", "192.0.2.7", "-gpu", "a..b", "a."])
def test_a_name_that_is_no_dns_name(name: str) -> None:
    assert "is no DNS name" in refused(gpu_front_door_name=name).message


@pytest.mark.parametrize("people", [None, []])
def test_a_door_to_nobody(people: Any) -> None:
    error = refused(gpu_workspaces=people)
    assert error.message == "a front door, and no workspace or served model behind it"
    assert error.where == "lab/hosts.yml:" + ("3" if people is None else "4")


@pytest.mark.parametrize(
    ("changed", "words", "line"),
    [
        ({"gpu_front_door_port": 8801}, "(gpu_front_door_port), and the port of ada", "5"),
        ({"gpu_workspaces": [{**ADA, "port": 443}]}, "port 443 is the front door's", "3"),
        (
            {"gpu_front_door_redirect": True, "gpu_workspaces": [{**ADA, "port": 80}]},
            "port 80 is the front door's (gpu_front_door_redirect)",
            "5",
        ),
        (
            {"gpu_front_door_redirect": True, "gpu_front_door_port": 80},
            "where gpu_front_door_redirect sends from",
            "6",
        ),
        (
            {**ACME, "gpu_workspaces": [{**ADA, "port": 80}]},
            "port 80 is the front door's (gpu_front_door_tls)",
            "5",
        ),
        ({**ACME, "gpu_front_door_port": 80}, "and where an ACME server asks", "7"),
    ],
)
def test_a_port_for_two(changed: dict[str, Any], words: str, line: str) -> None:
    error = refused(**changed)
    assert words in error.message
    assert error.where == f"lab/hosts.yml:{line}"


def test_the_port_of_an_sshd_is_one_too() -> None:
    key = "ssh-ed25519 " + "A" * 68
    eve = {"name": "eve", "kind": "ssh", "gpus": "none", "ssh_port": 443, "ssh_keys": [key]}
    assert "the ssh_port of eve" in refused(gpu_workspaces=[ADA, eve]).message


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"gpu_front_door_tls": "given"}, "given needs gpu_front_door_certificate"),
        ({"gpu_front_door_tls": "host"}, "host needs gpu_front_door_certificate"),
        (
            {"gpu_front_door_tls": "host", "gpu_front_door_certificate": "/c"},
            "host needs gpu_front_door_key",
        ),
        (
            {"gpu_front_door_tls": "given", "gpu_front_door_key": "/k"},
            "given needs gpu_front_door_certificate",
        ),
        (FILES, "gpu_front_door_certificate has no meaning with gpu_front_door_tls: local_ca"),
        (
            {"gpu_front_door_tls": "local_ca", "gpu_front_door_key": "/k"},
            "gpu_front_door_key has no meaning",
        ),
        ({**ACME, **FILES}, "has no meaning with gpu_front_door_tls: acme"),
        ({**ACME, "gpu_front_door_key": "/k"}, "gpu_front_door_key has no meaning"),
    ],
)
def test_files_where_they_are_read_and_nowhere_else(changed: dict[str, Any], words: str) -> None:
    assert words in refused(**changed).message


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("gpu_front_door_port", 0),
        ("gpu_front_door_port", 65536),
        ("gpu_front_door_address", "gpu07.example.org"),
        ("gpu_front_door_address", "192.0.2.256"),
        ("gpu_front_door_address", "fe80::1%eth0"),
        ("gpu_front_door_address", "[::]"),
        ("gpu_front_door_key", "tls/key.pem"),
        ("gpu_front_door_certificate", "/tls/a b"),
        ("gpu_front_door_certificate", "/tls/a;b"),
        ("gpu_front_door_acme_email", "gpu-admins"),
        ("gpu_front_door_acme_email", "-v@example.org"),
        ("gpu_front_door_acme_directory", "http://ca.example.org/directory"),
        ("gpu_front_door_acme_directory", ""),
        ("gpu_front_door_acme_directory", "https://ca.example.org/a b"),
        ("gpu_front_door_acme_ca", "tls/ca.pem"),
    ],
)
def test_what_an_option_can_not_be(option: str, value: Any) -> None:
    assert refused(**{option: value}).message.startswith(f"{option}: {value!r} ")


@pytest.mark.parametrize("agreed", [None, False])
def test_the_terms_of_an_acme_server_have_to_be_agreed_to(agreed: Any) -> None:
    error = refused(**{**ACME, "gpu_front_door_acme_agree": agreed})
    assert error.message == (
        "gpu_front_door_tls: acme, and nobody has agreed to the terms of service of Let's Encrypt"
    )
    assert error.expected == "gpu_front_door_acme_agree: true"
    assert error.where == "lab/hosts.yml:5"
    server = "https://ca.example.org/directory"
    options = {**ACME, "gpu_front_door_acme_agree": agreed, "gpu_front_door_acme_directory": server}
    assert refused(**options).message.endswith("the terms of service of " + server)
