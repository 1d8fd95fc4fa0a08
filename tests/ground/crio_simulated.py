"""A stand-in for CRI-O's `crio`, for hosts whose archive has none (no suite of Debian's has one).

What the role needs of CRI-O is done for real: crio.conf and every file below crio.conf.d are merged
as TOML, in CRI-O's order and with its defaults, and checked as it checks them; `crio config` prints
the result in CRI-O's form, with what is a default commented out. The daemon leaves out a runtime
whose program is gone, does not start without a monitor, shows after SIGHUP what it does not use
(https://github.com/cri-o/cri-o/issues/10202), and has each container watched by the real conmon,
which the real runc starts. Of CRI, images and networks it has nothing: `crio stand-in run` takes a
root file system that is there.

On hosts: crio [--config FILE] [--config-dir DIRECTORY] [config], crio status config,
crio stand-in run NAME HANDLER VISIBLE COMMAND... | exec NAME COMMAND... | rm NAME.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import Any, NoReturn

import tomllib  # type: ignore[import-not-found,unused-ignore]

CONFIG = "/etc/crio/crio.conf"
PLACE = "/etc/crio/crio.conf.d"
SOCKET = "/run/crio/crio.sock"
PODS = "/run/crio/pods"
ROOT = "/root/tiny"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Of CRI-O 1.30: pkg/config/config.go, defaultRuntimeHandler.
CRUN = {
    "runtime_root": "/run/crun",
    "runtime_type": "oci",
    "monitor_cgroup": "system.slice",
    "monitor_env": [PATH],
    "container_min_memory": "12MiB",
    "allowed_annotations": ["io.containers.trace-syscall", "io.kubernetes.cri-o.Devices"],
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "crio": {"root": "/var/lib/containers/storage", "runroot": "/run/containers/storage"},
    "crio.runtime": {"default_runtime": "crun", "conmon": "", "log_level": "info", "timezone": ""},
    "crio.image": {"pause_image": "registry.k8s.io/pause:3.9", "insecure_registries": []},
}
WORDS = ("runtime_path", "runtime_type", "runtime_root", "runtime_config_path")
MORE = ("container_min_memory", "monitor_path", "monitor_cgroup", "monitor_exec_cgroup")
EXPLAINED = """\
# The "crio.runtime.runtimes" table defines a list of OCI compatible runtimes.
# Each entry in the table should follow the format:
#
# [crio.runtime.runtimes.runtime-handler]
# runtime_path = "/path/to/the/executable"
# runtime_type = "oci"
# monitor_env = []
# Where:
# - runtime_path (optional, string): Absolute path to the runtime executable in
#   the host filesystem.
"""
WORKLOADS = """\
# The workloads table defines ways to customize containers with different resources
# Example:
# [crio.runtime.workloads.workload-type]
# activation_annotation = "io.crio/workload"
"""


def fail(message: str) -> NoReturn:
    """End as CRI-O does."""
    sys.stderr.write(f"level=fatal msg={json.dumps(message)}\n")
    sys.exit(1)


# the configuration


def walked(place: str) -> list[str]:
    """The files of a directory in Go's order: each directory's names, those below in their turn."""
    found = []
    for name in sorted(os.listdir(place)):
        path = os.path.join(place, name)
        found += walked(path) if os.path.isdir(path) else [path]
    return found


def merged(config: str | None, place: str) -> dict[str, Any]:
    """{"tables", "runtimes"} of all files, the later before the earlier."""
    made: dict[str, Any] = {"tables": copy.deepcopy(DEFAULTS), "runtimes": {"crun": dict(CRUN)}}
    if config is None and os.path.exists(CONFIG):
        config = CONFIG
    for path in ([config] if config else []) + (walked(place) if os.path.isdir(place) else []):
        try:
            with open(path, encoding="utf-8") as file:
                configuration = tomllib.loads(file.read())
        except FileNotFoundError as error:
            fail(f"update config from file: {error}")
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            fail(f"update config from path: unable to decode configuration {path}: toml: {error}")
        crio = configuration.get("crio", {})
        for table in made["tables"]:
            mine = crio if table == "crio" else crio.get(table.split(".")[1], {})
            made["tables"][table].update(
                {key: value for key, value in mine.items() if not isinstance(value, dict)}
            )
        made["runtimes"].update(crio.get("runtime", {}).get("runtimes", {}))
    name = made["tables"]["crio.runtime"]["default_runtime"]
    if name not in made["runtimes"]:
        fail(
            f'default_runtime set to "{name}", but no runtime entry table '
            f"[crio.runtime.runtimes.{name}] was found"
        )
    return made


def pair(sign: str, key: str, value: Any) -> str:
    """A line of the printed configuration; a list has a line for each value."""
    if isinstance(value, list):
        rest = "".join(f"{sign}\t{json.dumps(entry)},\n" for entry in value)
        return f"{sign}{key} = [\n{rest}{sign}]\n"
    return f"{sign}{key} = {json.dumps(value)}\n"


def printed(made: dict[str, Any], *, whole: bool = False) -> str:
    """CRI-O's template: what is a default is commented out, unless the daemon tells it."""
    out = "# The CRI-O configuration file specifies all of the available configuration options.\n"
    for table, values in made["tables"].items():
        out += f"\n[{table}]\n\n"
        for key, value in values.items():
            if key == "timezone":
                continue
            default = value == DEFAULTS[table].get(key) and not whole
            out += f"# About {key}.\n" + pair("# " if default else "", key, value) + "\n"
        if table == "crio.runtime":
            sign = "# " if made["runtimes"] == {"crun": CRUN} and not whole else ""
            out += EXPLAINED + "\n"
            for name in sorted(made["runtimes"]):
                out += handler(sign, name, made["runtimes"][name])
            out += "\n" + WORKLOADS + "\n# About timezone.\n"
            out += pair("" if values["timezone"] or whole else "# ", "timezone", values["timezone"])
    return out


