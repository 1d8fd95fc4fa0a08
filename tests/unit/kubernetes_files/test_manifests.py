"""What `provision kubernetes` makes of a lock: golden files, pure, and bad input in one message."""

from __future__ import annotations

import copy
import functools
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from provision import kubernetes
from provision.catalog import load
from provision.errors import InputError
from provision.kubernetes import Training
from provision.kubernetes.stack import label
from provision.kubernetes.training import MAX_BYTES
from provision.lock import Lock
from tests.unit.generator.test_beside import FIRST, WHEELS, made
from tests.unit.kubernetes_files import locked

GOLDEN = Path(__file__).parent / "golden"
UPDATE = os.environ.get("PROVISION_UPDATE_GOLDEN") == "1"
IMAGE = "registry.example.org/lab/tensorflow@sha256:" + "a" * 64
SCRIPT = 'import os\n\nprint(os.environ["TF_CONFIG"])\n'


LOCK = locked.lock()
CHOSEN = kubernetes.choose(LOCK, "", where="lock.yml")


@functools.cache
def beside() -> Lock:
    return locked.changed(made(), toolkit=True)


def for_cluster() -> dict[str, bytes]:
    return kubernetes.for_cluster(LOCK, load(), CHOSEN)


def wish(**changes: Any) -> Training:
    given: dict[str, Any] = {"script": "train.py", "data": SCRIPT.encode(), "image": IMAGE}
    return kubernetes.training(**{**given, **changes})


def manifests(**changes: Any) -> dict[str, dict[str, Any]]:
    """kind -> manifest."""
    files = kubernetes.for_training(CHOSEN, wish(**changes))
    documents = [d for data in files.values() for d in yaml.safe_load_all(data)]
    return {document["kind"]: document for document in documents}


def test_the_golden_files() -> None:
    files = for_cluster()
    wished = wish(workers=3, gpus=2, arguments=["--epochs", "5", "$HOME"], claim="runs")
    for name, data in kubernetes.for_training(CHOSEN, wished).items():
        files[f"jobs/train/{name}"] = data
    for name, data in files.items():
        path = GOLDEN / name
        if UPDATE:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        assert data == path.read_bytes(), f"differs from {path}"
    present = {p.relative_to(GOLDEN).as_posix() for p in GOLDEN.rglob("*") if p.is_file()}
    assert present == files.keys()


def test_the_same_lock_gives_the_same_bytes() -> None:
    assert for_cluster() == for_cluster()
    first, second = (kubernetes.for_training(CHOSEN, wish(workers=4)) for _each in range(2))
    assert first == second


def test_the_driver_and_the_toolkit_are_the_hosts() -> None:
    values = yaml.safe_load(for_cluster()["cluster/gpu-operator-values.yaml"])
    assert values["driver"] == {"enabled": False}
    assert values["toolkit"] == {"enabled": False}


def test_pods_land_on_hosts_of_the_stack_and_ask_for_their_gpus() -> None:
    by_kind = manifests(gpus=4, workers=2)
    job, replica = by_kind["Job"], by_kind["TFJob"]["spec"]["tfReplicaSpecs"]["Worker"]
    for template in (job["spec"]["template"], replica["template"]):
        pod = template["spec"]
        assert pod["nodeSelector"] == {kubernetes.LABEL: label(locked.STACK)}
        assert pod["runtimeClassName"] == "nvidia"
        asked = pod["containers"][0]["resources"]
        assert asked == {"requests": {"nvidia.com/gpu": 4}, "limits": {"nvidia.com/gpu": 4}}
    assert (job["spec"]["completions"], job["spec"]["parallelism"], replica["replicas"]) == (
        2,
        2,
        2,
    )


