"""The family of errors: every failure a user can cause says where, what, expected and a hint.

Without a common base class a misspelt version would end in a traceback. Nothing here prints;
`provision.cli` prints these and exits with `exit_code`.
"""

from __future__ import annotations

from typing import TypeVar

_Error = TypeVar("_Error", bound="ProvisionError")


class ProvisionError(Exception):
    """A failure with a documented exit code and four parts a person can act on."""

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        where: str = "",
        got: str = "",
        expected: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.got = got
        self.expected = expected
        self.hint = hint

    @classmethod
    def of(
        cls: type[_Error], error: Exception, message: str, where: object = "", hint: str = ""
    ) -> _Error:
        """The failure that an error of the system or of a library is: its words are `got`."""
        return cls(message, where=str(where), got=str(error), hint=hint)

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.message}" if self.where else self.message]
        for label, text in (("got", self.got), ("expected", self.expected), ("hint", self.hint)):
            if text:
                lines.append(f"  {label}: {text}")
        return "\n".join(lines)


class InputError(ProvisionError):
    """The inventory, lock, catalog, archive or flags are not usable as given."""

    exit_code = 2


class UnsatisfiableError(ProvisionError):
    """The wish is well formed, but no stack satisfies it."""

    exit_code = 3


class HostError(ProvisionError):
    """At least one host failed, was blocked by preflight or could not be reached."""

    exit_code = 4


class DriftError(ProvisionError):
    """At least one host differs from its lock, or a file from what was signed."""

    exit_code = 5


class ProofError(ProvisionError):
    """Hosts converged, but a check did not pass."""

    exit_code = 6


class MachineError(ProvisionError):
    """This machine lacks something the command needs: podman, network, disk, a program."""

    exit_code = 7
