"""The registry: every component of a GPU stack, and what of it concerns the others.

Whoever needs the components, their order or their names asks here: the look on the hosts, the
callbacks, the playbooks, and the generator (provision/registry.py). Plain data that imports
nothing, so that asking costs nothing. A new component is one row, at its place in the order.
"""

from __future__ import annotations

# Seconds for one task of a step. A task that hangs (dpkg on a dead disk, a server that drips) holds
# up all other hosts for so long. What fetches, installs or compiles gets as long as a slow line and
# an old processor take; what only writes some files does not.
LONG_TASK = 7200
REMOVAL_TASK = 3600
SHORT_TASK = 900
# What a run that was cut off still finishes is waited for, and that at most 930 s.
HOLD_TASK = 1200


class Component:
    """One component; its name is its Ansible role's, and the tag of its tasks."""

    def __init__(
        self,
        name: str,
        title: str,
        short: str,
        *,
        spoken: str = "",
        needs: tuple[str, ...] = (),
        behind: tuple[str, ...] = (),
        locked: bool = True,
        reboots: bool = False,
        beside: bool = False,
        packages: bool = False,
        state: bool = True,
        doctor: int = 0,
        repositories: bool = False,
        rules: tuple[str, ...] = ("rules",),
        seconds: int = LONG_TASK,
    ) -> None:
        self.name = name
        # As a heading, where a column is narrow, and within a sentence.
        self.title = title
        self.short = short
        self.spoken = spoken or title
        # What it does not work without.
        self.needs = needs
        # Those whose steps its long work (tasks/begin.yml) can run beside, the first of them first.
        self.behind = behind
        # False: no lock has a part for it; the inventory alone says what it is to be.
        self.locked = locked
        # Its role may reboot the host, which drops the hold that a run has on it.
        self.reboots = reboots
        # A host can have several of it, one of them current.
        self.beside = beside
        # Its role installs exact packages with apt; its folder has `packages(row, context)`.
        self.packages = packages
        # Its role has an option <name>_state, which can be absent; its folder has removal.py.
        self.state = state
        # Its folder has cases for the doctor, in doctor.py; this is their place in its report.
        self.doctor = doctor
        # Its role names repositories to apt; repositories.py of its folder says which.
        self.repositories = repositories
        # The modules of its folder that have preflight rules.
        self.rules = rules
        # The most that one task of its role takes on a host that does not hang.
        self.seconds = seconds


# In the order in which they are applied: each one may need what stands before it.
COMPONENTS = (
    Component(
        "nvidia_driver",
        "NVIDIA driver",
        "driver",
        spoken="the NVIDIA driver",
        reboots=True,
        packages=True,
        doctor=10,
        rules=("rules", "kernel_rules", "method_rules"),
    ),
    Component(
        "cuda",
        "CUDA",
        "CUDA",
        needs=("nvidia_driver",),
        behind=("nvidia_driver",),
        packages=True,
        doctor=30,
        repositories=True,
    ),
    Component("cudnn", "cuDNN", "cuDNN", behind=("nvidia_driver", "cuda")),
    Component("gpu_env", "Environment", "env", spoken="the environment", seconds=SHORT_TASK),
    Component(
        "nvidia_container_toolkit",
        "Container toolkit",
        "toolkit",
        spoken="the container toolkit",
        needs=("nvidia_driver",),
        packages=True,
        doctor=50,
        repositories=True,
    ),
    # Not behind the driver: its venv needs packages, and apt is put in order there.
    Component(
        "tensorflow",
        "TensorFlow",
        "TF",
        needs=("nvidia_driver", "cuda", "cudnn"),
        behind=("cuda", "cudnn"),
        beside=True,
        doctor=40,
        rules=("rules", "venv_use"),
    ),
    Component(
        "gpu_workspace",
        "Workspaces",
        "people",
        spoken="the workspaces",
        locked=False,
        state=False,
    ),
    Component(
        "gpu_front_door",
        "Front door",
        "door",
        spoken="the front door",
        locked=False,
        state=False,
    ),
    # Behind the door, which leads to the models by files of theirs.
    Component(
        "gpu_serving",
        "Served models",
        "models",
        spoken="the served models",
        locked=False,
        state=False,
        doctor=60,
    ),
    # Absent by default, so that its own differ takes it away: to ask for its removal costs a host.
    Component("slurm", "Slurm", "slurm", locked=False, state=False, doctor=60),
)

NAMES = tuple(component.name for component in COMPONENTS)
SPOKEN = {component.name: component.spoken for component in COMPONENTS}
# The components that have a part in a lock.
LOCKED = tuple(component.name for component in COMPONENTS if component.locked)
# Those that a host's plan takes away by <name>_state: absent, as removal.py has it.
REMOVED_BY_STATE = tuple(component.name for component in COMPONENTS if component.state)
# The one that a host can have several of.
(BESIDE,) = (component.name for component in COMPONENTS if component.beside)
# {component: what it does not work without}
NEEDS = {component.name: component.needs for component in COMPONENTS if component.needs}


class Step(dict):  # type: ignore[type-arg]  # Python 3.7 has no dict[str, object] here
    """One step of a run: the tasks of a role, done for a component. Plain data for Ansible.

    kind: "remove" takes the component away; "begin" starts its long work beside what follows;
          "bring" brings it to its lock, "beside" those beside the current one; "hold" takes hold
          of the host again after a reboot.
    seconds: for one task of it, where `gpu_step_timeout` says nothing else.
    """

    def __init__(
        self, component: str, kind: str, title: str, role: str, tasks_from: str, seconds: int
    ) -> None:
        super().__init__(
            name=f"{component}:{kind}",
            title=title,
            component=component,
            kind=kind,
            role=role,
            tasks_from=tasks_from,
            seconds=min(seconds, {"remove": REMOVAL_TASK, "hold": HOLD_TASK}.get(kind, seconds)),
        )


def run_steps(components: tuple[Component, ...] = COMPONENTS) -> list[Step]:
    """All steps there are, in their order; a host does those that `planned_steps` names.

    Removals come first, each component before those that it needs.
    """
    steps = [
        Step(
            component.name,
            "remove",
            f"Take {component.name} away",
            component.name,
            "main",
            component.seconds,
        )
        for component in reversed(components)
        if component.state
    ]
    for component in components:
        name, seconds = component.name, component.seconds
        for follower in components:
            if name in follower.behind[:1]:
                title = f"Begin {follower.name} behind the others"
                steps.append(
                    Step(follower.name, "begin", title, follower.name, "begin", follower.seconds)
                )
        steps.append(Step(name, "bring", f"Bring {name} to its lock", name, "main", seconds))
        if component.beside:
            title = f"Bring {name} beside it"
            steps.append(Step(name, "beside", title, "gpu_state", "beside", seconds))
        if component.reboots:
            title = "Hold the host again after a reboot"
            steps.append(Step(name, "hold", title, "gpu_state", "hold", seconds))
    return steps


def planned_steps(
    changed: list[str],
    absent: list[str],
    options: dict[str, object],
    components: tuple[Component, ...] = COMPONENTS,
) -> list[str]:
    """Names of the steps that bring a host to its lock, in their order.

    changed: components with something to do. absent: components that are to be absent.
    """
    behind = {component.name: set(component.behind) for component in components}
    return [
        step["name"]
        for step in run_steps(components)
        if step["component"] in changed
        and (step["kind"] == "remove") == (step["component"] in absent)
        # Without others to run beside, nothing is gained.
        and (step["kind"] != "begin" or behind[step["component"]] & set(changed))
        and (step["kind"] != "hold" or options.get(step["component"] + "_reboot"))
    ]
