#!/usr/bin/python3
"""The workspaces' image, built by docker from the Containerfile here and the host's own stack.

What the lock names is on the host already, compared hash by hash and proven: TensorFlow's
environment, CUDA's libraries by their packages, cuDNN. docker gets these very files as its build's
context, so the image has the lock of the host, whichever way CUDA came, and no index, repository
or key of NVIDIA's is asked a second time. A stack that is not on the host as locked is refused.

The role pipes this to the host's Python. Standard library, Python 3.7.
"""

import io
import json
import os
import re
import stat
import subprocess
import sys
import tarfile
import tempfile

ROOT = "/"
SOCKET = "unix:///var/run/docker.sock"
DOCKER = ["docker", "--host", SOCKET]
LOADER = "/etc/ld.so.conf.d/00-gpu-workspace.conf"
# Where the loader of Debian and Ubuntu looks without being told.
STANDARD = ("/lib", "/usr/lib", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu")
LEFT_OUT = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/lintian/", "/usr/share/bug/")
SPARE = 1 << 30
LINES = 15
TIMEOUT = 120
# A package archive may be slow; one that hangs is not waited for until tomorrow.
BUILDS = 7200


class RefusedError(Exception):
    """Nothing was built; the text says why."""


def inside(path):
    """A path of the host."""
    return os.path.join(ROOT, path.lstrip("/"))


def call(command):
    """(exit code, output, errors) of a program; 127 where there is none."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
            check=False,
        )
    except FileNotFoundError:
        return 127, "", "{0} is not here".format(command[0])
    except subprocess.TimeoutExpired:
        return 124, "", "{0} did not answer within {1} s".format(command[0], TIMEOUT)
    return (
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
    )


def must(answer, what):
    """The output of a call that has to succeed."""
    code, out, error = answer
    if code:
        raise RefusedError("{0}: {1}".format(what, (error or out).strip()[-800:]))
    return out


def text(path):
    try:
        with open(inside(path), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


# what goes in


def environment(wish):
    """TensorFlow's environment on the host, finished from the lock's requirements."""
    locked = wish["stack"]["tensorflow"]
    name = "{0}-{1}".format(locked["version"], locked["requirements_sha256"][:8])
    place = "{0}/{1}".format(wish["places"][0], name)
    try:
        found = json.loads(text(place + "/.provision.json") or "{}")
    except ValueError:
        found = {}
    if found.get("requirements_sha256") != locked["requirements_sha256"]:
        raise RefusedError(
            "{0} is not the environment of the lock, or was never finished; the image is made of "
            "it: run without tags that leave TensorFlow out".format(place)
        )
    return place


def libraries(wish):
    """CUDA's files on the host, by the packages of the lock and nothing beside them."""
    cuda = wish["stack"].get("cuda")
    if not cuda:
        return []
    packages, paths = cuda["packages"], set()
    form = "${Package} ${Version} ${db:Status-Status}\n"
    listed = call(["dpkg-query", "--show", "--showformat", form, *sorted(packages)])[1]
    there = {line.split()[0]: line.split()[1:] for line in listed.splitlines() if " " in line}
    wrong = [one for one in sorted(packages) if there.get(one) != [packages[one], "installed"]]
    if wrong:
        raise RefusedError(
            "this host has not the lock's {0}, and the image is made of it: run without tags that "
            "leave CUDA out".format(", ".join(wrong))
        )
    for path in must(call(["dpkg-query", "--listfiles", *sorted(packages)]), "dpkg").splitlines():
        if path.startswith("/") and not path.startswith(LEFT_OUT):
            # What is said below /lib lies below /usr/lib where that is a link.
            folder = os.path.realpath(inside(os.path.dirname(path)))
            paths.add("/" + os.path.relpath(os.path.join(folder, os.path.basename(path)), ROOT))
    files = cuda.get("files") or {}
    return sorted(one for one in paths | set(files.values()) if is_file(one))


def is_file(path):
    found = os.lstat(inside(path)) if os.path.lexists(inside(path)) else None
    return found is not None and (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode))


def cudnn(wish):
    """cuDNN's directory on the host; None where TensorFlow brings its own."""
    locked = wish["stack"].get("cudnn")
    if not locked:
        return None
    place = "{0}/{1}-cuda{2}".format(wish["places"][1], locked["version"], locked["cuda"])
    if not os.path.isdir(inside(place)):
        raise RefusedError(
            "this host has no {0}, and the image is made of it: run without tags that leave cuDNN "
            "out".format(place)
        )
    return place


def below(place):
    """Files and links below a directory, without what only linkers read."""
    found = []
    for folder, folders, files in os.walk(inside(place)):
        links = [one for one in folders if os.path.islink(os.path.join(folder, one))]
        for name in [*files, *links]:
            if not name.endswith(".a"):
                found.append("/" + os.path.relpath(os.path.join(folder, name), ROOT))
    return sorted(found)


def contents(wish):
    """({path in the image: path on the host}, {path in the image: text})."""
    paths = libraries(wish)
    place = cudnn(wish)
    paths += below(place) if place else []
    named = {path: path for path in paths}
    # In the order of the host: cuDNN before CUDA, each folder once, first met first.
    order = sorted(paths, key=lambda path: not (place and path.startswith(place + "/")))
    folders = [os.path.dirname(path) for path in order if re.search(r"\.so(\.|$)", path)]
    own = [one for one in dict.fromkeys(folders) if one not in STANDARD]
    venv = environment(wish)
    named.update((path, path) for path in below(venv))
    xla = (wish["stack"].get("env") or {}).get("xla")
    device = (wish["stack"].get("cuda") or {}).get("files", {}).get("libdevice")
    if xla and device:
        named.setdefault(xla + "/nvvm/libdevice/" + os.path.basename(device), device)
    return named, {LOADER: "".join(one + "\n" for one in own)}


