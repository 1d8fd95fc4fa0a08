"""The probe as hosts run it: the program that a project has, as one module."""

from __future__ import annotations

import types
from typing import Any

from tests import collection

SOURCE = collection.probe()
# Any: it has the names of all the modules that it was joined from.
probe: Any = types.ModuleType("probe")
exec(compile(SOURCE, "probe.py", "exec"), probe.__dict__)  # noqa: S102  our own
