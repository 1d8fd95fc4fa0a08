"""Three people on one host, each with a Jupyter of their own, from bare to proven by one run.

dockerd and Jupyter run for real inside the host; the image is made of Debian's files and comes as
a tar (tests/ground/workspace_image.py). The toolkit's packages are stand-ins, so what `--gpus`
shows is the way to docker, and no GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN
from docked import HOST, Docked, docked

from tests.ground import workspace_image
from tests.ground.server import Authority, WebServer

pytestmark = [pytest.mark.slow]
# Rules of the preflight that something here trips: docs/mutants.md.
TRIPS = ("workspace-in-use",)

TOKEN = "5d0c6f6b-a-token-of-the-vault-8f1be2"  # noqa: S105
PASSWORD = "a password of the vault's"  # noqa: S105
# eve's for SSH.
EVES = "a password of eve's, and long"
PEOPLE: list[dict[str, Any]] = [
    {"name": "ada", "gpus": [0], "port": 8801, "cpus": 0.5, "memory": "512m"},
    {"name": "bob", "gpus": 1, "port": 8802, "memory": "600m"},
    {
        "name": "eve",
        "kind": "both",
        "gpus": "none",
        "port": 8803,
        "ssh_port": 2203,
        "user": "1234:1234",
        "volumes": [{"path": "/srv/data", "at": "/data"}],
    },
]
ASK = """\
import json, sys, urllib.request, urllib.error
method, url, token, body = sys.argv[1:]
request = urllib.request.Request(url, data=body.encode() or None, method=method)
if token:
    request.add_header("Authorization", "token " + token)
