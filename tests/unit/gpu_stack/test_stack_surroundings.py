"""What people set up by hand is told, before a run and by the doctor, and is nobody's damage."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.tensorflow import rules as tensorflow_rules
from gpu_stack.doctor import findings
from gpu_stack.host import surroundings
from gpu_stack.host.context import Context

from tests.host_tree import tree

MAIN = "Include /etc/ssh/sshd_config.d/*.conf\n#UsePAM no\nUsePAM yes\n"


def host(root: Path, files: dict[str, str]) -> Context:
    return Context(root=str(tree(root, files)))


def look(context: Context) -> dict[str, Any]:
    """What the rules judge."""
    return {name: read(context) for name, read in surroundings.FACTS.items()}


@pytest.mark.parametrize(
    ("main", "more", "expected"),
    [
        (MAIN, {}, None),
        (MAIN, {"20-a.conf": "usepam = no\n"}, "/etc/ssh/sshd_config.d/20-a.conf"),
        (MAIN, {"20-a.conf": "UsePAM yes\n", "30-b.conf": "UsePAM no\n"}, None),
        (MAIN.replace("yes", "no"), {}, "/etc/ssh/sshd_config"),
        (MAIN.replace("yes", '"no"'), {"20-a.conf": "X11Forwarding no\n"}, "/etc/ssh/sshd_config"),
        ("Port 22\n", {}, "/etc/ssh/sshd_config"),
        ("Include sshd_config.d/*.conf\n", {"a.conf": "UsePAM yes\n"}, None),
        ("Match User x\nUsePAM yes\n", {}, "/etc/ssh/sshd_config"),
        ("Include /etc/ssh/sshd_config\nUsePAM yes\n", {}, None),
        ("\n  \nUsePAM yes\n", {}, None),
        ("UsePAM=yes\n", {}, None),
        ("Banner sshd_config.d/greeting\nUsePAM yes\n", {"greeting": "UsePAM no\n"}, None),
        ('UsePAM "yes"\n', {}, None),
        ("UsePAM\nUsePAM yes\n", {}, None),
        ("Include sshd_config.d/c.conf sshd_config.d/b.conf\n", {"b.conf": "UsePAM yes\n"}, None),
        ('Include "sshd_config.d/b.conf"\n', {"b.conf": "UsePAM yes\n"}, None),
        ("Include=sshd_config.d/b=c.conf\n", {"b=c.conf": "UsePAM yes\n"}, None),
        # A file may have any name; the keyword is none.
        ("Include sshd_config.d/b.conf\n", {"../Include": "UsePAM yes\n"}, "/etc/ssh/sshd_config"),
        # A directory of that name can't be read.
        (MAIN, {"x.conf/y": ""}, None),
    ],
)
def test_whether_sshd_uses_pam(
    tmp_path: Path, main: str, more: dict[str, str], expected: str | None
) -> None:
    """`UsePAM no`: the host could never be proven, and verify said to run the playbook again."""
    files = {"/etc/ssh/sshd_config": main}
    files |= {f"/etc/ssh/sshd_config.d/{name}": text for name, text in more.items()}
    assert surroundings.sshd_without_pam(host(tmp_path, files)) == expected


@pytest.mark.parametrize(("others", "expected"), [(14, None), (15, "/etc/ssh/sshd_config")])
def test_so_many_files_of_sshd_are_read(tmp_path: Path, others: int, expected: str | None) -> None:
    """Includes may lead in a circle; what is read ends with the sixteenth file."""
    files = {f"/etc/ssh/sshd_config.d/{at:02}.conf": "Port 22\n" for at in range(others)}
    files["/etc/ssh/sshd_config.d/99.conf"] = "UsePAM yes\n"
    files["/etc/ssh/sshd_config"] = "Include sshd_config.d/*.conf\n"
    assert surroundings.sshd_without_pam(host(tmp_path, files)) == expected


def test_a_host_without_sshd_has_no_such_trouble(tmp_path: Path) -> None:
    assert surroundings.sshd_without_pam(host(tmp_path, {})) is None


def test_a_tensorflow_in_the_systems_python_and_keys_for_all_are_seen(tmp_path: Path) -> None:
    place, older = "/usr/local/lib/python3.9/dist-packages", "/usr/lib/python3/dist-packages"
    files = {
        f"{place}/tensorflow-2.9.1.dist-info/METADATA": "",
        f"{place}/tensorflow_gpu-2.4.0.dist-info/METADATA": "",
        f"{place}/tensorflow_cpu-2.5.0.dist-info/METADATA": "",
        f"{place}/tensorflow_intel-2.11.0.dist-info/METADATA": "",
        f"{older}/tensorflow-2.6.0.dist-info/METADATA": "",
        f"{place}/tensorflow_estimator-2.9.0.dist-info/METADATA": "",
        "/etc/apt/trusted.gpg": "k",
    }
    seen = look(host(tmp_path, files))
    assert seen["trusted_gpg"] is True
    versions = ("2.9.1", "2.5.0", "2.4.0", "2.11.0")
    expected = [*(f"{version} in {place}" for version in versions), f"2.6.0 in {older}"]
    assert seen["system_tensorflow"] == expected
    seen["preflight"] = {"system_tensorflow": expected[:2]}
    ((message, _hint),) = surroundings.hidden_tensorflow(seen, [], {}, {})
    assert f"(2.9.1 in {place}, 2.5.0 in {place})" in message


@pytest.mark.parametrize("files", [{}, {"/etc/apt/trusted.gpg": ""}])
def test_a_bare_host_has_nothing_set_up_by_hand(tmp_path: Path, files: dict[str, str]) -> None:
    bare = look(host(tmp_path, files))
    assert bare == {"sshd_without_pam": None, "trusted_gpg": False, "system_tensorflow": []}


def test_a_conda_of_anybody_with_a_login_is_seen(tmp_path: Path) -> None:
    """The look asked for root's and the caller's alone; the others' `python` was hidden."""
    users = "ada:x:1000:1000::/home/alice:/bin/bash\nweb:x:33:33::/var/www:/bin/bash\n"
    users += "off:x:1001:1001::/home/user:/usr/sbin/nologin\n"
    rc = "# >>> conda initialize >>>\n"
    files = {"/etc/passwd": users, "/home/alice/.bashrc": rc, "/var/www/.bashrc": rc}
    context = host(tmp_path, {**files, "/home/user/.bashrc": rc})
    assert tensorflow_rules.conda(context) == ["/home/alice/.bashrc"]