def handler(sign: str, name: str, runtime: dict[str, Any]) -> str:
    """A runtime's table."""
    out = f"\n{sign}[crio.runtime.runtimes.{name}]\n"
    for key in (*WORDS, *MORE):
        out += pair(sign, key, runtime.get(key, ""))
    out += (
        pair(sign, "monitor_env", runtime["monitor_env"])
        if runtime.get("monitor_env")
        else sign + "\n"
    )
    annotations = runtime.get("allowed_annotations")
    out += pair(sign, "allowed_annotations", annotations) if annotations else "\n"
    value = runtime.get("privileged_without_host_devices", False)
    return out + pair(sign, "privileged_without_host_devices", value) + "\n\n"


def proven(made: dict[str, Any]) -> dict[str, Any]:
    """The runtimes that a daemon starts with."""
    kept: dict[str, Any] = {}
    for name, runtime in made["runtimes"].items():
        path = runtime.get("runtime_path") or shutil.which(name)
        if not path or not os.path.exists(path):
            message = f'invalid runtime_path for runtime "{name}": stat {path}: no such file'
            if name == made["tables"]["crio.runtime"]["default_runtime"]:
                fail(message)
            sys.stderr.write(f'Runtime handler "{name}" is being ignored due to: {message}\n')
            continue
        monitor = made["tables"]["crio.runtime"]["conmon"] or runtime.get("monitor_path")
        monitor = monitor or shutil.which("conmon")
        if not monitor or not os.path.exists(monitor):
            fail(
                f"failed to translate monitor fields for runtime {name}: "
                'exec: "conmon": executable file not found in $PATH'
            )
        kept[name] = {**runtime, "runtime_path": path, "monitor_path": monitor}
    return kept


# the daemon


