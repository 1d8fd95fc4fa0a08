"""States of a host that must trip a preflight rule, each beside the nearest one that must not.

`bare_host.json` is what gpu_state's look found on a bare host of a local lab, and its lock's
stack. That host is a container, where the rules about the kernel are silent; `machine` is the same
host as a machine of its own. Neither gives a reason. A state puts one fact at the wrong side of
the rule's boundary (`trips`) or at the right one, and no other rule may answer differently.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpu_stack.plan
from check_states import fresh, mutated
from gpu_stack import preflight
from gpu_stack.components import gpu_env

HERE = Path(__file__).resolve().parent
KERNEL = "5.10.0-32-amd64"
JOB = {"pid": 4711, "user": "ada", "command": "python train.py"}
GIB = 1 << 30


@functools.cache
def recorded() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((HERE / "bare_host.json").read_text(encoding="utf-8"))
    return data


# What DKMS 2 signs with where nobody has told it.
SIGNING = {"certificate": "", "made": False, "enrolled": False, "given": False}


@fresh
def container() -> dict[str, Any]:
    """The host as it was recorded: {found, row, options}."""
    data = copy.deepcopy(recorded())
    del data["about"]
    data["found"]["state"]["gpu_workspace"] = {"version": None, "people": {}, "running": {}}
    data["found"]["state"]["gpu_front_door"] = {"version": None, "noted": None, "here": False}
    data["found"]["state"]["gpu_serving"] = {"version": None, "models": {}, "running": {}}
    data["found"]["state"]["slurm"] = {"version": None, "here": False}
    data["found"]["preflight"]["transaction"] = {"removed": [], "held": []}
    data["found"]["state"]["nvidia_driver"].update(displaced={}, reboot_in_vain="")
    data["found"]["state"]["nvidia_driver"].update(signing={}, signatures={})
    data["found"]["preflight"].update(boot_words="", signing=SIGNING)
    data["found"]["preflight"].update(module_signers={}, offered_modules={})
    data["found"]["state"]["gpu_env"]["left"] = {}
    data["found"]["lock_digest"], data["found"]["preflight"]["bundle"] = "sha256:new", None
    data["found"]["preflight"]["cache"] = None
    data["found"]["preflight"].update(apt_sources=[], apt_config=None)
    data["found"]["preflight"]["driver_hangs"] = None
    around = {"sshd_without_pam": None, "trusted_gpg": False, "system_tensorflow": []}
    data["found"]["preflight"].update(around)
    return {**data, "options": {}}


@fresh
def machine() -> dict[str, Any]:
    """The host as a machine of its own, with the kernel that it runs installed."""
    data = container()
    found = data["found"]
    found.update(container=False, simulated_gpu=False)
    found["state"]["nvidia_driver"].update(
        container=False, scope="full", kernels=[KERNEL], modules={KERNEL: None}
    )
    found["preflight"].update(
        secure_boot=False,
        headers={KERNEL: "offered"},
        compilers={"kernel": 10, "installed": [10], "default": 10},
    )
    return data


@fresh
def docked() -> dict[str, Any]:
    """The machine, whose stack has the container toolkit, with a docker that runs; made up."""
    data = machine()
    data["row"]["nvidia_container_toolkit"] = {
        "version": "1.20.1",
        "packages": {"toolkit": {"nvidia-container-toolkit": "1.20.1-1"}},
        "repository": {"url": "https://nvidia.example/deb", "suite": "/", "key": "KEY"},
    }
    data["found"]["state"]["nvidia_container_toolkit"] = {
        "version": None, "packages": {}, "files": {}, "written": {}, "stale": [], "flaws": [],
        "docker": {
            "installed": True, "snap": False, "running": True, "owed": False, "runtime": None,
            "fault": None,
        },
        "engine": {"others": [], "stale": []},
        "containerd": {
            "installed": True, "wanted": True, "fault": None, "other": False, "running": True,
            "runtime": "/usr/bin/nvidia-container-runtime", "owed": False, "loses": None,
        },
        "crio": {
            "installed": True, "wanted": True, "fault": None, "other": False, "running": True,
            "runtime": "/usr/bin/nvidia-container-runtime", "owed": False, "loses": None,
        },
        "cdi": {
            "podman": "4.3.1", "driver": True, "fault": None, "coming": None, "left": None,
            "disabled": [], "dropin": None,
        },
    }  # fmt: skip
    data["found"]["preflight"]["docker"] = {"count": 0, "live_restore": False}
    return data


@fresh
def shared() -> dict[str, Any]:
    """The machine, on which ada and bob are to have workspaces; made up."""
    data = machine()
    data["found"]["gpus"] = [{"index": n, "device": "0x1eb8"} for n in range(2)]
    uids: dict[str, Any] = {"users": {}, "taken": {}, "homes": {}, "root": None}
    data["found"]["state"]["gpu_workspace"].update(files={}, uids=uids)
    data["found"]["preflight"]["workspaces"] = {
        "docker": True,
        "ports": [],
        "memory": 4 * GIB,
        "in_use": {},
        "users": {},
        "root": None,
        "volumes": {},
    }
    data["options"]["gpu_workspaces"] = [
        {"name": "ada", "gpus": [1], "port": 8801, "ssh_port": 2200, "memory": "3g"},
        {
            "name": "bob",
            "gpus": 2,
            "port": 8802,
            "memory": "1024m",
            "shared": True,
            "user": "1000:1000",
        },
    ]
    return data


@fresh
def doored() -> dict[str, Any]:
    """The machine, which is to have a front door; made up."""
    data = shared()
    data["found"]["state"]["gpu_front_door"].update(
        {"files": {}, "shipped": {}, "nginx": False, "runs": False, "disabled": [], "now": 0}
    )
    data["found"]["preflight"]["front_door"] = {"ports": {}, "sites": []}
    data["options"]["gpu_front_door_name"] = "gpu01.example.org"
    data["options"] |= {"gpu_front_door_tls": "local_ca", "gpu_front_door_acme_agree": False}
    return data


@fresh
def clustered() -> dict[str, Any]:
    """The machine, which is to be a node of Slurm's; made up."""
    data = machine()
    data["options"] |= {"slurm_state": "present", "slurm_cluster": "gpu", "slurm_compute": True}
    data["options"] |= {"slurm_controller": "gpu01"}
    data["found"]["state"]["slurm"].update(noted={})
    data["found"]["preflight"]["slurm"] = {
        "wished": True, "faults": [], "theirs": [], "release": [20, 11], "cgroup": 1,
        "removal": "", "steps": 0,
    }  # fmt: skip
    return data


@fresh
def leaving() -> dict[str, Any]:
    """A node of Slurm's that is to be none any more."""
    data = clustered()
    data["options"]["slurm_state"] = "absent"
    data["found"]["state"]["slurm"].update(version="gpu", here=True)
    data["found"]["preflight"]["slurm"]["wished"] = False
    return data


@fresh
def growing() -> dict[str, Any]:
    """A controller of Slurm's that is to keep accounts from now on, under jobs."""
    data = clustered()
    part = {"name": "gpu01", "hostname": "gpu01", "address": "10.0.0.1", "sockets": 1, "cores": 2,
            "threads": 1, "memory": 4096, "gpus": []}  # fmt: skip
    data["found"]["state"]["slurm"].update(
        here=True, noted={"part": part}, missing=["slurmdbd"], key=True, files={}, stopped=[],
        disabled=[], part=part, said=None,
    )  # fmt: skip
    data["found"]["preflight"]["slurm"]["steps"] = 2
    return data


@fresh
def served() -> dict[str, Any]:
    """The machine, which is to serve two models; made up."""
    data = machine()
    data["found"]["gpus"] = [{"index": n, "device": "0x1eb8"} for n in range(2)]
    good = {"there": True, "crowded": False, "newest": 2, "file": True, "tensorflow": "2.9.3"}
    good |= {"closed": None, "files": True}
    data["found"]["preflight"]["servings"] = {
        "docker": True,
        "ports": [],
        "memory": 4 * GIB,
        "models": {"bert": good, "mnist": copy.deepcopy(good)},
        "swapped": {},
        "kept": {},
    }
    data["options"]["gpu_workspaces"] = []
    uids: dict[str, Any] = {"users": {}, "taken": {}, "homes": {}, "root": None}
    data["found"]["state"]["gpu_workspace"].update(files={}, uids=uids)
    data["options"]["gpu_servings"] = [
        {
            "name": "mnist",
            "models": "/srv/models/mnist",
            "gpus": [0],
            "port": 8501,
            "shared": False,
            "files": "",
            "tensorrt": False,
        },
        {
            "name": "bert",
            "models": "/srv/models/bert",
            "gpus": [1],
            "port": 8502,
            "grpc_port": 8503,
            "memory": "4g",
        },
    ]
    return data


@fresh
def led() -> dict[str, Any]:
    """The machine that is to serve two models, behind a front door."""
    data = served()
    data["found"]["state"]["gpu_front_door"].update(doored()["found"]["state"]["gpu_front_door"])
    data["options"] |= {
        "gpu_front_door_name": "gpu01.example.org",
        "gpu_front_door_redirect": False,
    }
    return data


@fresh
def divided() -> dict[str, Any]:
    """The machine that is to serve two models, and to be a node of Slurm's."""
    data = served()
    node = clustered()
    data["found"]["state"]["slurm"].update(node["found"]["state"]["slurm"])
    names = ("slurm_state", "slurm_cluster", "slurm_compute", "slurm_controller")
    data["options"] |= {name: node["options"][name] for name in names}
    data["options"]["slurm_gpus"] = []
    return data


