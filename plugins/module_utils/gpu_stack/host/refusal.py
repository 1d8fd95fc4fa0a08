"""How what runs on a host says that it does not do what is asked."""

from __future__ import annotations

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


class RefusalError(Exception):
    """The host does not allow the request; the message says why, and what to do.

    result: what a module that fails with it returns beside the message.
    """

    def __init__(self, message: str, **result: Any) -> None:
        super().__init__(message)
        self.result = result
