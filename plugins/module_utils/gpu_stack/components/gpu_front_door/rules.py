"""Rules about what prevents the front door."""

from __future__ import annotations

from ...rules import rules_of
from ...type_checking import TYPE_CHECKING
from .. import gpu_front_door

if TYPE_CHECKING:
    from ...shapes import Changes, Facts, Options, Reasons, Row


def front_door_port(facts: Facts, _changes: Changes, _options: Options, _row: Row) -> Reasons:
    ports = (facts["preflight"].get("front_door") or {}).get("ports") or {}
    return [
        (
            "port {0} of the front door is in use by {1}".format(port, ", ".join(ports[port])),
            "give the door another port (gpu_front_door_port), or stop what listens there; "
            "`ss -tlnp` says who",
        )
        for port in sorted(ports, key=int)
    ]


def front_door_site(facts: Facts, _changes: Changes, _options: Options, _row: Row) -> Reasons:
    sites = (facts["preflight"].get("front_door") or {}).get("sites") or []
    return [
        (
            f"a site of nginx's is in the front door's way: {site}",
            "give the door another name or port; nobody's site is changed",
        )
        for site in sites
    ]


def front_door_nobody(_facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    # Else everybody's workspace is stopped before the door's role says it.
    if not options.get("gpu_front_door_name") or (
        options.get("gpu_workspaces") or options.get("gpu_servings")
    ):
        return []
    return [
        (
            "a front door is wished for, and gpu_workspaces and gpu_servings have nothing that is "
            "behind it",
            'take the door away as well: -e \'{"gpu_workspaces": [], "gpu_front_door_name": '
            '""}\'; or name people in gpu_workspaces',
        )
    ]


def front_door_terms(_facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    # An inventory is refused when it is rendered; this is for what comes by -e or a template.
    acme = options.get("gpu_front_door_name") and options.get("gpu_front_door_tls") == "acme"
    if not acme or options.get("gpu_front_door_acme_agree"):
        return []
    return [
        (
            "gpu_front_door_tls is acme, and nobody has agreed to the terms of service of the "
            "ACME server",
            "if you do: gpu_front_door_acme_agree: true; nobody is asked without it",
        )
    ]


RULES = rules_of(
    gpu_front_door.NAME,
    stops={
        "front-door-port": front_door_port,
        "front-door-site": front_door_site,
        "front-door-nobody": front_door_nobody,
        "front-door-terms": front_door_terms,
    },
)
