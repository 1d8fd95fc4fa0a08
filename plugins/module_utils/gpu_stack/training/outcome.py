"""How a job is, by what its workers' supervisors have written down. Pure."""

from __future__ import annotations

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

# As the supervisors say it (verdicts.py of the supervisor), and what is to be said besides.
COMPLETE, ENDED, FAILED, STOPPED = "complete", "ended", "failed", "stopped"
RUNNING, UNKNOWN, LOST = "running", "unknown", "lost"
# Not what was wanted: a play ends with an error.
BROKEN = (ENDED, FAILED, UNKNOWN, LOST)
# Seconds without a line and without an epoch after which a worker may hang: the first step of a
# large model on several hosts takes minutes.
QUIET = 300.0


def of(plan: dict[str, Any], after: str, answers: dict[str, Any]) -> dict[str, Any]:
    """{job, state, words, workers, jobs} after following, a status, a stop, or a start."""
    result: dict[str, Any] = {"job": plan["job"], "workers": {}, "jobs": {}}
    if after == "started":
        return dict(result, state=RUNNING, words="the job {0} was started".format(plan["job"]))
    if after == "status" and not plan["job"]:
        result["jobs"] = _jobs(answers)
        return dict(result, state=COMPLETE, words="{0} jobs".format(len(result["jobs"])))
    workers = {host: entry for host, entry in answers.items() if entry and entry.get("status")}
    result["workers"] = {host: entry["status"] for host, entry in workers.items()}
    if not workers:
        words = "no host of these knows a job {0}".format(plan["job"])
        return dict(result, state=UNKNOWN, words=words)
    state, words = state_of(workers)
    return dict(result, state=state, words="{0}: {1}".format(plan["job"], words))


def state_of(workers: dict[str, dict[str, Any]]) -> tuple[str, str]:
    """(state, words) of a job, of what is known of its workers: {host: {status, active}}."""
    ends = [
        (entry["status"]["worker"] or 0, entry["status"]["verdict"], entry["status"]["reason"])
        for entry in workers.values()
        if entry["status"]["verdict"]
    ]
    chief = next((entry for entry in workers.values() if entry["status"]["worker"] == 0), None)
    mark = (chief or {}).get("status", {}).get("mark") or {}
    if ends:
        # The board's own word, where it is here; the others have theirs from it.
        _worker, verdict, reason = min(ends)
        words = verdict
        if verdict == COMPLETE and mark:
            words = "complete: {0}".format(mark["model"])
        return verdict, words + (": " + reason if reason else "")
    if any(entry.get("active") for entry in workers.values()):
        return RUNNING, "running" + progress(chief["status"] if chief else {})
    hosts = ", ".join(sorted(workers))
    return LOST, "its supervisors are gone without a word, as after a reboot, on {0}".format(hosts)


def progress(status: dict[str, Any]) -> str:
    """ ", epoch 3 of 10, 1 restart"."""
    words = ""
    reported = status.get("progress") or {}
    if reported:
        words += ", epoch {0} of {1}".format(reported.get("epoch"), reported.get("epochs"))
    restarts = (status.get("board") or {}).get("restarts")
    if restarts:
        words += ", {0} restart{1}".format(restarts, "" if restarts == 1 else "s")
    return words


def hint(status: dict[str, Any]) -> str:
    """What to try with a worker that seems to hang; "" for one that does not.

    It has printed nothing for a while, and no epoch of this try is done.
    """
    since, at = status.get("since"), (status.get("progress") or {}).get("at")
    quiet = status.get("quiet") or 0.0
    if status["verdict"] or quiet < QUIET or since is None or (at is not None and at >= since):
        return ""
    words = "nothing was printed for {0:.0f} min, and no epoch of this try is done".format(
        quiet / 60
    )
    if "Started server" in (status.get("last") or ""):
        return words + (
            ": it waits for its peers, and the log of one of them says why that does not come "
            "(tensorflow#46931)"
        )
    if status.get("communication") == "RING":
        return words + ": compare the logs of all workers; by RING it is not NCCL that hangs"
    return words + (
        ". If it hangs in its first step, try --communication ring: if that trains, NCCL's way "
        "between the hosts is at fault (tensorflow#37693), and NCCL_DEBUG=INFO in "
        "gpu_train_environment makes it say where"
    )


def _jobs(answers: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """{job: {state, hosts}} of the lists that the hosts gave."""
    jobs: dict[str, Any] = {}
    for host, entries in answers.items():
        for entry in entries:
            job = jobs.setdefault(
                entry["job"], {"hosts": [], "verdict": "", "epoch": None, "active": False}
            )
            job["hosts"].append(host)
            job["verdict"] = job["verdict"] or entry["verdict"]
            job["active"] |= entry["active"]
            if entry["worker"] == 0 and entry["progress"]:
                job["epoch"] = entry["progress"].get("epoch")
    return jobs


def lines(report: dict[str, Any]) -> list[str]:
    """The lines about report/training.json: what failed, how the job is, what to do with it."""
    text: list[str] = report["refused"].splitlines()
    for name, host in sorted(report["hosts"].items()):
        if host["message"]:
            text.append("{0}: {1}".format(name, host["status"]))
            text += ["  " + line for line in host["message"].splitlines()]
    outcome = report["outcome"]
    if not outcome:
        return text
    text.append(outcome["words"])
    for job, entry in sorted(outcome["jobs"].items()):
        epoch = "" if entry["epoch"] is None else ", epoch {0}".format(entry["epoch"])
        state = entry["verdict"] or (RUNNING if entry["active"] else LOST)
        text.append("  {0}: {1}{2} ({3})".format(job, state, epoch, ", ".join(entry["hosts"])))
    for host, status in sorted(outcome["workers"].items(), key=lambda pair: pair[1]["worker"] or 0):
        text.append("  worker {0} on {1}: {2}{3}".format(
            status["worker"], host, status["work"], progress({"progress": status["progress"]})
        ))  # fmt: skip
        text += ["    " + line for line in (status.get("trouble"), hint(status)) if line]
        for cause in (status.get("board") or {}).get("history") or []:
            text.append("    try {0}: worker {1} on {2} {3}".format(
                cause["generation"] + 1, cause["worker"], cause["host"], cause["words"]
            ))  # fmt: skip
    return text
