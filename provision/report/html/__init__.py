"""Renders a report as one web page that needs nothing else: no script, no font, no network.

It is what one shows to others, and what somebody with 200 hosts works with, often from a file that
was mailed around: so the page opens anywhere, prints, and says the worst first. Everything in it
comes from machines and is escaped; a content security policy forbids the rest.

Pure: the same report gives the same bytes.
"""

from __future__ import annotations

from provision.report.html.page import render

__all__ = ["render"]
