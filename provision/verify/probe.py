"""Looks at what a host's GPU stack does, in one round trip, as an ordinary user; prints JSON.

It is piped to the host's own python3 (`python3 - PARAMETERS < probe.py`). One program instead of
a command per check: over SSH every command costs a connection's round trip, and importing
TensorFlow costs seconds, so twenty checks as twenty commands would take a minute per host.
It judges nothing: judging is done in `checks/`, which can then be tested on recorded outputs.

Standard library and Python 3.7 syntax only; runs no sudo, changes nothing, uses no GPU memory.
PARAMETERS is JSON: {"row": the lock's stack, "options": {"cudnn_root", "tensorflow_root", ...}}.
"""

from __future__ import annotations

import glob
import json
import os
import platform
import pwd
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

# Importing TensorFlow from a cold disk can take minutes; a hang must not hold the run for ever.
TENSORFLOW_TIMEOUT = 600
COMMAND_TIMEOUT = 60
# A lab host whose GPU is simulated has this file.
SIMULATED = "/etc/gpu-simulated"
OUTPUT_LIMIT = 20000

# Asks the loader itself which file it took: dlinfo(RTLD_DI_LINKMAP). The file's name alone would
# not do, because libcupti.so.11.2 is the soname of a file called libcupti.so.2020.3.1.
LOADER = r"""
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
class LinkMap(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]
found = ctypes.POINTER(LinkMap)()
for name in (None, "libdl.so.2"):
    try:
        ask = ctypes.CDLL(name).dlinfo
    except (AttributeError, OSError):
        continue
    ask.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    if ask(library._handle, 2, ctypes.byref(found)) == 0:
        # At once: asked for its version, a cuDNN that lacks a library of CUDA's aborts.
        print("path", found.contents.name.decode(), flush=True)
        break
if len(sys.argv) > 2:
    function = getattr(library, sys.argv[2])
    function.restype = ctypes.c_size_t
    print("answer", function())
"""

TENSORFLOW_GPUS = r"""
import json, sys
out = {"python": "%d.%d.%d" % sys.version_info[:3]}
try:
    import tensorflow as tf
    out["version"] = tf.__version__
    out["built_with_cuda"] = tf.test.is_built_with_cuda()
    info = tf.sysconfig.get_build_info()
    out["build"] = {key: str(info[key]) for key in ("cuda_version", "cudnn_version") if key in info}
    out["gpus"] = [device.name for device in tf.config.list_physical_devices("GPU")]
except BaseException as error:
    out["error"] = "%s: %s" % (type(error).__name__, error)
    import traceback
    traceback.print_exc()
print("PROVISION " + json.dumps(out))
"""

TENSORFLOW_TRAINS = r"""
import json
out = {}
try:
    import numpy as np
    import tensorflow as tf
    tf.random.set_seed(1)
    x = np.linspace(-1, 1, 256, dtype="float32").reshape(-1, 1)
    y = 3 * x + 0.5
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")
    history = model.fit(x, y, batch_size=32, epochs=8, verbose=0).history["loss"]
    out["first"], out["last"] = float(history[0]), float(history[-1])
except BaseException as error:
    out["error"] = "%s: %s" % (type(error).__name__, error)
    import traceback
    traceback.print_exc()
print("PROVISION " + json.dumps(out))
"""

# Whole numbers, which even the shortest floats of a GPU hold: the CPU's answer is the right one. A
# product goes through cuBLAS, a sum through TensorFlow's own kernels, a convolution through cuDNN.
TENSORFLOW_COMPUTES = r"""
import json
out = {"devices": {}}
try:
    import numpy as np
    import tensorflow as tf
    x = (np.arange(4096) % 7).astype("float32").reshape(64, 64)
    image, kernel = x.reshape(1, 64, 64, 1), np.ones((3, 3, 1, 1), dtype="float32")
    for device in tf.config.list_logical_devices("GPU"):
        with tf.device(device.name):
            product = tf.linalg.matmul(x, x) + 1.0
            blurred = tf.nn.conv2d(image, kernel, 1, "VALID")
        far = np.abs(product.numpy() - (x @ x + 1)).max()
        sums = sum(x[i:i + 62, j:j + 62] for i in range(3) for j in range(3))
        far = max(far, np.abs(blurred.numpy()[0, :, :, 0] - sums).max())
        out["devices"][device.name] = {"on": product.device, "error": float(far)}
except BaseException as error:
    out["error"] = "%s: %s" % (type(error).__name__, error)
    import traceback
    traceback.print_exc()
print("PROVISION " + json.dumps(out))
"""

