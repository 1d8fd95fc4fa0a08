"""`provision train`: one script on several hosts as one job, and the way back to it."""

from __future__ import annotations

import enum
import json
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from provision import collection, home, run
from provision.cli import running
from provision.cli.console import err, out, print_json, say, shell_word
from provision.cli.run_options import RunRequest, takes_run_options
from provision.errors import InputError
from provision.run import Event


class Communication(str, enum.Enum):
    """How workers exchange gradients: training/judge.py in the collection."""

    auto = "auto"
    nccl = "nccl"
    ring = "ring"


HOSTS = typer.Argument(metavar="HOSTS", help="A group or a pattern of the inventory.")
# Hidden: typer would show its Python type. The usage line has it.
ARGUMENTS = typer.Argument(metavar="-- ARGUMENT", hidden=True)
SCRIPT = typer.Option("--script", metavar="FILE", help="The Python script, on this machine.")
JOB = typer.Option("--job", metavar="NAME", help="The job's name.  [default: script and time]")
PORT = typer.Option(
    "--port", metavar="N", help="The workers' port; N+1 is worker 0's second.  [default: 2222]"
)
KIND = typer.Option("--communication", help="How gradients are exchanged.  [default: auto]")
GPUS = typer.Option("--gpus", metavar="LIST", help="Numbers of GPUs, as 0,1.  [default: all]")
USER = typer.Option("--user", metavar="NAME", help="As whom.  [default: who logs in there]")
RESTARTS = typer.Option(
    "--restarts", metavar="N", min=0, help="How often all are started again.  [default: 10]"
)
FINAL = typer.Option(
    "--final",
    metavar="PATH",
    help="What worker 0 has written when a script without our helper is complete.",
)
RESUME = typer.Option("--resume", help="Go on with a job of this name that is over.")
DETACH = typer.Option("--detach", "-d", help="Start it, and do not watch.")
FOLLOW = typer.Option("--follow", metavar="JOB", help="Watch a job again.")
STATUS = typer.Option("--status", metavar="JOB", help="Say how a job is.")
STOP = typer.Option("--stop", metavar="JOB", help="Stop all workers of a job.")
DIAGNOSE = typer.Option(
    "--diagnose",
    help="Say by which way workers exchange gradients, RING or NCCL, and train nothing.",
)
JOBS = typer.Option("--jobs", help="List the jobs of the hosts.")


@takes_run_options(without={"tags", "skip_tags", "deep"})
def train(
    *,
    hosts: Annotated[str, HOSTS] = "",
    arguments: Annotated[list[str] | None, ARGUMENTS] = None,
    script: Annotated[Path | None, SCRIPT] = None,
    job: Annotated[str | None, JOB] = None,
    port: Annotated[int | None, PORT] = None,
    communication: Annotated[Communication | None, KIND] = None,
    gpus: Annotated[str | None, GPUS] = None,
    user: Annotated[str | None, USER] = None,
    restarts: Annotated[int | None, RESTARTS] = None,
    final: Annotated[str | None, FINAL] = None,
    resume: Annotated[bool, RESUME] = False,
    detach: Annotated[bool, DETACH] = False,
    follow: Annotated[str | None, FOLLOW] = None,
    status: Annotated[str | None, STATUS] = None,
    stop: Annotated[str | None, STOP] = None,
    diagnose: Annotated[bool, DIAGNOSE] = False,
    jobs: Annotated[bool, JOBS] = False,
    request: RunRequest,
) -> None:
    """Train with one script on several hosts, as one job.

    What follows -- is the script's. All workers are started again where one is killed. The job
    outlives this command: Ctrl-C asks whether to stop it. Exit code 0 where the training is
    complete, 6 where every worker ended and nothing says that it is, 4 where it failed.
    """
    wanted = {
        "gpu_train_hosts": hosts or None,
        "gpu_train_arguments": arguments or None,
        "gpu_train_script": None if script is None else str(home.expanded(script).absolute()),
        "gpu_train_job": job,
        "gpu_train_port": port,
        "gpu_train_communication": communication and communication.value,
        "gpu_train_gpus": gpus,
        "gpu_train_user": user,
        "gpu_train_restarts": restarts,
        "gpu_train_final": final,
        "gpu_train_resume": resume or None,
        "gpu_train_diagnose": diagnose or None,
        "gpu_train_follow": False if detach else None,
    }
    action = _action(wanted, {"follow": follow, "status": status, "stop": stop}, jobs=jobs)
    running.check_fresh(request.project)
    done, view = _run(request, {**wanted, **action})
    view.trains = not diagnose
    if done.interrupted and view.job:
        _interrupted(request, wanted, view, starts=action["gpu_train_action"] == "start")
    _show(request, done, view, user)
    raise typer.Exit(done.exit_code)


