"""Which file the dynamic loader opens for a soname.

TensorFlow opens CUDA by soname, so what counts is neither the package nor a directory but the
loader's own answer. `ldconfig -p` prints its cache in the order in which the loader searches it;
of several lines for one soname the first of the host's architecture wins.
"""

# What `ldconfig -p` calls a library of the architecture, by `uname -m`.
FLAGS = {"x86_64": "x86-64", "aarch64": "AArch64", "ppc64le": "64bit"}


def parse(text, architecture="x86_64"):
    """{soname: path} from the output of `ldconfig -p`."""
    flag = FLAGS.get(architecture, architecture)
    found = {}
    for line in text.splitlines():
        left, arrow, path = line.strip().partition(" => ")
        name, bracket, flags = left.partition(" (")
        if not arrow or not bracket or not path:
            continue
        if flag not in [word.strip() for word in flags.rstrip(")").split(",")]:
            continue
        found.setdefault(name, path)
    return found


def inspect(context, path):
    """{"path", "real", "size", "elf"} of a library; None when `path` leads nowhere."""
    real = context.resolve(path)
    if real is None:
        return None
    info = context.stat(real)
    head = context.read_bytes(real, 4)
    return {
        "path": path,
        "real": real,
        "size": info.st_size if info is not None else 0,
        "elf": head == b"\x7fELF",
    }


def complaint(seen):
    """Why a library can't be loaded, as the text of a change's `from`; None if it looks whole."""
    if seen is None:
        return "missing"
    if seen["size"] == 0:
        return "empty"
    if not seen["elf"]:
        return "damaged"
    return None
