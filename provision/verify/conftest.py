"""Gives every check its host: from probes recorded by the playbook, or over testinfra's connection.

The playbook's verify play runs `probe.py` through Ansible's own connections, so that vaulted
passwords, jump hosts and templates in the inventory work as in the run itself, and passes the
answers on (`--provision-hosts`). By hand and in Molecule testinfra connects:
`pytest verify --hosts='ansible://gpu' --ansible-inventory=lab`.

Either way `--provision-checks` names the file for the outcome, which the report reads. No host is
an error, and so is a host on which no check passed.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from . import checks

HERE = Path(__file__).resolve().parent
# The host variables that checks read, with the roles' defaults.
OPTIONS: dict[str, Any] = json.loads((HERE / "options.json").read_text(encoding="utf-8"))
MARK = "PROVISION-PROBE "
# Each host is one ssh process that mostly waits for TensorFlow.
PARALLEL = 25
# testinfra's own options for how hosts are reached.
CONNECTION = (
    *("connection", "ssh_config", "ssh_identity_file", "ansible_inventory", "force_ansible"),
    *("sudo", "sudo_user"),
)


def utc(seconds: float) -> str:
    """A timestamp as report.json has it: ISO 8601, UTC."""
    moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


class Run:
    """The hosts of this session and their verdicts."""

    def __init__(self) -> None:
        self.hosts: dict[str, checks.Seen] = {}
        self.results: dict[str, list[dict[str, str]]] = {}
        self.started = time.time()

    def take(self, host: str, check: checks.Check) -> checks.Verdict:
        """Runs one check on one host and keeps the verdict."""
        verdict = check(self.hosts[host])
        entry = {"id": check.id, "title": check.title, **vars(verdict)}
        self.results.setdefault(host, []).append(entry)
        return verdict

    def outcome(self) -> dict[str, Any]:
        """The content of checks.json."""
        hosts, verdicts = {}, {}
        for name, seen in self.hosts.items():
            results = self.results.get(name, [])
            summary = {
                kind: sum(1 for entry in results if entry["result"] == kind)
                for kind in ("passed", "failed", "not_applicable")
            }
            hosts[name] = {"checks": results, "summary": summary, "found": checks.facts(seen)}
            bad = [entry for entry in results if entry["result"] == "failed"]
            if bad:
                verdicts[name] = "\n".join(
                    f"{entry['title']}: NO. {entry['diagnosis']}"
                    + (f"\n  cure: {entry['hint']}" if entry["hint"] else "")
                    for entry in bad
                )
            elif not summary["passed"]:
                verdicts[name] = "no check passed"
        return {
            "format": 1,
            "started": utc(self.started),
            "finished": utc(time.time()),
            "hosts": hosts,
            "verdicts": verdicts,
        }


RUN = pytest.StashKey[Run]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("provision")
    group.addoption(
        "--provision-hosts",
        metavar="FILE",
        help="Hosts with their recorded probes, from the verify play; - is stdin",
    )
    group.addoption("--provision-checks", metavar="FILE", help="Where to write the outcome")
    group.addoption(
        "--provision-lock",
        metavar="FILE",
        default=os.environ.get("PROVISION_LOCK") or str(HERE.parent / "lock.yml"),
        help="The lock (lock.yml beside this folder, or PROVISION_LOCK)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RUN] = Run()


def load_lock(path: Path) -> dict[str, Any]:
    """The slim lock: rows and stacks."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        lock = data["gpu_lock"]
    except OSError as error:
        raise pytest.UsageError(f"{path}: {error.strerror}; name it by --provision-lock") from None
    except (yaml.YAMLError, ValueError, KeyError, TypeError):
        raise pytest.UsageError(f"{path}: not a lock") from None
    return dict(lock)


def parse_probe(output: str) -> dict[str, Any]:
    """The probe's JSON, found in output that may begin with a login banner."""
    for line in output.splitlines():
        if line.startswith(MARK):
            answer = json.loads(line[len(MARK) :])
            if isinstance(answer, dict):
                return answer
    raise ValueError("the probe's line is missing")


def seen_of(entry: dict[str, Any], lock_digest: str | None) -> checks.Seen:
    """A host from the verify play's entry: row, options, and the probe's output or an error."""
    row, options = entry.get("row") or {}, OPTIONS | (entry.get("options") or {})
    try:
        probe = parse_probe(entry.get("stdout") or "")
    except ValueError:
        lines = str(entry.get("stderr") or entry.get("msg") or "").strip().splitlines()
        why = lines[-1] if lines else "it printed nothing"
        error = f"the probe did not run: {why}"
        return checks.Seen(row, options, {}, lock_digest, error, planned_of(entry))
    try:
        handed = json.loads(entry.get("handed") or "null")
    except ValueError:
        handed = None
    if isinstance(handed, dict):
        probe["handed"] = handed
    elif entry.get("handed_error"):
        probe["handed"] = {"error": str(entry["handed_error"]).strip().splitlines()[-1]}
    return checks.Seen(row, options, probe, lock_digest, planned=planned_of(entry))


def planned_of(entry: dict[str, Any]) -> tuple[tuple[str, str], ...] | None:
    """(component, item) of each change in the host's plan; None without a plan."""
    planned = entry.get("planned")
    if not isinstance(planned, list):
        return None
    return tuple((str(change["component"]), str(change["item"])) for change in planned)