def _action(
    wanted: Mapping[str, Any], back: Mapping[str, str | None], *, jobs: bool
) -> dict[str, Any]:
    """The variables of one thing to do. InputError for none, and for several."""
    chosen = {name: job for name, job in back.items() if job is not None}
    asked = [f"--{name}" for name in chosen] + (["--jobs"] if jobs else [])
    if wanted["gpu_train_script"] is not None:
        asked.insert(0, "--script")
    if wanted["gpu_train_diagnose"]:
        asked.insert(0, "--diagnose")
    if len(asked) != 1:
        raise InputError(
            "name one thing to do" if not asked else "these do not go together",
            where="provision train",
            got=", ".join(asked),
            expected="HOSTS --script FILE, HOSTS --diagnose, or one of --follow, --status, "
            "--stop JOB and --jobs",
        )
    if asked[0] in ("--script", "--diagnose"):
        script = Path(wanted["gpu_train_script"] or "")
        if not wanted["gpu_train_hosts"]:
            action = f"{asked[0]} {script.name}".strip()
            raise InputError("on which hosts?", where="HOSTS", hint=f"provision train all {action}")
        if asked[0] == "--script" and not script.is_file():
            raise InputError("there is no such script", where="--script", got=str(script))
        return {"gpu_train_action": "start"}
    if jobs:
        return {"gpu_train_action": "status"}
    ((name, job),) = chosen.items()
    return {"gpu_train_action": name, "gpu_train_job": job}


@dataclass
class View:
    """What is shown while a job is watched."""

    quiet: bool
    job: str = ""
    # Whether a worker was being started, and whether one was heard of.
    begun: bool = False
    started: bool = False
    # Whether it has logs for TensorBoard.
    trains: bool = True
    restarts: int = 0

    def on_event(self, event: Event) -> None:
        kind = event.get("event")
        self.begun |= kind == "starting"
        self.started |= kind in {"line", "state"}
        if kind == "job":
            self.job = str(event.get("job") or "") if event.get("action") != "status" else ""
        elif kind == "line" and not self.quiet:
            say(f"{event['worker']} {event['host']}: {event['text']}")
        elif kind == "note":
            who = f"worker {event['worker']} on {event['host']}: " if "worker" in event else ""
            say(f"{who}{event['text']}", err)
        elif kind == "state" and event.get("worker") == 0:
            history = event.get("restarts") or []
            for cause in history[self.restarts :]:
                say(
                    f"worker {cause['worker']} on {cause['host']} {cause['words']}: "
                    "all are started again",
                    err,
                )
            self.restarts = len(history)


def _run(request: RunRequest, wanted: Mapping[str, Any]) -> tuple[run.Training, View]:
    variables = {name: value for name, value in wanted.items() if value is not None}
    # As JSON: Ansible would split NAME=VALUE at spaces, and make text of it.
    options = replace(
        request.options, extra_vars=[*request.options.extra_vars, json.dumps(variables)]
    )
    view = View(quiet=request.as_json or not request.quiet)
    return run.train(request.project, options, view.on_event, quiet=request.quiet), view


def _interrupted(
    request: RunRequest, wanted: Mapping[str, Any], view: View, *, starts: bool
) -> None:
    """Asks whether all workers are to be stopped; without a terminal none is.

    Of a job that was still being started nothing stays.
    """
    job = view.job
    if starts and not view.started:
        # Where nothing was begun, a running job of this name is somebody else's.
        if view.begun:
            _stop(request, wanted, job)
        else:
            say("Nothing was started.", err)
        view.job = ""
        return
    if not sys.stdin.isatty():
        return
    # The run that was interrupted has switched it off.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        # stdout may be a file.
        question = f"\nThe job {job} goes on. Stop all of its workers? [y/N] "
        answer = err.input(question, markup=False, emoji=False)
    except (EOFError, KeyboardInterrupt):
        answer = ""
    if answer.strip().lower() in {"y", "yes"}:
        _stop(request, wanted, job)


def _stop(request: RunRequest, wanted: Mapping[str, Any], job: str) -> None:
    """Stops what there is of a job, on the hosts and as the user of `wanted`, and says so."""
    same = {name: wanted[name] for name in ("gpu_train_hosts", "gpu_train_user")}
    done, _view = _run(request, {**same, "gpu_train_action": "stop", "gpu_train_job": job})
    for line in _lines(done.report):
        say(line, err if request.as_json else out)


def _lines(report: Mapping[str, Any] | None) -> list[str]:
    """The collection's own words, so that Ansible alone says the same."""
    if report is None:
        return []
    lines: list[str] = collection.stack_module("training.outcome").lines(report)
    return lines


def _show(request: RunRequest, done: run.Training, view: View, user: str | None) -> None:
    if done.report is None and not done.interrupted:
        outcome = run.Outcome(None, 0, done.exit_code, done.log)
        raise running.no_report(outcome, quiet=request.quiet)
    if request.as_json:
        print_json(done.report)
        return
    for line in _lines(done.report):
        say(line)
    said = (done.report or {}).get("outcome") or {}
    if not view.job or not (said or done.interrupted):
        return
    options = "" if request.project == Path() else f" --project {shell_word(request.project)}"
    if user:
        options += f" --user {user}"
    folder = request.project / "report" / "training" / view.job
    if folder.is_dir():
        say(f"What the workers printed: {folder}")
    if said.get("state", "running") == "running":
        say(f"Watch it again: provision train --follow {view.job}{options}")
        say(f"Stop it:        provision train --stop {view.job}{options}")
    chief = next((t for t in said.get("workers", {}).values() if t["worker"] == 0), None)
    if chief is not None and view.trains:
        say(f"TensorBoard, on that host: tensorboard --logdir {chief['work']}/logs")
