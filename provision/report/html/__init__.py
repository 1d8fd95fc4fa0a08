"""Renders a report as one web page that needs nothing else: no script, no font, no network.

The page is shown to others, mailed around, and used to work on 200 hosts: so it opens anywhere,
prints, and shows the worst first. Its texts come from machines and are escaped; a content security
policy forbids scripts.

Pure: the same report gives the same bytes.
"""

from __future__ import annotations

from provision.report.html.page import render

__all__ = ["render"]
