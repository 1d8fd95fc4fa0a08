"""Starts a program of this folder by its name: `python -I -B programs/__main__.py product '{}'`.

-I: Python imports nothing from its working directory; where the programs are is told here alone.
"""

from __future__ import annotations

import os
import runpy
import sys


def main() -> None:
    """The program finds its own arguments in sys.argv."""
    above, package = os.path.split(os.path.dirname(os.path.abspath(__file__)))
    sys.path.insert(0, above)
    del sys.argv[0]
    runpy.run_module("{0}.{1}".format(package, sys.argv[0]), run_name="__main__", alter_sys=False)


if __name__ == "__main__":
    main()
