"""Which commits provision-pull hands to ansible-pull: a stand-in of it notes that it was called.

The whole way, on a host with systemd, is in tests/hosts/test_pull.py.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.collection import ROOT

PROGRAM = ROOT / "playbooks" / "files" / "pull" / "provision-pull"
STAND_IN = '#!/bin/sh\necho "$@" > "$PULL_HOME/called"\nexit 3\n'

# In place of ssh-keygen: finds every signature good.
JUDGE = """\
#!/bin/sh
cat > /dev/null
case "$*" in
    *find-principals*) echo ada@lab ;;
    *) echo 'Good "git" signature for ada@lab with ED25519 key SHA256:a' ;;
esac
"""

# In place of gpg and gpgsm: likewise.
KEYRING = """\
#!/bin/sh
cat > /dev/null
echo
echo '[GNUPG:] GOODSIG 0123456789ABCDEF mallory'
echo '[GNUPG:] TRUST_ULTIMATE 0 pgp'
"""


@dataclass
class Lab:
    """A repository, its signers, and the folders of the program."""

    folder: Path

    @property
    def source(self) -> Path:
        return self.folder / "source"

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@lab", "-c", "gpg.format=ssh")
        argv = ["git", "-C", str(self.source), *who, *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip()

    def commit(self, text: str, signer: str | None) -> str:
        (self.source / "site.yml").write_text(text, "utf-8")
        self.git("add", "--all")
        sign = f"-S{self.folder / f'{signer}.pub'}" if signer else "--no-gpg-sign"
        self.git("commit", "--quiet", sign, "--message", text)
        return self.git("rev-parse", "HEAD")

    def pull(self, url: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        called = self.folder / "home" / "called"
        called.unlink(missing_ok=True)
        environment = {
            "PATH": os.environ["PATH"],
            "PULL_SETTINGS": str(self.folder / "settings"),
            "PULL_HOME": str(self.folder / "home"),
            "PULL_ANSIBLE": str(self.folder / "bin"),
            "PULL_HOST": "gpu07",
            "PULL_URL": f"file://{self.source}" if url is None else url,
        }
        return subprocess.run(
            ["sh", str(PROGRAM)], env=environment | more,
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def refused(self, done: subprocess.CompletedProcess[str], *words: str) -> None:
        assert done.returncode == 2, done
        for part in (*words, "Nothing was changed on this host."):
            assert part in done.stderr
        assert not (self.folder / "home" / "called").exists()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    for name in ("source", "settings", "bin"):
        (tmp_path / name).mkdir()
    for name in ("ada", "mallory"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", name]
        subprocess.run(command, cwd=tmp_path, check=True)
    signers = "ada@lab " + (tmp_path / "ada.pub").read_text("ascii")
    (tmp_path / "settings" / "allowed_signers").write_text(signers, "ascii")
    stand_in = tmp_path / "bin" / "ansible-pull"
    stand_in.write_text(STAND_IN, "ascii")
    stand_in.chmod(0o755)
    made = Lab(tmp_path)
    made.git("init", "--quiet", "--initial-branch", "main")
    return made


def test_a_signed_commit_is_run_and_its_exit_code_is_the_programs(lab: Lab) -> None:
    commit = lab.commit("one", "ada")
    done = lab.pull(PULL_ARGUMENTS="--tags tensorflow")
    assert done.returncode == 3, done
    words = (lab.folder / "home" / "called").read_text("ascii")
    assert "-i lab --limit gpu07 --tags tensorflow site.yml" in words
    assert f"--url file://{lab.folder}/home/verified.git --checkout main" in words
    verified = ["git", "--git-dir", str(lab.folder / "home" / "verified.git"), "rev-parse", "main"]
    assert subprocess.check_output(verified, text=True).strip() == commit


@pytest.mark.parametrize("signer", [None, "mallory"])
def test_a_commit_that_nobody_of_the_lab_signed_is_not_run(lab: Lab, signer: str | None) -> None:
    lab.commit("one", "ada")
    lab.pull()
    commit = lab.commit("two", signer)
    lab.refused(lab.pull(), f"commit {commit}", "is not signed by anybody in")
    # Nor later, when it is there already.
    lab.refused(lab.pull(), f"commit {commit}")


def test_a_repository_that_was_set_back_is_not_run(lab: Lab) -> None:
    old = lab.commit("one", "ada")
    lab.commit("two", "ada")
    assert lab.pull().returncode == 3
    lab.git("reset", "--quiet", "--hard", old)
    lab.refused(lab.pull(), f"commit {old} does not follow the last one")


@pytest.mark.parametrize("named", ["Branch: next", "branch: main-next", "Branch: mai\nBranch: .*"])
def test_a_signed_commit_that_is_for_another_branch_is_not_run(lab: Lab, named: str) -> None:
    """A server could send the canary's to everybody: no signature says what branch it was for."""
    lab.commit("one", "ada")
    assert lab.pull().returncode == 3
    commit = lab.commit(f"two\n\n{named}\nSigned-off-by: Ada", "ada")
    lab.refused(lab.pull(), f"commit {commit} is for the branch", "and this host follows main")
    # Where it is the canary's own, and where a later commit takes it over.
    if named == "Branch: next":
        lab.git("branch", "next")
        assert lab.pull(PULL_BRANCH="next").returncode == 3
    lab.commit("three", "ada")
    assert lab.pull().returncode == 3


