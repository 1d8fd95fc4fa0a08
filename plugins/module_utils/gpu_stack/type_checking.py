"""What guards imports for annotations alone: hosts neither load `typing` nor modules for them.

Type checkers take any TYPE_CHECKING for true.
"""

from __future__ import annotations

TYPE_CHECKING = False