try:
    with urllib.request.urlopen(request, timeout=30) as answer:
        print(answer.status, answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
"""


class Shared(Docked):
    """The host of the container toolkit's test, with people."""

    def say(self, people: list[dict[str, Any]], pulled: str = "") -> None:
        """The inventory as somebody writes it: a token in Ansible Vault, everything else plain."""
        folder = self.path / "lab" / "group_vars" / "gpu_hosts"
        folder.mkdir(parents=True, exist_ok=True)
        image = workspace_image.pack()
        # Her key is the one that the lab's own user has.
        key = self.lab.hosts[0].key_file.with_suffix(".pub").read_text("utf-8")
        keyed = [
            {**person, "ssh_keys": [key]} if "ssh_port" in person else person for person in people
        ]
        plain: dict[str, Any] = {"gpu_workspaces": keyed}
        if pulled:
            plain["gpu_workspace_image"] = pulled
        else:
            plain["gpu_workspace_image_file"] = str(image)
            plain["gpu_workspace_image_sha256"] = workspace_image.sha256(image)
        (folder / "workspaces.yml").write_text(json.dumps(plain), "utf-8")
        if not (folder / "vault.yml").exists():
            (self.path.parent / "vault").write_text(PASSWORD, "utf-8")
            made = ["openssl", "passwd", "-6", "-stdin"]
            self.hashed = subprocess.run(
                made, input=EVES, capture_output=True, text=True, check=True
            ).stdout.strip()
            text = "gpu_workspace_tokens:\n" + self.vaulted("ada", TOKEN)
            (folder / "vault.yml").write_text(text, "utf-8")
            self.passwords = "gpu_workspace_passwords:\n" + self.vaulted("eve", self.hashed)
        # A password of somebody who is not named is refused, as a token is.
        hers = self.passwords if "eve" in [person["name"] for person in people] else ""
        (folder / "passwords.yml").write_text(hers or "{}\n", "utf-8")

    def vaulted(self, name: str, secret: str) -> str:
        """A line of a mapping, as ansible-vault prints it."""
        text = subprocess.run(
            [
                str(BIN / "ansible-vault"), "encrypt_string", "--name", name,
                "--vault-password-file", str(self.path.parent / "vault"), secret,
            ],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        return "".join(f"  {line}\n" for line in text.splitlines())

    def run_with(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        first, *rest = arguments
        vault = str(self.path.parent / "vault")
        return self.provision(first, "-i", "lab", "--vault-password-file", vault, *rest)

    def proven(self, *arguments: str) -> Any:
        vault = ("--vault-password-file", str(self.path.parent / "vault"))
        return super().proven(*vault, *arguments)

    def token(self, name: str) -> str:
        return self.root("cat", f"/etc/gpu-workspace/{name}/token")

    def ask(
        self, port: int, path: str, token: str = "", method: str = "GET", body: str = ""
    ) -> tuple[int, Any]:
        """What Jupyter answers on the host."""
        url = f"http://127.0.0.1:{port}{path}"
        parts = self.root("python3", "-c", ASK, method, url, token, body).split(" ", 1)
        return int(parts[0]), json.loads(parts[1]) if len(parts) > 1 and parts[1].strip() else None

    def containers(self) -> dict[str, str]:
        """{person: id} of the containers that run."""
        form = '{{.Label "gpu-workspace"}} {{.ID}}'
        output = self.root("docker", "ps", "--filter", "label=gpu-workspace", "--format", form)
        return dict(line.split() for line in output.splitlines())

    def inspected(self, name: str) -> Any:
        return json.loads(self.root("docker", "inspect", f"gpu-workspace-{name}"))[0]

    def ssh_into(
        self, command: str, *options: str, user: str = "eve", key: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """As somebody at another machine: through the host's port into the container."""
        host = self.lab.hosts[0]
        return subprocess.run(
            [
                "ssh", "-F", "/dev/null", "-p", "2203", "-o", "BatchMode=yes",
                "-o", "IdentitiesOnly=yes", "-o", "ConnectTimeout=20",
                "-o", "StrictHostKeyChecking=accept-new",
                "-o", f"UserKnownHostsFile={self.path.parent / 'known_workspaces'}",
                "-i", str(key or host.key_file), *options, f"{user}@{host.address}", command,
            ],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with docked(tmp_path_factory.mktemp("workspaces"), "workspaces", Shared) as made:
        made.say(PEOPLE)
        made.root("sh", "-c", "mkdir -p /srv/data; echo shared > /srv/data/all.txt")
        yield made


def test_three_people_from_bare_to_proven_in_one_run(shared: Shared) -> None:
    entry = shared.proven()
    assert {"nvidia_container_toolkit", "gpu_workspace"} <= set(entry["components"])
    results = shared.results("gpu_workspace")
    assert results.pop("gpu_workspace.tensorboard") == "not_applicable"
    assert set(results.values()) == {"passed"}, results
    assert set(shared.containers()) == {"ada", "bob", "eve"}
    assert shared.token("ada") == TOKEN
    tokens = {person["name"]: shared.token(person["name"]) for person in PEOPLE}
    assert len(set(tokens.values())) == 3
    for person in PEOPLE:
        assert (
            shared.ask(person["port"], f"/{person['name']}/api/status", tokens[person["name"]])[0]
            == 200
        )
        assert shared.ask(person["port"], f"/{person['name']}/api/status")[0] == 403
    assert shared.ask(8801, "/ada/api/status", tokens["bob"])[0] == 403


def test_limits_and_gpus_are_those_that_were_wished(shared: Shared) -> None:
    ada = shared.inspected("ada")["HostConfig"]
    assert (ada["Memory"], ada["MemorySwap"], ada["NanoCpus"]) == (1 << 29, 1 << 29, 500_000_000)
    assert ada["ShmSize"] == 1 << 30
    assert ada["DeviceRequests"][0]["DeviceIDs"] == ["0"]
    assert shared.inspected("bob")["HostConfig"]["DeviceRequests"][0]["DeviceIDs"] == ["1"]
    uid = shared.root("stat", "-c", "%u", "/srv/gpu-workspaces/bob")
    assert 70000 <= int(uid) <= 99999
    assert shared.inspected("bob")["Config"]["User"] == f"{uid}:{uid}"
    assert shared.inspected("bob")["HostConfig"]["SecurityOpt"] == ["no-new-privileges"]
    assert shared.root("stat", "-c", "%u:%g %a", "/srv/gpu-workspaces/bob") == f"{uid}:{uid} 700"
    eve = shared.inspected("eve")
    assert not eve["HostConfig"]["DeviceRequests"]
    assert eve["Config"]["User"] == "0:0"
    assert shared.root("stat", "-c", "%u", "/srv/gpu-workspaces/eve") == "1234"
    assert list(eve["HostConfig"]["PortBindings"]) == ["22/tcp"]
    assert "127.0.0.1:8803" in shared.root("ss", "-Hltn")


def test_what_is_shared_can_be_read_and_not_written(shared: Shared) -> None:
    inside = ("docker", "exec", "gpu-workspace-eve", "sh", "-c")
    assert shared.root(*inside, "cat /data/all.txt; echo x > /data/new || echo refused") == (
        "shared\nrefused"
    )


def test_she_comes_in_by_her_key_and_by_nothing_else(shared: Shared, tmp_path: Path) -> None:
    done = shared.ssh_into(
        "id -un; id -u; pwd; command -v jupyter-notebook tmux; cat /data/all.txt"
    )
    assert done.stdout.split() == [
        *("eve", "1234", "/home/eve", "/usr/bin/jupyter-notebook", "/usr/bin/tmux", "shared")
    ], done
    wrote = shared.ssh_into("echo by ssh > ~/ssh.txt")
    assert wrote.returncode == 0, wrote
    assert shared.root("cat", "/srv/gpu-workspaces/eve/ssh.txt") == "by ssh"
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    for refused in (
        shared.ssh_into("true", key=other),
        shared.ssh_into("true", user="root"),
        shared.ssh_into("true", "-o", "PreferredAuthentications=password,keyboard-interactive"),
    ):
        assert refused.returncode == 255
        assert "Permission denied (publickey" in refused.stderr
    entry = shared.lab.hosts[0]
    (tmp_path / "back").mkdir()
    copied = subprocess.run(
        [
            "sftp", "-q", "-F", "/dev/null", "-P", "2203", "-i", str(entry.key_file),
            "-o", f"UserKnownHostsFile={shared.path.parent / 'known_workspaces'}",
            f"eve@{entry.address}:ssh.txt", str(tmp_path / "back"),
        ],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (tmp_path / "back" / "ssh.txt").read_text("utf-8") == "by ssh\n", copied


def test_she_comes_in_by_the_password_of_the_vault_and_by_no_other(
    shared: Shared, tmp_path: Path
) -> None:
    asked = tmp_path / "ask"
    asked.write_text('#!/bin/sh\nprintf %s "$TOLD"\n', "utf-8")
    asked.chmod(0o700)
    host = shared.lab.hosts[0]

    def came(password: str, user: str = "eve") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                "ssh", "-F", "/dev/null", "-p", "2203", "-o", "PubkeyAuthentication=no",
                "-o", "PreferredAuthentications=password", "-o", "NumberOfPasswordPrompts=1",
                "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
                f"{user}@{host.address}", "id -un",
            ],
            capture_output=True, text=True, check=False, timeout=120,
            env={**os.environ, "SSH_ASKPASS": str(asked), "SSH_ASKPASS_REQUIRE": "force",
                 "TOLD": password},
        )  # fmt: skip

    right = came(EVES)
    assert (right.returncode, right.stdout.strip()) == (0, "eve"), right.stderr
    assert shared.ssh_into("true").returncode == 0  # her key still does
    for wrong in (came("not " + EVES), came(""), came(EVES, "root")):
        assert wrong.returncode == 255, wrong.stdout
        assert "Permission denied (publickey,password)" in wrong.stderr
    # Whoever is in can't read what it is known by.
    denied = shared.ssh_into("cat /etc/shadow /run/gpu-workspace/password")
    assert (denied.returncode, denied.stdout) == (1, ""), denied.stderr


def test_who_is_there_by_ssh_is_not_disturbed(shared: Shared) -> None:
    host, before = shared.lab.hosts[0], shared.containers()
    inside = subprocess.Popen(
        [
            "ssh", "-F", "/dev/null", "-p", "2203", "-i", str(host.key_file),
            "-o", f"UserKnownHostsFile={shared.path.parent / 'known_workspaces'}",
            f"eve@{host.address}", "echo here; sleep 600",
        ],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert inside.stdout is not None
        assert inside.stdout.readline() == "here\n"
        shared.say(PEOPLE[:2])
        refused = shared.run_with("apply")
        assert refused.returncode == 4, refused.stdout + refused.stderr
        assert "SSH open: eve (1)" in " ".join(refused.stdout.split())
        assert shared.containers() == before
    finally:
        inside.kill()
        inside.wait()
        shared.say(PEOPLE)


def test_a_second_run_changes_nothing(shared: Shared) -> None:
    before = shared.containers()
    again = shared.run_with("apply")
    assert again.returncode == 0, again.stdout + again.stderr
    assert shared.tasks_run()[HOST] == ["gpu_state : Look | Compare the host with the lock"]
    assert shared.containers() == before


def test_the_program_of_before_is_replaced_and_nobody_notices(shared: Shared) -> None:
    """It was one file; simulated."""
    before = shared.containers()
    one_file = (
        "rm -r /usr/local/lib/gpu-workspace; echo '#!/bin/sh' > /usr/local/sbin/gpu-workspace"
    )
    shared.root("sh", "-c", one_file)
    planned = shared.run_with("plan")
    assert planned.returncode == 5
    assert "/usr/local/lib/gpu-workspace: absent -> as shipped" in planned.stdout
    assert "workspace ada" not in planned.stdout
    assert shared.proven()["components"].keys() == {"gpu_workspace"}
    assert shared.containers() == before
    assert "ada  runs  GPUs 0" in shared.root("gpu-workspace", "list")
    owners = shared.root("sh", "-c", "stat -c '%U:%G %a' /usr/local/lib/gpu-workspace/program/*")
    assert set(owners.splitlines()) == {"root:root 644"}


def test_who_is_at_work_is_not_disturbed(shared: Shared) -> None:
    before, token = shared.containers(), shared.token("bob")
    status, kernel = shared.ask(8802, "/bob/api/kernels", token, "POST", "{}")
    assert status == 201
    changed = [
        {**person, "memory": "700m"} if person["name"] == "bob" else person for person in PEOPLE
    ]
    shared.say(changed)
    refused = shared.run_with("apply")
    assert refused.returncode == 4, refused.stdout + refused.stderr
    assert "SSH open: bob (1)" in " ".join(refused.stdout.split())
    assert shared.containers() == before
    assert shared.ask(8802, f"/bob/api/kernels/{kernel['id']}", token, "DELETE")[0] == 204


def test_one_changes_one_goes_and_nobody_else_notices(shared: Shared) -> None:
    eve = shared.token("eve")
    note = json.dumps({"type": "file", "format": "text", "content": "hers"})
    assert shared.ask(8803, "/eve/api/contents/kept.txt", eve, "PUT", note)[0] == 201
    assert shared.root("cat", "/srv/gpu-workspaces/eve/kept.txt") == "hers"
    before, bob = shared.containers(), shared.token("bob")
    shared.say([PEOPLE[0], {**PEOPLE[1], "memory": "700m", "port": 8804}])
    planned = shared.run_with("plan")
    assert planned.returncode == 5
    assert "workspace bob: other settings -> as wished (changed: memory, port)" in planned.stdout
    assert "workspace eve: here -> None" in planned.stdout
    assert "ada" not in planned.stdout
    assert shared.proven()["components"].keys() == {"gpu_workspace"}
    after = shared.containers()
    assert after["ada"] == before["ada"]
    assert after["bob"] != before["bob"]
    assert "eve" not in after
    assert shared.inspected("bob")["HostConfig"]["Memory"] == 700 << 20
    assert shared.token("bob") == bob
    assert shared.root("cat", "/srv/gpu-workspaces/eve/kept.txt") == "hers"
    gone = shared.root(
        "sh", "-c", "systemctl list-units --all --plain 'gpu-workspace@*' --no-legend"
    )
    assert "eve" not in gone
    assert shared.root("ls", "/etc/gpu-workspace").split() == ["ada", "bob"]
    # A proof would read the limits of a container that is gone.
    assert shared.root("ls", "/run/gpu-workspace").split() == ["ada.json", "bob.json"]


def test_who_comes_back_finds_what_was_left(shared: Shared) -> None:
    shared.say([PEOPLE[0], {**PEOPLE[1], "memory": "700m", "port": 8804}, PEOPLE[2]])
    shared.proven()
    # The host's key is another one since hers was forgotten with her.
    (shared.path.parent / "known_workspaces").unlink()
    assert shared.ssh_into("cat ~/ssh.txt").stdout == "by ssh\n"
    answer = shared.ask(8803, "/eve/api/contents/kept.txt", shared.token("eve"))
    assert answer[1]["content"] == "hers"


def test_a_container_that_was_removed_comes_back(shared: Shared) -> None:
    shared.root("docker", "rm", "--force", "gpu-workspace-ada")
    until = time.time() + 120
    while "ada" not in shared.containers():
        assert time.time() < until
        time.sleep(2)


def test_no_secret_is_anywhere(shared: Shared) -> None:
    """Reports, logs, receipts, processes, environments, docker's answers; with -vvv as well."""
    loud = shared.playbook(
        "-vvv", "--vault-password-file", str(shared.path.parent / "vault"),
        "-e", "gpu_workspace_patience=200", "-e", '{"gpu_workspaces": []}',
    )  # fmt: skip
    assert loud.returncode == 0, loud.stdout[-4000:]
    back = shared.playbook("-vvv", "--vault-password-file", str(shared.path.parent / "vault"))
    assert back.returncode == 0, back.stdout[-4000:]
    secrets = {name: shared.token(name) for name in ("ada", "bob", "eve")}
    assert secrets["ada"] == TOKEN
    for secret in (*secrets.values(), PASSWORD, EVES, shared.hashed):
        assert secret not in loud.stdout + loud.stderr + back.stdout + back.stderr
        for path in shared.path.rglob("*"):
            if path.is_file() and not path.is_symlink():
                assert secret.encode() not in path.read_bytes(), path
        look = (
            "grep -raFl -f - /var/log /run/log /var/lib/provision /run/gpu-workspace /tmp /var/tmp"
            " /root /home /srv/gpu-workspaces 2>/dev/null; true"
        )
        assert shared.root("sh", "-c", look, stdin=secret + "\n") == ""
        assert secret not in shared.root("ps", "axwwe")
        environments = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'"
        assert secret not in shared.root("sh", "-c", environments)
        assert secret not in shared.root("journalctl", "--no-pager", "--all")
        for name in secrets:
            assert secret not in shared.root("docker", "inspect", f"gpu-workspace-{name}")
            logs = ("sh", "-c", f"docker logs gpu-workspace-{name} 2>&1")
            assert secret not in shared.root(*logs)


def test_nobody_is_left_and_the_homes_stay(shared: Shared) -> None:
    shared.say([])
    (shared.path / "lab" / "group_vars" / "gpu_hosts" / "vault.yml").unlink()
    assert shared.proven()["components"].keys() == {"gpu_workspace"}
    assert shared.containers() == {}
    assert set(shared.results("gpu_workspace").values()) <= {"not_applicable"}
    assert shared.root("ls", "/etc/gpu-workspace") == ""
    places = "/usr/local/sbin /usr/local/lib /etc/systemd/system"
    assert shared.root("sh", "-c", f"ls {places}").count("workspace") == 0
    assert shared.root("ls", "/srv/gpu-workspaces").split() == ["ada", "bob", "eve"]
    assert shared.root("cat", "/srv/gpu-workspaces/eve/kept.txt") == "hers"


def test_an_image_is_pulled_by_its_digest_and_by_no_other(shared: Shared, tmp_path: Path) -> None:
    """From a registry over TLS, whose authority docker was told of."""
    wished = [{"name": "ada", "gpus": "none", "port": 8802}]
    with WebServer(tmp_path / "www", Authority(tmp_path / "tls")) as web:
        image = workspace_image.publish(workspace_image.pack(), web)
        place = f"/etc/docker/certs.d/{image.split('/')[0]}"
        ca = web.authority.bundle.read_text("utf-8")
        shared.root("sh", "-c", f"mkdir -p {place}; cat > {place}/ca.crt", stdin=ca)
        path, manifest = next((p, a) for p, a in web.instead.items() if "manifests" in p)
        # Something else under the same name: docker compares it with the digest.
        web.instead[path] = (*manifest[:2], manifest[2].replace(b"schemaVersion", b"schemaversion"))
        shared.say(wished, pulled=image)
        refused = shared.run_with("apply")
        assert refused.returncode == 4, refused.stdout + refused.stderr
        assert "could not be pulled" in " ".join(refused.stdout.split())
        assert shared.containers() == {}
        web.instead[path] = manifest
        shared.proven()
    assert set(shared.containers()) == {"ada"}
    assert shared.inspected("ada")["Config"]["Image"] == image
    # The registry is gone, and nobody needs it.
    again = shared.run_with("plan")
    assert again.returncode == 0, again.stdout
