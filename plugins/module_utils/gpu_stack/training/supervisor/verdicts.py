"""What the end of a worker means for its job. Pure."""

from __future__ import annotations

# Ended from outside: Ctrl-C, SIGKILL (which is also the kernel's when memory is short), SIGUSR1,
# SIGTERM. Kubeflow's training operator tries these again and no others:
# https://github.com/kubeflow/trainer/blob/v1.8.1/pkg/util/train/train_util.go
AGAIN = {130: "SIGINT", 137: "SIGKILL", 138: "SIGUSR1", 143: "SIGTERM"}
TERMINATED = 143
# Of those that are not tried again, what is known about them.
NEVER = {
    1: "the script failed",
    2: "the script refused its arguments",
    126: "the script can't be run",
    127: "there is no such program",
    128: "the script ended with an invalid exit code",
    134: "it aborted (SIGABRT)",
    135: "a bus error (SIGBUS); /dev/shm or a disk may be full",
    136: "an arithmetic error (SIGFPE)",
    139: "it crashed (SIGSEGV)",
}
# How a job ends.
COMPLETE, ENDED, FAILED, STOPPED = "complete", "ended", "failed", "stopped"


def exit_code(status: int) -> int:
    """The exit code, as a shell has it, of a return code as `subprocess` has it."""
    return 128 - status if status < 0 else status


def is_tried_again(code: int) -> bool:
    return code in AGAIN


def words(code: int) -> str:
    """An exit code in words: "ended with 137 (SIGKILL)"."""
    why = AGAIN.get(code) or NEVER.get(code)
    return "ended with {0}{1}".format(code, " ({0})".format(why) if why else "")
