"""Measures in headless Chromium how quick a report's page is: its opening, and its filters.

docs/report.md has what it printed. Compare figures of one run only: the machine counts more than
the page.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

from screenshots import Browser

OPENED = """(() => {
  const load = performance.getEntriesByType('navigation')[0];
  const paint = performance.getEntriesByName('first-contentful-paint')[0];
  return {
    'first paint, ms': paint ? paint.startTime : null,
    'DOMContentLoaded, ms': load.domContentLoadedEventEnd,
    'load, ms': load.loadEventEnd,
    'elements': document.getElementsByTagName('*').length,
  };
})()"""
# The work of a filter to where the browser would draw it.
ACT = """(() => {
  const begun = performance.now();
  %s;
  document.documentElement.getBoundingClientRect();
  return performance.now() - begun;
})()"""
STATUS = "document.getElementById('show-failed').click()"
ALL = "document.getElementById('show-all').click()"
TYPE = """(() => {const box = document.getElementById('find'); box.value = %s;
  box.dispatchEvent(new Event('input', {bubbles: true}))})()"""


def once(opened: Browser, url: str) -> dict[str, float]:
    """The figures of one opening of a page."""
    opened.open(url, 1440)
    opened.until("performance.getEntriesByType('navigation')[0].loadEventEnd > 0")
    opened.until("performance.getEntriesByName('first-contentful-paint').length")
    figures: dict[str, float] = opened.ask(OPENED)
    figures["status filter, ms"] = opened.ask(ACT % STATUS)
    figures["and back, ms"] = opened.ask(ACT % ALL)
    if opened.ask("!!document.getElementById('find')"):
        figures["first text filter, ms"] = opened.ask(ACT % (TYPE % json.dumps("gpu1")))
        figures["next text filter, ms"] = opened.ask(ACT % (TYPE % json.dumps("gpu12")))
        figures["text cleared, ms"] = opened.ask(ACT % (TYPE % json.dumps("")))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=Path, nargs="+")
    parser.add_argument("--times", type=int, default=5)
    chosen = parser.parse_args()
    with Browser() as opened:
        for page in chosen.pages:
            runs = [once(opened, page.resolve().as_uri()) for _ in range(chosen.times)]
            print(f"{page} ({page.stat().st_size} bytes, median of {chosen.times})")
            for name in runs[0]:
                print(f"  {name:<24} {statistics.median(run[name] for run in runs):8.0f}")


if __name__ == "__main__":
    sys.exit(main())
