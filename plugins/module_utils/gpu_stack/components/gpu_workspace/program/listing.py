"""Who has what on this host."""

from __future__ import annotations

from . import docker, files, places, settings


def listed() -> str:
    """Who has what: no secret, but where it lies."""
    runs = docker.running()
    rows = []
    for name in settings.recorded_people():
        recorded = files.data(places.folder(name) + "/workspace.json") or {}
        gpus = files.data(places.folder(name) + "/gpus.json")
        shown = gpus if isinstance(gpus, str) else ",".join(map(str, gpus or [])) or "none"
        person = recorded.get("workspace") or {}
        words = [name, "runs" if name in runs else "does not run", "GPUs " + shown]
        words.append("user {0}".format(recorded.get("user") or places.FORMER_USER))
        if "port" in person:
            place = (recorded.get("address"), person["port"], recorded.get("base", "/"))
            words.append("http://{0}:{1}{2}".format(*place))
            words.append(f"token in {places.folder(name)}/token")
        if "tensorboard_port" in person:
            port = person["tensorboard_port"]
            words.append(f"http://127.0.0.1:{port}/{name}/tensorboard/")
        if "ssh_port" in person:
            words.append("ssh -p {0} {1}@HOST".format(person["ssh_port"], name))
        rows.append("  ".join(words))
    return "\n".join(rows) or "nobody has a workspace here"