def test_a_commit_may_name_several_branches(lab: Lab) -> None:
    lab.commit("one\n\nBranch: next\nBranch: main", "ada")
    assert lab.pull().returncode == 3


def test_another_branch_is_set_back_no_more_than_the_first(lab: Lab) -> None:
    """What a host has run of a branch counts when it comes back to it."""
    old = lab.commit("one", "ada")
    lab.git("branch", "next")
    lab.commit("two", "ada")
    assert lab.pull().returncode == 3
    assert lab.pull(PULL_BRANCH="next").returncode == 3
    lab.git("reset", "--quiet", "--hard", old)
    lab.refused(lab.pull(), f"commit {old} does not follow the last one")


def test_settings_of_git_on_the_host_judge_no_signature(lab: Lab) -> None:
    lab.commit("one", "mallory")
    judge = lab.folder / "judge"
    judge.write_text(JUDGE, "ascii")
    judge.chmod(0o755)
    (lab.folder / ".gitconfig").write_text(f'[gpg "ssh"]\n\tprogram = {judge}\n', "utf-8")
    lab.refused(lab.pull(HOME=str(lab.folder)), "is not signed by anybody in")


@pytest.mark.parametrize(
    ("program", "words"), [("gpg", "PGP SIGNATURE"), ("gpgsm", "SIGNED MESSAGE")]
)
def test_keys_that_root_has_for_other_ends_judge_no_commit(
    lab: Lab, program: str, words: str
) -> None:
    lab.commit("one", "ada")
    # Stands for root's keyring that knows the signer.
    stand_in = lab.folder / "bin" / program
    stand_in.write_text(KEYRING, "ascii")
    stand_in.chmod(0o755)
    header, message = lab.git("cat-file", "commit", "HEAD").split("gpgsig ", 1)
    text = message.rsplit("-----END SSH SIGNATURE-----", 1)[1].lstrip()
    signature = f"gpgsig -----BEGIN {words}-----\n \n a\n -----END {words}-----\n"
    made = lab.folder / "commit"
    made.write_text(f"{header}{signature}\n{text}\n", "utf-8")
    commit = lab.git("hash-object", "-t", "commit", "-w", str(made))
    lab.git("update-ref", "refs/heads/main", commit)
    lab.refused(lab.pull(), f"commit {commit}", "is not signed by anybody in")


