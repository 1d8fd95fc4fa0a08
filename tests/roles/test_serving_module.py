"""The module `servings`: a changed model is started beside the former, which serves until then.

docker, systemd and TensorFlow Serving are made up here; tests/hosts/test_serving.py has real ones.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.gpu_serving import (
    asking,
    bring,
    images,
    network,
    places,
    prediction,
    service,
)
from gpu_stack.components.gpu_workspace.program import docker, files, programs
from gpu_stack.components.gpu_workspace.program.places import RefusedError
from gpu_stack.host.context import Context

IMAGE = "sha256:" + "a" * 64
LINE = {"name": "line", "models": "/srv/models/line", "gpus": "none", "port": 8501}
WIDE = {**LINE, "name": "wide", "port": 8502}
TOKEN = "a-token-of-the-vault-0123456789"  # noqa: S105


class Made:
    """A host: its units, its docker, and which addresses serve which versions."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.running: set[str] = set()
        self.enabled: set[str] = set()
        self.calls: list[list[str]] = []
        # What a container answers that is started from now on.
        self.loads = {2: ("AVAILABLE", "")}
        self.serving: dict[str, dict[int, tuple[str, str]]] = {}
        # {network: whether its addresses were named, without which no container gets one}
        self.networks: dict[str, bool] = {}
        self.release = "2.9.3"
        # {socket unit: its port}, as systemd has them open, and the ports of somebody else's
        # program, which began just now.
        self.held: dict[str, int] = {}
        self.stranger: set[int] = set()

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def version(self, number: int) -> None:
        place = self.path(f"/srv/models/line/{number}")
        place.mkdir(parents=True)
        (place / "saved_model.pb").write_bytes(b"")

    def unit(self, name: str) -> str:
        return self.path(f"{places.UNITS_PLACE}/{name}").read_text()

    def call(self, argv: list[str], timeout: float | None = 60) -> tuple[int, str, str]:
        del timeout
        self.calls.append(argv)
        if argv[:1] == ["systemctl"]:
            words = [word for word in argv[2:] if not word.startswith("-")]
            if argv[1] in ("restart", "start"):
                for unit in words:
                    if not self.opens(unit):
                        return 1, "", f"{unit}: Address already in use"
                    self.running.add(unit)
                    if re.search(r"\.[ab]\.service$", unit):
                        address = re.search(r"--ip (\S+)", self.unit(unit))
                        assert address is not None
                        self.serving[address[1]] = dict(self.loads)
            if argv[1] == "stop" or "--now" in argv:
                self.running -= set(words)
                self.held = {unit: self.held[unit] for unit in self.held if unit not in words}
            self.listen()
            if argv[1] in ("enable", "disable"):
                wants = {unit: self.wants(unit) for unit in words}
                for path in wants.values():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.unlink(missing_ok=True)
                    if argv[1] == "enable":
                        path.touch()
            return 0, "", ""
        if "ps" in argv:
            return 0, self.listing(), ""
        return 0, "", ""

    def opens(self, unit: str) -> bool:
        """Whether systemd can open the port of a socket unit; other units have none."""
        if unit.endswith(".socket") and unit not in self.held:
            port = int(self.unit(unit).partition("ListenStream=127.0.0.1:")[2].split()[0])
            if port in self.stranger | set(self.held.values()):
                return False
            self.held[unit] = port
        return True

    def listen(self) -> None:
        rows = [
            f"0: 0100007F:{port:04X} 00000000:0000 0A 0:0 00:0 0 0 0 {port} 1 0"
            for port in self.held.values()
        ]
        place = self.path("/proc/net/tcp")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n".join(["  sl  local_address", *rows]) + "\n")

    def wants(self, unit: str) -> Path:
        place = places.PORT_WANTS if unit.endswith(".socket") else places.WANTS
        return self.path(place + unit)

    def listing(self) -> str:
        rows = []
        for unit in sorted(self.running):
            if re.search(r"\.[ab]\.service$", unit):
                match = re.search(r"gpu-serving\.revision=(\S+)", self.unit(unit))
                assert match is not None
                rows.append(f"{unit.split('-', 2)[2].split('.')[0]} {match[1]}")
        return "\n".join(rows)

    def docker(self, *arguments: str, **_options: Any) -> tuple[int, str, str]:
        if arguments[:2] == ("network", "inspect"):
            if arguments[-1] not in self.networks:
                return 1, "", "no such network"
            network = {"Labels": {places.LABEL: ""}, "Internal": True}
            return 0, json.dumps({**network, "IPAM": {"Config": [{"Subnet": "172.30.0.0/24"}]}}), ""
        if arguments[:2] == ("network", "create"):
            self.networks[arguments[-1]] = "--subnet" in arguments
        if arguments[:2] == ("network", "rm"):
            del self.networks[arguments[-1]]
        if "--version" in arguments:
            return 0, f"TensorFlow ModelServer: 1\nTensorFlow Library: {self.release}\n", ""
        return (1, "", "no such") if arguments[0] == "inspect" else (0, "", "")

    def ask(self, address: str, port: int, _path: str, *_rest: Any, **_more: Any) -> Any:
        if address == "127.0.0.1":
            return (200, {}) if port in self.held.values() else (None, None)
        states = self.serving.get(address, {})
        rows = [
            {
                "version": str(number),
                "state": state,
                "status": {"error_code": "NOT_FOUND" if error else "OK", "error_message": error},
            }
            for number, (state, error) in states.items()
        ]
        return (200, {"model_version_status": rows}) if rows else (None, None)

    def bring(self, *models: dict[str, Any], dry: bool = False, **more: Any) -> dict[str, Any]:
        params = {
            "state": "present",
            "servings": list(models),
            "tokens": {},
            "slurm": {},
            "image": IMAGE,
            "image_sha256": "",
            "archive": "",
            "release": "2.9.3",
            "patience": 0.0,
            **more,
        }
        return service.settle(params, dry)

    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.path("/etc/gpu-serving/line/serving.json").read_text()
        )
        return found

    def ways(self) -> str:
        return self.path(places.DOOR_PATHS).read_text()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    made = Made(tmp_path)
    made.path(places.UNITS_PLACE).mkdir(parents=True)
    made.path("/etc").mkdir(exist_ok=True)
    monkeypatch.setattr(files, "ROOT", str(tmp_path))
    monkeypatch.setattr(programs, "call", made.call)
    monkeypatch.setattr(docker, "answer", made.docker)
    monkeypatch.setattr(asking, "ask", made.ask)
    monkeypatch.setattr(bring.time, "sleep", lambda _seconds: None)
    made.version(2)
    return made


