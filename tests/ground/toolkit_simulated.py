"""The programs of the container toolkit's stand-ins: they hand over a host's simulated GPU.

What NVIDIA's programs do with a driver is done here with the two libraries and the text that a
local lab's GPU is made of (docs/local-lab.md), by the same ways: a prestart hook of docker's that
mounts into a container which does not run yet, a runtime that adds this hook, and a CDI
specification with hooks of its own that podman reads for itself. The driver's real libraries and
nvidia-smi go along, as they are on the host. No work can be run on what arrives: it is simulated.

Runs on hosts, as `python3 FILE PROGRAM VERSION ARGUMENTS...`. Standard library, Python 3.7.
"""

from __future__ import annotations

import glob
import json
import os
import re
import subprocess
import sys
from typing import Any, NoReturn

LOG = "/run/nvidia-container-stand-in.log"
SIMULATED = "/etc/gpu-simulated"
SONAMES = ("libcuda.so.1", "libnvidia-ml.so.1")
PROGRAMS = ("nvidia-smi", "nvidia-debugdump")
SPECIFICATIONS = ("/etc/cdi", "/var/run/cdi")
KIND = "nvidia.com/gpu"
LOADER = "/etc/ld.so.conf.d/00-nvcr-stand-in.conf"
HOOK = "/usr/bin/nvidia-container-runtime-hook"
FLAG = "no-additional-gids-for-device-nodes"


def fail(message: str) -> NoReturn:
    """End as NVIDIA's programs do."""
    sys.stderr.write(f"{message}\n")
    sys.exit(1)


def read(path: str) -> str:
    """A file's text."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path: str, text: str) -> None:
    """A whole file or none, in a directory that is made."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path + ".new", 0o644)
    os.replace(path + ".new", path)


# what the host has


def simulated() -> tuple[list[str], list[str], str]:
    """(lines of the simulated GPU's text without those below, its UUIDs, the driver's version)."""
    try:
        lines = read(SIMULATED).splitlines()
    except OSError:
        fail("failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND (a stand-in: no simulated GPU)")
    pairs = dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
    rest = [line for line in lines if line.split("=")[0] not in ("count", "uuids", "processes")]
    return rest, [uuid for uuid in pairs["uuids"].split(",") if uuid], pairs["driver_version"]


def text_for(uuids: list[str]) -> str:
    """The simulated GPU's text with these GPUs alone, in the host's order."""
    rest, known, _ = simulated()
    kept = [uuid for uuid in known if uuid in uuids]
    return "\n".join([*rest, f"count={len(kept)}", "uuids=" + ",".join(kept)]) + "\n"


def chosen(words: list[str]) -> list[str]:
    """UUIDs of what was asked for: all, indices or UUIDs."""
    known = simulated()[1]
    found = []
    for word in words:
        if word == "all":
            found += known
        elif word.isdigit() and int(word) < len(known):
            found.append(known[int(word)])
        elif word in known:
            found.append(word)
        else:
            fail(f"nvidia-container-cli: device error: {word}: unknown device")
    return found


def libraries() -> list[str]:
    """What the loader finds of the driver: the simulated libraries first, then its own."""
    listed = subprocess.run(["ldconfig", "-p"], stdout=subprocess.PIPE, check=True).stdout.decode()
    version = simulated()[2]
    first: dict[str, str] = {}
    rest = set()
    for line in listed.splitlines():
        name, _, path = line.strip().partition(" => ")
        if "x86-64" not in name or not path:
            continue
        first.setdefault(name.split(" ")[0], path)
        if os.path.realpath(path).endswith(".so." + version):
            rest.add(os.path.realpath(path))
    found = [first[soname] for soname in SONAMES if first.get(soname)]
    if len(found) < len(SONAMES):
        fail("failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND")
    return found + sorted(rest - set(found))


def mounts() -> list[tuple[str, str]]:
    """[(path on the host, path in the container)] of what every container gets."""
    found = [(library, library) for library in libraries()]
    for name in PROGRAMS:
        path = "/usr/bin/" + name
        if os.path.exists(path):
            found.append((os.path.realpath(path), path))
    return found


