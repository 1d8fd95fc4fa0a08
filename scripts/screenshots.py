"""Takes pictures of a page at common widths, light, dark and printed, for review.

Drives Chromium (on PATH) through its debugging pipe, because its own `--screenshot` can't be
narrower than 500 pixels and has no dark mode. `overflow` measures how far a page is wider than its
window; tests use it.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
WIDTHS = (390, 820, 1440)
# Chromium refuses larger pictures.
TALLEST = 12000


def program() -> str | None:
    """The path of Chromium; None where it is not installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def trust(ca: Path, home: Path) -> None:
    """Makes a Chromium with this home trust the authority; needs certutil (libnss3-tools)."""
    store = home / ".pki" / "nssdb"
    store.mkdir(parents=True)
    for words in (
        ["-N", "--empty-password"],
        ["-A", "-n", "lab", "-t", "C,,", "-i", str(ca)],
    ):
        subprocess.run(["certutil", "-d", f"sql:{store}", *words], check=True)


class Browser:
    """One headless Chromium with one page; a context manager.

    `ca` is a further certificate authority (PEM) that it trusts; `names` is {host name: address}
    for its resolver.
    """

    def __init__(self, ca: Path | None = None, names: Mapping[str, str] | None = None) -> None:
        chromium = program()
        if chromium is None:
            raise SystemExit("no chromium on PATH: apt install chromium")
        # Its children may still write shortly after its end.
        self._profile = tempfile.TemporaryDirectory(
            prefix="screenshots-", ignore_cleanup_errors=True
        )
        if ca is not None:
            trust(ca, Path(self._profile.name))
        rules = ",".join(f"MAP {name} {address}" for name, address in (names or {}).items())
        options = [f"--host-resolver-rules={rules}"] if rules else []
        read_theirs, self._write = os.pipe()
        self._read, write_theirs = os.pipe()

        def hand_over() -> None:
            # Chromium reads from 3 and writes to 4; moved up first, as they may be 4 and 3.
            low = [os.dup2(fd, 10 + place) for place, fd in enumerate((read_theirs, write_theirs))]
            os.dup2(low[0], 3)
            os.dup2(low[1], 4)

        self._process = subprocess.Popen(
            [chromium, *FLAGS, *options, f"--user-data-dir={self._profile.name}", "about:blank"],
            env={**os.environ, "HOME": self._profile.name},
            pass_fds=(3, 4, read_theirs, write_theirs),
            preexec_fn=hand_over,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_theirs)
        os.close(write_theirs)
        self._number = 0
        self._width = 0
        self._buffer = b""
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        self.call("Page.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    _session: str | None = None

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._read, 1 << 20)
            if not piece:
                raise RuntimeError("chromium ended")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the browser, or of its page once attached; returns the result."""
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._write, json.dumps(asked).encode() + b"\0")
        while (message := self._message()).get("id") != self._number:
            pass
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        result: dict[str, Any] = message["result"]
        return result

    def open(self, url: str, width: int, *, height: int = 900, dark: bool = False) -> None:
        """Loads a page in a window of this size."""
        self._width = width
        self._resize(height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        # A URL that differs only in its fragment would not be loaded again.
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        while self.ask("document.readyState") != "complete":
            pass

    def _resize(self, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=self._width,
            height=height,
            deviceScaleFactor=1,
            mobile=self._width < 600,
        )

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression, evaluated whatever the page's policy."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    def until(self, expression: str, *, seconds: float = 60) -> Any:
        """Waits until a JavaScript expression is true; returns its value. Raises TimeoutError."""
        end = time.monotonic() + seconds
        while not (value := self.ask(expression)):
            if time.monotonic() > end:
                raise TimeoutError(f"{expression} did not come true within {seconds} s")
            time.sleep(0.2)
        return value

    def write(self, text: str) -> None:
        """Types a text at the cursor."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int, *, shift: bool = False) -> None:
        """Presses a key by its name and code (`Enter`, 13)."""
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 * shift}
        entered = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **about, **entered)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def click(self, selector: str) -> None:
        """Clicks in the middle of the first element of a CSS selector."""
        place = self.until(
            f"(() => {{const e = document.querySelector({json.dumps(selector)}); if (!e) return 0;"
            "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            "return r.width ? [r.x + r.width / 2, r.y + r.height / 2] : 0})()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=place[0],
                y=place[1],
                button="left",
                clickCount=1,
            )

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        root = "document.documentElement"
        return int(self.ask(f"Math.max({root}.scrollWidth, document.body.scrollWidth)")) - int(
            self.ask(f"{root}.clientWidth")
        )

    def picture(self, path: Path, *, whole: bool = True) -> None:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        if whole:
            # What is outside of the window may not be laid out (content-visibility).
            self._resize(min(math.ceil(size["height"]), TALLEST))
            clip = {"x": 0, "y": 0, "scale": 1, "width": size["width"]}
            clip["height"] = min(size["height"], TALLEST)
            data = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        else:
            data = self.call("Page.captureScreenshot")
        path.write_bytes(base64.b64decode(data["data"]))

    def pdf(self, path: Path) -> None:
        data = self.call(
            "Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True
        )
        path.write_bytes(base64.b64decode(data["data"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("output", type=Path, help="a directory")
    parser.add_argument("--fragment", default="", help="as in page.html#fragment")
    parser.add_argument("--width", type=int, action="append")
    parser.add_argument("--height", type=int, help="in pixels: only the top of the page")
    parser.add_argument("--light", action="store_true", help="no dark ones, no PDF")
    chosen = parser.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)
    url = chosen.page.resolve().as_uri() + (f"#{chosen.fragment}" if chosen.fragment else "")
    with Browser() as browser:
        for width in chosen.width or WIDTHS:
            for dark in (False,) if chosen.light else (False, True):
                browser.open(url, width, height=chosen.height or 900, dark=dark)
                name = f"{chosen.page.stem}-{width}-{'dark' if dark else 'light'}.png"
                browser.picture(chosen.output / name, whole=chosen.height is None)
                wide = browser.overflow()
                print(chosen.output / name, f"{wide} px too wide" if wide > 0 else "")
        if not chosen.light:
            browser.pdf(chosen.output / f"{chosen.page.stem}.pdf")
            print(chosen.output / f"{chosen.page.stem}.pdf")


if __name__ == "__main__":
    sys.exit(main())