def test_a_model_is_brought_once(host: Made) -> None:
    done = host.bring(LINE)
    assert (done["changed"], done["models"]) == (True, ["line"])
    assert host.running == {"gpu-serving-line.a.service", "gpu-serving-line.rest.socket"}
    assert host.record()["addresses"] == {"a": "172.30.0.2", "b": "172.30.0.3"}
    token = host.path("/etc/gpu-serving/line/token")
    assert (len(token.read_text()), token.stat().st_mode & 0o777) == (48, 0o600)
    tokens = host.path(places.DOOR_TOKENS)
    assert token.read_text() in tokens.read_text()
    assert tokens.stat().st_mode & 0o777 == 0o600
    assert "http://172.30.0.2:8501/v1/" in host.ways()
    # docker was asked for addresses, and given the same back.
    assert host.networks == {"gpu-servings": True}
    assert host.bring(LINE)["changed"] is False


def test_nothing_is_done_in_check_mode(host: Made) -> None:
    done = host.bring(LINE, dry=True)
    assert done["summary"] == "Would serve: line; would end: nothing"
    assert not host.running
    assert not host.path(places.PLACE).exists()


def test_a_changed_model_takes_the_other_place_and_the_former_goes(host: Made) -> None:
    host.bring(LINE)
    token = host.path("/etc/gpu-serving/line/token").read_text()
    host.bring({**LINE, "memory": "2g"})
    assert host.running == {"gpu-serving-line.b.service", "gpu-serving-line.rest.socket"}
    assert host.record()["slot"] == "b"
    assert "http://172.30.0.3:8501/v1/" in host.ways()
    assert not host.path(f"{places.UNITS_PLACE}/gpu-serving-line.a.service").exists()
    assert host.path("/etc/gpu-serving/line/token").read_text() == token
    begun = [call for call in host.calls if call[1:2] == ["restart"]]
    ended = host.calls.index(
        ["systemctl", "disable", "--now", "gpu-serving-line.a.service"],
    )
    assert host.calls.index(begun[-1]) < ended