def ready() -> None:
    """Tell systemd."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if place:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaker:
            speaker.sendto(b"READY=1", place.replace("@", "\0", 1))


def serve(config: str | None, place: str) -> None:
    """Answer until the end."""
    shown = merged(config, place)
    held = proven(shown)
    shown["runtimes"] = held
    os.makedirs(os.path.dirname(SOCKET), exist_ok=True)
    if os.path.lexists(SOCKET):
        os.unlink(SOCKET)

    def reload(_signal: int, _frame: Any) -> None:
        new = merged(config, place)
        shown.update(tables=new["tables"], runtimes=proven(new))

    signal.signal(signal.SIGHUP, reload)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(SOCKET)
        listener.listen()
        ready()
        while True:
            caller, _ = listener.accept()
            with caller, caller.makefile("rw", encoding="utf-8") as line:
                asked = json.loads(line.readline())
                if asked == ["config"]:
                    answer = [0, printed(shown, whole=True)]
                else:
                    answer = run(held, shown["tables"], *asked)
                line.write(json.dumps(answer) + "\n")


def run(
    held: dict[str, Any], tables: dict[str, Any], name: str, wish: str, visible: str, *command: str
) -> list[Any]:
    """[0, ""] once a container of this handler runs; else [1, why not]."""
    wish = tables["crio.runtime"]["default_runtime"] if wish == "-" else wish
    if wish not in held:
        return [1, f"failed to find runtime handler {wish} from runtime list map{sorted(held)}"]
    held_runtime = held[wish]
    bundle, root = os.path.join(PODS, name), held_runtime.get("runtime_root") or f"/run/{wish}"
    os.makedirs(bundle)
    subprocess.run(["/usr/sbin/runc", "spec", "--bundle", bundle], check=True)
    path = os.path.join(bundle, "config.json")
    with open(path, encoding="utf-8") as file:
        spec = json.load(file)
    spec["root"] = {"path": os.path.join(bundle, "rootfs"), "readonly": False}
    shutil.copytree(ROOT, spec["root"]["path"], symlinks=True)
    spec["process"].update(terminal=False, args=list(command))
    spec["process"]["env"] += [f"NVIDIA_VISIBLE_DEVICES={visible}"]
    spec["linux"]["namespaces"] = [
        entry for entry in spec["linux"]["namespaces"] if entry["type"] != "network"
    ]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(spec, file)
    pid = os.path.join(bundle, "pid")
    monitor = [
        *(held_runtime["monitor_path"], "-b", bundle, "-c", name, "-n", "k8s_" + name, "-u", name),
        *("-r", held_runtime["runtime_path"], "--runtime-arg", "--root=" + root, "-p", pid),
        *("-l", "k8s-file:" + os.path.join(bundle, "log"), "--exit-dir", bundle),
        *("--socket-dir-path", "/run/crio", "--api-version", "1"),
    ]
    if held_runtime.get("monitor_cgroup"):
        scope = ["/usr/bin/systemd-run", "--scope", "--quiet", "--collect"]
        scope += ["--slice", held_runtime["monitor_cgroup"], "--unit", f"crio-conmon-{name}.scope"]
        monitor = scope + monitor
    variables = dict(word.split("=", 1) for word in held_runtime.get("monitor_env") or [PATH])
    done = subprocess.run(
        monitor,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    for _ in range(100):
        if os.path.exists(pid) or done.returncode:
            break
        time.sleep(0.1)
    runtime = [held_runtime["runtime_path"], "--root", root]
    with open(os.path.join(bundle, "runtime"), "w", encoding="utf-8") as file:
        json.dump(runtime, file)
    again = subprocess.run(
        [*runtime, "start", name], env=variables, capture_output=True, text=True, check=False
    )
    return [again.returncode, again.stderr + done.stderr if again.returncode else ""]


def ask(*words: str) -> tuple[int, str]:
    """What the daemon answers."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(SOCKET)
        with caller.makefile("rw", encoding="utf-8") as line:
            line.write(json.dumps(words) + "\n")
            line.flush()
            code, text = json.loads(line.readline())
    return code, text


def within(name: str, *arguments: str) -> int:
    """A container's runtime, asked for something; its exit code."""
    with open(os.path.join(PODS, name, "runtime"), encoding="utf-8") as file:
        return subprocess.run([*json.load(file), *arguments], check=False).returncode


def main(arguments: list[str]) -> int:
    """The program."""
    given = {"--config": None, "--config-dir": PLACE}
    while arguments and arguments[0] in given:
        given[arguments[0]], arguments = arguments[1], arguments[2:]
    config, place = given["--config"], str(given["--config-dir"])
    if not arguments:
        serve(config, place)
    elif arguments == ["config"]:
        sys.stdout.write(printed(merged(config, place)))
    elif arguments == ["status", "config"] or arguments[:2] == ["stand-in", "run"]:
        try:
            code, text = ask(*arguments[1 if arguments[0] == "status" else 2 :])
        except OSError as error:
            fail(f"dial unix {SOCKET}: {error}")
        (sys.stderr if code else sys.stdout).write(text)
        return code
    elif arguments[:2] == ["stand-in", "exec"]:
        return within(arguments[2], "exec", *arguments[2:])
    elif arguments[:2] == ["stand-in", "rm"]:
        code = within(arguments[2], "delete", "--force", arguments[2])
        shutil.rmtree(os.path.join(PODS, arguments[2]))
        return code
    else:
        fail(f"No help topic for '{arguments[0]}'")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
