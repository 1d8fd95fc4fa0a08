"""requirements.txt: what the Python that runs Ansible needs for this tree, and for its checks."""

from __future__ import annotations

TEXT = """\
# ansible-core alone runs site.yml; the other two run the checks of verify/ (hosts become `proven`).
# Ubuntu 20.04 has Python 3.8, which ansible-core 2.20 and newer no longer manage: 2.19 does.
ansible-core>=2.17
pytest>=8
pytest-testinfra>=10.1
"""


def render() -> dict[str, bytes]:
    """requirements.txt."""
    return {"requirements.txt": TEXT.encode()}
