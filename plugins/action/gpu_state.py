"""The look in one command over the connection that is already open.

Ansible's way of running a module (packing it, starting a Python, unpacking it there) costs more
than the look itself: 51 s against 21 s on 100 hosts. So the sources of `gpu_stack` and the
parameters go to the standard input of the host's own Python, with become, and the answer comes back
on its standard output; the parameters alone where a host keeps the sources compiled. Where the
connection has no standard input, or its shell refuses, the module of the same name does the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

from ansible import release
from ansible.errors import (
    AnsibleActionFail,
    AnsibleConnectionFailure,
    AnsibleError,
    AnsibleUndefinedVariable,
)
from ansible.module_utils import basic
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import become_loader, connection_loader, lookup_loader, shell_loader
from ansible.utils.path import unfrackpath
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import digests
from ansible_collections.provision.gpu.plugins.module_utils.piped_look import WANTED
from ansible_collections.provision.gpu.plugins.plugin_utils import (
    ansible_core,
    given_files,
    host_options,
    look_sources,
    slurm_hosts,
    time_limit,
)
from ansible_collections.provision.gpu.plugins.plugin_utils.host_options import plain

CORE: str = release.__version__
# The oldest Python on hosts, from the installed ansible-core where it still has this attribute: it
# may be newer than our table of releases.
_OF_CORE = ".".join(str(number) for number in getattr(basic, "_PY_MIN", ()))
OLDEST_PYTHON = _OF_CORE or ansible_core.oldest_python(CORE)

# Begins the line of the answer, for login scripts may write to standard output too.
MARK = "GPU_STATE_ANSWER:"
NO_PYTHON = "GPU_STATE_NO_PYTHON"
# sudo's messages once it has the password, in the C locale that Ansible sets.
NO_RIGHTS = re.compile(
    r"^.*(is not in the sudoers file|is not allowed to (execute|run)|may not run).*", re.M
)

# Runs on the host: reports a Python that is older than the installed ansible-core manages.
GUARD = """
import sys
if sys.version_info < {oldest!r}:
    import json
    version = ".".join(str(number) for number in sys.version_info[:3])
    print({mark!r} + json.dumps({{"too_old": [version, sys.executable]}}))
    sys.exit(0)
"""

# Run on the host after the guard, and as text, which an old Python could not even parse.
PROGRAM = (Path(__file__).resolve().parent.parent / "module_utils" / "piped_look.py").read_text(
    encoding="utf-8"
)
CALL = """
piped_look = {{}}
exec(compile({program!r}, "<piped_look>", "exec"), piped_look)
piped_look["respond"]({mark!r}, {packed!r}, {digest!r}, {parameters!r}, {check_mode!r})
"""


# Ansible loads this file once, before it forks a worker for each host: this is packed once per run
# and not once per host.
PACKED = look_sources.packed()
DIGEST = hashlib.sha256(PACKED.encode("ascii")).hexdigest()


def script(parameters: dict[str, Any], check_mode: bool, sources: bool = True) -> str:
    """The Python program that a host runs; about two hundred kilobytes.

    Without `sources` a tenth of it, for a host that keeps them compiled.
    """
    # The doctor looks once, with modules of its own.
    doctor = bool(parameters.get("doctor"))
    packed = look_sources.packed(doctor=True) if doctor else PACKED
    return (GUARD + CALL).format(
        mark=MARK,
        oldest=ansible_core.numbers(OLDEST_PYTHON),
        program=PROGRAM,
        packed=packed if sources else "",
        digest="" if doctor else DIGEST,
        parameters=json.dumps(parameters),
        check_mode=check_mode,
    )


def too_old(answer: dict[str, Any]) -> dict[str, Any] | None:
    """A failed result where the installed ansible-core does not manage the Python; else None."""
    if "too_old" not in answer:
        return None
    python, interpreter = answer["too_old"]
    message = ansible_core.refusal(CORE, OLDEST_PYTHON, python, interpreter)
    return {"failed": True, "msg": message}


def command(interpreter: str | None, arguments: str = "-IS -") -> str:
    """A shell command that starts the host's Python, which reads its standard input by default.

    Without an interpreter of the user's choice the platform's own is used: discovery would cost
    another round trip.
    """
    candidates = [interpreter] if interpreter else ["/usr/bin/python3", "python3"]
    # -I -S: the standard library and nothing else, neither of the host's nor of the directory's.
    tries = "; ".join(
        f"command -v {shlex.quote(path)} >/dev/null 2>&1 && exec {shlex.quote(path)} {arguments}"
        for path in candidates
    )
    return f"{tries}; echo {NO_PYTHON} >&2; exit 127"


def parse(stdout: str) -> dict[str, Any] | None:
    """The host's answer; None when there is none."""
    for line in stdout.splitlines():
        if line.startswith(MARK):
            answer = json.loads(line[len(MARK) :])
            return answer if isinstance(answer, dict) else None
    return None


