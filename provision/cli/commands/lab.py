"""`provision lab`: hosts in containers or virtual machines on this machine."""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from provision import home, locallab, tree, yaml_text
from provision.cli.console import err, print_json, say
from provision.cli.options import JsonOption
from provision.errors import InputError
from provision.locallab import Virtual, health
from provision.render import example

lab_app = typer.Typer(
    help="Local hosts in containers or virtual machines.",
    no_args_is_help=True,
)


class Machine(str, enum.Enum):
    """What a lab's hosts are."""

    CONTAINER = "container"
    VM = "vm"


LabName = Annotated[str, typer.Argument(metavar="NAME", help="The lab's name.")]
HOSTS = typer.Option("--hosts", metavar="N", help="How many.", min=1)
GPUS = typer.Option("--gpus", metavar="N", help="Simulated GPUs per host.", min=0, max=health.GPUS)
GPU_NAME = typer.Option("--gpu-name", metavar="NAME", help="Their model.")
GPU_MEMORY = typer.Option("--gpu-memory", metavar="MIB", help="Per GPU; by default the model's.")
DRIVER_VERSION = typer.Option(
    "--driver-version",
    metavar="VERSION",
    help="What the simulated driver says; by default the platform's.",
)
PLATFORM = typer.Option("--platform", metavar="ID", help="The hosts' system.")
MACHINE = typer.Option(
    "--machine", help="Containers start in seconds; vm: virtual machines with a kernel."
)
MEMORY = typer.Option("--memory", metavar="MIB", help="Of each virtual machine.", min=512)
SECURE_BOOT = typer.Option("--secure-boot", help="Virtual machines start with Secure Boot on.")
ENROL = typer.Option(
    "--enrol",
    metavar="FILE",
    help="A certificate that their firmware trusts for modules; may be repeated.",
)
NO_GPU = typer.Option("--no-gpu", help="Hosts without any GPU.")
GROUP = typer.Option("--group", metavar="NAME", help="The inventory's group.")
OUTPUT = typer.Option("--output", "-o", metavar="FILE", help="Write the inventory there.")
# Hidden: typer would write "<list[str]>" behind it; the text of `sicken` explains it.
SETTINGS = typer.Argument(metavar="KEY=VALUE", hidden=True)
GPU = typer.Option("--gpu", metavar="N", help="Which GPU; without it, the whole host.", min=0)
CURE = typer.Option("--cure", help="Take back first what was set before.")


def _labs_directory() -> Path:
    """`$XDG_STATE_HOME/provision/labs`: keys and known hosts of running labs."""
    return home.state_directory() / "labs"


@lab_app.command("up")
def lab_up(
    name: LabName = "lab",
    hosts: Annotated[int, HOSTS] = 2,
    gpus: Annotated[int, GPUS] = 2,
    gpu_name: Annotated[str, GPU_NAME] = "Tesla T4",
    gpu_memory: Annotated[int | None, GPU_MEMORY] = None,
    driver_version: Annotated[str | None, DRIVER_VERSION] = None,
    platform: Annotated[str, PLATFORM] = "debian11",
    machine: Annotated[Machine, MACHINE] = Machine.CONTAINER,
    memory: Annotated[int | None, MEMORY] = None,
    secure_boot: Annotated[bool, SECURE_BOOT] = False,
    enrol: Annotated[list[Path] | None, ENROL] = None,
    no_gpu: Annotated[bool, NO_GPU] = False,
    group: Annotated[str, GROUP] = example.GROUP,
    output: Annotated[Path | None, OUTPUT] = None,
) -> None:
    """Start a lab and print its inventory."""
    if machine is Machine.VM:
        _refuse(
            {"--gpu-memory": gpu_memory, "--driver-version": driver_version},
            "a virtual machine's GPU has neither memory nor a simulated driver",
            "leave out --machine vm for hosts with a simulated GPU",
        )
    lab = locallab.up(
        name,
        locallab.Shape(
            gpus=gpus,
            gpu_name=gpu_name,
            gpu_memory_mib=gpu_memory,
            driver_version=driver_version,
            platform=platform,
            with_gpu=not no_gpu,
            virtual=_virtual(machine, memory, secure_boot, enrol or []),
        ),
        state_dir=_labs_directory() / name,
        count=hosts,
        keep=True,
        progress=lambda text: err.print(text, markup=False),
    )
    data = yaml_text.dump(lab.inventory(group))
    if output is None:
        sys.stdout.write(data.decode())
    else:
        with tree.writing(output, f"the lab is up; `provision lab down {name}` ends it"):
            tree.write_file(output, data)
        err.print(f"{output}: written", markup=False)


def _virtual(
    machine: Machine, memory: int | None, secure_boot: bool, enrol: list[Path]
) -> Virtual | None:
    """The virtual machines' properties; None for containers.

    Raises InputError for an option of virtual machines with containers.
    """
    if machine is Machine.VM:
        default = Virtual()
        return Virtual(memory or default.memory_mib, default.processors, secure_boot, tuple(enrol))
    _refuse(
        {"--memory": memory, "--secure-boot": secure_boot, "--enrol": enrol},
        "a container has neither memory nor firmware of its own",
        "add --machine vm",
    )
    return None


def _refuse(options: Mapping[str, object], message: str, hint: str) -> None:
    """Raises InputError where one of these options was given."""
    given = [name for name, value in options.items() if value]
    if given:
        raise InputError(message, got=", ".join(given), hint=hint)


@lab_app.command("down")
def lab_down(name: LabName = "lab") -> None:
    """Remove a lab."""
    if locallab.down(name, progress=lambda text: err.print(text, markup=False)):
        say(f"the lab {name} is gone")
    else:
        say(f"there is no lab {name}")


@lab_app.command("sicken")
def lab_sicken(
    name: LabName,
    host: Annotated[str, typer.Argument(metavar="HOST", help="A host of it.")],
    settings: Annotated[list[str] | None, SETTINGS] = None,
    number: Annotated[int | None, GPU] = None,
    cure: Annotated[bool, CURE] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a simulated GPU sick, or healthy again, while the lab runs.

    KEY=VALUE is what it is sick with, as lost=1; KEY alone takes that back.
    docs/local-lab.md has all keys.
    """
    values: dict[str, str | None] = {}
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        values[key] = value if equals else None
    lines = locallab.sicken(name, host, values, number=number, cure=cure)
    if as_json:
        print_json(lines)
        return
    for line, value in lines.items():
        say(f"{line}={value}")
    if not lines:
        say(f"{host} is healthy")


@lab_app.command("status")
def lab_status(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One lab; by default all.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say which labs are up."""
    labs = locallab.status(name)
    if as_json:
        print_json(
            [
                {"name": lab.name, "run": lab.run, "hosts": lab.hosts, "machines": lab.machines}
                for lab in labs
            ]
        )
        return
    for lab in labs:
        for host, address in lab.hosts.items():
            say(f"{lab.name}  {host}  {address or 'not running'}  {lab.machines[host]}")
    if not labs:
        say(f"there is no lab {name}" if name else "no lab is up")