def recorded_hosts(source: str) -> dict[str, checks.Seen]:
    """The hosts in the verify play's JSON; `source` is a file or - for stdin."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        data = json.loads(text)
        digest, hosts = data.get("lock_digest"), data["hosts"]
        return {name: seen_of(hosts[name], digest) for name in sorted(hosts)}
    except OSError as error:
        raise pytest.UsageError(f"{source}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise pytest.UsageError(f"{source}: not the verify play's JSON") from None


def choose_row(
    lock: dict[str, Any], platform: dict[str, str], wish: Any, receipt: str | None
) -> dict[str, Any]:
    """The lock's stack for a host: by platform and wish, and by its receipt where several fit.

    Raises LookupError with the reason.
    """
    rows = [row for row in lock.get("rows") or [] if row.get("platform") == platform]
    if isinstance(wish, dict):
        rows = [row for row in rows if row.get("wish") == wish]
    stacks = {row["stack"]: row.get("beside") or [] for row in rows}
    if len(stacks) > 1 and receipt in stacks:
        stacks = {str(receipt): stacks[str(receipt)]}
    if len(stacks) == 1:
        ((name, beside),) = stacks.items()
        more = {"beside": [lock["stacks"][neighbour]["tensorflow"] for neighbour in beside]}
        return {**lock["stacks"][name], **(more if beside else {})}
    where = " ".join(platform.values())
    why = "several stacks" if stacks else "no stack"
    raise LookupError(f"the lock has {why} for {where}")


def ask(host: Any, lock: dict[str, Any]) -> checks.Seen:
    """Probes one host through testinfra, in two round trips: platform and receipt, then the probe.

    A host that can't be asked has the reason as its `error`.
    """
    digest = lock.get("digest")
    try:
        try:
            variables = host.ansible.get_variables()
        except RuntimeError:
            variables = {}  # not an ansible:// connection
        options = {key: variables.get(key, default) for key, default in OPTIONS.items()}
        release = dict(
            line.split("=", 1)
            for line in host.check_output("cat /etc/os-release; uname -m | sed s/^/MACHINE=/")
            .replace('"', "")
            .splitlines()
            if "=" in line
        )
        platform = {
            "distribution": release.get("ID", ""),
            "release": release.get("VERSION_ID", ""),
            "architecture": release.get("MACHINE", ""),
        }
        answer = host.run("cat /var/lib/provision/receipt.json").stdout
        receipt = json.loads(answer).get("stack") if answer.strip().startswith("{") else None
        row = choose_row(lock, platform, variables.get("gpu_stack"), receipt)
        parameters = json.dumps({"row": row, "options": options})
        program = (HERE / "probe.py").read_text(encoding="utf-8")
        done = host.run("python3 -c %s %s", program, parameters)
    except (RuntimeError, AssertionError, OSError, ValueError, LookupError) as error:
        lines = str(error).strip().splitlines()
        return checks.Seen({}, OPTIONS, {}, digest, lines[-1] if lines else repr(error))
    entry = {"row": row, "options": options, "stdout": done.stdout, "stderr": done.stderr}
    return seen_of(entry, digest)


def connected_hosts(config: pytest.Config) -> dict[str, checks.Seen]:
    """The hosts named by testinfra's own options."""
    import testinfra

    option = config.option
    names = option.hosts.split(",") if option.hosts else [None]
    if names == [None] and not option.connection:
        return {}
    given = {name: getattr(option, name) for name in CONNECTION}
    hosts = testinfra.get_hosts(names, **given)
    lock = load_lock(Path(config.getoption("--provision-lock")))
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        answers = list(pool.map(lambda host: ask(host, lock), hosts))
    by_name = (
        (host.backend.get_pytest_id().rpartition("://")[2], answer)
        for host, answer in zip(hosts, answers, strict=True)
    )
    return dict(sorted(by_name))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per host and check, grouped by host."""
    if not {"machine", "check"} <= set(metafunc.fixturenames):
        return
    run = metafunc.config.stash[RUN]
    if not run.hosts:
        source = metafunc.config.getoption("--provision-hosts")
        run.hosts = recorded_hosts(source) if source else connected_hosts(metafunc.config)
    cases = [
        (host, check)
        for host, seen in run.hosts.items()
        for check in (*checks.CHECKS, *checks.beside(seen))
        if check.only(seen)
    ]
    metafunc.parametrize(
        ("machine", "check"), cases, ids=[f"{host}: {check.title}" for host, check in cases]
    )


@pytest.fixture
def judged(request: pytest.FixtureRequest, machine: str, check: checks.Check) -> checks.Verdict:
    """The verdict of the test's check on the test's host."""
    return request.config.stash[RUN].take(machine, check)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Writes the outcome; fails the session where no check passed on a host or there is no host."""
    run = session.config.stash[RUN]
    if session.config.option.collectonly:
        return
    outcome = run.outcome()
    if outcome["verdicts"] and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if not run.hosts and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
    target = session.config.getoption("--provision-checks")
    if target and run.hosts:
        path = Path(target)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        # A byte of a host that is no UTF-8 is a lone surrogate here; JSON reads back its \udce9.
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            json.dump(outcome, stream, indent=1, ensure_ascii=False)
            stream.write("\n")
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