def test_the_service_gives_the_pods_of_the_job_their_names() -> None:
    by_kind = manifests()
    service, job = by_kind["Service"], by_kind["Job"]
    pod = job["spec"]["template"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["metadata"]["name"] == pod["spec"]["subdomain"]
    # Not the pods of a TFJob of the same name.
    others = by_kind["TFJob"]["spec"]["tfReplicaSpecs"]["Worker"]["template"]["metadata"]["labels"]
    assert not service["spec"]["selector"].items() <= others.items()


def test_a_script_that_changes_has_another_config_map() -> None:
    """A worker that is started again must not meet the next version of its script."""
    first, second = (manifests(data=text)["ConfigMap"] for text in (b"a = 1\n", b"a = 2\n"))
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert first["immutable"]
    mounted = manifests(data=b"a = 1\n")["Job"]["spec"]["template"]["spec"]["volumes"][0]
    assert mounted["configMap"]["name"] == first["metadata"]["name"]


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_a_script_arrives_as_it_is(text: str) -> None:
    """Tabs, carriage returns, blanks at a line's end: YAML has a way for each."""
    if not text.strip():
        return
    data = manifests(data=text.encode())["ConfigMap"]["data"]
    assert data["train.py"] == text


def test_arguments_are_not_expanded_by_kubernetes() -> None:
    container = manifests(arguments=["$(HOME)", "a b"])["Job"]["spec"]["template"]["spec"]
    assert container["containers"][0]["args"] == ["$$(HOME)", "a b"]


def test_the_label_of_a_long_name_is_one_and_says_which() -> None:
    assert label("debian13-tensorflow2.20.0") == "debian13-tensorflow2.20.0"
    long = [f"{locked.STACK}-{end}" for end in ("a", "b")]
    labels = {label(name) for name in long}
    assert len(labels) == 2
    assert all(len(text) == 63 and text.startswith("debian11-tensorflow2.9.3") for text in labels)


def test_a_tensorflow_beside_runs_on_hosts_of_the_first_one() -> None:
    chosen = kubernetes.choose(beside(), WHEELS, where="lock.yml")
    assert (chosen.name, chosen.hosts) == (WHEELS, FIRST)
    files = kubernetes.for_cluster(beside(), load(), chosen)
    assert b"TENSORFLOW=2.14.1" in files["image/locked/stack.env"]
    # Its CUDA is wheels of its own.
    assert files["image/locked/packages.txt"] == b""
    assert b"nvidia-cudnn-cu11==" in files["image/locked/requirements.txt"]
    assert b"\nCUDNN=''\n" in files["image/locked/stack.env"]


def test_every_package_of_the_image_has_its_hash() -> None:
    files = for_cluster()
    names = [n.partition("=")[0] for n in files["image/locked/packages.txt"].decode().split()]
    hashes = LOCK.details["packages"][locked.STACK]
    expected = sorted(hashes[name]["sha256"] for name in names)
    assert files["image/locked/packages.sha256"].decode().split() == expected
    assert len(names) == 9


# bad input


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"workers": 0}, "--workers: no number of workers\n  got: 0\n  expected: 1 to 100000"),
        ({"workers": 100_001}, "got: 100001"),
        ({"gpus": 0}, "--gpus: no number of GPUs\n  got: 0"),
        ({"image": ""}, "--image: no image is named"),
        ({"image": "lab/tensorflow:2.9"}, "names no one image"),
        ({"name": "Train"}, "--name: no name for a job\n  got: Train"),
        ({"name": "1st"}, "expected: a letter"),
        ({"name": "a" * 55}, "54 at most"),
        ({"name": "a" * 54, "workers": 11}, "53 at most"),
        ({"name": "train-"}, "no name for a job"),
        ({"name": "train\n"}, "no name for a job"),
        ({"script": "42.py"}, "42.py: the script's name gives no name for a job"),
        ({"script": "my train.py"}, "can't be a ConfigMap's key"),
        ({"script": "provision-launch.py"}, "can't be a ConfigMap's key"),
        ({"data": b"a\n\xff"}, "train.py:2: the script is not UTF-8 text"),
        ({"data": b" \n"}, "the script is empty"),
        ({"data": b"#" * MAX_BYTES}, "the script is too large for a ConfigMap"),
        ({"claim": "Runs"}, "no name of a PersistentVolumeClaim"),
        ({"claim": "runs.-a"}, "no name of a PersistentVolumeClaim"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_here(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        manifests(**changes)
    assert words in str(caught.value)


def test_a_script_that_just_fits_is_taken() -> None:
    launcher = manifests()["ConfigMap"]["data"]["provision-launch.py"]
    room = MAX_BYTES - len(launcher.encode())
    assert manifests(data=b"#" * room)
    with pytest.raises(InputError, match="too large"):
        manifests(data=b"#" * (room + 1))


def test_a_lock_without_the_toolkit_is_refused_with_the_word_for_it() -> None:
    with pytest.raises(InputError) as caught:
        kubernetes.choose(locked.lock(toolkit=False), "", where="lock.yml")
    assert "container_toolkit: true" in str(caught.value)


def test_one_of_several_stacks_is_named() -> None:
    with pytest.raises(InputError) as caught:
        kubernetes.choose(beside(), "", where="lock.yml")
    assert f"--stack {' or '.join(sorted(beside().stacks))}" in str(caught.value)
    with pytest.raises(InputError) as caught:
        kubernetes.choose(beside(), "debian11", where="lock.yml")
    assert "the lock has no such stack" in str(caught.value)


def test_cuda_of_a_local_installer_is_in_no_archive() -> None:
    slim = copy.deepcopy(dict(LOCK.slim))
    slim["stacks"][locked.STACK]["cuda"]["installer"] = {"url": "https://example.org/cuda.deb"}
    lock = Lock(slim, LOCK.details)
    with pytest.raises(InputError, match="local installer"):
        kubernetes.for_cluster(lock, load(), CHOSEN)


def test_the_build_s_shell_reads_what_is_written_for_it(tmp_path: Path) -> None:
    """The script is one that a shell can read; each setting arrives as it is."""
    files = for_cluster()
    script = tmp_path / "install.sh"
    script.write_bytes(files["image/locked/install.sh"])
    subprocess.run(["sh", "-n", str(script)], check=True, timeout=60)
    settings = tmp_path / "stack.env"
    settings.write_bytes(files["image/locked/stack.env"])
    show = (
        f'. {settings}; printf "%s|" "$RELEASE" "$CUDNN_SHA256" "$LIBDEVICE"; set -- $PIP; echo $#'
    )
    done = subprocess.run(["sh", "-euc", show], capture_output=True, text=True, timeout=60)
    cudnn = LOCK.stacks[locked.STACK]["cudnn"]["sha256"]
    device = "/usr/lib/nvidia-cuda-toolkit/libdevice/libdevice.10.bc"
    assert done.stdout == f"debian 11|{cudnn}|{device}|15\n"
