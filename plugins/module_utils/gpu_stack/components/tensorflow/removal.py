"""Removal of TensorFlow: which environments are left, who uses them and what is kept of them."""

from __future__ import annotations

from ...change import blocker
from ...host import owned_directories
from ...type_checking import TYPE_CHECKING
from .. import tensorflow
from . import venv_use

if TYPE_CHECKING:
    from typing import Any, Sequence

    from ...host.context import Context
    from ...shapes import Facts


def remains(context: Context, _packages: Sequence[str]) -> list[list[Any]]:
    """The environments that the role made."""
    root = tensorflow.root_of(context.options)
    return owned_directories.marked(context, root, tensorflow.MARKER)


def root(context: Context) -> str:
    """The directory below which no process may have a file open as code."""
    return tensorflow.root_of(context.options)


def notices(facts: Facts) -> list[dict[str, Any]]:
    """What of people's is kept beside the environments. Pure."""
    return [
        blocker("venv-kept", tensorflow.NAME, message, hint)
        for message, hint in venv_use.kept(facts, [], {}, {})
    ]
