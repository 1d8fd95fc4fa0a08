"""Names under which files of others are kept."""

from __future__ import annotations

import os

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Callable


SAVED = ".provision-saved"


def free_name(path: str, exists: Callable[[str], bool] = os.path.lexists) -> str:
    """PATH.provision-saved, numbered from 2 on where there are some."""
    name, number = path + SAVED, 1
    while exists(name):
        number += 1
        name = "{0}{1}.{2}".format(path, SAVED, number)
    return name
