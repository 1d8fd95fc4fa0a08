"""Fetch apt's package lists, and say which source file is to blame where that fails.

`apt-get update` fails as a whole for one source that nobody needs here, and names an address that
a person then has to look for in a dozen files. So each failure is traced to its file and line, and
where the platform's own archive answers, sources of others are no reason to stop: whether all that
is needed came is seen by asking for it.

Runs on the host, from standard input: `python3 - SUITE...`, the platform's suites. Prints
{"rc", "errors": [apt's words], "places": [file:line], "bearable": true where only others' sources
failed, "locked": another apt is at work}. Standard library, Python 3.7.
"""

import json
import os
import re
import signal
import subprocess
import sys

UPDATE = ("apt-get", "--quiet", "-oAPT::Update::Error-Mode=any", "-oAcquire::Retries=2", "update")
TARGETS = (
    "apt-get",
    "indextargets",
    "--no-release-info",
    "--format",
    "$(SOURCESENTRY)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)",
)
# Seconds; apt's own time-outs are 30 seconds for each address that does not answer.
LONGEST = 1800
LOCKED = "Could not get lock"
# Before 2.1 apt ends with 0 where it could not fetch a list.
FAILED = re.compile(r"^[EW]: .*Failed to fetch", re.M)
PASSWORD = re.compile(r"//[^/ ]*@")


def run(argv):
    """(exit code, standard output, standard error); what takes too long is ended, 124."""
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        env=dict(os.environ, LC_ALL="C"),
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return 124, "", "E: {0} took more than {1} s\n".format(" ".join(argv), LONGEST)
    return process.returncode, out, err


def words(stderr):
    """apt's errors and warnings, each once, without passwords."""
    found = []
    for line in stderr.splitlines():
        plain = PASSWORD.sub("//", line.strip())
        if re.match(r"[EW]: ", plain) and "Some index files" not in plain and plain not in found:
            found.append(plain)
    return found


def entries(out):
    """[(file:line, repository, suite, component)] of what apt has in its sources."""
    found = []
    for line in out.splitlines():
        parts = tuple(part.rstrip("/") for part in PASSWORD.sub("//", line).split("|"))
        if len(parts) == 4 and parts[1] and parts not in found:
            found.append(parts)
    return found


def names(error, entry):
    """True where apt's words are about this entry: its repository and, as far as given, suite."""
    _place, uri, suite, _component = entry
    match = re.search(re.escape(uri) + r"(?=[/ '\"]|$)(\S*) ?(\S*)", error)
    if match is None:
        return False
    # ".../dists/bullseye/main/...", or "The repository 'URI bullseye InRelease'"; flat: neither
    told = re.search(r"/dists/(.+)", match.group(1))
    if told is not None:
        return (told.group(1) + "/").startswith(suite + "/")
    return match.group(2) in ("", suite)


def words_of_place(place):
    """ "FILE:LINE"; of a deb822 file apt counts its entries, not its lines."""
    file, _colon, number = place.rpartition(":")
    return "{0} (entry {1})".format(file, number) if file.endswith(".sources") else place


def judge(errors, known, suites):
    """(places to blame, whether only sources of others failed)."""
    failed = [entry for entry in known if any(names(error, entry) for error in errors)]
    places = sorted({words_of_place(entry[0]) for entry in failed})
    explained = all(any(names(error, entry) for entry in failed) for error in errors)
    ours = any(os.path.basename(place).startswith("provision-") for place in places)
    platform = [entry for entry in known if entry[2] in suites and entry[3] == "main"]
    answers = not platform or any(entry not in failed for entry in platform)
    return places, bool(failed) and explained and not ours and answers


def main(suites):
    """The program."""
    code, _out, stderr = run(UPDATE)
    answer = {"rc": code, "errors": [], "places": [], "bearable": False}
    if code != 0 or FAILED.search(stderr):
        answer["errors"] = words(stderr) or ["apt-get update ended with {0}".format(code)]
        _code, out, _err = run(TARGETS)
        answer["places"], answer["bearable"] = judge(answer["errors"], entries(out), suites)
    answer["locked"] = LOCKED in stderr
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