# CUDA that came as wheels lies in nvidia/*/lib beside TensorFlow, whose own files name these places
# (RUNPATH). Each library is loaded from there; one that needs others of them is tried again once
# those are loaded, since TensorFlow too finds it then by its name.
CUDA_WHEELS = r"""
import ctypes, glob, json, os, sys, sysconfig
site = sysconfig.get_paths()["purelib"]
out, left = {}, json.loads(sys.argv[1])
while left:
    failed = []
    for name in left:
        paths = sorted(glob.glob(os.path.join(glob.escape(site), "nvidia", "*", "lib", name)))
        out[name] = {"path": paths[0] if paths else None, "error": None}
        try:
            if paths:
                ctypes.CDLL(paths[0])
        except OSError as error:
            out[name]["error"] = str(error)
            failed.append(name)
    if len(failed) == len(left):
        break
    left = failed
print("PROVISION " + json.dumps(out))
"""


def read(path: str) -> str | None:
    """A file's text, or None where it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return None


def run(
    command: list[str],
    environment: dict[str, str] | None = None,
    timeout: float = COMMAND_TIMEOUT,
    limit: int = OUTPUT_LIMIT,
) -> dict[str, Any]:
    """What a command did: {"rc", "stdout", "stderr"}; rc 127 where there is no such command.

    Of longer outputs the last `limit` characters are kept (0: all).
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        out, error_output = process.communicate(timeout=timeout)
    except FileNotFoundError:
        return {"rc": 127, "stdout": "", "stderr": command[0] + ": command not found"}
    except subprocess.TimeoutExpired:
        end(process)
        return {"rc": 124, "stdout": "", "stderr": f"no answer within {timeout} s"}
    except OSError as error:
        return {"rc": 126, "stdout": "", "stderr": str(error)}
    return {
        "rc": process.returncode,
        "stdout": text(out, limit),
        "stderr": text(error_output, limit),
    }


def end(process: subprocess.Popen[bytes], patience: float = 5.0) -> tuple[bytes, bytes]:
    """Kills a program; what it has written. One that the kernel holds (state D) is left behind."""
    process.kill()
    try:
        return process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        return b"", b""


def text(data: bytes, limit: int = OUTPUT_LIMIT) -> str:
    return data.decode("utf-8", "replace")[-limit:]


def os_release() -> dict[str, str]:
    """ID and VERSION_ID, unquoted."""
    found = {}
    for line in (read("/etc/os-release") or read("/usr/lib/os-release") or "").splitlines():
        key, _, value = line.partition("=")
        found[key.strip()] = value.strip().strip("\"'")
    return found


def in_container() -> bool:
    """systemd writes the answer for everybody to read; docker and podman leave a file."""
    if (read("/run/systemd/container") or "").strip():
        return True
    return os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv")


def pci_functions(folder: str = "/sys/bus/pci/devices") -> list[dict[str, str]]:
    """NVIDIA's functions on the PCI bus: [{"address", "class", "device"}]."""
    found = []
    for path in sorted(glob.glob(os.path.join(folder, "*"))):
        if (read(os.path.join(path, "vendor")) or "").strip() == "0x10de":
            found.append(
                {
                    "address": os.path.basename(path),
                    "class": (read(os.path.join(path, "class")) or "").strip(),
                    "device": (read(os.path.join(path, "device")) or "").strip(),
                }
            )
    return found


