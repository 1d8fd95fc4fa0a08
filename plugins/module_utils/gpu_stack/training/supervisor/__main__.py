"""Starts the supervisor: `python -I -B supervisor/__main__.py WORKERS-FOLDER`.

With -I, Python imports nothing from its working directory: the path of the modules is set here
alone.
"""

from __future__ import annotations

import os
import runpy
import sys

if __name__ == "__main__":
    above, package = os.path.split(os.path.dirname(os.path.abspath(__file__)))
    sys.path.insert(0, above)
    runpy.run_module(package + ".main", run_name="__main__", alter_sys=False)