@fresh
def serving_before() -> dict[str, Any]:
    """The machine, which serves a model already, with a TensorFlow of another lock."""
    data = served()
    image = data["options"]["gpu_serving_image"] = "sha256:" + "a" * 64
    record = {"settings": {"image": image}, "release": "2.12"}
    data["found"]["state"]["gpu_serving"]["models"] = {"mnist": {"record": record}}
    return data


@dataclass(frozen=True)
class State:
    """A host with one fact at a rule's boundary; `words` are in the reason where it trips."""

    rule: str
    fact: str
    changes: dict[str, Any]
    words: tuple[str, ...] = ()
    base: Callable[[], dict[str, Any]] = machine
    # The changes of the plan that are meant, by component or item; all of them when None.
    only: tuple[str, ...] | None = None
    also: tuple[str, ...] = ()

    @property
    def trips(self) -> bool:
        return bool(self.words)


def plan_of(data: dict[str, Any], only: tuple[str, ...] | None) -> list[dict[str, Any]]:
    changes = gpu_stack.plan.differences(data["row"], data["found"], data["options"])
    return [one for one in changes if only is None or {one["component"], one["item"]} & set(only)]


def reasons(
    data: dict[str, Any], only: tuple[str, ...] | None = None
) -> dict[str, list[dict[str, Any]]]:
    """{rule: its reasons}, blockers and notices alike."""
    arguments = (data["found"], plan_of(data, only), data["options"], data["row"])
    found: dict[str, list[dict[str, Any]]] = {}
    for one in preflight.blockers(*arguments) + preflight.warnings(*arguments):
        found.setdefault(one["id"], []).append(one)
    return found


def judged(state: State) -> list[str]:
    """What is wrong with preflight's answer to this state; empty when it is as it must be."""
    found = reasons(mutated(state.base(), state.changes), state.only)
    expected = {state.rule, *state.also} if state.trips else set(state.also)
    wrong = [f"{name} trips: {found[name]}" for name in sorted(set(found) - expected)]
    wrong += [f"{name} does not trip" for name in sorted(expected - set(found))]
    text = " ".join(f"{one['message']} {one['hint']}" for one in found.get(state.rule, []))
    wrong += [f"its reason lacks {word!r}: {text}" for word in state.words if word not in text]
    wrong += ["it names no way out" for one in found.get(state.rule, []) if not one["hint"]]
    return wrong


PRE = "found/preflight/"
DRIVER = "found/state/nvidia_driver/"