def folders() -> list[str]:
    """The directories of the libraries, the simulated one first."""
    return list(dict.fromkeys(os.path.dirname(library) for library in libraries()))


# what a container gets


def loader(root: str, directories: list[str]) -> None:
    """Make a container's loader look into these directories before others."""
    write(root + LOADER, "".join(directory + "\n" for directory in directories))
    main = root + "/etc/ld.so.conf"
    if not os.path.exists(main):
        write(main, "include /etc/ld.so.conf.d/*.conf\n")
    subprocess.run(["ldconfig", "-r", root], check=True)


def label(root: str, uuids: list[str]) -> None:
    """Lay the text of these GPUs into the container, beside those that came before."""
    path = root + SIMULATED
    had = re.findall(r"GPU-[0-9a-f-]+", read(path)) if os.path.exists(path) else []
    write(path, text_for([*had, *uuids]))


def state() -> tuple[dict[str, Any], str, Any]:
    """(configuration of the container, its root, its process), from a runtime's standard input."""
    container = json.load(sys.stdin)
    with open(os.path.join(container["bundle"], "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    return config, os.path.join(container["bundle"], config["root"]["path"]), container.get("pid")


def visible(config: dict[str, Any]) -> list[str] | None:
    """The devices that a container's environment asks for; None where it asks for none."""
    variables = dict(entry.split("=", 1) for entry in config["process"]["env"] if "=" in entry)
    words = variables.get("NVIDIA_VISIBLE_DEVICES", "")
    return None if words in ("", "void", "none") else words.split(",")


def prestart() -> None:
    """docker's hook: mount what was asked for into the container that does not run yet."""
    config, root, pid = state()
    words = visible(config)
    if words is None:
        return
    uuids = chosen(words)
    inside = ["nsenter", "--target", str(pid), "--mount", "--"]
    for source, target in mounts():
        place = root + target
        os.makedirs(os.path.dirname(place), exist_ok=True)
        open(place, "a", encoding="utf-8").close()
        subprocess.run([*inside, "mount", "--bind", source, place], check=True)
    label(root, uuids)
    # In the container's own view of the file system, for the libraries are mounted there alone.
    again = [sys.executable, os.path.abspath(__file__), "nvidia-cdi-hook", "-", "update-ldcache"]
    for folder in folders():
        again += ["--folder", folder]
    subprocess.run([*inside, *again, "--root", root], check=True)


def runtime(arguments: list[str]) -> None:
    """nvidia-container-runtime: add the hook where GPUs are asked for, then be runc."""
    bundle = None
    for number, word in enumerate(arguments):
        if word in ("--bundle", "-b"):
            bundle = arguments[number + 1]
        elif word.startswith("--bundle="):
            bundle = word.split("=", 1)[1]
    if "create" in arguments and bundle is not None:
        path = os.path.join(bundle, "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        hooks = config.setdefault("hooks", {}).setdefault("prestart", [])
        if visible(config) is not None and not any(hook["path"] == HOOK for hook in hooks):
            hooks.append({"path": HOOK, "args": [os.path.basename(HOOK), "prestart"]})
            write(path, json.dumps(config))
    os.execvp("runc", ["runc", *arguments])  # noqa: S606 - it takes its place


def values(arguments: list[str], name: str) -> list[str]:
    """What follows a flag of this name, each time, as two words or one."""
    found = []
    for number, word in enumerate(arguments):
        if word == name and number + 1 < len(arguments):
            found.append(arguments[number + 1])
        elif word.startswith(name + "="):
            found.append(word.split("=", 1)[1])
    return found


def cdi_hook(arguments: list[str]) -> None:
    """nvidia-cdi-hook: what a specification has done in a container's root."""
    given = values(arguments, "--root")
    root = given[0] if given else state()[1]
    if arguments[:1] == ["update-ldcache"]:
        loader(root, values(arguments, "--folder"))
    elif arguments[:1] == ["simulated-gpu"]:
        label(root, chosen(values(arguments, "--device")))
    else:
        fail("nvidia-cdi-hook: unknown command {}".format(" ".join(arguments)))


# the CDI specification


def hook(arguments: list[str], indent: str) -> list[str]:
    """Lines of a createContainer hook."""
    lines = ["- hookName: createContainer", "  path: /usr/bin/nvidia-cdi-hook", "  args:"]
    lines += ["  - " + json.dumps(word) for word in ["nvidia-cdi-hook", *arguments]]
    return [indent + line for line in lines]


def device(name: str, groups: bool) -> list[str]:
    """Lines of one device."""
    found = [f"- name: {json.dumps(name)}", "  containerEdits:"]
    if groups:
        found += ["    additionalGids:", "    - 44"]
    return [*found, "    hooks:", *hook(["simulated-gpu", "--device", name], "    ")]


def specification(version: tuple[int, ...], flags: list[str]) -> str:
    """The text, as of this version of the toolkit: from 1.19.1 on it is of CDI 0.7.0."""
    groups = version >= (1, 19, 1) and FLAG not in flags
    lines = [
        "# A stand-in of a test's: what is handed over is a simulated GPU.",
        "cdiVersion: {}".format("0.7.0" if groups else "0.5.0"),
        "kind: " + KIND,
        "devices:",
    ]
    uuids = simulated()[1]
    for name in [*map(str, range(len(uuids))), *uuids, "all"]:
        lines += device(name, groups)
    lines += ["containerEdits:", "  env:", "  - NVIDIA_VISIBLE_DEVICES=void", "  hooks:"]
    directories = [word for folder in folders() for word in ("--folder", folder)]
    lines += hook(["update-ldcache", *directories], "  ")
    lines.append("  mounts:")
    for source, target in mounts():
        lines += ["  - hostPath: " + source, "    containerPath: " + target]
        lines += ["    options:", *("    - " + name for name in ("ro", "nosuid", "nodev", "bind"))]
    return "\n".join(lines) + "\n"


def generate(version: tuple[int, ...], arguments: list[str]) -> None:
    """nvidia-ctk cdi generate."""
    flags = values(arguments, "--feature-flag")
    if flags and version < (1, 18):
        fail("Incorrect Usage: flag provided but not defined: -feature-flag")
    flags += os.environ.get("NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS", "").split(",")
    output = os.environ.get("NVIDIA_CTK_CDI_OUTPUT_FILE_PATH", "")
    place = (values(arguments, "--output") or [output])[0]
    text = specification(version, flags)
    if place:
        write(place, text)
    else:
        sys.stdout.write(text)


def listed() -> None:
    """nvidia-ctk cdi list: the devices of all specifications, whatever their version."""
    found: set[str] = set()
    for folder in SPECIFICATIONS:
        for path in glob.glob(folder + "/*.yaml"):
            text = read(path)
            kind = re.search(r"(?m)^kind: *[\"']?([^\"'\s]+)", text)
            names = re.findall(r"(?m)^ *- name: *[\"']?([^\"'\s]+)", text)
            found |= {f"{kind.group(1)}={name}" for name in names if kind}
    sys.stderr.write(f"INFO[0000] Found {len(found)} CDI devices\n")
    sys.stdout.write("".join(line + "\n" for line in sorted(found)))


def main(program: str, version: str, arguments: list[str]) -> None:
    """The program of this name."""
    # What a runtime starts has no PATH.
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    number = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if program == "nvidia-container-runtime":
        runtime(arguments)
    elif program == "nvidia-container-runtime-hook":
        if arguments[-1:] == ["prestart"]:
            prestart()
    elif program == "nvidia-cdi-hook":
        cdi_hook(arguments)
    elif program == "nvidia-ctk":
        words = [argument for argument in arguments if not argument.startswith("-")]
        if "--version" in arguments:
            sys.stdout.write(f"NVIDIA Container Toolkit CLI version {version}\n")
        elif words[:2] == ["cdi", "generate"]:
            generate(number, arguments)
        elif words[:2] == ["cdi", "list"]:
            listed()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
