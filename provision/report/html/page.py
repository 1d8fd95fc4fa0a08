"""Renders the page: its parts and the template."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from provision import __version__
from provision.report import Report
from provision.report.html.common import shared_changes, stacks, times, trouble
from provision.report.html.common_checks import common_checks
from provision.report.html.fleet import FLEET, NAMED, choices, drift, versions
from provision.report.html.headline import headline
from provision.report.html.host import host_view
from provision.report.html.past import history
from provision.report.html.views import HostView
from provision.report.html.words import COLUMNS, MEANINGS, MODES, component, prose
from provision.report.reading import WORST_FIRST, clean, duration, moment, number, plural
from provision.report.runs import Earlier

OVERVIEW_HOSTS = 24


def render(report: Report, earlier: Sequence[Earlier] = ()) -> bytes:
    """The page of a (validated) report; `earlier`: the runs before it, the oldest first."""
    page = Page(report, earlier)
    css, filters = Markup(style()), Markup(_compact("filters.css"))  # noqa: S704 (our own files)
    return _template().render(page=page, style=css, filters=filters).encode()


@cache
def _template() -> jinja2.Template:
    return environment().get_template("page.html.j2")


def environment() -> jinja2.Environment:
    """Where templates of pages are made: everything is escaped, an undefined name an error."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["prose"] = prose
    made.filters["plural"] = plural
    made.filters["duration"] = duration
    return made


def style() -> str:
    """The style sheet of pages, without comments and indentation."""
    return _compact("page.css")


def script() -> str:
    """The script of a fleet's page, without comments and indentation."""
    return _compact("page.js")


def _compact(name: str) -> str:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


class Page:
    """Everything that the template reads."""

    def __init__(self, report: Report, earlier: Sequence[Earlier]) -> None:
        self.version = __version__
        self.interrupted = bool(report.get("interrupted"))
        mode = str(report.get("mode"))
        self.mode, _means = MODES.get(mode, (clean(mode), ""))
        self.facts = _run_facts(report)
        self.columns = _columns(report)
        longest = max(
            (
                number(part.get("seconds"))
                for host in report["hosts"].values()
                for part in (host.get("components") or {}).values()
            ),
            default=0.0,
        )
        views = [
            host_view(name, host, mode, list(self.columns), longest)
            for name, host in report["hosts"].items()
        ]
        # Stable: hosts of one status stay in the report's order.
        self.hosts = sorted(views, key=lambda view: WORST_FIRST.index(view.status))
        self.by_status = [
            (status, shown)
            for status in WORST_FIRST
            if (shown := [view for view in self.hosts if view.status == status])
        ]
        self.headline = headline(report)
        self._fleet(views)
        self.history = history(self.hosts, report, earlier)
        # A fleet's drift is described by what differs.
        self.trouble = trouble([view for view in self.hosts if view.open or not self.is_fleet])
        wrong = any(view.open for view in views)
        self.trouble_title = "What is wrong" if wrong else "What differs"
        self.stacks = stacks(self.hosts, report, list(self.columns))
        self.shared = shared_changes(self.hosts)
        self.times = times(self.hosts)
        self.elsewhere = [
            (clean(name), moment(entry.get("time")) if isinstance(entry, dict) else "")
            for name, entry in sorted((report.get("proven") or {}).items())
            if name not in report["hosts"]
        ]
        self.meanings = [(status, MEANINGS[status]) for status, _ in self.by_status]
        self.overview_hosts, self.named = OVERVIEW_HOSTS, NAMED
        self.checked = any(view.counts for view in views)
        self.timed = any(view.seconds for view in views)
        self.width = 3 + len(self.columns) + self.checked + self.timed
        self.all_simulated = all(view.simulated for view in views)

    def _fleet(self, hosts: list[HostView]) -> None:
        """What only a fleet's page has; its script is allowed by its hash alone.

        Names of hosts are listed in the report's order.
        """
        self.is_fleet = len(hosts) >= FLEET
        self.drift = drift(hosts) if self.is_fleet else []
        self.drift_hosts = len({view.anchor for group in self.drift for view in group.hosts})
        self.versions = versions(hosts, self.columns) if self.is_fleet else []
        self.platforms, self.groups = choices(hosts) if self.is_fleet else ([], [])
        self.common_checks = common_checks(hosts) if self.is_fleet else []
        text = script() if self.is_fleet else ""
        self.script = Markup(text)  # noqa: S704 (our own file)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        self.script_hash = f"sha256-{digest}" if text else ""


def _run_facts(report: Report) -> list[tuple[str, str]]:
    mode, means = MODES.get(str(report.get("mode")), (clean(report.get("mode")), ""))
    digest = clean(report.get("lock_digest"))
    facts = [
        ("Mode", f"{mode}: {means}" if means else mode),
        ("Finished", moment(report.get("finished"))),
        ("Took", duration(number(report.get("seconds")))),
        ("Rendered by", f"provision {clean(report.get('provision') or 'unknown')}"),
        ("Lock", digest),
    ]
    return [(name, value) for name, value in facts if value]


def _columns(report: Report) -> dict[str, str]:
    """{component: title} of those that any host's lock or found versions have, in order."""
    present = {
        str(key)
        for host in report["hosts"].values()
        for part in ("wanted", "found")
        for key in (host.get(part) or {})
        if part == "wanted" or key in COLUMNS
    }
    always = ("nvidia_driver", "cuda", "cudnn", "tensorflow")
    columns = {key: title for key, title in COLUMNS.items() if key in present or key in always}
    return columns | {key: component(key) for key in sorted(present) if key not in COLUMNS}
