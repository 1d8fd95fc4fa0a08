"""The same state as a pyinfra deploy. The data comes as JSON from the file BENCH_STATE names."""

import base64
import io
import json
import os
from pathlib import Path

from pyinfra import host
from pyinfra.facts.server import Command
from pyinfra.operations import apt, files, pip, server

state = json.loads(Path(os.environ["BENCH_STATE"]).read_text(encoding="utf-8"))

apt.packages(
    name="Packages at their versions",
    packages=[f"{name}={version}" for name, version in state["packages"].items()],
    no_recommends=True,
)

held = set(host.get_fact(Command, command="apt-mark showhold").split())
if set(state["packages"]) - held:
    server.shell(name="Packages held", commands=["apt-mark hold " + " ".join(state["packages"])])

for path, file in state["files"].items():
    files.put(
        name=f"File {path}",
        src=io.BytesIO(base64.b64decode(file["content"])),
        dest=path,
        user="root",
        group="root",
        mode=file["mode"],
    )

for path, target in state["links"].items():
    files.link(name=f"Link {path}", path=path, target=target)

# One fact for the whole directory, not one per file.
listing = host.get_fact(
    Command,
    command=f"find {state['cudnn']} "
    "-type l -printf '%P -> %l\\n' -o -type f -printf '%P %s %04m\\n'",
)
expected = {
    f"{path} -> {entry['link']}" if "link" in entry else f"{path} {entry['size']} {entry['mode']}"
    for path, entry in state["cudnn_files"].items()
}
if set(listing.splitlines()) != expected:
    server.shell(name="cuDNN differs", commands=["false"])

loader = host.get_fact(Command, command="/sbin/ldconfig -p")
cached = {line.split()[0] for line in loader.splitlines() if "x86-64" in line}
if set(state["sonames"]) - cached:
    server.shell(name="The loader's cache differs", commands=["/sbin/ldconfig"])

for path in state["libraries"]:
    files.file(name=f"The compiler's {path}", path=path)

pip.packages(
    name="The wheels of the venv",
    packages=[f"{name}=={version}" for name, version in state["wheels"].items()],
    virtualenv=state["venv"],
)