def user(name: str, uid: str, home: str, shell: str = "/bin/bash", gid: str = "9") -> list[str]:
    return [name, "x", uid, gid, "", home, shell]


def test_homes_are_of_people_with_a_login() -> None:
    users = [
        user("root", "0", "/root"),
        user("daemon", "1", "/usr/sbin"),
        user("system", "999", "/var/lib/system"),
        user("ada", "1000", "/home/alice", "/bin/zsh\n"),
        user("grace", "1001", "/home/alice"),
        user("off", "1002", "/home/user", "/usr/sbin/nologin\n"),
        user("never", "1003", "/home/user", "/bin/false\n"),
        user("nowhere", "1004", "/"),
        user("relative", "1005", "home/user"),
        user("broken", "1x", "/home/user"),
        user("groupless", "1006", "/home/user", gid="g"),
    ]
    expected = {"/home/alice": ("ada", 1000, 9), "/root": ("root", 0, 9)}
    assert list(surroundings.homes(users).items()) == list(expected.items())


def test_the_homes_of_a_hundred_people_are_asked() -> None:
    users = [user(f"u{at}", str(1000 + at), f"/data/{at:03}") for at in reversed(range(101))]
    assert list(surroundings.homes(users)) == [f"/data/{at:03}" for at in range(100)]


class Dead(Context):
    """A host on which the process that reads a home named `dead` ends without an answer.

    A test that waited for one that never answers would be wrong on a busy machine, where the other
    homes take as long; regular.apart is tested to give up.
    """

    def read_bytes(self, path: str, size: int | None = None) -> bytes | None:
        if "/dead" in path:
            os._exit(1)
        return super().read_bytes(path, size)


