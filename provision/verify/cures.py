"""What cures a failed check: another run where the plan has an item for it, else the advice here.

A check sees what programs do, the plan sees what differs from the lock. A conda in front of PATH or
a GPU that fell off the bus fails a check without being a difference, and running again would change
nothing. So a run is advised only where the same host's plan has a change for the check; for all
other hosts each check has its own advice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# A hint's placeholder for the advice on a run; `complete` fills it in.
RUN = "{run}"
# How many items of the plan a hint names.
NAMED = 3


@dataclass(frozen=True)
class Cure:
    """`components` whose planned changes cure the check; `otherwise`: advice if none is planned."""

    components: tuple[str, ...]
    otherwise: str


DEEP = (
    "`provision apply --deep`, which reads every file of the stack and replaces those that were "
    "altered with their old time"
)
LOADER = (
    "LD_LIBRARY_PATH and /etc/ld.so.conf.d name what is loaded instead (`ldconfig -p`, "
    f"`echo $LD_LIBRARY_PATH`): take that away; else {DEEP}"
)
SHELLS = (
    "what sets it comes later than ours: a file in /etc/profile.d, ~/.bashrc, ~/.profile, conda's "
    "block, `systemctl show-environment`, or sshd with `UsePAM no`; change it there"
)
WHEELS = f"{DEEP}; what is beside the locked wheels (PYTHONPATH, .pth files) is its owner's to move"
JOURNAL = "`journalctl -u 'gpu-workspace@*'` and `docker logs gpu-workspace-NAME` say why"
DOOR = "`journalctl -u nginx` and /var/log/nginx say why; a firewall may stand before the port"
DRIVER, ENV = "nvidia_driver", "gpu_env"
TOOLKIT, PEOPLE, FRONT = "nvidia_container_toolkit", "gpu_workspace", "gpu_front_door"
KERNEL_LOG = "`sudo dmesg | grep -i nvrm` shows the driver's messages"
PACKAGES = "`dpkg --audit` and `apt-get check` on the host say what is in the way"

CURES: dict[str, Cure] = {
    "host.answers": Cure((), "`ansible -m ping` tells whether Ansible reaches the host"),
    f"{DRIVER}.answers": Cure((DRIVER, ENV), f"{KERNEL_LOG}; else {DEEP}"),
    f"{DRIVER}.version": Cure((DRIVER,), "reboot the host: the old module is still loaded"),
    f"{DRIVER}.module": Cure((DRIVER,), "reboot the host; `dkms status` must show the module"),
    f"{DRIVER}.library": Cure((DRIVER, ENV), LOADER),
    f"{DRIVER}.packages": Cure((DRIVER,), PACKAGES),
    f"{DRIVER}.gpus": Cure((DRIVER,), KERNEL_LOG),
    "cuda.packages": Cure(("cuda",), PACKAGES),
    "cuda.nvcc_login": Cure(("cuda", ENV), f"{SHELLS}; else {DEEP}"),
    "cuda.nvcc_ssh": Cure(("cuda", ENV), f"{SHELLS}; else {DEEP}"),
    "cuda.nvcc_cron": Cure(("cuda", ENV), f"{SHELLS}; else {DEEP}"),
    "cuda.nvcc_systemd": Cure(("cuda", ENV), f"{SHELLS}; else {DEEP}"),
    "cuda.libraries": Cure(("cuda", "cudnn", ENV), LOADER),
    "cuda.files": Cure(("cuda",), DEEP),
    "cudnn.library": Cure(("cudnn", "cuda", ENV), LOADER),
    "cudnn.version": Cure(("cudnn", "cuda", ENV), LOADER),
    "cudnn.headers": Cure(("cudnn",), DEEP),
    "gpu_env.variables": Cure((ENV,), SHELLS),
    f"{TOOLKIT}.packages": Cure((TOOLKIT,), PACKAGES),
    f"{TOOLKIT}.docker": Cure(
        (TOOLKIT,), "`journalctl -u docker` says why; a restart of docker reads its configuration"
    ),
    f"{TOOLKIT}.cdi": Cure(
        (TOOLKIT, DRIVER), "`sudo nvidia-ctk cdi generate` says what it does not find"
    ),
    "tensorflow.imports": Cure(("tensorflow",), WHEELS),
    "tensorflow.version": Cure(("tensorflow",), WHEELS),
    "tensorflow.wheels": Cure(("tensorflow",), WHEELS),
    "tensorflow.cuda_wheels": Cure(("tensorflow",), WHEELS),
    "tensorflow.built_with_cuda": Cure(("tensorflow",), WHEELS),
    "tensorflow.gpus": Cure((DRIVER, "cuda", "cudnn", ENV, "tensorflow"), LOADER),
    "tensorflow.computes": Cure(
        (DRIVER, "cuda", "cudnn", ENV, "tensorflow"),
        f"{KERNEL_LOG}; a GPU that this TensorFlow has no code for needs another TensorFlow in the "
        f"wish (`provision catalog --gpu`); else {DEEP}",
    ),
    "tensorflow.trains": Cure(("tensorflow",), f"{WHEELS}; `free -m` tells the memory"),
    f"{PEOPLE}.runs": Cure((PEOPLE, TOOLKIT, DRIVER), JOURNAL),
    f"{PEOPLE}.jupyter": Cure((PEOPLE,), JOURNAL),
    f"{PEOPLE}.ssh": Cure((PEOPLE,), JOURNAL),
    f"{PEOPLE}.tensorboard": Cure((PEOPLE,), JOURNAL),
    f"{PEOPLE}.gpus": Cure((PEOPLE, TOOLKIT, DRIVER), JOURNAL),
    f"{PEOPLE}.limits": Cure((PEOPLE,), JOURNAL),
    f"{FRONT}.answers": Cure((FRONT,), DOOR),
    f"{FRONT}.page": Cure((FRONT, PEOPLE), DOOR),
    f"{FRONT}.strangers": Cure((FRONT, PEOPLE), f"stop it until it is closed; {DOOR}"),
    "receipt.lock": Cure(
        ("receipt", "all"),
        "the last run used another lock than this machine's: `git log lock.yml`",
    ),
}


def complete(check: str, hint: str, planned: Sequence[tuple[str, str]] | None) -> str:
    """The hint of a failed check, with whether a run would cure it.

    `planned`: (component, item) of each change in the host's plan; None without a plan.
    """
    cure = CURES[check.partition("@")[0]]
    if planned is None:
        items = None
    else:
        items = [
            item for name, item in planned if name in cure.components or "all" in cure.components
        ]
    if items:
        more = f" and {len(items) - NAMED} more" if len(items) > NAMED else ""
        run = f"run the playbook: it repairs {', '.join(items[:NAMED])}{more}"
    elif items is None and cure.components:
        run = (
            "run the playbook again: `provision plan` shows what it will repair; where that is "
            f"nothing, {cure.otherwise}"
        )
    else:
        run = f"no run changes it, the plan has nothing for it: {cure.otherwise}"
    if RUN in hint:
        return hint.replace(RUN, run)
    if items:
        return f"{run}; {hint}" if hint else run
    return hint or run