def test_one_that_does_not_come_up_leaves_the_former_serving(host: Made) -> None:
    host.bring(LINE)
    before, ways = host.record(), host.ways()
    host.loads = {3: ("END", "Op type not registered 'Foo'")}
    host.version(3)
    with pytest.raises(RefusedError) as error:
        host.bring({**LINE, "memory": "2g"})
    assert str(error.value) == (
        "line: version 3 does not load: Op type not registered 'Foo'; no version serves; the "
        "former one serves on."
    )
    assert "gpu-serving-line.a.service" in host.running
    assert "gpu-serving-line.b.service" not in host.running
    assert not host.path(f"{places.UNITS_PLACE}/gpu-serving-line.b.service").exists()
    assert (host.record(), host.ways()) == (before, ways)
    # It was never stopped: both have room where there is no GPU.
    assert ["systemctl", "stop", "gpu-serving-line.a.service"] not in host.calls


def test_where_two_have_no_room_the_former_is_started_again(
    host: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bring.current, "gpus", lambda _wish: {"line": [0]})
    host.bring({**LINE, "gpus": [0]})
    host.loads = {}
    with pytest.raises(RefusedError, match=r"it does not answer: .*; the former one serves on"):
        host.bring({**LINE, "gpus": [0], "memory": "2g"})
    assert ["systemctl", "stop", "gpu-serving-line.a.service"] in host.calls
    assert "gpu-serving-line.a.service" in host.running
    host.calls.clear()
    host.loads = {2: ("AVAILABLE", "")}
    host.bring({**LINE, "gpus": [0], "gpu_memory": 0.4})
    assert ["systemctl", "stop", "gpu-serving-line.a.service"] in host.calls
    host.calls.clear()
    host.bring({**LINE, "gpus": [0], "gpu_memory": 0.3})
    assert ["systemctl", "stop", "gpu-serving-line.b.service"] not in host.calls


def test_a_newer_version_that_comes_meanwhile_will_do(host: Made) -> None:
    host.loads = {3: ("AVAILABLE", ""), 2: ("END", "")}
    assert host.bring(LINE)["models"] == ["line"]


def test_what_the_image_has_is_recorded(host: Made) -> None:
    host.bring(LINE)
    assert host.record()["release"] == "2.9"