def conda_of(context: Context, *homes: str) -> list[str]:
    people = dict.fromkeys(homes, ("ada", 1000, 100))
    return surroundings.login_files(context, people, tensorflow_rules.puts_conda_first)


def test_a_home_that_does_not_answer_hides_no_other(tmp_path: Path) -> None:
    names = [f"/{name}/.bashrc" for name in ("dead1", "a", "dead2", "b", "dead3", "c")]
    there = Dead(root=str(tree(tmp_path, dict.fromkeys(names, "conda initialize\n"))))
    assert conda_of(there, "/dead1", "/a", "/dead2", "/b") == ["/a/.bashrc", "/b/.bashrc"]
    # The look has to end where many homes are on a server that is down.
    many = conda_of(there, "/dead1", "/a", "/dead2", "/b", "/dead3", "/c")
    assert many == ["/a/.bashrc", "/b/.bashrc"]


def test_a_home_is_read_as_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the running host; a recorded tree belongs to whoever looks."""
    seen = tmp_path / "seen"
    monkeypatch.setattr(surroundings.regular, "become", lambda *owner: seen.write_text(str(owner)))
    files = {"/home/.zshrc": "conda initialize\n"}
    there = host(tmp_path / "host", files)
    assert conda_of(there, "/home") == ["/home/.zshrc"]
    assert not seen.exists()
    home = f"{there.root}/home"
    assert conda_of(Context(), home) == [f"{home}/.zshrc"]
    assert seen.read_text() == "('ada', 1000, 100)"


@pytest.mark.parametrize("name", [".bashrc", ".bash_profile", ".profile", ".zshrc"])
def test_every_file_of_a_login_is_read(tmp_path: Path, name: str) -> None:
    there = host(tmp_path, {f"/home/{name}": "conda initialize\n"})
    assert conda_of(there, "/home") == [f"/home/{name}"]


def test_a_home_without_such_files_has_answered(tmp_path: Path) -> None:
    there = host(tmp_path, {"/d/.bashrc": "conda initialize\n"})
    assert conda_of(there, "/a", "/b", "/c", "/d") == ["/d/.bashrc"]
    people = dict.fromkeys(["/a", "/d"], ("ada", 1000, 100))
    assert surroundings.login_files(there, people, bool) == ["/d/.bashrc"]


def test_a_login_file_may_have_any_bytes(tmp_path: Path) -> None:
    there = host(tmp_path, {"/home/.bashrc": "conda initialize\n"})
    with (Path(there.root) / "home/.bashrc").open("ab") as file:
        file.write(b"\xff\n")
    assert conda_of(there, "/home") == ["/home/.bashrc"]


def test_an_answer_of_any_bytes_does_not_end_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads a home does so as its user."""
    monkeypatch.setattr(surroundings.regular, "apart", lambda *_: b"read \xff .zshrc")
    assert conda_of(Context(), "/home") == ["/home/.zshrc"]


@pytest.mark.parametrize(("before", "seen"), [(65536 - 17, True), (65536, False)])
def test_the_first_64_kib_of_a_login_file_are_read(tmp_path: Path, before: int, seen: bool) -> None:
    text = "\n" * before + "conda initialize\n"
    found = conda_of(host(tmp_path, {"/home/.bashrc": text}), "/home")
    assert found == (["/home/.bashrc"] if seen else [])


def test_the_doctor_tells_them_though_nothing_is_broken() -> None:
    """It said "healthy" and no more, while the user's `python` was another."""
    around = {
        "sshd_without_pam": "/etc/ssh/sshd_config",
        "trusted_gpg": True,
        "system_tensorflow": ["2.9.1 in /usr/local/lib/python3.9/dist-packages"],
        "conda": ["/home/alice/.bashrc"],
    }
    notes = findings.notes({"preflight": around})
    assert len(notes) == len(around)
    assert all(". To do: " in note for note in notes)
    assert findings.notes({"preflight": {}}) == []