def test_a_server_that_says_nothing_is_given_up(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        begun = time.monotonic()
        url = f"git://127.0.0.1:{server.getsockname()[1]}/lab.git"
        lab.refused(lab.pull(url, PULL_FETCH_SECONDS="2"), "gives no branch main")
    assert time.monotonic() - begun < 40


def test_what_is_missing_is_named(lab: Lab) -> None:
    lab.refused(lab.pull(""), "PULL_URL is missing in")
    (lab.folder / "settings" / "allowed_signers").unlink()
    lab.refused(lab.pull(), "allowed_signers is missing")


def test_what_a_power_cut_left_of_git_stops_no_later_run(lab: Lab) -> None:
    lab.commit("one", "ada")
    assert lab.pull().returncode == 3
    lab.commit("two", "ada")
    home = lab.folder / "home"
    (home / "tree" / ".git").mkdir(parents=True)
    locks = ("verified.git/refs/incoming.lock", "verified.git/refs/heads/main.lock")
    left = [home / name for name in (*locks, "tree/.git/index.lock")]
    for path in left:
        path.touch()
    assert lab.pull().returncode == 3
    assert not any(path.exists() for path in left)


def test_one_runs_at_a_time_and_what_it_leaves_at_work_holds_up_no_other(lab: Lab) -> None:
    lab.commit("one", "ada")
    stand_in = lab.folder / "bin" / "ansible-pull"
    stand_in.write_text("#!/bin/sh\nsleep 20 >/dev/null 2>&1 &\nexit 3\n", "ascii")
    assert lab.pull().returncode == 3
    assert lab.pull().returncode == 3
    with (lab.folder / "home" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lab.refused(lab.pull(), "another provision-pull is at work")


def test_a_run_without_a_report_sends_not_the_last_one_again(lab: Lab) -> None:
    lab.commit("one", "ada")
    report = lab.folder / "home" / "tree" / "report" / "latest" / "report.json"
    sent = lab.folder / "sent"
    ansible_pull, ssh = (lab.folder / "bin" / name for name in ("ansible-pull", "ssh"))
    ssh.write_text(f"#!/bin/sh\ncat >> {sent}\n", "ascii")
    ssh.chmod(0o755)
    for number in "12":
        makes = f"mkdir -p {report.parent}\nprintf {number} > {report}\nexit 3\n"
        ansible_pull.write_text("#!/bin/sh\n" + makes, "ascii")
        assert lab.pull(PULL_REPORT_TO="reports@lab").returncode == 3
    ansible_pull.write_text("#!/bin/sh\nexit 1\n", "ascii")
    assert lab.pull(PULL_REPORT_TO="reports@lab").returncode == 1
    assert sent.read_text("ascii") == "12"


def take(folder: Path, data: bytes) -> subprocess.CompletedProcess[bytes]:
    """What the collector does with these bytes of the host gpu07."""
    environment = {"PATH": os.environ["PATH"], "REPORTS": str(folder)}
    command = ["sh", str(PROGRAM.with_name("take-report")), "gpu07"]
    return subprocess.run(
        command, input=data, env=environment, capture_output=True, check=False, timeout=60
    )


def test_the_collector_keeps_a_report_under_the_name_of_the_key(tmp_path: Path) -> None:
    report = b'{"format": 1, "hosts": {"../gpu08": {}}}'
    assert take(tmp_path / "reports", report).returncode == 0
    assert [path.name for path in (tmp_path / "reports").iterdir()] == ["gpu07.json"]
    assert (tmp_path / "reports" / "gpu07.json").read_bytes() == report


@pytest.mark.parametrize(
    "data", [b"", b"<html>", b'{"format": 2}', b'{"format": 1}' + b" " * 20_000_001]
)
def test_what_is_no_report_leaves_the_last_one(tmp_path: Path, data: bytes) -> None:
    kept = tmp_path / "gpu07.json"
    kept.write_text("the last one", "ascii")
    assert take(tmp_path, data).returncode == 1
    assert kept.read_text("ascii") == "the last one"
    assert [path.name for path in tmp_path.iterdir()] == ["gpu07.json"]