def test_a_gpu_is_named_to_docker_as_the_list_names_it(
    host: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index of a GPU may be another's after a card was added."""
    monkeypatch.setattr(bring.current, "gpus", lambda _wish: {"line": [1, 0]})
    uuid = "GPU-11111111-2222-3333-4444-555555555555"
    host.bring({**LINE, "gpus": [uuid, 0]})
    assert f'"device={uuid},0"' in host.unit("gpu-serving-line.a.service")
    assert host.record()["gpus"] == [1, 0]


def test_two_models_exchange_their_ports(host: Made) -> None:
    bert = {**LINE, "name": "bert", "port": 8502, "grpc_port": 8503}
    host.bring(LINE, bert)
    host.bring({**LINE, "port": 8502}, {**bert, "port": 8501})
    assert host.held == {
        "gpu-serving-line.rest.socket": 8502,
        "gpu-serving-bert.rest.socket": 8501,
        "gpu-serving-bert.grpc.socket": 8503,
    }
    assert host.bring({**LINE, "port": 8502}, {**bert, "port": 8501})["changed"] is False


def test_a_port_that_somebody_opens_meanwhile_leaves_the_former_serving(host: Made) -> None:
    host.bring(LINE)
    before, ways = host.record(), host.ways()
    host.stranger = {8600}
    with pytest.raises(RefusedError, match=r"Address already in use; the former one serves on"):
        host.bring({**LINE, "port": 8600})
    assert host.running == {"gpu-serving-line.a.service", "gpu-serving-line.rest.socket"}
    assert host.held == {"gpu-serving-line.rest.socket": 8501}
    assert (host.record(), host.ways()) == (before, ways)
    assert host.bring(LINE)["changed"] is False


def test_the_first_that_gets_no_port_leaves_nothing(host: Made) -> None:
    host.stranger = {8501}
    with pytest.raises(RefusedError, match="Address already in use"):
        host.bring(LINE)
    assert not host.running
    assert [path.name for path in host.path(places.UNITS_PLACE).glob("gpu-serving*")] == []


def test_damage_of_the_ways_is_repaired_and_nothing_else_touched(host: Made) -> None:
    host.bring(LINE)
    ways = host.ways()
    host.path(places.DOOR_PATHS).unlink()
    host.path(places.DOOR_TOKENS).chmod(0o644)
    host.calls.clear()
    would = host.bring(LINE, dry=True)
    assert would["summary"].endswith(f"would write: {places.DOOR_TOKENS}, {places.DOOR_PATHS}")
    done = host.bring(LINE)
    assert (done["changed"], done["models"]) == (True, [])
    assert done["summary"].startswith("Written anew for the front door: ")
    assert host.ways() == ways
    assert host.path(places.DOOR_TOKENS).stat().st_mode & 0o777 == 0o600
    assert not [call for call in host.calls if call[0] == "systemctl"]
    assert host.bring(LINE)["changed"] is False


def test_a_unit_of_another_mode_or_gone_is_written_anew(host: Made) -> None:
    host.bring(LINE)
    units = [f"{places.UNITS_PLACE}/gpu-serving-line.rest.{kind}" for kind in ("socket", "service")]
    host.path(units[0]).chmod(0o600)
    assert host.bring(LINE)["models"] == ["line"]
    assert host.path(units[0]).stat().st_mode & 0o777 == 0o644
    for gone in units:
        host.path(gone).unlink()
        assert host.bring(LINE)["models"] == ["line"]
        assert [host.path(unit).exists() for unit in units] == [True, True]
        assert host.held == {"gpu-serving-line.rest.socket": 8501}
    assert host.bring(LINE)["changed"] is False


def test_ways_that_nginx_rejects_are_taken_back(
    host: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = host.path(bring.door_paths.DOOR)
    door.parent.mkdir(parents=True)
    door.write_text('{"settings": {}}')
    taken = [(True, "")]
    monkeypatch.setattr(bring, "nginx_runs", lambda _host: True)
    monkeypatch.setattr(bring.nginx, "takes", lambda: taken[0])
    monkeypatch.setattr(bring.nginx, "reload", lambda: (0, "", ""))
    host.bring(LINE)
    ways = host.ways()
    taken[0] = (False, "unexpected end of file")
    with pytest.raises(RefusedError, match="and has the former ones again: unexpected end"):
        host.bring({**LINE, "memory": "2g"})
    # They lead to the former one, which therefore is not ended.
    assert host.ways() == ways
    assert "gpu-serving-line.a.service" in host.running
    taken[0] = (True, "")
    host.bring({**LINE, "memory": "2g"})
    assert host.running == {"gpu-serving-line.a.service", "gpu-serving-line.rest.socket"}
    assert "http://172.30.0.2:8501/v1/" in host.ways()


class KilledError(BaseException):
    """The run ends here."""


def test_a_reload_of_nginx_that_did_not_come_is_made_good(
    host: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are as wished then, and nginx still has the former ones."""
    door = host.path(bring.door_paths.DOOR)
    door.parent.mkdir(parents=True)
    door.write_text('{"settings": {}}')
    reloads: list[str] = []

    def reload() -> tuple[int, str, str]:
        reloads.append(host.ways())
        if len(reloads) == 1:
            return 124, "", "systemctl did not answer within 120 s"
        if len(reloads) == 3:
            raise KilledError
        return 0, "", ""

    monkeypatch.setattr(bring, "nginx_runs", lambda _host: True)
    monkeypatch.setattr(bring.nginx, "takes", lambda: (True, ""))
    monkeypatch.setattr(bring.nginx, "reload", reload)
    with pytest.raises(RefusedError, match="systemctl reload nginx: systemctl did not answer"):
        host.bring(LINE)
    assert host.bring(LINE)["changed"]
    assert len(reloads) == 2
    assert host.bring(LINE)["changed"] is False
    with pytest.raises(KilledError):
        host.bring(LINE, WIDE)
    assert host.bring(LINE, WIDE)["changed"]
    assert len(reloads) == 4
    assert host.bring(LINE, WIDE)["changed"] is False


def test_a_container_that_a_cut_off_run_left_goes(host: Made) -> None:
    host.bring(LINE)
    text = host.unit("gpu-serving-line.a.service").replace("line.a", "line.b")
    host.path(f"{places.UNITS_PLACE}/gpu-serving-line.b.service").write_text(text)
    host.running.add("gpu-serving-line.b.service")
    assert host.bring(LINE)["models"] == ["line"]
    assert host.running == {"gpu-serving-line.b.service", "gpu-serving-line.rest.socket"}
    assert host.bring(LINE)["changed"] is False


def stop_hangs(host: Made, monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    """systemctl gives the stop of this unit up, as where docker does not answer."""

    def call(argv: list[str], timeout: float | None = 60) -> tuple[int, str, str]:
        if argv == ["systemctl", "disable", "--now", unit]:
            return 124, "", f"systemctl did not answer within {timeout} s"
        return host.call(argv, timeout)

    monkeypatch.setattr(programs, "call", call)


def test_a_container_that_does_not_stop_is_the_next_runs(
    host: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.bring(LINE)
    former = "gpu-serving-line.a.service"
    stop_hangs(host, monkeypatch, former)
    with pytest.raises(RefusedError, match=r"line\.a\.service does not stop \(systemctl did not"):
        host.bring({**LINE, "memory": "2g"})
    assert host.record()["slot"] == "b"  # the new one serves
    assert host.path(f"{places.UNITS_PLACE}/{former}").exists()
    monkeypatch.setattr(programs, "call", host.call)
    assert host.bring({**LINE, "memory": "2g"})["models"] == ["line"]
    assert host.running == {former, "gpu-serving-line.rest.socket"}
    stop_hangs(host, monkeypatch, former)
    with pytest.raises(RefusedError, match="and its container may still have its GPUs"):
        host.bring()
    assert host.path(f"{places.UNITS_PLACE}/{former}").exists()
    monkeypatch.setattr(programs, "call", host.call)
    assert host.bring()["removed"] == ["line"]
    assert not host.running


def test_a_new_container_that_does_not_stop_keeps_nobody_from_the_former(
    host: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.bring(LINE)
    host.loads = {}
    stop_hangs(host, monkeypatch, "gpu-serving-line.b.service")
    with pytest.raises(RefusedError, match=r"line\.b\.service does not stop .*; the former one"):
        host.bring({**LINE, "memory": "2g"})
    assert ["systemctl", "start", "--no-block", "gpu-serving-line.a.service"] in host.calls
    assert host.record()["slot"] == "a"
    assert host.path(f"{places.UNITS_PLACE}/gpu-serving-line.b.service").exists()


@pytest.mark.parametrize(("owner", "left"), [("line", False), ("somebody", True)])
def test_a_container_that_outlives_its_unit_is_ended_where_it_is_ours(
    host: Made, monkeypatch: pytest.MonkeyPatch, owner: str, left: bool
) -> None:
    host.bring(LINE)
    running = {"gpu-serving-line.a"}

    def answer(*arguments: str, **options: Any) -> tuple[int, str, str]:
        if arguments[0] == "inspect" and arguments[-1] in running:
            return 0, f"true {owner}\n", ""
        if arguments[:2] == ("rm", "--force"):
            running.remove(arguments[2])
        return host.docker(*arguments, **options)

    monkeypatch.setattr(docker, "answer", answer)
    host.bring()
    assert bool(running) is left


def test_a_version_that_comes_during_the_proof_is_no_fault(
    host: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.bring(LINE)
    asked: list[str] = []

    def expected(_entry: Any, path: str, *_words: str) -> dict[str, Any]:
        asked.append(path)
        return {"signature": "serving_default", "inputs": {}, "outputs": {"y": 1}}

    def compared(*_words: Any) -> str:
        if len(asked) == 1:
            host.version(3)
            host.serving["172.30.0.2"] = {3: ("AVAILABLE", "")}
        return "it predicts 7 for y, and TensorFlow itself 1"

    monkeypatch.setattr(prediction, "expected", expected)
    monkeypatch.setattr(prediction, "compared", compared)
    params = {"state": "proven", "python": "python", "program": "", "patience": 0}
    done = service.settle(params, False)
    assert asked == ["/srv/models/line/2"]
    assert done["not_compared"] == {"line": "a newer version came meanwhile"}
    with pytest.raises(RefusedError, match="line: it predicts 7 for y, and TensorFlow itself 1"):
        service.settle(params, False)


def test_one_that_is_no_longer_named_goes_and_its_directory_stays(host: Made) -> None:
    host.bring(LINE)
    done = host.bring()
    assert done["removed"] == ["line"]
    assert not host.running
    assert host.networks == {}
    assert not host.path(places.PLACE).exists()
    assert [path.name for path in host.path(places.UNITS_PLACE).glob("gpu-serving*")] == []
    assert host.path("/srv/models/line/2/saved_model.pb").exists()
    assert host.bring()["changed"] is False


def test_a_token_of_the_vault_is_taken(host: Made) -> None:
    host.bring(LINE, tokens={"line": TOKEN})
    assert host.path("/etc/gpu-serving/line/token").read_text() == TOKEN
    for tokens, words in (
        ({"line": "short"}, "no text of 16 to 256 letters"),
        ({"line": 'a quote" and a blank in it'}, "no text of 16 to 256 letters"),
        ({"other": TOKEN}, "gpu_serving_tokens names other"),
    ):
        with pytest.raises(RefusedError, match=words) as error:
            host.bring(LINE, tokens=tokens)
        assert not set(tokens.values()) & set(str(error.value).split())


def test_an_image_of_another_release_is_refused(host: Made) -> None:
    host.release = "2.12.1"
    with pytest.raises(RefusedError, match=r"has TensorFlow 2\.12, and the lock 2\.9\.3"):
        host.bring(LINE)
    assert not host.running


def test_an_image_is_needed(host: Made) -> None:
    with pytest.raises(RefusedError, match="one image of TensorFlow Serving by its digest"):
        host.bring(LINE, image="")


def test_a_file_that_is_another_is_not_loaded(host: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "has", lambda _name: False)
    archive = host.path("/image.tar")
    archive.write_bytes(b"another")
    more = {"image": "", "image_sha256": "0" * 64, "archive": str(archive)}
    with pytest.raises(RefusedError, match=r"gpu_serving_image_sha256 is 0{64}"):
        host.bring(LINE, **more)
    assert not host.running


def test_a_network_of_somebody_else_is_refused(host: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = json.dumps({"Labels": {}, "Internal": True, "IPAM": {"Config": []}})
    monkeypatch.setattr(docker, "answer", lambda *_words, **_more: (0, theirs, ""))
    with pytest.raises(RefusedError, match="that is not of gpu_servings"):
        network.made()


@pytest.mark.parametrize("step", range(1, 4))
def test_a_network_that_a_killed_run_has_begun_is_made_whole(
    host: Made, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """docker gives no container an address of its own where the network's were not named."""
    done: list[str] = []

    def answer(*arguments: str, **options: Any) -> tuple[int, str, str]:
        said = host.docker(*arguments, **options)
        done.append(arguments[1])
        if len([word for word in done if word != "inspect"]) == step and "killed" not in done:
            done.append("killed")
            raise KilledError
        return said

    monkeypatch.setattr(docker, "answer", answer)
    with pytest.raises(KilledError):
        network.made()
    assert network.made() == "172.30.0.0/24"
    assert host.networks == {"gpu-servings": True}
    network.remove()
    assert host.networks == {}


def test_a_model_that_is_not_there_is_refused_before_anything(host: Made) -> None:
    with pytest.raises(RefusedError, match="has no version"):
        host.bring({**LINE, "models": "/srv/models/none"}, state="looked")
    assert Context(root=str(host.root)).listdir(places.PLACE) == []