def kernel_module() -> dict[str, Any]:
    """What of NVIDIA or nouveau is in the running kernel."""
    return {
        "proc": read("/proc/driver/nvidia/version"),
        "sys": (read("/sys/module/nvidia/version") or "").strip() or None,
        "nouveau": os.path.isdir("/sys/module/nouveau"),
    }


def environment_file(path: str = "/etc/environment") -> dict[str, str]:
    """pam_env's file, which cron and ssh sessions get: KEY=value, optionally quoted."""
    found = {}
    for line in (read(path) or "").splitlines():
        match = re.match(r"\s*(?:export\s+)?([A-Za-z_]\w*)=(.*)$", line)
        if match:
            found[match.group(1)] = match.group(2).strip().strip("\"'")
    return found


def sshd_uses_pam(path: str = "/etc/ssh/sshd_config", depth: int = 0) -> bool | None:
    """Whether sshd gives sessions what PAM gives (/etc/environment); None where it can't be read.

    sshd_config(5): the first value counts, no is the default, Match blocks have no UsePAM.
    """
    content = read(path)
    if content is None:
        return None
    for line in content.splitlines():
        words = [word.strip('"') for word in line.replace("=", " ", 1).split()]
        name = words[0].lower() if words else ""
        if name == "match":
            break
        if name == "usepam" and len(words) > 1:
            return words[1].lower() == "yes"
        if name == "include" and depth == 0:
            for pattern in words[1:]:
                for one in sorted(glob.glob(os.path.join("/etc/ssh", pattern))):
                    told = sshd_uses_pam(one, 1)
                    # A closed file may say either.
                    if told is not None or read(one) is None:
                        return told
    return None if depth else False


def environments() -> dict[str, dict[str, str] | None]:
    """What four kinds of process get in their environment; None where it can't be seen."""
    cron = {"HOME": os.path.expanduser("~"), "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
    cron.update(environment_file())
    found: dict[str, dict[str, str] | None] = {
        "ssh": dict(os.environ),
        "login": assigned(run(["bash", "-lc", "env"], limit=0)["stdout"]),
        "cron": cron,
        "systemd": None,
    }
    manager = run(["systemctl", "show-environment"], limit=0)
    if manager["rc"] == 0:
        found["systemd"] = assigned(manager["stdout"])
    return found


def assigned(lines: str) -> dict[str, str]:
    """NAME=value lines; systemctl writes a value with blanks as $'...'."""
    found = {}
    for line in lines.splitlines():
        name, _, value = line.partition("=")
        if value.startswith("$'") and value.endswith("'"):
            value = value[2:-1]
        if name:
            found[name] = value
    return found


def nvcc(places: dict[str, dict[str, str] | None]) -> dict[str, Any]:
    """nvcc as four kinds of process find it; None where that environment can't be seen."""
    found = {
        "ssh": run(["nvcc", "--version"]),
        "login": run(["bash", "-lc", "nvcc --version"]),
        "cron": None,
        "systemd": None,
    }
    for place in ("cron", "systemd"):
        if places[place] is not None:
            found[place] = run(["/bin/sh", "-c", "nvcc --version"], places[place])
    return found


def loader_cache() -> dict[str, str]:
    """`ldconfig -p` as {soname: the first path}, for this machine's word size."""
    program = shutil.which("ldconfig") or "/sbin/ldconfig"
    found: dict[str, str] = {}
    for line in run([program, "-p"], limit=0)["stdout"].splitlines():
        match = re.match(r"\s+(\S+) \((.*)\) => (\S+)", line)
        if match and ("x86-64" in match.group(2) or "AArch64" in match.group(2)):
            found.setdefault(match.group(1), match.group(3))
    return found


def listed(package: str) -> set[str]:
    """The files a Debian package owns; empty where it isn't installed."""
    lists = glob.glob(f"/var/lib/dpkg/info/{package}.list")
    lists += glob.glob(f"/var/lib/dpkg/info/{package}:*.list")
    return {line for path in lists for line in (read(path) or "").splitlines()}


def same_file(paths: set[str], path: str) -> bool:
    """Is `path` one of `paths`, on a system where /lib may be a link to /usr/lib?"""
    if path in paths or path.replace("/usr/lib/", "/lib/", 1) in paths:
        return True
    return "/usr" + path in paths


def owner(path: str, expected: str | None) -> str | None:
    """The package that owns `path`; `expected` is tried first: its own list is quick to read."""
    if expected and same_file(listed(expected), path):
        return expected
    answer = run(["dpkg-query", "-S", path])
    if answer["rc"] != 0:
        return None
    return str(answer["stdout"]).partition(": ")[0].split(",")[0].partition(":")[0]


def library(
    soname: str, expected: str | None, cache: dict[str, str], function: str | None = None
) -> dict[str, Any]:
    """One soname as the loader sees it. `expected` is the package that should own its file."""
    command = [sys.executable, "-c", LOADER, soname, *([function] if function else [])]
    loaded = run(command)
    answers = dict(
        line.split(" ", 1) for line in loaded["stdout"].splitlines() if line.count(" ") >= 1
    )
    path = answers.get("path")
    real = os.path.realpath(path) if path else None
    cached = cache.get(soname)
    return {
        "loaded": path,
        "real": real,
        "error": None if loaded["rc"] == 0 else last_line(loaded["stderr"]) or str(loaded["rc"]),
        "cached": cached,
        "cached_real": os.path.realpath(cached) if cached else None,
        "owner": owner(real, expected) if real else None,
        "answer": answers.get("answer"),
    }


def last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1] if lines else ""