def disk_states() -> Iterator[State]:
    """Each component's need to the byte, alone on its disk, and all of them on one."""
    alone: dict[str, list[tuple[str, dict[str, int]]]] = {
        "nvidia_driver": [("", {"/usr": GIB // 2, "/var/cache/apt": GIB // 4,
                                "/var/lib/dkms": GIB // 4})],
        "cuda": [("", {"/usr": 7 * GIB // 2, "/var/cache/apt": 5 * GIB // 4}),
                 ("runtime", {"/usr": 5 * GIB // 4, "/var/cache/apt": GIB // 2})],
        "cudnn": [("", {"/opt/nvidia/cudnn": 4 * GIB})],
        "tensorflow": [("", {"/opt/tensorflow": 5 * GIB // 2})],
    }  # fmt: skip
    places = list(recorded()["found"]["preflight"]["disk"])
    for component, kinds in alone.items():
        for profile, needs in kinds:
            options = {"options": {"cuda_profile": profile}} if profile else {}
            for place, need in needs.items():
                for free, trips in ((need - 1, True), (need, False)):
                    room = {
                        one: {"free": free if one == place else 1 << 60, "device": number}
                        for number, one in enumerate(places)
                    }
                    where = f"{component} {profile}".strip()
                    yield State(
                        "disk",
                        f"{where} in {place}: {'a byte too little' if trips else 'just enough'}",
                        {PRE + "disk": room, **options},
                        ("the disk is too full", f"{need / 1e9:.1f} GB are needed",
                         f"({component} in {place})", "free some space") if trips else (),
                        only=(component,),
                    )  # fmt: skip
            total = sum(needs.values())
            for free, trips in ((total - 1, True), (total, False)):
                room = {one: {"free": free, "device": 7} for one in places}
                yield State(
                    "disk",
                    f"{component} {profile} on one disk: {'a byte too little' if trips else 'ok'}",
                    {PRE + "disk": room, **options},
                    (f"{total / 1e9:.1f} GB are needed",
                     *(f"{component} in {one}" for one in needs)) if trips else (),
                    only=(component,),
                )  # fmt: skip
    everything = sum(sum(kinds[0][1].values()) for kinds in alone.values())
    for free, trips in ((everything - 1, True), (everything, False)):
        room = {one: {"free": free, "device": 7} for one in places}
        yield State(
            "disk",
            f"all on one disk: {'a byte too little' if trips else 'just enough'}",
            {PRE + "disk": room},
            (f"{everything / 1e9:.1f} GB are needed", "cuda in /usr, cuda in /var/cache/apt",
             "tensorflow in /opt/tensorflow") if trips else (),
        )  # fmt: skip
    nothing = {one: {"free": 0, "device": 7} for one in places}
    yield State(
        "disk",
        "what is there already needs no room",
        {PRE + "disk": nothing, "found/state/cudnn/version": "8.1.0"},
        only=("cudnn",),
    )
    moved = {PRE + "disk": nothing | {"/data/tf": {"free": 5 * GIB // 2, "device": 8}}}
    yield State(
        "disk",
        "a root that was moved to a disk with room",
        {**moved, "options": {"tensorflow_root": "/data/tf"}},
        only=("tensorflow",),
    )


WINDOWS = (
    # generation, a card of it, the first branch that drives it, the last
    ("Fermi", "0x06c0", 390, 390),
    ("Kepler", "0x102d", 418, 470),
    ("Maxwell", "0x13c2", 418, 580),
    ("Pascal", "0x15f8", 418, 580),
    ("Volta", "0x1db4", 418, 580),
    ("Turing", "0x1eb8", 418, None),
    ("Ampere", "0x20b0", 450, None),
    ("Ada", "0x2684", 525, None),
    ("Hopper", "0x2330", 525, None),
    ("Blackwell", "0x2b85", 570, None),
)


def driver_states() -> Iterator[State]:
    rule = "gpu-driver-window"
    told = {"Hopper": ("gpu-translated",), "Blackwell": ("gpu-without-code",)}
    for name, device, first, last in WINDOWS:
        also = told.get(name, ())
        older = f"a {name} GPU needs driver {first} or newer; the lock says {first - 1}"
        cases: list[tuple[int, tuple[str, ...]]] = [
            (first - 1, (older, "a newer stack")),
            (first, ()),
        ]
        if last is not None:
            newer = f"driver {last} is the last for a {name} GPU; the lock says {last + 1}"
            cases += [(last, ()), (last + 1, (newer, "older driver_branch"))]
        for branch, words in cases:
            yield State(
                rule,
                f"{name} with branch {branch}",
                {"found/gpus/0/device": device, "found/gpus/1/device": device,
                 "row/nvidia_driver/branch": str(branch)},
                words,
                also=also,
            )  # fmt: skip
    yield State(
        rule,
        "one of two GPUs is too new",
        {"found/gpus/1/device": "0x2684"},
        ("a Ada GPU needs driver 525",),
    )
    yield State(rule, "a card that no table knows", {"found/gpus/1/device": "0x0020"})
    for name, device, _first, _last in WINDOWS:
        for version in ("2.11.1", "2.12.0"):
            row = {"row/tensorflow/version": version, "row/nvidia_driver/branch": "575"}
            trips = name == "Hopper" and version == "2.11.1"
            old = ("gpu-driver-window",) if name in ("Fermi", "Kepler") else ()
            old += ("gpu-without-code",) if name == "Blackwell" else ()
            yield State(
                "gpu-translated",
                f"{name} with TensorFlow {version}",
                {"found/gpus/0/device": device, "found/gpus/1/device": device, **row},
                (f"TensorFlow 2.11.1 has no code for a {name} GPU", "2.12 or newer")
                if trips
                else (),
                also=old,
            )
    for name, device, _first, _last in WINDOWS:
        for version in ("2.21.0", "2.22.0"):
            row = {"row/tensorflow/version": version, "row/nvidia_driver/branch": "575"}
            trips = name == "Blackwell" and version == "2.21.0"
            words = (f"TensorFlow 2.21.0 does not run on a {name} GPU", "out of the group")
            yield State(
                "gpu-without-code",
                f"{name} with TensorFlow {version}",
                {"found/gpus/0/device": device, "found/gpus/1/device": device, **row},
                words if trips else (),
                also=("gpu-driver-window",) if name in ("Fermi", "Kepler") else (),
            )
    rule = "gpu-processes"
    job = {PRE + "processes": [JOB]}
    yield State(
        rule,
        "somebody trains",
        job,
        ("pid 4711 of ada: python train.py", "nvidia_driver_wait_for_gpu_processes", "none is"),
    )
    second = {"pid": 12, "user": "bob", "command": "jupyter"}
    yield State(
        rule,
        "two people train",
        {PRE + "processes": [JOB, second]},
        ("pid 4711 of ada: python train.py; pid 12 of bob: jupyter",),
    )
    wait = {"options": {"nvidia_driver_wait_for_gpu_processes": 1}}
    yield State(rule, "the run may wait for it", {**job, **wait})
    yield State(rule, "the driver is not changed", job, only=("cuda", "tensorflow"))
    rule = "held"
    version = recorded()["row"]["nvidia_driver"]["packages"]["userspace"]["libcuda1"]

    def package(found: str, want: str) -> dict[str, Any]:
        return {DRIVER + "packages": {"libcuda1": {"version": found, "want": want,
                                                    "status": "installed"}}}  # fmt: skip

    yield State(
        rule,
        "somebody holds another version",
        package(version + "+b1", "hold"),
        (f"another version: libcuda1 {version}+b1", "apt-mark unhold libcuda1"),
    )
    yield State(rule, "the lock's version is held", package(version, "hold"))
    yield State(rule, "another version is not held", package(version + "+b1", "install"))
    ours = package(version + "+b1", "hold") | {DRIVER + "pins": "ours"}
    yield State(rule, "we hold it ourselves", ours)
    yield from removal_states()
    rule = "foreign-driver"
    yield State(
        rule,
        "NVIDIA's metapackage is there",
        {PRE + "foreign": ["cuda-drivers", "nvidia-driver-535"]},
        ("from packages: cuda-drivers, nvidia-driver-535", "purge cuda-drivers nvidia-driver-535"),
    )
    run = {"row/nvidia_driver/source": "runfile"}
    packages = {PRE + "foreign": ["nvidia-driver-535"]}
    yield State(rule, "the .run file's wish: packaged-driver says it", {**packages, **run})
    yield State(rule, "one of the stack's own is there", {PRE + "foreign": ["libcuda1"]})
    yield State(rule, "one of CUDA's own is there", {PRE + "foreign": ["libcublas11"]})
    yield State(
        "runfile-driver",
        "the .run file's uninstaller is there",
        {PRE + "installer": ["/usr/bin/nvidia-uninstall"]},
        ("(/usr/bin/nvidia-uninstall)", "shadow", "nvidia-uninstall (when no GPU process"),
    )
    yield State("runfile-driver", "it is not there", {PRE + "installer": []})
    yield from way_states()


def way_states() -> Iterator[State]:
    """A driver that came another way than the lock's."""
    switch = {"options": {"nvidia_driver_switch": "switch"}}
    rule = "packaged-driver"
    packaged = {DRIVER + "leftovers": {"nvidia-smi": "460.91.03-1", "libcuda1": "460.91.03-1"}}
    run = {"row/nvidia_driver/source": "runfile"}
    words = ("from packages (libcuda1, nvidia-smi)", "apt-get remove libcuda1 nvidia-smi")
    yield State(rule, "the .run file's wish beside packages", {**packaged, **run}, words)
    for number, named in ((4, "(p0, p1, p2, p3)"), (5, "(p0, p1, p2, p3 and 1 more)")):
        many = {DRIVER + "leftovers": {f"p{one}": "1" for one in range(number)}}
        yield State(rule, f"{number} packages", {**many, **run}, (named, f"p{number - 1}"))
    yield State(rule, "there are none", {**run, DRIVER + "leftovers": {}})
    yield State(rule, "the platform's packages are wished for", packaged)
    yield State(rule, "the run may switch", {**packaged, **run, **switch})
    rule = "driver-method"
    there = {DRIVER + "method": "network", DRIVER + "version": "460.91.03"}
    words = ("460.91.03 came from source network, and the lock's driver comes from distribution",
             "keep driver_source: network")  # fmt: skip
    yield State(rule, "our pins say another way", there, words)
    yield State(rule, "they say the lock's", {**there, DRIVER + "method": "distribution"})
    yield State(rule, "nothing is left of it", {**there, DRIVER + "version": None})
    yield State(rule, "the .run file is wished for", {**there, **run})
    yield State(rule, "something is left", {**there, DRIVER + "version": None, **packaged},
                ("libcuda1, nvidia-smi came from source network",))  # fmt: skip
    yield State(rule, "the run may switch", {**there, **switch})


def kernel_states() -> Iterator[State]:
    userspace = {"options": {"nvidia_driver_scope": "userspace"}}
    full = {"options": {"nvidia_driver_scope": "full"}}
    rule = "boot-full"
    full_boot = {PRE + "boot": {"free": 99_000_000, "needed": 100_000_000}}
    words = ("99 MB are free where 100 MB are needed", "apt-get autoremove --purge")
    yield State(rule, "a byte too little", full_boot, words)
    yield State(rule, "just enough", {PRE + "boot": {"free": 1, "needed": 1}})
    yield State(rule, "no module is built", {**full_boot, **userspace})
    yield State(rule, "only a pin is written", full_boot, only=("cuda",))
    image = "/boot/initrd.img-" + KERNEL
    yield State(rule, "the blacklist is written, and pins", full_boot, words,
                only=("/etc/modprobe.d/provision-nouveau.conf",
                      "/etc/apt/preferences.d/provision-nvidia-driver"))  # fmt: skip
    yield State(rule, "an image is old", {**full_boot, DRIVER + "initramfs_older": [image]}, words,
                only=(image,))  # fmt: skip
    rule, on = "secure-boot", {PRE + "secure_boot": True}
    yield State(rule, "Secure Boot is on", on, ("Secure Boot is on", "mokutil --import"))
    key = {**SIGNING, "certificate": "/var/lib/dkms/mok.pub", "made": True}
    yield State(rule, "DKMS's key is not enrolled", {**on, PRE + "signing": key},
                ("signed with /var/lib/dkms/mok.pub, which is not among",
                 "mokutil --import /var/lib/dkms/mok.pub", "Enroll MOK"))  # fmt: skip
    lacking = {**key, "made": False}
    yield State(rule, "DKMS's key is not there", {**on, PRE + "signing": lacking},
                ("(/var/lib/dkms/mok.pub is not there)", "openssl req -new -x509"))  # fmt: skip
    own = {**key, "given": True}
    yield State(rule, "the lab's key is not enrolled", {**on, PRE + "signing": own},
                ("nvidia_driver_signing_certificate_file is not among", "Enroll MOK"))  # fmt: skip
    built = {DRIVER + "modules": {KERNEL: "470.256.02"},
             DRIVER + "signatures": {KERNEL: "trusted"}}  # fmt: skip
    yield State(rule, "the module is there, signed by a trusted key", {**on, **built})
    yield State(rule, "the module is there, unsigned",
                {**on, **built, DRIVER + "signatures": {KERNEL: "unsigned"}},
                ("Secure Boot is on",))  # fmt: skip
    yield State(rule, "another version's module is signed",
                {**on, **built, DRIVER + "modules": {KERNEL: "1"}},
                ("Secure Boot is on",))  # fmt: skip
    yield State(rule, "the firmware does not say", {PRE + "secure_boot": None})
    yield State(rule, "it is on, and there is a key", {**on, PRE + "module_key": True})
    yield State(rule, "it is on, and no module is built", {**on, **userspace})
    yield State(rule, "it is on, in a container", on, base=container)
    yield from signed_states(on)
    rule, loaded = "nouveau", {DRIVER + "nouveau_loaded": True}
    yield State(rule, "nouveau is loaded", loaded, ("nouveau is loaded and drives the GPU",
                                                    "nvidia_driver_reboot: true"))  # fmt: skip
    may = {"options": {"nvidia_driver_reboot": True}}
    yield State(rule, "nouveau is loaded, the run may reboot", {**loaded, **may})
    local = {"options": {"nvidia_driver_reboot": True, "ansible_connection": "local"}}
    yield State(rule, "this very machine can't be rebooted", {**loaded, **local}, ("nouveau is",))
    yield State(rule, "the carrying machine's nouveau", loaded, base=container)
    whole = dict(mutated(container(), {})["found"]["state"]["nvidia_driver"])
    built = {DRIVER[:-1]: {**whole, "nouveau_loaded": True, "kernels": [KERNEL]}}
    yield State(rule, "modules for a container's own kernel", {**built, **full}, base=container)
    yield State(rule, "userspace alone needs no reboot", {**loaded, **userspace})
    rule, vain = "rebooted-in-vain", {DRIVER + "reboot_in_vain": "nouveau is loaded"}
    yield State(rule, "nouveau came back", {**vain, PRE + "boot_words": "[ 1.2] nouveau: NV164"},
                ("rebooted for it, and still nouveau is loaded. The kernel said: [ 1.2] nouveau",
                 "lsinitramfs"))  # fmt: skip
    version = {DRIVER + "reboot_in_vain": "module 1 is loaded, 2 is installed"}
    yield State(rule, "the old module came back", version, ("The kernel's log says nothing of it",
                                                            "modinfo -n nvidia"))  # fmt: skip
    yield State(rule, "no reboot is noted", {DRIVER + "reboot_in_vain": ""})
    yield State(rule, "what a boot brings up changes", {**vain, DRIVER + "nouveau_loaded": True,
                "options": {"nvidia_driver_reboot": True},
                DRIVER + "initramfs_older": ["/boot/initrd.img-1"]})  # fmt: skip
    rule = "headers"
    yield State(
        rule,
        "the archive has no headers for this kernel any more",
        {PRE + "headers": {KERNEL: "absent", "5.10.0-33-amd64": "offered"}},
        (f"headers of kernel {KERNEL} are neither installed nor", "linux-image-amd64"),
    )
    for state in ("installed", "offered", "unknown"):
        yield State(rule, f"headers are {state}", {PRE + "headers": {KERNEL: state}})
    gone = {PRE + "headers": {KERNEL: "absent"}}
    yield State(rule, "no module is built", {**gone, **userspace})
    yield from offered_states()
    rule, none = "no-kernel", {DRIVER + "kernels": []}
    yield State(rule, "no kernel is installed", none, ("no kernel image is installed under /boot",
                                                       "linux-image-amd64"))  # fmt: skip
    yield State(rule, "a container has none", none, base=container)
    yield State(rule, "no module is built", {**none, **userspace})
    yield State(rule, "full in a container", full, ("no kernel image",), base=container)
    rule = "kernel-compiler"

    def gcc(kernel: int | None, *installed: int) -> dict[str, Any]:
        return {PRE + "compilers": {"kernel": kernel, "installed": list(installed),
                                    "default": None}}  # fmt: skip

    yield State(
        rule,
        "the kernel's compiler is not the installed one",
        gcc(12, 10, 11),
        ("built by gcc 12, and only gcc 10, 11 is installed", "apt install gcc-12"),
    )
    yield State(rule, "it is one of the installed ones", gcc(12, 11, 12))
    yield State(rule, "no compiler is installed yet", gcc(12))
    yield State(rule, "the kernel does not say", gcc(None, 11))
    yield State(rule, "no module is built", {**gcc(12, 11), **userspace})
    theirs = {**gcc(12, 11), **full, DRIVER + "kernels": [KERNEL]}
    yield State(rule, "the carrying machine's kernel", theirs, base=container)


# The lock takes modules that the distribution built and signed.
PREBUILT = {"row/nvidia_driver/packages/kernel": {"linux-modules-nvidia-470-server-generic": "1"}}


def signed_states(on: dict[str, Any]) -> Iterator[State]:
    """Modules that the distribution should have signed; `on`: Secure Boot is."""
    rule, there = "secure-boot", {DRIVER + "modules": {KERNEL: "470.256.02"}}

    def by(signer: str, file: str, verdict: str) -> dict[str, Any]:
        path = f"/lib/modules/{KERNEL}/{file}/nvidia.ko"
        return {**on, **PREBUILT, **there, DRIVER + "signatures": {KERNEL: verdict},
                PRE + "module_signers": {KERNEL: {"signer": signer, "file": path}}}  # fmt: skip

    strange = by("Eve", "kernel/nvidia-470srv", "signed by an untrusted key")
    yield State(rule, "a stranger signed the distribution's module", strange,
                (f"kernel {KERNEL} will refuse the module", '"Eve" signed it', "apt-cache policy",
                 "mokutil --import"))  # fmt: skip
    yield State(rule, "DKMS's unsigned module is before the distribution's",
                by("", "updates/dkms", "unsigned"), ("it is unsigned", "dkms status"))  # fmt: skip
    yield State(rule, "somebody's module is before the distribution's",
                by("", "updates", "signed by an untrusted key"),
                ("signed by a key that is not among", "move it away"))  # fmt: skip
    yield State(rule, "the kernel takes the distribution's module",
                {**strange, DRIVER + "signatures": {KERNEL: "trusted"}})  # fmt: skip
    yield State(rule, "nobody can tell which keys the kernel has",
                {**strange, PRE + "module_signers": {}})  # fmt: skip
    yield State(rule, "another version's module is replaced",
                {**strange, DRIVER + "modules": {KERNEL: "1"}})  # fmt: skip
    yield State(rule, "the distribution's module is to come", {**on, **PREBUILT})


def offered_states() -> Iterator[State]:
    """What apt has of the modules that the distribution builds."""
    rule, newer = "signed-module", "5.10.0-33-amd64"

    def offered(**kernels: str) -> dict[str, Any]:
        return {**PREBUILT, PRE + "offered_modules": kernels}

    package = f"no linux-modules-nvidia-470-server-{KERNEL}"
    yield State(rule, "the running kernel has none", offered(**{KERNEL: "absent"}),
                (package, "apt install linux-image-amd64", "driver_modules: dkms"))  # fmt: skip
    yield State(rule, "that is of another driver", offered(**{KERNEL: "470.999.01"}),
                ("is of driver 470.999.01, and the lock has 470.256.02",
                 "provision lock --upgrade"))  # fmt: skip
    yield State(rule, "a kernel that waits has none", offered(**{newer: "absent"}),
                (f"or remove linux-image-{newer}, which is not running",))  # fmt: skip
    for state in ("offered", "unknown"):
        yield State(rule, f"it is {state}", offered(**{KERNEL: state}))
    none = {PRE + "offered_modules": {KERNEL: "absent"}}
    yield State(rule, "DKMS builds it", none)
    userspace = {"options": {"nvidia_driver_scope": "userspace"}}
    yield State(rule, "no module is wanted", {**PREBUILT, **none, **userspace})


def other_states() -> Iterator[State]:
    yield State(
        "avx",
        "the processor has no AVX",
        {PRE + "avx": False},
        ("the processor has no AVX", "Illegal instruction", "host-passthrough"),
    )
    yield State("avx", "the processor's flags can't be read", {PRE + "avx": None})
    yield State("avx", "TensorFlow is not changed", {PRE + "avx": False}, only=("cuda",))
    half = ("apt-get install --reinstall postfix", "package postfix in state half-installed")
    interrupted = ("dpkg-interrupted",)
    rule = "dpkg-broken"

    def left(*packages: tuple[str, str]) -> dict[str, Any]:
        return {PRE + "unfinished": [list(one) for one in packages]}

    yield State(rule, "a stranger is half installed", left(("postfix", "half-installed")), half,
                also=interrupted)  # fmt: skip
    yield State(rule, "one of ours is half installed", left(("libcuda1", "half-installed")),
                also=interrupted)  # fmt: skip
    yield State(rule, "one of CUDA's is half installed", left(("libcublas11", "half-installed")),
                also=interrupted)  # fmt: skip
    yield State(rule, "a stranger is half configured", left(("postfix", "half-configured")),
                also=interrupted)  # fmt: skip
    stranger = left(("postfix", "half-installed"))
    ours = {**stranger, "found/unfinished": True}
    yield State(rule, "our own unfinished run left it", ours, also=interrupted)
    now = {**stranger, PRE + "dpkg_at_work": True}
    yield State(rule, "dpkg is at it just now", now, also=interrupted)
    rule = "dpkg-interrupted"
    two = left(("libc6", "unpacked"), ("postfix", "half-configured"))
    words = ("interrupted (libc6, postfix); it will be finished first", "nothing to do")
    yield State(rule, "dpkg was interrupted", two, words)
    for component in ("nvidia_driver", "cuda"):
        yield State(rule, f"{component} finishes it", two, words[:1], only=(component,))
    yield State(rule, "nobody finishes it", two, only=("cudnn", "gpu_env", "tensorflow"))
    yield State(rule, "dpkg was not interrupted", left())
    rule = "signed-by"
    files = ["/etc/apt/sources.list.d/a.list", "/etc/apt/sources.list.d/b.list"]
    conflict = {PRE + "signed_by": [["https://nvidia.example/x86_64", "/", files]]}
    yield State(
        rule,
        "one repository is named with two keys",
        conflict,
        ("apt refuses all work: https://nvidia.example/x86_64 / is named", " and ".join(files)),
    )
    yield State(rule, "TensorFlow alone", conflict, ("apt refuses",), only=("tensorflow",))
    yield State(rule, "every repository has one key", {PRE + "signed_by": []})
    rule = "unowned-cuda"
    path, script = "/usr/local/cuda-10.1", "/etc/profile.d/cuda.sh"
    yield State(
        rule,
        "a CUDA of nobody is put in front",
        {PRE + "usr_local_cuda": {"path": path, "named_in": [script, "/etc/environment"]}},
        (f"({path}) is put in front by {script}, /etc/environment", "move the directory away"),
    )
    lies = {PRE + "usr_local_cuda": {"path": path, "named_in": []}}
    yield State(rule, "it lies there, and nothing names it", lies)
    rule = "conda"
    yield State(
        rule,
        "conda stands first in PATH",
        {PRE + "conda": ["/root/.bashrc", "/home/alice/.profile"]},
        ("after login (/root/.bashrc, /home/alice/.profile)", "auto_activate_base false"),
    )
    yield State(rule, "conda is not there", {PRE + "conda": []})
    yield State(rule, "TensorFlow is not changed", {PRE + "conda": ["/root/.bashrc"]},
                only=("cuda",))  # fmt: skip
    yield from bashrc_states()
    yield from hanging_states()
    yield from surrounding_states()


def surrounding_states() -> Iterator[State]:
    rule, config = "sshd-pam", "/etc/ssh/sshd_config.d/50-cloud.conf"
    closed = {PRE + "sshd_without_pam": config}
    words = (f"sshd does not use PAM ({config})", "UsePAM yes", "SetEnv XLA_FLAGS")
    yield State(rule, "sshd does not use PAM", closed, words)
    yield State(rule, "sshd uses PAM", {PRE + "sshd_without_pam": None})
    yield State(rule, "the environment is not changed", closed, only=("cuda",))
    rule = "trusted-gpg"
    yield State(
        rule,
        "apt trusts keys for every repository",
        {PRE + "trusted_gpg": True},
        ("the keys in /etc/apt/trusted.gpg for every repository", "signed-by"),
    )
    yield State(rule, "it trusts none so", {PRE + "trusted_gpg": False})
    rule = "system-tensorflow"
    there = {PRE + "system_tensorflow": ["2.9.1 in /usr/local/lib/python3.9/dist-packages"]}
    words = ("(2.9.1 in /usr/local/lib/python3.9/dist-packages)", "pip uninstall tensorflow")
    yield State(rule, "the system's Python has a TensorFlow", there, words)
    yield State(rule, "it has none", {PRE + "system_tensorflow": []})
    yield State(rule, "TensorFlow is not changed", there, only=("cuda",))


def hanging_states() -> Iterator[State]:
    rule, why = "driver-hangs", "nvidia-smi did not answer within 120 s"
    words = (f"the GPU driver hangs: {why}; whoever asks it waits", "`dmesg | grep -E 'NVRM|Xid'`")
    yield State(rule, "nvidia-smi does not end", {PRE + "driver_hangs": why}, words)
    yield State(rule, "nvidia-smi answers", {PRE + "driver_hangs": None})


def bashrc_states() -> Iterator[State]:
    left, rule = "found/state/gpu_env/left", "bashrc-user"
    words = ("gpu_env_bashrc_users names ada: this host has no such user", "make the account")
    yield State(rule, "a user who is not there", {left: {"ada": gpu_env.NO_USER}}, words)
    yield State(rule, "everybody's is as it should be", {left: {}})
    yield State(rule, "the environment is not changed", {left: {"ada": gpu_env.NO_USER}},
                only=("cuda",))  # fmt: skip
    rule, why = "bashrc-left", "it is not a regular file"
    words = ("~ada/.bashrc is left alone: it is not a regular file", "let ada see to it")
    yield State(rule, "a named pipe in its place", {left: {"ada": why}}, words)
    yield State(rule, "a file", {left: {}})


def cudnn_states() -> Iterator[State]:
    """The archive is to come from the controller, and is not there."""
    rule, gone = "cudnn-archive", {"cudnn_archive_absent": "/srv/cudnn.tgz"}
    words = ("cudnn_controller_file is /srv/cudnn.tgz", "cuDNN 8.5.0.96 for CUDA 11.2", "SHA-256 ")
    yield State(rule, "the controller has no archive", {"options": gone}, words)
    yield State(rule, "it has", {"options": {"cudnn_archive_absent": ""}})
    yield State(rule, "cuDNN is not changed", {"options": gone}, only=("cuda",))
    bundled = {"options": {**gone, "gpu_bundle": "/srv/lab"}}
    yield State(rule, "a bundle has it", {**bundled, PRE + "bundle": None})


def bundle_states() -> Iterator[State]:
    """What a bundle says of itself, against the host's lock and platform."""
    rule = "bundle"
    good = {"place": "file:///srv/lab", "lock": "sha256:new", "platforms": ["debian11"]}

    def found(**other: Any) -> dict[str, Any]:
        return {PRE + "bundle": {**good, **other}}

    yield State(rule, "of this lock and platform", found())
    yield State(rule, "there is none", {PRE + "bundle": None})
    words = ("/srv/lab is of another lock: sha256:old, and this project's is sha256:new",
             "`provision bundle` in this project")  # fmt: skip
    yield State(rule, "of another lock", found(lock="sha256:old"), words)
    words = ("has nothing for debian11; it is for debian12, ubuntu2204", "--platform debian11")
    yield State(rule, "of other platforms", found(platforms=["debian12", "ubuntu2204"]), words)
    yield State(rule, "of several", found(platforms=["debian11", "debian12"]))
    unfit = {PRE + "bundle": {"message": "gpu_bundle: it is unfinished", "hint": "resume it"}}
    yield State(rule, "it could not be read", unfit, ("it is unfinished", "resume it"))
    yield State(rule, "nothing is to be changed", found(lock="sha256:old"), only=())


def cache_states() -> Iterator[State]:
    """What the fleet's cache says of itself, or that it says nothing."""
    good = {"place": "http://c:8088", "lock": "sha256:new", "platforms": ["debian11"]}

    def found(**other: Any) -> dict[str, Any]:
        return {PRE + "cache": {**good, **other}}

    silent = {"message": "gpu_cache: the cache http://c:8088 does not answer", "hint": "start it"}
    goes_on = {PRE + "cache": {**silent, "goes_on": True}}
    stops = {PRE + "cache": {**silent, "goes_on": False}}
    rule = "cache"
    yield State(rule, "of this lock and platform", found())
    yield State(rule, "there is none", {PRE + "cache": None})
    words = ("the cache http://c:8088 is of another lock: sha256:old, and this project's is "
             "sha256:new", "`ansible-playbook cache.yml -i lab`")  # fmt: skip
    yield State(rule, "of another lock", found(lock="sha256:old"), words)
    words = ("has nothing for debian11; it is for debian12", "--limit gpu07,gpu_cache")
    yield State(rule, "of another platform", found(platforms=["debian12"]), words)
    yield State(rule, "of several", found(platforms=["debian11", "debian12"]))
    yield State(rule, "it is silent", stops, ("does not answer", "start it"))
    yield State(rule, "nothing is to be changed", found(lock="sha256:old"), only=())
    rule = "cache-silent"
    words = ("does not answer; this host fetches from the lock's own addresses", "start it")
    yield State(rule, "the host goes on", goes_on, words)
    yield State(rule, "it answers", found())
    yield State(rule, "there is none", {PRE + "cache": None})


def apt_states() -> Iterator[State]:
    """Where apt has its settings and sources from."""
    rule, seen = "apt-sources", PRE + "apt_sources"
    parts = ["Dir::Etc::SourceParts", "/srv/own", "/etc/apt/apt.conf.d/99own"]
    words = ("apt's own settings (/etc/apt/apt.conf.d/99own) have it read /srv/own for "
             "/etc/apt/sources.list.d (Dir::Etc::SourceParts)", "move its sources to")  # fmt: skip
    yield State(rule, "its sources are elsewhere", {seen: [parts]}, words)
    unnamed = [["Dir::Etc::SourceList", "", ""]]
    words = ("apt's own settings (apt-config dump) have it read nothing for /etc/apt/sources.list",
             "-o Dir::Etc::SourceList=...")  # fmt: skip
    yield State(rule, "it is not known which file says so", {seen: unnamed}, words)
    yield State(rule, "they are where they ever are", {seen: []})
    yield State(rule, "nothing is to be changed", {seen: [parts]}, only=())
    rule, seen = "apt-config", PRE + "apt_config"
    words = ("/etc/environment sets APT_CONFIG to /etc/lab.conf, and a run does not read that file",
             "cp /etc/lab.conf /etc/apt/apt.conf.d/")  # fmt: skip
    yield State(rule, "the environment names settings of apt", {seen: "/etc/lab.conf"}, words)
    yield State(rule, "it names none", {seen: None})


def docker_states() -> Iterator[State]:
    seen, here = "found/state/nvidia_container_toolkit/docker/", {"base": docked}
    none = {"options": {"nvidia_container_toolkit_docker": "none"}}
    required = {"options": {"nvidia_container_toolkit_docker": "required"}}
    rule, broken = "docker-config", {seen + "fault": "not JSON: line 3"}
    words = ("daemon.json is not JSON: line 3; it is left", "python3 -m json.tool")
    yield State(rule, "daemon.json is not JSON", broken, words, **here)
    yield State(rule, "it is, and docker is left alone", {**broken, **none}, **here)
    yield State(rule, "docker is not there", {**broken, seen + "installed": False}, **here)
    yield State(rule, "daemon.json can be read", {}, **here)
    yield State(rule, "the toolkit is not changed", broken, only=("cuda",), **here)
    rule, gone = "docker-missing", {seen + "installed": False}
    words = ("docker is required, and docker is not installed", "install docker.io or docker-ce")
    yield State(rule, "docker is required and not there", {**gone, **required}, words, **here)
    snap = {**gone, seen + "snap": True}
    words = ("not installed but from snap",)
    yield State(rule, "there is one of snap", {**snap, **required}, words, **here)
    yield State(rule, "it is not required", gone, **here)
    engine = {"nvidia_container_toolkit_docker_engine": "distribution"}
    coming = {"options": {**required["options"], **engine}}
    yield State(rule, "the run installs it", {**gone, **coming}, **here)
    words = ("not installed but from snap",)
    yield State(rule, "beside one of snap none is installed", {**snap, **coming}, words, **here)
    yield State(rule, "it is there", required, **here)
    rule, other = (
        "docker-other",
        {"found/state/nvidia_container_toolkit/engine/others": ["containerd", "docker.io"]},
    )
    engine = {"nvidia_container_toolkit_docker_engine": "docker-ce"}
    words = ("containerd, docker.io is installed, which apt would remove", "remove it yourself")
    yield State(rule, "Docker's is wished for", {**other, "options": engine}, words, **here)
    left = {**other, "options": {**engine, **none["options"]}}
    yield State(rule, "it is, and docker is left alone", left, **here)
    yield State(rule, "what is there is used", other, **here)
    yield State(rule, "none of them is there", {"options": engine}, **here)
    rule, twice = "docker-snap", {seen + "snap": True}
    words = ("docker is here from snap; the one of snap reads another file", "snap remove docker")
    yield State(rule, "docker is from snap", snap, words, **here)
    words = ("docker is here from snap and from a package",)
    yield State(rule, "docker is here twice", twice, words, **here)
    yield State(rule, "twice, and required", {**twice, **required}, words, **here)
    yield State(rule, "docker is left alone", {**snap, **none}, **here)
    yield State(rule, "twice, and left alone", {**twice, **none}, **here)
    yield State(rule, "it is of a package", {}, **here)
    ours = {PRE + "unfinished": [["nvidia-container-toolkit", "half-installed"]]}
    also = ("dpkg-interrupted",)
    yield State("dpkg-broken", "one of the toolkit's is half installed", ours, also=also, **here)
    words = ("interrupted (nvidia-container-toolkit)",)
    only = ("nvidia_container_toolkit",)
    yield State("dpkg-interrupted", "the toolkit finishes it", ours, words, only=only, **here)
    rule, count = "docker-containers", PRE + "docker/count"
    lost = "to find NVIDIA's runtime: running containers would be lost (1)"
    yield State(rule, "a container runs", {count: 1}, (lost, "systemctl reload docker"), **here)
    unknown = ("docker does not answer, so whether containers run can't be known",)
    yield State(rule, "docker does not answer", {count: None}, unknown, **here)
    yield State(rule, "none runs", {count: 0}, **here)
    yield State(rule, "they live on", {count: 9, PRE + "docker/live_restore": True}, **here)
    yield State(rule, "docker does not run", {count: 1, seen + "running": False}, **here)
    yield State(rule, "docker is left alone", {count: 1, **none}, **here)


def runtime_states(
    name: str, title: str, *, gone: Any, alone: str, unread: tuple[str, str], loses: str
) -> Iterator[State]:
    """The states of containerd and of CRI-O.

    `gone`: what it is where it is not installed. `alone`: why it is not wanted. `unread`: (which
    file can't be read, what is said of it).
    """
    rule, seen = f"{name}-config", f"found/state/nvidia_container_toolkit/{name}/"
    required = {"options": {f"nvidia_container_toolkit_{name}": "required"}}
    here, broken = {"base": docked}, {seen + "fault": "broken"}
    not_there = {seen + key: value for key, value in gone.items()}
    words = (f"{name} is required, and {title} is not installed", "install it, or set")
    yield State(rule, "it is required and not there", {**not_there, **required}, words, **here)
    yield State(rule, "it is not required", {**not_there, seen + "wanted": False}, **here)
    file, said = unread
    words = (f"{said} is left as it is: broken", "repair it")
    yield State(rule, f"{file} can't be read", broken, words, **here)
    yield State(rule, "it is required and can't be read", {**broken, **required}, words, **here)
    yield State(rule, alone, {**broken, seen + "wanted": False}, **here)
    yield State(rule, "it is required and whole", required, **here)
    rule, lost = f"{name}-containers", {seen + "loses": loses}
    words = (f"containers would be lost: {loses}", "stop them when")
    yield State(rule, "its restart would lose containers", lost, words, **here)
    yield State(rule, "none would be lost", {}, **here)
    yield State(rule, f"{alone}, and loses", {**lost, seen + "wanted": False}, **here)


def containerd_states() -> Iterator[State]:
    yield from runtime_states(
        "containerd",
        "containerd",
        gone={"installed": False},
        alone="it is nobody's who wants GPUs",
        unread=("config.toml", "config.toml"),
        loses="KillMode of containerd.service",
    )
    toolkit = "found/state/nvidia_container_toolkit/"
    bare = {
        toolkit + "containerd/installed": False,
        toolkit + "docker/installed": False,
        "options": {
            "nvidia_container_toolkit_containerd": "required",
            "nvidia_container_toolkit_docker_engine": "distribution",
        },
    }
    fact = "docker is installed by this run and brings it"
    yield State("containerd-config", fact, bare, base=docked)


def crio_states() -> Iterator[State]:
    yield from runtime_states(
        "crio",
        "CRI-O",
        gone={"installed": False, "wanted": False},
        alone="it is left alone",
        unread=("its files", "CRI-O's configuration"),
        loses="conmon runs in its own cgroup (2)",
    )


def podman_states() -> Iterator[State]:
    rule, podman = "podman-too-old", "found/state/nvidia_container_toolkit/cdi/podman"
    required = {"options": {"nvidia_container_toolkit_cdi": "required"}}
    words = ("podman 3.0.1 reads no CDI specification; 4.1 is the first", "install a newer podman")
    yield State(rule, "CDI is required", {podman: "3.0.1", **required}, words, base=docked)
    yield State(rule, "it is not required", {podman: "3.0.1"}, base=docked)
    for version in ("4.1.0", "", None):
        yield State(rule, f"podman is {version!r}", {podman: version, **required}, base=docked)


def workspace_states() -> Iterator[State]:
    seen, here = PRE + "workspaces/", {"base": shared, "only": ("gpu_workspace",)}
    nobody = {"options": {"gpu_workspaces": []}}
    rule, gone = "workspace-docker", {seen + "docker": False}
    words = ("workspaces are its containers (ada, bob)", "install docker.io")
    yield State(rule, "docker does not answer", gone, words, **here)
    yield State(rule, "nobody is wished for", {**gone, **nobody}, **here)
    yield State(rule, "docker answers", {}, **here)
    rule = "workspace-port"
    words = ("port 8802 of bob is in use by something else", "give bob another port")
    yield State(rule, "something listens at a port", {seen + "ports": [8802]}, words, **here)
    yield State(rule, "nothing does", {seen + "ports": []}, **here)
    sshd = {"options/gpu_workspaces/0/ssh_port": 2201, seen + "ports": [2201]}
    words = ("port 2201 of ada is in use by something else",)
    yield State(rule, "something listens at sshd's", sshd, words, **here)
    rule, why = "workspace-user", "is alice, an account of this host"
    words = (f"user 1000:1000 of bob {why}", "leave `user` of bob out")
    yield State(rule, "somebody's uid is an account", {seen + "users": {"bob": why}}, words, **here)
    yield State(rule, "nobody's is", {seen + "users": {}}, **here)
    rule, why = "workspace-root", "/srv holds more than homes, and nobody else could use it"
    words = (why, "name a directory in gpu_workspace_root")
    yield State(rule, "the homes' root is shared", {seen + "root": why}, words, **here)
    yield State(rule, "it is theirs alone", {seen + "root": None}, **here)
    rule, why = (
        "workspace-volume",
        {"ada": "/home/alice/data: /home/alice belongs to uid 1000", "eve": "x"},
    )
    words = ("a volume of ada can be swapped for a link", "/home/alice/data", "as /srv/data/ada")
    yield State(rule, "others can replace a volume", {seen + "volumes": why}, words, **here)
    yield State(rule, "root alone can", {seen + "volumes": {}}, **here)
    rule, people = "workspace-gpu", "options/gpu_workspaces/"
    words = ("ada is to get GPU 2, and this host has 2", "indices count from 0")
    yield State(rule, "an index that is not there", {people + "0/gpus": [2, 3]}, words, **here)
    words = ("bob is to get 3 GPUs, and this host has 2",)
    yield State(rule, "more than there are", {people + "1/gpus": 3}, words, **here)
    words = ("ada is to get all GPUs, and this host has 0",)
    none = {"found/gpus": [], people + "1/gpus": "none"}
    yield State(rule, "all of none", {**none, people + "0/gpus": "all"}, words, **here)
    yield State(rule, "none of none", {**none, people + "0/gpus": "none"}, **here)
    uuids = {people + "0/gpus": ["GPU-c03f7aa8", 0]}
    yield State(rule, "a UUID, of which the bus knows nothing", uuids, **here)
    yield State(rule, "all of some", {people + "0/gpus": "all"}, **here)
    rule = "workspace-memory"
    words = ("may use 4096 MiB together, and this host has 4095 MiB", "give less memory")
    yield State(rule, "a byte too much", {seen + "memory": 4 * GIB - 1}, words, **here)
    yield State(rule, "just as much", {seen + "memory": 4 * GIB}, **here)
    yield State(rule, "nobody knows", {seen + "memory": None}, **here)
    yield State(rule, "no limit", {seen + "memory": GIB, people + "0/memory": ""}, **here)
    rule, busy = "workspace-in-use", {seen + "in_use": {"eve": 1, "bob": 2}}
    words = (
        "have kernels, terminals or SSH open: bob (2), eve (1)",
        "-e gpu_workspace_in_use=stop",
    )
    yield State(rule, "people are at work", busy, words, **here)
    stop = {**shared()["options"], "gpu_workspace_in_use": "stop"}
    yield State(rule, "they are to be stopped", {**busy, "options": stop}, **here)
    yield State(rule, "nobody is", {seen + "in_use": {}}, **here)


def door_states() -> Iterator[State]:
    seen, here = PRE + "front_door/", {"base": doored, "only": ("gpu_front_door",)}
    rule, ports = "front-door-port", seen + "ports"
    words = (
        "port 443 of the front door is in use by apache2, haproxy",
        "another port (gpu_front_door_port)",
    )
    yield State(
        rule, "others listen there", {ports: {"443": ["apache2", "haproxy"]}}, words, **here
    )
    words = ("port 80 of the front door is in use by caddy",)
    yield State(rule, "one listens at port 80", {ports: {"80": ["caddy"]}}, words, **here)
    yield State(rule, "nobody does", {}, **here)
    rule, sites = "front-door-site", seen + "sites"
    words = (
        "in the front door's way: /etc/nginx/conf.d/a has the name gpu01.example.org already",
        "another name or port",
    )
    theirs = {sites: ["/etc/nginx/conf.d/a has the name gpu01.example.org already"]}
    yield State(rule, "a site has the name", theirs, words, **here)
    yield State(rule, "no site has it", {}, **here)
    rule, nobody = "front-door-nobody", {"options/gpu_workspaces": []}
    words = (
        "gpu_workspaces and gpu_servings have nothing that is behind it",
        '"gpu_front_door_name": ""',
    )
    yield State(rule, "nobody is behind it", nobody, words, **here)
    yield State(rule, "somebody is", {}, **here)
    gone = {**nobody, "options/gpu_front_door_name": ""}
    yield State(rule, "the door goes as well", gone, **here)
    rule, way, agreed = "front-door-terms", "options/gpu_front_door_tls", "options/gpu_front_door_"
    words = ("nobody has agreed to the terms", "gpu_front_door_acme_agree: true")
    silent = {way: "acme"}
    yield State(rule, "nobody has agreed", silent, words, **here)
    yield State(rule, "somebody has", {**silent, agreed + "acme_agree": True}, **here)
    yield State(rule, "nobody is asked", {way: "local_ca"}, **here)
    yield State(rule, "there is no door", {**silent, agreed + "name": ""}, **here)


def slurm_states() -> Iterator[State]:
    seen, here = PRE + "slurm/", {"base": clustered, "only": ("slurm",)}
    rule, faults = "slurm-options", seen + "faults"
    fault = "slurm_controller: gpu09 is not in the inventory"
    words = (fault, "correct it in the inventory")
    yield State(rule, "the controller is nobody", {faults: [fault]}, words, **here)
    yield State(rule, "all is well said", {}, **here)
    rule, theirs = "slurm-theirs", seen + "theirs"
    words = ("a Slurm that this program did not bring", "/etc/slurm/slurm.conf", "by hand first")
    yield State(rule, "there is another", {theirs: ["/etc/slurm/slurm.conf"]}, words, **here)
    yield State(rule, "there is none", {}, **here)
    rule, release, cgroup = "slurm-release", seen + "release", seen + "cgroup"
    words = ("which Slurm this platform has is not known", "Debian 11, 12 and 13")
    yield State(rule, "nobody knows it", {release: []}, words, **here)
    words = ("Slurm 19.05 of this platform gets no configuration",)
    yield State(rule, "it is too old", {release: [19, 5]}, words, **here)
    yield State(rule, "the first that does", {release: [20, 2]}, **here)
    words = ("Slurm 21.08 of this platform knows cgroup v1 alone", "unified_cgroup_hierarchy=0")
    yield State(rule, "cgroup v2", {release: [21, 8], cgroup: 2}, words, **here)
    yield State(rule, "it knows v2", {release: [22, 5], cgroup: 2}, **here)
    yield State(rule, "cgroup v1", {release: [21, 8], cgroup: 1}, **here)
    words = ("no device cgroup", "CONFIG_CGROUP_DEVICE")
    yield State(rule, "no cgroup at all", {cgroup: 0}, words, **here)
    rule, away = "slurm-jobs", {"base": leaving, "only": ("slurm",)}
    removal = seen + "removal"
    told = "job 7 of ada on gpu01: run again when they have ended"
    yield State(rule, "ada has a job", {removal: told}, ("Slurm can't go", told), **away)
    yield State(rule, "nobody has one", {}, **away)
    gone = {seen + "release": [], cgroup: 0}
    yield State("slurm-release", "it goes, whatever it is", gone, **away)
    grows = {"base": growing, "only": ("slurm",)}
    words = ("slurmdbd must be installed", "under 2 running job steps", "state=drain")
    yield State(rule, "packages under jobs", {}, words, **grows)
    yield State(rule, "packages without jobs", {seen + "steps": 0}, **grows)
    whole = {"found/state/slurm/missing": []}
    yield State(rule, "no package is missing", whole, **grows)


def serving_states() -> Iterator[State]:
    seen, here = PRE + "servings/", {"base": served, "only": ("gpu_serving",)}
    mnist, models = seen + "models/mnist/", "options/gpu_servings/"
    ada = {"name": "ada", "gpus": [0], "port": 8801}
    rule = "serving-list"
    words = ("gpu_servings: mnist: port is a port of the host", "provision explain gpu_servings")
    yield State(rule, "a value is out of its form", {models + "0/port": 0}, words, **here)
    door, plain = {**here, "base": led}, "options/gpu_front_door_redirect"
    words = ("port 80 is said twice (the front door and model mnist)",)
    yield State(rule, "a port is the door's", {models + "0/port": 80, plain: True}, words, **door)
    yield State(rule, "the door does not open it", {models + "0/port": 80}, **door)
    words = ("port 8801 is said twice (workspace ada and model mnist)",)
    same = {models + "0/port": 8801, "options/gpu_workspaces": [{**ada, "gpus": "none"}]}
    yield State(rule, "a port is a workspace's", same, words, **here)
    yield State(rule, "all are in it", {}, **here)
    rule, gone = "serving-docker", {seen + "docker": False}
    words = ("models are served by its containers (bert, mnist)", "install docker.io")
    yield State(rule, "docker does not answer", gone, words, **here)
    yield State(rule, "nothing is to be served", {**gone, "options/gpu_servings": []}, **here)
    yield State(rule, "docker answers", {}, **here)
    rule, used = "serving-port", seen + "ports"
    words = ("port 8503 of the model bert is in use", "give bert another port")
    yield State(rule, "something listens at a port", {used: [8503]}, words, **here)
    yield State(rule, "something listens at another", {used: [8601]}, **here)
    yield State(rule, "nothing does", {used: []}, **here)
    rule = "serving-models"
    for fact, changes, text in (
        (
            "its directory is missing",
            {mnist + "there": False},
            "the model mnist is to come from /srv/models/mnist, and there is no such directory",
        ),
        (
            "it has everything else in it as well",
            {mnist + "crowded": True},
            "/srv/models/mnist of the model mnist has more than 10000 entries",
        ),
        (
            "there is no version",
            {mnist + "newest": None},
            "/srv/models/mnist of the model mnist has no version",
        ),
        (
            "its user can't read it",
            {mnist + "closed": "/srv/models/mnist/2"},
            "uid 65534, by whom the model mnist is served, can't read /srv/models/mnist/2",
        ),
        (
            "the newest version is no model",
            {mnist + "file": False},
            "version 2 of the model mnist has no saved_model.pb",
        ),
        (
            "the files are missing",
            {mnist + "files": False, models + "0/files": "/srv/tflite"},
            "the files of the model mnist are to come from /srv/tflite",
        ),
    ):
        yield State(rule, fact, changes, (text,), **here)
    yield State(rule, "all are there", {}, **here)
    rule, saved = "serving-release", mnist + "tensorflow"
    words = ("version 2 of the model mnist was saved by TensorFlow 2.12.0", "or an older 2.x")
    yield State(rule, "a newer one saved it", {saved: "2.12.0"}, words, **here)
    yield State(rule, "an older one did", {saved: "2.4.1"}, **here)
    yield State(rule, "it does not say", {saved: None}, **here)
    rule, before = "serving-image-release", {"base": serving_before, "only": ("tensorflow",)}
    record = "found/state/gpu_serving/models/mnist/record/"
    words = ("models are served by TensorFlow 2.12, and the lock's is 2.9.3: mnist", "by -e")
    yield State(rule, "another lock's image serves", {}, words, **before)
    yield State(rule, "this lock's does", {record + "release": "2.9"}, **before)
    yield State(rule, "nobody asked the image", {record + "release": ""}, **before)
    other = {"options/gpu_serving_image": "sha256:" + "b" * 64}
    yield State(rule, "another image is wished for", other, **before)
    rule, why = "serving-swapped", "/data/ada/m: /data/ada belongs to uid 1000"
    words = ("a directory of the model mnist can be swapped for a link", why, "/srv/models/mnist")
    theirs = {seen + "swapped": {"mnist": why, "other": "x"}}
    yield State(rule, "others can replace a directory", theirs, words, **here)
    yield State(rule, "root alone can", {seen + "swapped": {}}, **here)
    rule, gpus = "serving-gpu", models + "0/gpus"
    words = ("model mnist asks for GPU 2, and nvidia-smi lists 0 to 1", "indices count from 0")
    yield State(rule, "an index that is not there", {gpus: [2]}, words, **here)
    words = ("GPU 0 is promised twice, to ada and model mnist",)
    theirs, listed = {"options/gpu_workspaces": [ada]}, ("serving-list",)
    yield State(rule, "a workspace has it", theirs, words, also=listed, **here)
    words = ("ada asks for 1 GPUs, and 0 of the host's 2 are left",)
    counted = {"options/gpu_workspaces": [{**ada, "gpus": 1}]}
    yield State(rule, "none is left for a workspace", counted, words, **here)
    yield State(rule, "one is", {**counted, gpus: "none"}, **here)
    gone = {**served()["options"], "nvidia_container_toolkit_state": "absent"}
    words = ("docker will know no GPUs", "have some: bert, mnist", "leave the toolkit")
    yield State(rule, "the toolkit is to go", {"options": gone}, words, **here)
    none = [{**model, "gpus": "none"} for model in gone["gpu_servings"]]
    yield State(rule, "nobody needs it", {"options": {**gone, "gpu_servings": none}}, **here)
    words = ("GPU 0 is promised twice, to Slurm and to model mnist",)
    slurm, theirs = {**here, "base": divided}, "options/slurm_gpus"
    yield State(rule, "Slurm gives it out", {theirs: [0]}, words, **slurm)
    idle = {theirs: [0], "options/slurm_compute": False}
    yield State(rule, "no job of Slurm's runs here", idle, **slurm)
    uuid = "GPU-11111111-2222-3333-4444-555555555555"
    yield State(rule, "a model names it by UUID", {gpus: [uuid]}, **here)
    words = ("GPU 0 of the model mnist is ada's now, who asked for 1", "give the model another")
    has = {**counted, models + "1/gpus": "none", seen + "kept": {"ada": [0]}}
    yield State(rule, "somebody has been given it", has, words, **here)
    both = {
        "options/gpu_workspaces": [{**ada, "gpus": 1, "shared": True}],
        models + "0/shared": True,
    }
    yield State(rule, "both share it", {**has, **both}, **here)
    yield State(rule, "somebody has the other", {**has, seen + "kept": {"ada": [1]}}, **here)
    yield State(rule, "each has its own", {}, **here)
    rule = "serving-memory"
    words = ("may use 4096 MiB together, and this host has 4095 MiB", "give less memory")
    yield State(rule, "a byte too much", {seen + "memory": 4 * GIB - 1}, words, **here)
    yield State(rule, "just as much", {seen + "memory": 4 * GIB}, **here)
    yield State(rule, "nobody knows", {seen + "memory": None}, **here)
    rule = "serving-tensorrt"
    words = ("mnist can't be converted by TF-TRT: it needs libnvinfer.so.7", "leave `tensorrt` out")
    yield State(rule, "somebody wishes for TF-TRT", {models + "0/tensorrt": True}, words, **here)
    yield State(rule, "nobody does", {models + "0/tensorrt": False}, **here)


def running_states() -> Iterator[State]:
    """Another run on this host: at work, cut off, or ended and still cleaning up."""
    running = PRE + "running"
    other = {"who": "alice", "host": "ctrl1", "pid": 1234, "started": "2026-11-21 14:03 UTC"}
    who = "alice on ctrl1 (pid 1234) since 2026-11-21 14:03 UTC"
    rule, at_work = "run-in-progress", f"another run is at work on this host: {who}"
    yield State(rule, "alice's run is at work", {running: other}, (at_work, "wait until it has"))
    held = {running: {**other, "holder": 77}}
    yield State(rule, "a process of hers holds on", held, (at_work, "end process 77 on this host"))
    yield State(rule, "nobody says who", {running: {}}, ("at work on this host: somebody",))
    yield State(rule, "nobody is at work", {running: None})
    rule, cut_off = "run-cut-off", f"a run was cut off here: {who}; "
    for word in ("ended", "silent"):
        state = {running: {**other, word: True}}
        words = (f"{cut_off}nothing has been heard of it", "nothing to do: a run waits")
        yield State(rule, f"her run is {word}", state, words)
    left = {running: {**other, "ended": True, "finishing": "dpkg (pid 9)"}}
    yield State(rule, "her dpkg goes on", left, (f"{cut_off}it waits for dpkg (pid 9)",))
    yield State(rule, "nothing was cut off", {running: None})


def people_states() -> Iterator[State]:
    """The clock is at Saturday 01:00 on the recorded host."""
    rule = "maintenance-window"

    def window(value: Any) -> dict[str, Any]:
        return {"options": {"gpu_maintenance_window": value}}

    closed = "outside the maintenance window (Sat 22:00-04:00); it is Sat 01:00"
    yield State(rule, "it opens tonight", window("Sat 22:00-04:00"), (closed, "--skip-tags"))
    bad = ("'Sat 22-4' is no maintenance window: expected", "correct gpu_maintenance_window")
    yield State(rule, "it can't be read", window("Sat 22-4"), bad)
    both = "(Sat 22:00-04:00; Sun 01:00-02:00)"
    yield State(rule, "neither is open", window(["Sat 22:00-04:00", "Sun 01:00-02:00"]), (both,))
    yield State(rule, "one is open since yesterday", window("Fri 22:00-04:00"))
    daily = window(["Sat 22:00-04:00", "00:30-01:01"])
    yield State(rule, "one of two is open, and every day", daily)
    others = ("cuda", "tensorflow")
    yield State(rule, "the driver is not changed", window("Sat 22:00-04:00"), only=others)
    present = {
        PRE + "users": [
            {"user": "ada", "at": "pts/0", "from": "192.0.2.7", "idle": 30},
            {"user": "bob", "at": "tty7", "from": None, "idle": 7200},
        ]
    }
    rule = "logged-in"
    who = "ada on pts/0 from 192.0.2.7; bob on tty7, idle for 2 h"
    loaded = {DRIVER + "loaded": "470.256.02"}
    yield State(
        rule,
        "under a loaded driver",
        {**present, **loaded},
        ("the loaded driver would be changed under them: " + who, "nobody is ever logged out"),
    )
    old = {DRIVER + "loaded": "460.91.03"}
    reboot = {"options": {"nvidia_driver_reboot": True}}
    under = {**present, **old, **reboot}
    yield State(rule, "the host would be rebooted", under, ("rebooted under them: " + who,))
    nouveau = {**present, **reboot, DRIVER + "nouveau_loaded": True}
    yield State(rule, "nouveau goes with a reboot", nouveau, ("rebooted under them",))
    yield State(rule, "no driver is loaded", present)
    yield State(rule, "nobody is there", {**old, **reboot})
    yield State(rule, "the driver is not changed", {**present, **loaded}, only=others)
    rule = "logged-in-told"
    for mode, hint in (("wait", "the run waits for them"), ("ignore", "is ignore")):
        options = {"options": {"nvidia_driver_logged_in_users": mode}}
        yield State(rule, mode, {**present, **loaded, **options}, (who, hint))
    local = {"nvidia_driver_reboot": True, "ansible_connection": "local"}
    alone = {"options": {**local, "nvidia_driver_logged_in_users": "wait"}}
    nouveau = {**present, **alone, DRIVER + "nouveau_loaded": True}
    yield State(rule, "Ansible's own host is not rebooted", nouveau, also=("nouveau",))
    yield State(rule, "they are refused for", {**present, **loaded}, also=("logged-in",))


def removal_states() -> Iterator[State]:
    rule, apt = "unplanned-removal", PRE + "transaction"

    def answer(*removed: list[Any], held: list[Any] | None = None) -> dict[str, Any]:
        return {apt: {"removed": list(removed), "held": held or []}}

    solver = ["somebodys-solver", "1.0", ["needs libcublas11"]]
    words = (
        "remove packages for the lock's versions: somebodys-solver 1.0 (needs libcublas11)",
        "`apt-get remove somebodys-solver` if nobody needs them",
    )
    yield State(rule, "somebody's package would go", answer(solver), words)
    many = [[f"tool{number}", "2", []] for number in range(6)]
    yield State(rule, "many would go", answer(*many), ("tool3 2 and 2 more", "tool4 tool5"))
    part = ["nvidia-driver", "535.183.01-1~deb11u1", ["needs libcuda1"]]
    words = ("parts of another NVIDIA driver cannot stay", "nvidia_driver_switch: switch lets")
    yield State(rule, "parts of another driver would go", answer(part), words)
    switch: dict[str, Any] = {"options": {"nvidia_driver_switch": "switch"}}
    switch[DRIVER + "displaced"] = {part[0]: part[1]}
    yield State(rule, "the wish says to switch: they are in the plan", {**answer(part), **switch})
    named = {**answer(["cuda-drivers", "1", []]), PRE + "foreign": ["cuda-drivers"]}
    yield State(rule, "another rule names it", named, also=("foreign-driver",))
    held = answer(held=[["libxnvctrl0", "460.1-1", "470.2-1"]])
    words = ("that somebody holds: libxnvctrl0 460.1-1 to 470.2-1", "apt-mark unhold libxnvctrl0")
    yield State(rule, "a package that somebody holds would change", held, words)
    yield State(rule, "nothing would go", answer())


@fresh
def repaired() -> dict[str, Any]:
    """The machine, whose environment of TensorFlow is made anew; made up."""
    data = machine()
    data["found"]["state"]["tensorflow"]["root"] = {"parents": None}
    data["found"]["preflight"]["venvs"] = {
        "2.9.3-444c500c": {"kind": "anew", "more": [], "using": [], "kept": None}
    }
    return data


def venv_states() -> Iterator[State]:
    """Environments that are changed under people, or with what people put into them."""
    venv = PRE + "venvs/2.9.3-444c500c/"
    rule, here = "venv-in-use", {"base": repaired, "only": ("tensorflow",)}
    anew = "pid 4711 of ada uses TensorFlow's environment 2.9.3-444c500c, which would be made anew"
    yield State(rule, "a job", {venv + "using": [JOB]}, (anew, "none is ever ended"), **here)
    changed = {venv + "using": [JOB], venv + "kind": "changed"}
    yield State(rule, "wheels are put back", changed, ("would be changed: python",), **here)
    yield State(rule, "nobody uses it", {venv + "using": []}, **here)
    rule = "venv-kept"
    more = {venv + "more": ["pandas 2.0.3", "mine.py"], venv + "kept": "/opt/tensorflow/x.save"}
    words = ("stays in /opt/tensorflow/x.save: pandas 2.0.3, mine.py", "x.save/bin/python -m pip")
    yield State(rule, "packages of people's", more, words, **here)
    yield State(rule, "the locked wheels alone", {venv + "more": []}, **here)
    rule, place = "venv-parents", "found/state/tensorflow/root/parents"
    why = "/data is writable for all"
    yield State(rule, "others may write", {place: why}, (why, "chmod go-w"), **here)
    yield State(rule, "root alone", {place: None}, **here)


@functools.cache
def states() -> tuple[State, ...]:
    import slurm_life_states  # which needs the bases of this one

    order = [rule.id for rule in preflight.RULES]
    found = [*running_states(), *other_states(), *disk_states(), *driver_states(), *kernel_states()]
    found += [
        *people_states(),
        *cudnn_states(),
        *bundle_states(),
        *cache_states(),
        *apt_states(),
        *docker_states(),
        *containerd_states(),
        *crio_states(),
        *podman_states(),
        *workspace_states(),
        *door_states(),
        *serving_states(),
        *slurm_states(),
        *slurm_life_states.states(),
        *venv_states(),
    ]
    return tuple(sorted(found, key=lambda state: order.index(state.rule)))


def tell() -> str:
    """What a person reads where a rule trips: the golden text."""
    stops = {rule.id: "stops" if rule.stops else "does not stop" for rule in preflight.RULES}
    lines = []
    for state in states():
        if state.trips:
            lines.append(f"{state.rule}: {state.fact}")
            for one in reasons(mutated(state.base(), state.changes), state.only)[state.rule]:
                told = f"{stops[state.rule]} {one['component'] or 'the run'}"
                lines += [f"    {told}: {one['message']}", f"    way out: {one['hint']}"]
    return "\n".join(lines) + "\n"
