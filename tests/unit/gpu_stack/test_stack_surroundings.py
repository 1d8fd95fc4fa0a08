"""What people set up by hand is told, before a run and by the doctor, and is nobody's damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_stack import doctor, preflight, surroundings
from gpu_stack.context import Context

MAIN = "Include /etc/ssh/sshd_config.d/*.conf\n#UsePAM no\nUsePAM yes\n"


def tree(root: Path, files: dict[str, str]) -> Context:
    for path, text in files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return Context(root=str(root))


@pytest.mark.parametrize(
    ("main", "more", "said"),
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
    ],
)
def test_whether_sshd_uses_pam(
    tmp_path: Path, main: str, more: dict[str, str], said: str | None
) -> None:
    """`UsePAM no`: the host could never be proven, and verify said to run the playbook again."""
    files = {"/etc/ssh/sshd_config": main}
    files |= {f"/etc/ssh/sshd_config.d/{name}": text for name, text in more.items()}
    assert surroundings.sshd_without_pam(tree(tmp_path, files)) == said


def test_a_host_without_sshd_has_no_such_trouble(tmp_path: Path) -> None:
    assert surroundings.sshd_without_pam(tree(tmp_path, {})) is None


def test_a_tensorflow_in_the_systems_python_and_keys_for_all_are_seen(tmp_path: Path) -> None:
    place = "/usr/local/lib/python3.9/dist-packages"
    files = {
        f"{place}/tensorflow-2.9.1.dist-info/METADATA": "",
        f"{place}/tensorflow_gpu-2.4.0.dist-info/METADATA": "",
        f"{place}/tensorflow_estimator-2.9.0.dist-info/METADATA": "",
        "/etc/apt/trusted.gpg": "key",
    }
    found = surroundings.look(tree(tmp_path, files))
    assert found["trusted_gpg"] is True
    assert sorted(found["system_tensorflow"]) == [f"2.4.0 in {place}", f"2.9.1 in {place}"]
    bare = surroundings.look(tree(tmp_path / "bare", {"/etc/apt/trusted.gpg": ""}))
    assert bare == {"sshd_without_pam": None, "trusted_gpg": False, "system_tensorflow": []}


def test_a_conda_of_anybody_with_a_login_is_seen(tmp_path: Path) -> None:
    """The look asked for root's and the caller's alone; the others' `python` was hidden."""
    users = "ada:x:1000:1000::/home/alice:/bin/bash\nweb:x:33:33::/var/www:/bin/bash\n"
    users += "off:x:1001:1001::/home/user:/usr/sbin/nologin\n"
    rc = "# >>> conda initialize >>>\n"
    files = {"/etc/passwd": users, "/home/alice/.bashrc": rc, "/var/www/.bashrc": rc}
    context = tree(tmp_path, {**files, "/home/user/.bashrc": rc})
    assert preflight.conda(context) == ["/home/alice/.bashrc"]


def test_the_doctor_tells_them_though_nothing_is_broken() -> None:
    """It said "healthy" and no more, while the user's `python` was another."""
    around = {
        "sshd_without_pam": "/etc/ssh/sshd_config",
        "trusted_gpg": True,
        "system_tensorflow": ["2.9.1 in /usr/local/lib/python3.9/dist-packages"],
        "conda": ["/home/alice/.bashrc"],
    }
    notes = doctor.notes({"preflight": around})
    assert len(notes) == len(around)
    assert all(". To do: " in one for one in notes)
    assert doctor.notes({"preflight": {}}) == []