def pack(stream, named, texts, recipe):
    """The build's context: everything root's, folders open to all, times as on the host."""
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT) as out:

        def write(name, content):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            out.addfile(entry, io.BytesIO(content))

        write("Containerfile", recipe.encode("utf-8"))
        made = set()
        for path in sorted({*named, *texts}):
            parts = path.strip("/").split("/")[:-1]
            for number in range(len(parts) + 1):
                folder = "/".join(["root", *parts[:number]])
                if folder not in made:
                    made.add(folder)
                    entry = tarfile.TarInfo(folder)
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                    out.addfile(entry)
            if path in texts:
                write("root" + path, texts[path].encode("utf-8"))
                continue
            # Two names of one file in one place are two files here: docker knows no others.
            entry = out.gettarinfo(inside(named[path]), "root" + path)
            if not (entry.isreg() or entry.issym() or entry.islnk()):
                continue
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mode &= 0o755
            if entry.issym():
                out.addfile(entry)
                continue
            with open(inside(named[path]), "rb") as file:
                if entry.islnk():
                    entry.type, entry.linkname = tarfile.REGTYPE, ""
                    entry.size = os.fstat(file.fileno()).st_size
                out.addfile(entry, file)


# the build


def release(content):
    """(distribution, release) of an os-release."""
    pairs = dict(re.findall(r'^(ID|VERSION_ID)="?([^"\n]*)"?$', content, re.M))
    return pairs.get("ID", "?"), pairs.get("VERSION_ID", "?")


def fitting(wish):
    """Refuses a base of another release than the host's: the environment needs its Python."""
    arguments = ["run", "--rm", "--network", "none", "--entrypoint", "/bin/cat", wish["base"]]
    there = release(must(call([*DOCKER, *arguments, "/etc/os-release"]), "docker run"))
    here = release(text("/etc/os-release"))
    if there != here:
        raise RefusedError(
            "the base {0} is {1} {2}, and this host {3} {4}; the image is made of the host's "
            "environment, which needs the same release".format(wish["base"], *there, *here)
        )


def room(named):
    """Refuses to begin what can not be finished: docker keeps the context beside the image."""
    size = sum(os.lstat(inside(path)).st_size for path in named.values())
    place = must(
        call([*DOCKER, "info", "--format", "{" * 2 + ".DockerRootDir" + "}" * 2]), "docker"
    )
    found = os.statvfs(place.strip())
    free = found.f_bavail * found.f_frsize
    if free < 2 * size + SPARE:
        raise RefusedError(
            "{0} has {1:.1f} GiB free, and the build needs {2:.1f}".format(
                place.strip(), free / (1 << 30), (2 * size + SPARE) / (1 << 30)
            )
        )
    return size


def build(wish):
    """The image under its reference. RefusedError with docker's last lines where it can't be."""
    if call([*DOCKER, "image", "inspect", wish["reference"]])[0] == 0:
        return {"built": False}
    fitting(wish)
    named, texts = contents(wish)
    size = room(named)
    stack, venv = wish["stack"], environment(wish)
    env = stack.get("env") or {}
    python = "python" + stack["tensorflow"]["python"]
    sonames = (stack.get("cuda") or {}).get("sonames") or []
    sonames = [*sonames, stack["cudnn"]["soname"]] if stack.get("cudnn") else sonames
    given = {
        "BASE": wish["base"],
        "PACKAGES": " ".join([python, python + "-venv", *wish["packages"]]),
        "SONAMES": " ".join(sonames),
        "FIRST": ":".join([venv + "/bin", *(env.get("path") or [])]),
        "XLA": "--xla_gpu_cuda_data_dir=" + env["xla"] if env.get("xla") else "",
        "TENSORFLOW": stack["tensorflow"]["version"],
    }
    arguments = ["build", "--tag", wish["reference"], "--file", "Containerfile"]
    # As the host reaches its archives; the containers themselves have a network of their own.
    arguments += ["--network", "host", "--force-rm"]
    for name in sorted(given):
        arguments += ["--build-arg", "{0}={1}".format(name, given[name])]
    for name in ("http_proxy", "https_proxy"):
        # By name alone: an address may carry a password, and a command line is read by all. docker
        # keeps these two out of the image and its history by itself:
        # https://docs.docker.com/reference/dockerfile/#predefined-args
        if os.environ.get(name):
            arguments += ["--build-arg", name]
    streamed([*DOCKER, *arguments, "-"], lambda out: pack(out, named, texts, wish["containerfile"]))
    return {"built": True, "bytes": size}


def streamed(command, write):
    """docker's build of what is written to it. RefusedError with its last lines."""
    # Into a file: a pipe that nobody reads while the context is written would stop both.
    with tempfile.TemporaryFile() as told:
        running = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=told, stderr=subprocess.STDOUT
        )
        try:
            write(running.stdin)
            running.stdin.close()
            broken = False
        except BrokenPipeError:
            broken = True  # docker says why
        try:
            code = running.wait(BUILDS)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            raise RefusedError("docker build took longer than {0} s".format(BUILDS)) from None
        told.seek(0)
        said = told.read().decode("utf-8", "replace")
    if code or broken:
        lines = [line for line in said.splitlines() if line.strip()]
        raise RefusedError("docker build said: " + " | ".join(lines[-LINES:]))


def main(argv):
    """The program: one wish as JSON."""
    try:
        sys.stdout.write(json.dumps(build(json.loads(argv[0]))) + "\n")
    except RefusedError as error:
        sys.stderr.write("{0}\n".format(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
