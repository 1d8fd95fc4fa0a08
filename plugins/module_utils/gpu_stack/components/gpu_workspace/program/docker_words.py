"""What docker is asked about the workspaces, in its own words."""

from __future__ import annotations

from . import places

SOCKET = "unix:///var/run/docker.sock"


def shape(*words: str) -> str:
    """A format for docker, in pieces: Ansible reads double brackets as its own."""
    return " ".join("{" * 2 + word + "}" * 2 for word in words)


# Lists the workspaces whose containers run.
LISTING = (
    *("ps", "--no-trunc", "--filter", "label=" + places.LABEL, "--format"),
    shape(f'.Label "{places.LABEL}"', f'.Label "{places.REVISION}"'),
)


def revisions(listing: str) -> dict[str, str]:
    """{name: revision} of what LISTING gives."""
    pairs = [line.split() for line in listing.splitlines()]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
