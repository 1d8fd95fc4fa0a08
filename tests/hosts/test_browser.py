"""Three people open their workspaces in a real browser, through the front door.

From a bare host to an image that was built there, three workspaces and a door by one run. Then a
headless Chromium that trusts the door's own authority, as a person would import it, logs in with a
token, runs a cell of TensorFlow's and sees its GPUs, which are the host's simulated ones; the
pictures of it lie in build/screenshots, to be looked at.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docked import HOST, Docked, docked

from tests.collection import loaded
from tests.ground import workspace_image

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "build" / "screenshots"
DOOR = "gpu07.example.org"
PEOPLE: list[dict[str, Any]] = [
    {"name": "ada", "gpus": [0], "port": 8801, "tensorboard_port": 6801, "memory": "3g"},
    {"name": "bob", "gpus": [1], "port": 8802, "memory": "3g"},
    {"name": "eve", "kind": "ssh", "gpus": "none", "ssh_port": 2203, "memory": "1g"},
]
CELL = """\
import tensorflow as tf
tf.config.list_physical_devices("GPU")"""
SEES = "PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')"
# No work can be run on a simulated GPU.
EVENTS = """\
import os
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import tensorflow as tf
with tf.summary.create_file_writer(os.path.expanduser("~/logs/first")).as_default():
    for step in range(20):
        tf.summary.scalar("loss", 1.0 / (step + 1), step=step)
"""


# TensorBoard's texts are in shadow trees, which innerText leaves out.
WHOLE = (
    "(function walk(n) {return [...n.childNodes].map(c => c.nodeType === 3 ? c.data : c.nodeType "
    "=== 1 ? (c.shadowRoot ? walk(c.shadowRoot) : '') + walk(c) : '').join(' ')})(document.body)"
)


shots = loaded(ROOT / "scripts" / "screenshots.py", "shots")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shots.program() is None, reason="no chromium on this machine"),
]


class Opened(Docked):
    """The host, its people and its door."""

    stack = {"packages": ["jupyterlab", "pandas", "matplotlib"]}  # noqa: RUF012

    def say(self, people: list[dict[str, Any]]) -> None:
        """The inventory with these people."""
        folder = self.path / "lab" / "group_vars" / "gpu_hosts"
        folder.mkdir(parents=True, exist_ok=True)
        key = self.lab.hosts[0].key_file.with_suffix(".pub").read_text("utf-8")
        base = workspace_image.pack_base()
        variables = {
            "gpu_workspaces": [
                {**person, "ssh_keys": [key]} if "ssh_port" in person else person
                for person in people
            ],
            "gpu_workspace_base_file": str(base),
            "gpu_workspace_base_sha256": workspace_image.sha256(base),
            "gpu_front_door_name": DOOR,
        }
        (folder / "workspaces.yml").write_text(json.dumps(variables), "utf-8")

    def token(self, name: str) -> str:
        return self.root("cat", f"/etc/gpu-workspace/{name}/token")

    def authority(self) -> Path:
        """What an admin gives to people, for their browsers."""
        found = self.path.parent / "ca.crt"
        found.write_text(self.root("cat", "/etc/gpu-front-door/ca.crt"), "ascii")
        return found


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    with docked(tmp_path_factory.mktemp("browser"), "browser", Opened) as made:
        made.say(PEOPLE)
        made.proven()
        PICTURES.mkdir(parents=True, exist_ok=True)
        yield made


@pytest.fixture
def browser(opened: Opened) -> Iterator[Any]:
    names = {DOOR: opened.lab.hosts[0].address}
    with shots.Browser(ca=opened.authority(), names=names) as made:
        yield made


def enter(browser: Any, token: str) -> None:
    """Types a token into Jupyter's login page."""
    browser.click("input[type=password]")
    browser.write(token)
    browser.press("Enter", 13)


def text(browser: Any) -> str:
    found: str = browser.ask("document.body.innerText")
    return found


def test_the_index_lists_who_has_what(browser: Any) -> None:
    browser.open(f"https://{DOOR}/", 1100)
    shown = text(browser)
    assert {"ada", "bob", "eve"} <= set(shown.split()), shown
    assert f"-p 2203 eve@{DOOR}" in shown
    links = browser.ask("[...document.links].map(one => one.getAttribute('href'))")
    assert "/ada/" in links
    assert "/bob/" in links
    assert "/eve/" not in links
    for width in (390, 1100):
        browser.open(f"https://{DOOR}/", width)
        assert browser.overflow() <= 0
        browser.picture(PICTURES / f"door-index-{width}.png")


def test_a_browser_that_does_not_know_the_authority_is_warned(opened: Opened) -> None:
    with shots.Browser(names={DOOR: opened.lab.hosts[0].address}) as stranger:
        stranger.open(f"https://{DOOR}/", 1100)
        assert stranger.ask("location.protocol") == "chrome-error:"