def packages(row: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Installed versions of the locked packages: {name: {"version", "status"}}."""
    names = set()
    for component in row.values():
        if isinstance(component, dict):
            for group in (component.get("packages") or {}).values():
                names.update(group)
    if not names:
        return {}
    shape = "${Package}\t${Version}\t${db:Status-Abbrev}\n"
    found = {}
    answer = run(["dpkg-query", "-W", "-f", shape, *sorted(names)])
    for line in answer["stdout"].splitlines():
        name, version, status = [*line.split("\t"), "", ""][:3]
        # Several architectures may be there; the installed one counts.
        if name not in found or status.strip() == "ii":
            found[name] = {"version": version, "status": status.strip()}
    return found


def cudnn_headers(root: str) -> str | None:
    """The version that the headers behind the `current` link tell; None where unreadable."""
    content = read(os.path.join(root, "current", "include", "cudnn_version.h"))
    if content is None:
        return None
    numbers = [
        re.search(rf"#define CUDNN_{part}\s+(\d+)", content)
        for part in ("MAJOR", "MINOR", "PATCHLEVEL")
    ]
    return ".".join(number.group(1) for number in numbers if number)


def wheels(venv: str) -> dict[str, list[str]]:
    """{project: its versions} of a venv, by dist-info, pip's own record; names as in PEP 503."""
    found: dict[str, list[str]] = {}
    pattern = os.path.join(glob.escape(venv), "lib", "python3*", "site-packages", "*.dist-info")
    for path in sorted(glob.glob(pattern)):
        name, _, version = os.path.basename(path)[: -len(".dist-info")].rpartition("-")
        found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), []).append(version)
    return found


