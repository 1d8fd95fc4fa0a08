"""Renders a report as one web page that needs nothing else: no font, no network.

The page is shown to others, mailed around, and used to work on 500 hosts: so it opens anywhere,
prints, and shows the worst first. It is whole without a script; that of a fleet's page filters
hosts, writes no HTML, and is allowed by its hash. Texts come from machines and are escaped, and a
content security policy forbids everything else.

Pure: the same reports give the same bytes.
"""

from __future__ import annotations

from provision.report.html.page import render

__all__ = ["render"]
