"""pip in an environment: exactly the wheels of its requirements, and why they did not come.

pip tells a person with a traceback and a page of retries; here it is one sentence. Addresses that
carry a password reach it as a configuration file by standard input: a command line can be read by
everybody on the host, and an environment by whatever runs as the same user.
"""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import tempfile

# What begins the command and what waits for it agree on this one.
JOB = "/run/provision/tensorflow"
# Seconds: a few gigabytes over a slow line. pip's own time-out is for silence alone.
LONGEST = 14400


def command(place, cache=""):
    """pip's command line in the environment at `place`; `cache` is a directory, or "" for none."""
    return [
        place + "/bin/python", "-I", "-m", "pip", "install", "--require-hashes", "--no-deps",
        "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--timeout", "60",
        "--requirement", place + "/requirements.txt",
        *(["--cache-dir", cache] if cache else ["--no-cache-dir"]),
    ]  # fmt: skip


def addresses(options):
    """{name of pip's setting: value} of the index, further ones and the proxy that are wished."""
    found = {
        "index-url": options.get("index_url"),
        "extra-index-url": " ".join(options.get("extra_index_urls") or []),
        "proxy": options.get("proxy"),
    }
    return {name: value for name, value in found.items() if value}


def is_secret(options):
    """Whether one of the addresses may carry a password."""
    return any("@" in value for value in addresses(options).values())


def settings(options):
    """pip's configuration file with the addresses, where one of them may carry a password."""
    if not is_secret(options):
        return ""
    lines = ["{0} = {1}\n".format(name, value) for name, value in addresses(options).items()]
    return "[global]\n" + "".join(lines)


def environment(place, options):
    """What pip's environment has beside that of its caller; never a password."""
    found = {"TMPDIR": place, "LC_ALL": "C.UTF-8"}
    if options.get("ca_bundle"):
        found["PIP_CERT"] = options["ca_bundle"]
    if is_secret(options):
        found["PIP_CONFIG_FILE"] = "/dev/stdin"
        return found
    for name, value in addresses(options).items():
        found["PIP_" + name.upper().replace("-", "_")] = value
    return found


@contextlib.contextmanager
def readable():
    """Hardened hosts give root the umask 077; what is made within is for everybody."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def _end_with(parent):
    """What makes a new process end with `parent`: who waits for it clears away what it was at."""
    libc = ctypes.CDLL(None)

    def call():
        libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)

    return call


def install(place, options):
    """(exit code, what pip said on standard error)."""
    return run(command(place, options.get("cache_dir") or ""), place, options)


def run(argv, place, options):
    """(exit code, standard error) of a program that finds pip's settings as pip does.

    pip reads its configuration more than once: from a file without a name, where it came by a pipe.
    """
    try:
        with tempfile.TemporaryFile(dir=place) as stream:
            stream.write(settings(options).encode("utf-8"))
            stream.seek(0)
            with readable():
                done = subprocess.run(
                    argv,
                    stdin=stream,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env=dict(os.environ, **environment(place, options)),
                    check=False,
                    timeout=LONGEST,
                    preexec_fn=_end_with(os.getpid()),
                )
    except OSError as error:
        return 1, str(error)
    except subprocess.TimeoutExpired:
        return 1, "it was not done within {0} s, and was ended.".format(LONGEST)
    return done.returncode, done.stderr.decode("utf-8", "replace")


def reasons(stderr, root):
    """What a person reads of pip's errors, without the logins of addresses."""
    text = re.sub("//[^/ ]*@", "//", stderr)
    # pip tells of a connection in a warning, "... after connection broken by 'REASON':
    # /simple/NAME/", and then only says that it found no matching version.
    broken = [
        re.sub("<[^>]*>:? ?", "", reason)
        for reason in re.findall("connection broken by '(.*)': ", text)
    ]
    unmatched = "No matching distribution" in text
    if "No space left on device" in text:
        return "No space is left on the filesystem of {0}.".format(root)
    if broken and unmatched:
        words = (
            "this host does not reach the package index ({0}); see tensorflow_index_url, "
            "tensorflow_proxy and tensorflow_ca_bundle."
        )
        return words.format(broken[0])
    if re.search("ReadTimeoutError|read operation timed out", text):
        return (
            "the package index stopped sending in the middle of a download (no byte for a minute)."
        )
    lines = [line for line in text.splitlines() if line and not line.startswith("WARNING")]
    if unmatched:
        lines.append(
            "Does this host reach the package index (tensorflow_index_url, tensorflow_proxy, "
            "tensorflow_ca_bundle)?"
        )
    return " ".join(lines)


def not_installed(version, why, works):
    """The sentence of a failure; `works`: there is a current version, and it is as it was."""
    words = ["TensorFlow {0} was not installed: {1}".format(version, why.strip())]
    if works:
        words.append("The version in use before is still the current one.")
    words.append("Run again once the cause is gone.")
    return " ".join(words)
