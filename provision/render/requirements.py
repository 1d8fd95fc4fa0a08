"""requirements.txt: what the Python that runs Ansible needs for this tree, and for its checks."""

from __future__ import annotations

TEXT = """\
# ansible-core alone runs site.yml; the other two run the checks of verify/ (hosts become `proven`).
# 2.20 can no longer manage Ubuntu 20.04's Python 3.8.
ansible-core>=2.17,<2.20
pytest>=8
pytest-testinfra>=10.1
"""


def render() -> dict[str, bytes]:
    """requirements.txt."""
    return {"requirements.txt": TEXT.encode()}