def no_password(error: str, user: str) -> str | None:
    """What to do about sudo's "Missing sudo password"; None for any other error.

    sudo also asks users without any rights, and refuses them only once it has the password.
    """
    match = re.search(r"(Missing|Incorrect) (\w+) password", error)
    if match is None:
        return None
    kind, program = match.groups()
    who = f"the user {user}" if user else "the user who logs in"
    if kind == "Incorrect":
        return f"{program} does not take this password of {who} on this host, or gives no rights"
    return (
        f"{program} asks {who} for a password on this host: run with -K (--ask-become-pass). If "
        f"that user has no right to use {program}, give it, or set ansible_user to one who has"
    )


def _warm() -> None:
    """Loads plugins before Ansible forks a worker for each host.

    Otherwise a hundred workers read the same plugins and their documentation a hundred times.
    """
    for loader, name in (
        (connection_loader, "ansible.builtin.ssh"),
        (become_loader, "ansible.builtin.sudo"),
        (shell_loader, "ansible.builtin.sh"),
        (lookup_loader, "ansible.builtin.env"),
    ):
        with contextlib.suppress(Exception):  # the worker that needs it reports the error
            loader.get(name, class_only=True)


_warm()


def _tags(value: Any) -> list[str]:
    parts = value.split(",") if isinstance(value, str) else value
    return [str(part).strip() for part in parts]


