"""The registry: every component of a GPU stack, and what of it concerns the others.

Whoever needs the components, their order or their names asks here: the look on the hosts, the
callbacks, the playbooks, and the generator (provision/registry.py). Plain data that imports
nothing, so that asking costs nothing. A new component is one row, at its place in the order.
"""


class Component:
    """One component; its name is its Ansible role's, and the tag of its tasks."""

    def __init__(
        self,
        name: str,
        title: str,
        short: str,
        *,
        spoken: str = "",
        needs: tuple = (),
        behind: tuple = (),
        locked: bool = True,
        reboots: bool = False,
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


# In the order in which they are applied: each one may need what stands before it.
COMPONENTS = (
    Component("nvidia_driver", "NVIDIA driver", "driver", spoken="the NVIDIA driver", reboots=True),
    Component("cuda", "CUDA", "CUDA", needs=("nvidia_driver",), behind=("nvidia_driver",)),
    Component("cudnn", "cuDNN", "cuDNN", behind=("nvidia_driver", "cuda")),
    Component("gpu_env", "Environment", "env", spoken="the environment"),
    Component(
        "nvidia_container_toolkit",
        "Container toolkit",
        "toolkit",
        spoken="the container toolkit",
        needs=("nvidia_driver",),
    ),
    # Not behind the driver: its venv needs packages, and apt is put in order there.
    Component(
        "tensorflow",
        "TensorFlow",
        "TF",
        needs=("nvidia_driver", "cuda", "cudnn"),
        behind=("cuda", "cudnn"),
    ),
    Component("gpu_workspace", "Workspaces", "people", spoken="the workspaces", locked=False),
    Component("gpu_front_door", "Front door", "door", spoken="the front door", locked=False),
)

NAMES = tuple(component.name for component in COMPONENTS)
SPOKEN = {component.name: component.spoken for component in COMPONENTS}
# {component: what it does not work without}
NEEDS = {component.name: component.needs for component in COMPONENTS if component.needs}


def run_steps(components: tuple = COMPONENTS) -> list:
    """The steps that bring a host to its lock, in their order; a run does those its plan names.

    Each is {"component", "role", "tasks_from"}: the tasks of a role, done for a component.
    "begin" starts a component's long work beside what follows, and has "behind": it is worth it
    where the run does one of these. gpu_state's "hold" takes hold of the host again after the
    component before it may have rebooted it.
    """
    steps = []
    for component in components:
        steps += [
            {
                "component": other.name,
                "role": other.name,
                "tasks_from": "begin",
                "behind": list(other.behind),
            }
            for other in components
            if component.name in other.behind[:1]
        ]
        steps.append({"component": component.name, "role": component.name, "tasks_from": "main"})
        if component.reboots:
            steps.append({"component": component.name, "role": "gpu_state", "tasks_from": "hold"})
    return steps
