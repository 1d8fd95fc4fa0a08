"""A host with docker at work, and the image of its people's workspaces as a file."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import containers

if __name__ == "__main__":
    containers.main(people=True)
