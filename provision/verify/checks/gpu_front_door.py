"""The front door: it answers, lists every workspace, and refuses requests without a token."""

from __future__ import annotations

from ..cures import CURES, Cure
from .check import AGAIN, Seen, Verdict, check, failed, front_door, passed, some_of

DOOR = "`journalctl -u nginx` and /var/log/nginx say why; a firewall may block the port"

CURES.update(
    {
        "gpu_front_door.answers": Cure(("gpu_front_door",), DOOR),
        "gpu_front_door.page": Cure(("gpu_front_door", "gpu_workspace"), DOOR),
        "gpu_front_door.strangers": Cure(
            ("gpu_front_door", "gpu_workspace"), f"stop the front door until this is fixed; {DOOR}"
        ),
    }
)


@check("gpu_front_door.answers", "The front door answers over HTTPS only", front_door)
def front_door_answers(seen: Seen) -> Verdict:
    door = seen.probe["front_door"]
    page = door["page"]
    hint = f"`journalctl -u nginx` and /var/log/nginx say why; {AGAIN}"
    if page["error"]:
        return failed(f"the front door does not answer: {page['error']}", hint)
    if page["tls"] not in ("TLSv1.2", "TLSv1.3"):
        return failed(f"the front door answers, but it speaks {page['tls']}", hint)
    if door["plain"] == 200:
        return failed("the front door answers in plain HTTP", hint)
    return passed(f"{page['tls']}, a certificate for {seen.options['gpu_front_door_name']}")


@check("gpu_front_door.page", "The front door's page lists every workspace", front_door)
def front_door_lists(seen: Seen) -> Verdict:
    page = seen.probe["front_door"]["page"]
    people = sorted(workspace["name"] for workspace in seen.options["gpu_workspaces"])
    if page["status"] == 200 and sorted(page["names"]) == people:
        return passed(f"lists {', '.join(people)}")
    if page["status"] != 200:
        return failed(f"the front door's page has status {page['status']}", AGAIN)
    listed = ", ".join(page["names"]) or "nobody"
    return failed(f"the front door's page lists {listed}, not {', '.join(people)}", AGAIN)


@check("gpu_front_door.strangers", "The front door refuses access without a token", front_door)
def front_door_refuses_strangers(seen: Seen) -> Verdict:
    paths = seen.probe["front_door"]["paths"]
    wrong = []
    for path in sorted(paths):
        # Jupyter's API, TensorBoard behind Jupyter's login, and a person who has only SSH.
        good = {"api/status": (401, 403), "tensorboard/": (302,)}.get(path.split("/", 2)[2], (404,))
        if paths[path] not in good:
            wrong.append(f"{path} answers with status {paths[path] or 'nothing'}")
    if wrong:
        hint = f"a status of 502 is a workspace that does not run; {AGAIN}"
        return failed(some_of(wrong), hint, "; ".join(wrong))
    return passed(f"refused: {', '.join(sorted(paths))}")