def test_she_logs_in_and_a_cell_sees_her_gpu(opened: Opened, browser: Any) -> None:
    browser.open(f"https://{DOOR}/ada/", 1280)
    enter(browser, "not-the-token-of-anybody")
    browser.until("document.body.innerText.includes('Invalid')")
    enter(browser, opened.token("ada"))
    browser.until("location.pathname.startsWith('/ada/lab')", seconds=120)
    # A new notebook from the launcher, as a person makes one.
    browser.open(f"https://{DOOR}/ada/lab?reset", 1280)
    browser.click(".jp-LauncherCard[data-category=Notebook]")
    browser.until("document.body.innerText.includes('| Idle')", seconds=120)
    browser.click(".jp-Notebook .jp-Cell .cm-content, .jp-Notebook .jp-Cell .CodeMirror")
    for line in CELL.splitlines(keepends=True):
        browser.write(line.rstrip("\n"))
        if line.endswith("\n"):
            browser.press("Enter", 13)
    browser.press("Enter", 13, shift=True)
    result = "document.querySelector('.jp-OutputArea-executeResult')"
    try:
        browser.until(f"{result} !== null", seconds=240)
    finally:
        browser.picture(PICTURES / "door-notebook.png", whole=False)
    shown = browser.ask(f"{result}.innerText")
    # One GPU is hers, and the host has two.
    assert SEES in shown
    assert "GPU:1" not in shown


def test_tensorboard_is_for_who_is_logged_in(opened: Opened, browser: Any) -> None:
    uid = opened.root("stat", "-c", "%u", "/srv/gpu-workspaces/ada")
    user = ("--user", f"{uid}:{uid}")
    opened.root("docker", "exec", *user, "gpu-workspace-ada", "python", "-c", EVENTS)
    browser.open(f"https://{DOOR}/ada/tensorboard/", 1280)
    assert "loss" not in browser.ask(WHOLE)
    # She is led to the login of her Jupyter.
    browser.until("document.querySelector('input[type=password]') !== null")
    browser.open(f"https://{DOOR}/ada/login", 1280)
    enter(browser, opened.token("ada"))
    browser.until("location.pathname.startsWith('/ada/lab')", seconds=120)
    # It reads new events every few seconds, and shows what it had when the page was opened.
    for attempt in range(6):
        browser.open(f"https://{DOOR}/ada/tensorboard/", 1280)
        try:
            browser.until(f"/\\bloss\\b/.test({WHOLE})", seconds=20)
            break
        except TimeoutError:
            assert attempt < 5, browser.ask(WHOLE)[-2000:]
    browser.picture(PICTURES / "door-tensorboard.png", whole=False)


def test_one_is_changed_one_is_gone_and_a_notebook_outlives_it(
    opened: Opened, browser: Any
) -> None:
    note = subprocess.run(
        [
            "curl", "-sS", "--fail", "--cacert", str(opened.authority()),
            "--resolve", f"{DOOR}:443:{opened.lab.hosts[0].address}",
            "-H", f"Authorization: token {opened.token('ada')}", "-X", "PUT",
            "-d", json.dumps({"type": "file", "format": "text", "content": "hers"}),
            f"https://{DOOR}/ada/api/contents/kept.txt",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert note.returncode == 0, note
    eve = opened.root("docker", "inspect", "--format", "{{.Id}}", "gpu-workspace-eve")
    opened.say([{**PEOPLE[0], "memory": "4g"}, PEOPLE[2]])
    # Her kernel of the test before is still open.
    opened.proven("-e", "gpu_workspace_in_use=stop")
    assert opened.root("docker", "inspect", "--format", "{{.Id}}", "gpu-workspace-eve") == eve
    browser.open(f"https://{DOOR}/", 1100)
    assert "bob" not in text(browser)
    browser.open(f"https://{DOOR}/bob/", 1100)
    assert "404" in text(browser)
    browser.open(f"https://{DOOR}/ada/lab/tree/kept.txt", 1280)
    enter(browser, opened.token("ada"))
    browser.until("document.body.innerText.includes('hers')", seconds=120)
    browser.picture(PICTURES / "door-after.png", whole=False)


def test_no_token_is_in_the_doors_logs_or_anywhere(opened: Opened) -> None:
    secret = opened.token("ada")
    look = (
        "grep -raFl -f - /var/log /run/log /var/lib/provision /run/gpu-workspace /tmp /var/tmp"
        " /etc/nginx /root /home /srv/gpu-workspaces /var/www 2>/dev/null; true"
    )
    assert opened.root("sh", "-c", look, stdin=secret + "\n") == ""
    assert secret not in opened.root("ps", "axwwe")
    assert secret not in opened.root("journalctl", "--no-pager", "--all")
    for path in opened.path.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert secret.encode() not in path.read_bytes(), path
    assert HOST in opened.report["hosts"]