def wants_terminal(error: str, user: str) -> str | None:
    """What to do where sudo refuses to work without a terminal; None for any other error."""
    if "must have a tty" not in error:
        return None
    return (
        "sudo wants a terminal on this host (Defaults requiretty), and a run has none. Exempt the "
        f"user who logs in: `Defaults:{user or 'USER'} !requiretty` in a file of /etc/sudoers.d"
    )


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible has no types
    """Pipes the look to the host's Python, or falls back to the module."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        parameters = self._parameters(task_vars)
        # Set by the report's callback, so that the look does not report this run's own lock.
        parameters["run"] = os.environ.get("PROVISION_RUN_ID")
        # The doctor's task has a limit of its own, and its questions theirs.
        if "gpu_look_timeout" not in task_vars or parameters.get("doctor"):
            return self._answer(parameters, task_vars)
        timeout = self._templar.template(task_vars["gpu_look_timeout"])
        limit = time_limit.seconds(timeout, parameters["deep"])
        try:
            with time_limit.within(limit):
                return self._answer(parameters, task_vars)
        except time_limit.OutOfTimeError:
            # In ansible-core's form, which the report knows.
            message = f"The look was not done after {limit} s"
            return {"failed": True, "msg": message, "timedout": {"period": limit}}

    def _answer(self, parameters: dict[str, Any], task_vars: dict[str, Any]) -> Any:
        """The host's plan: piped, or by the module where that can't be."""
        answer = self._piped(parameters, task_vars)
        if answer is None:
            answer = self._too_old(task_vars)
        if answer is None:
            answer = self._execute_module(
                module_name="provision.gpu.gpu_state", module_args=parameters, task_vars=task_vars
            )
        return answer

    def _parameters(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        """The module's arguments, as plain JSON types.

        Options that the task lacks come from the host's variables. `lock` and `wish` are literal
        data by definition and are not templated: that would cost every host more than its look.
        """
        arguments = dict(self._task.args)
        accepted = {"lock", "wish", "options", "only", "skip", "deep", "doctor", "logs"}
        unknown = set(arguments) - accepted
        if unknown:
            raise AnsibleActionFail(f"gpu_state has no option {', '.join(sorted(unknown))}")
        options = host_options.of_host(self._templar, task_vars)
        options["gpu_workspace_digests"] = self._digests("gpu_workspace_tokens", task_vars)
        options["gpu_serving_digests"] = self._digests("gpu_serving_tokens", task_vars)
        options["gpu_workspace_passed"] = self._digests("gpu_workspace_passwords", task_vars)
        if options.get("gpu_front_door_name"):
            options["gpu_front_door_given"] = given_files.front_door(self._loader, options)
        options["slurm_host"] = slurm_hosts.place(self._templar, task_vars, options)
        if options.get("nvidia_driver_signing_key_file"):
            options["nvidia_driver_signing_given"] = given_files.signing(self._loader, options)
        absent = self._absent_archive(task_vars)
        if absent:
            options["cudnn_archive_absent"] = absent
        doctor = {}
        if boolean(self._templar.template(arguments.get("doctor", False)), strict=False):
            logs = arguments.get("logs", task_vars.get("gpu_doctor_logs", []))
            doctor = {
                "doctor": True,
                "logs": _tags(plain(self._templar.template(logs) or [])),
                "host": task_vars.get("inventory_hostname"),
            }
        return doctor | {
            "lock": self._mapping("lock", arguments.get("lock", task_vars.get("gpu_lock"))),
            "wish": self._mapping("wish", arguments.get("wish", task_vars.get("gpu_stack", {}))),
            "options": host_options.typed(
                options | self._mapping("options", arguments.get("options") or {})
            ),
            "only": _tags(arguments.get("only", task_vars.get("ansible_run_tags") or ["all"])),
            "skip": _tags(arguments.get("skip", task_vars.get("ansible_skip_tags") or [])),
            "deep": boolean(
                self._templar.template(arguments.get("deep", task_vars.get("gpu_deep", False))),
                strict=False,
            ),
        }

    def _mapping(self, name: str, value: Any) -> dict[str, Any]:
        if isinstance(value, str):
            value = self._templar.template(value)
        if not isinstance(value, dict):
            raise AnsibleActionFail(f"gpu_state: {name} is not a mapping but {type(value)}")
        return dict(plain(value))

    def _digests(self, variable: str, task_vars: dict[str, Any]) -> dict[str, str]:
        """SHA-256 of each secret of a variable: the look compares them, and sees no secret."""
        tokens = plain(self._templar.template(task_vars.get(variable) or {}))
        if not isinstance(tokens, dict):
            return {}
        return {name: digests.of_text(str(token)) for name, token in tokens.items()}

    def _absent_archive(self, task_vars: dict[str, Any]) -> str:
        """cudnn_controller_file where this machine has no such file to read, else ""."""
        if task_vars.get("cudnn_host_file") or not task_vars.get("cudnn_controller_file"):
            return ""
        try:
            path = plain(self._templar.template(task_vars["cudnn_controller_file"]))
        except AnsibleUndefinedVariable:  # the role reports it, where it needs the archive
            return ""
        # As `cudnn_archive` reads it, with the controller's variables written out.
        there = path and os.access(unfrackpath(str(path), follow=False), os.R_OK)
        return "" if there or not path else str(path)

    def _piped(self, parameters: dict[str, Any], task_vars: dict[str, Any]) -> Any:
        """The answer of the piped look; None where this connection can't pipe it."""
        if not self._connection.has_pipelining:
            return None
        become = self._connection.become
        # ansible-core 2.17 knows it only by name: su reads its password from standard input.
        if become is not None and not getattr(become, "pipelining", become.name != "su"):
            return None
        interpreter = self._interpreter(task_vars)
        # A look that would be long to do twice, and the doctor's, are sent whole.
        whole = bool(parameters.get("doctor") or parameters.get("deep"))
        try:
            for sources in (True,) if whole else (False, True):
                result = self._low_level_execute_command(
                    command(interpreter),
                    sudoable=True,
                    in_data=script(parameters, self._task.check_mode, sources).encode("utf-8"),
                )
                answer = parse(result.get("stdout", ""))
                if WANTED not in (answer or {}):
                    break
        except AnsibleConnectionFailure:
            raise
        except AnsibleError as error:
            user = str(self._connection.get_option("remote_user") or "")
            message = no_password(str(error), user)
            if message is None:
                raise
            return {"failed": True, "msg": message}
        if answer is not None:
            return too_old(answer) or answer
        message = self._refusal(result, interpreter)
        if message is not None:
            return {"failed": True, "msg": message}
        self._display.vvv(
            f"gpu_state: the piped look gave no answer (rc {result.get('rc')}), using the module: "
            + result.get("stderr", "")
        )
        return None

    def _refusal(self, result: dict[str, Any], interpreter: str | None) -> str | None:
        """Why the look did not start and what to do; None where the module may get further."""
        output = result.get("stdout", "") + result.get("stderr", "")
        if NO_PYTHON in result.get("stderr", ""):
            return (
                f"there is no Python on this host ({interpreter or 'python3'} was not found). "
                "Install it, on Debian and Ubuntu with `apt-get install python3`, or set "
                "ansible_python_interpreter to where it is"
            )
        refused = NO_RIGHTS.search(output)
        if refused is not None:
            return (
                f"sudo says on this host: {refused.group().strip()} Give that user the right "
                "to become root, or set ansible_user to one who has it"
            )
        # Not every connection knows a remote user: `local` has none.
        message = wants_terminal(output, str(self._get_remote_user() or ""))
        # Without pipelining Ansible asks ssh for a terminal, and the module works.
        if message is not None and self._connection.get_option("pipelining"):
            return message
        return None

    def _too_old(self, task_vars: dict[str, Any]) -> dict[str, Any] | None:
        """A failed result where the Python is too old for any module; else None."""
        guard = GUARD.format(mark=MARK, oldest=ansible_core.numbers(OLDEST_PYTHON))
        ask = f"-c {shlex.quote(guard)}"
        result = self._low_level_execute_command(command(self._interpreter(task_vars), ask))
        return too_old(parse(result.get("stdout", "")) or {})

    def _interpreter(self, task_vars: dict[str, Any]) -> str | None:
        """The interpreter that the user chose; None where it is left to discovery."""
        value = task_vars.get("ansible_python_interpreter")
        if value is None:
            return None
        try:
            chosen = str(self._templar.template(value)).strip()
        except AnsibleError:
            return None
        return None if not chosen or chosen.startswith("auto") else chosen