def tensorflow(
    root: str, sonames: Sequence[str] = (), directory: str = "current"
) -> dict[str, Any]:
    """All TensorFlow questions at once, each in a process of its own (the second has no GPU).

    `sonames` are the libraries of CUDA that should be in the environment itself. A simulated GPU
    computes nothing, and is not asked to.
    """
    python = os.path.join(root, directory, "bin", "python")
    if not os.path.exists(python):
        return {"python": python, "missing": True}
    started = time.time()
    base = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="0", PYTHONNOUSERSITE="1")
    base.pop("PYTHONPATH", None)
    jobs = {}
    asked: list[tuple[str, list[str], dict[str, str]]] = [
        ("gpus", [TENSORFLOW_GPUS], {}),
        ("trains", [TENSORFLOW_TRAINS], {"CUDA_VISIBLE_DEVICES": "-1"}),
    ]
    if not os.path.exists(SIMULATED):
        # Without this TensorFlow takes all memory of GPUs that others use.
        asked.append(("computes", [TENSORFLOW_COMPUTES], {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}))
    if sonames:
        asked.append(("cuda_wheels", [CUDA_WHEELS, json.dumps(list(sonames))], {}))
    for name, arguments, extra in asked:
        jobs[name] = subprocess.Popen(
            [python, "-c", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(base, **extra),
            cwd="/",
        )
    found: dict[str, Any] = {
        "python": python,
        "real": os.path.realpath(os.path.dirname(os.path.dirname(python))),
        "wheels": wheels(os.path.join(root, directory)),
    }
    for name, job in jobs.items():
        try:
            remaining = max(1.0, TENSORFLOW_TIMEOUT - (time.time() - started))
            out, log = job.communicate(timeout=remaining)
        except subprocess.TimeoutExpired:
            out, log = end(job)
            log += f"\nno answer within {TENSORFLOW_TIMEOUT} s".encode()
        answer = {}
        for line in text(out).splitlines():
            if line.startswith("PROVISION "):
                answer = json.loads(line[len("PROVISION ") :])
        if name == "cuda_wheels":
            answer = {"libraries": answer}
        answer.update({"rc": job.returncode, "log": text(log)})
        found[name] = answer
    found["seconds"] = round(time.time() - started, 1)
    return found


def docker(socket: str = "/var/run/docker.sock") -> dict[str, Any]:
    """Is docker there, does it run, may this user ask it, and what does it say of its runtimes?"""
    places = ("/usr/bin/dockerd", "/usr/sbin/dockerd")
    found: dict[str, Any] = {
        "installed": any(os.path.exists(path) for path in places),
        "running": os.path.exists(socket),
        "allowed": os.access(socket, os.R_OK | os.W_OK),
        "runtimes": None,
    }
    if found["allowed"]:
        # In pieces, for Ansible would read double brackets as its own.
        shape = "{" * 2 + "json .Runtimes" + "}" * 2
        found["runtimes"] = run(["docker", "--host", f"unix://{socket}", "info", "--format", shape])
    return found


SPECIFICATIONS = ("/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml")


def cdi(specifications: tuple[str, ...] = SPECIFICATIONS) -> dict[str, Any]:
    """What podman is there, what nvidia-ctk lists, and the specification that counts.

    Of two that name one device the later directory's is taken.
    """
    there = [path for path in specifications if os.path.exists(path)]
    found: dict[str, Any] = {
        "podman": run(["podman", "--version"]),
        "devices": run(["nvidia-ctk", "cdi", "list"]),
        "path": there[-1] if there else None,
        "version": None,
        "missing": [],
    }
    content = read(there[-1]) if there else None
    if content is not None:
        version = re.search(r"(?m)^cdiVersion: *[\"']?([0-9.]+)", content)
        found["version"] = version.group(1) if version else None
        paths = re.findall(r"(?m)^[ -]*hostPath: *[\"']?([^\"'\n]+?)[\"']? *$", content)
        found["missing"] = [path for path in paths if not os.path.exists(path)]
    return found


def workspaces(people: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Each person's workspace as anybody of the host may see it; no token is asked with.

    The program that starts a container notes it where all can read: /run/gpu-workspace/NAME.json.
    """
    found = {}
    for name in sorted(one["name"] for one in people):
        try:
            state = json.loads(read(f"/run/gpu-workspace/{name}.json") or "{}")
        except ValueError:
            state = {}
        unit = run(["systemctl", "is-active", f"gpu-workspace@{name}.service"])
        groups = state.get("groups") or {}
        found[name] = {
            "unit": unit["stdout"].strip(),
            "error": state.get("error"),
            "status": http_status(
                state.get("address"), state.get("port"), state.get("base", "/") + "api/status"
            ),
            "tensorboard": http_status(
                "127.0.0.1", state.get("tensorboard_port"), f"/{name}/tensorboard/"
            ),
            "ssh": ssh_offers(name, state.get("ssh_address"), state.get("ssh_port")),
            "ssh_ways": state.get("ssh_ways"),
            "limits": {key: (read(groups[key]) or "").split() for key in sorted(groups)},
        }
    return found


def http_status(address: str | None, port: int | None, path: str) -> int | None:
    """What is said to somebody without a token; None where nothing answers."""
    if not address or not port:
        return None
    import http.client

    host = "127.0.0.1" if address == "0.0.0.0" else address  # noqa: S104 compared, not bound
    connection = http.client.HTTPConnection(host, port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


# The authority of a door that is its own; the certificate of one that was given it, or that an ACME
# server has issued which is not Let's Encrypt: that one's has to be known to everybody.
DOOR_TRUST = ("/etc/gpu-front-door/ca.crt", "/etc/gpu-front-door/chain.pem")


def front_door(options: dict[str, Any]) -> dict[str, Any]:
    """The door as anybody sees it who has its name and its authority, and no token."""
    door = {key: options["gpu_front_door_" + key] for key in ("name", "port", "address")}
    page = through(door, "/")
    found = {"page": page, "paths": {}, "plain": through(door, "/", tls=False)["status"]}
    for one in options["gpu_workspaces"]:
        paths = [""]
        if "port" in one:
            paths = ["api/status"] + (["tensorboard/"] if one.get("tensorboard_port") else [])
        for path in paths:
            whole = f"/{one['name']}/{path}"
            found["paths"][whole] = through(door, whole)["status"]
    page["names"] = re.findall(r'<th scope="row">([a-z0-9_-]+)</th>', page.pop("body"))
    return found


def through(door: dict[str, Any], path: str, tls: bool = True) -> dict[str, Any]:
    """{status, body, version of TLS, error} of one answer; the certificate is looked at."""
    import http.client
    import socket
    import ssl

    found: dict[str, Any] = {"status": None, "body": "", "tls": None, "error": None}
    near = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 compared, not bound
    address = near.get(door["address"], door["address"])
    connection = None
    try:
        connection = socket.create_connection((address, door["port"]), timeout=15)
        if tls:
            context = ssl.create_default_context()
            for place in DOOR_TRUST:
                if os.access(place, os.R_OK):
                    context.load_verify_locations(cafile=place)
            # What was given may be of an authority that this host has never heard of; its name
            # and its days are compared all the same. X509_V_FLAG_PARTIAL_CHAIN.
            context.verify_flags |= 0x80000
            connection = context.wrap_socket(connection, server_hostname=door["name"])
            found["tls"] = connection.version()
        client = http.client.HTTPConnection(door["name"], door["port"], timeout=15)
        client.sock = connection
        client.request("GET", path, headers={"Host": door["name"]})
        answer = client.getresponse()
        found["status"] = answer.status
        found["body"] = answer.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        found["error"] = str(error) or type(error).__name__
    finally:
        if connection is not None:
            connection.close()
    return found


def ssh_offers(name: str, address: str | None, port: int | None) -> str | None:
    """What an sshd lets somebody in by, as it says itself; "" without an answer.

    None where there is no port, or no ssh on this host to ask with.
    """
    if not address or not port:
        return None
    host = "127.0.0.1" if address == "0.0.0.0" else address  # noqa: S104 compared, not bound
    options = ("BatchMode=yes", "PreferredAuthentications=none", "ConnectTimeout=10")
    unknown = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null")
    words = [word for one in (*options, *unknown) for word in ("-o", one)]
    asked = run(["ssh", "-F", "/dev/null", "-p", str(port), *words, f"{name}@{host}", "true"])
    if asked["rc"] == 127:
        return None
    ways = re.search(r"Permission denied \(([a-z,-]+)\)", asked["stderr"])
    return ways.group(1) if ways else ""


def receipt(path: str = "/var/lib/provision/receipt.json") -> dict[str, Any]:
    """The receipt's lock digest and stack, or why it can't be read."""
    content = read(path)
    if content is None:
        return {"error": f"{path} can't be read"}
    try:
        data = json.loads(content)
        return {key: data.get(key) for key in ("lock_digest", "stack", "written")}
    except (ValueError, AttributeError):
        return {"error": f"{path} is not JSON"}


def look(parameters: dict[str, Any]) -> dict[str, Any]:
    """Everything the checks judge, as one JSON-able dict."""
    row, options = parameters["row"], parameters["options"]
    cuda, cudnn = row.get("cuda") or {}, row.get("cudnn") or {}
    release, cache, places = os_release(), loader_cache(), environments()
    # Only what the environment is judged by: the rest is nobody's business.
    names = ["PATH", "XLA_FLAGS", *(options.get("gpu_env_variables") or {})]
    query = "driver_version,name,uuid,pci.bus_id,mig.mode.current,memory.total"
    found: dict[str, Any] = {
        "format": 1,
        "user": pwd.getpwuid(os.getuid()).pw_name,
        "platform": {
            "distribution": release.get("ID"),
            "release": release.get("VERSION_ID"),
            "architecture": platform.machine(),
            "kernel": platform.release(),
        },
        "container": in_container(),
        "simulated_gpu": os.path.exists(SIMULATED),
        "nvidia_smi": run(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader"]),
        "nvidia_smi_list": run(["nvidia-smi", "-L"]),
        "module": kernel_module(),
        "pci": pci_functions(),
        "packages": packages(row),
        "environment": {
            place: None if seen is None else {name: seen.get(name) for name in names}
            for place, seen in places.items()
        },
        "nvcc": nvcc(places),
        "sshd_uses_pam": sshd_uses_pam(),
        "libraries": {
            soname: library(soname, package, cache)
            for soname, package in (cuda.get("sonames") or {}).items()
        },
        "libcuda": library("libcuda.so.1", "libcuda1", cache),
        "files": {
            name: {
                "path": file["path"],
                "exists": os.path.exists(file["path"]),
                # ptxas is started, libdevice is read.
                "usable": os.access(file["path"], os.X_OK if name == "ptxas" else os.R_OK),
                "owner": owner(os.path.realpath(file["path"]), file.get("package")),
            }
            for name, file in (cuda.get("files") or {}).items()
        },
        "receipt": receipt(),
    }
    if cudnn:
        found["cudnn"] = library(cudnn["soname"], None, cache, "cudnnGetVersion")
        found["cudnn"]["headers"] = cudnn_headers(options["cudnn_root"])
        found["cudnn"]["root"] = os.path.realpath(options["cudnn_root"])
    if row.get("nvidia_container_toolkit"):
        found["docker"], found["cdi"] = docker(), cdi()
    if options.get("gpu_workspaces"):
        found["workspaces"] = workspaces(options["gpu_workspaces"])
    if options.get("gpu_front_door_name"):
        found["front_door"] = front_door(options)
    if row.get("tensorflow"):
        sonames = sorted(row["tensorflow"].get("sonames") or {})
        found["tensorflow"] = tensorflow(options["tensorflow_root"], sonames)
    if row.get("beside"):
        found["beside"] = [
            tensorflow(
                options["tensorflow_root"],
                sorted(part.get("sonames") or {}),
                f"{part['version']}-{part['requirements_sha256'][:8]}",
            )
            for part in row["beside"]
        ]
    return found


if __name__ == "__main__":
    PARAMETERS = json.loads(sys.argv[1])
    if "row" in PARAMETERS:
        sys.stdout.write("PROVISION-PROBE " + json.dumps(look(PARAMETERS)) + "\n")
