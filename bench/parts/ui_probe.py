"""A browser before the pages of the bench, and what the browser itself measures.

Frames are counted by the page: an input is on the screen when the task after the next
frame runs. Paint, shifts, long tasks and interactions are the browser's own entries.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import (
    Browser,
    BrowserContext,
    CDPSession,
    Page,
    sync_playwright,
)
from servers import Api

NAMES = ("chromium", "chromium-browser", "google-chrome")
SIZE = {"width": 1280, "height": 800}
WINDOW = {"width": 1600, "height": 1200}
"""A window that holds the whole page: what is drawn outside of it is never presented,
and the browser counts a click or key until some later frame that is."""
NAME, PASSWORD = "bench", "a long password of the bench 1"
PROBE = Path(__file__).with_suffix(".js").read_text("utf-8")


class Screen:
    """A page of its own in a new context, signed in."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.url = url
        self.context: BrowserContext = browser.new_context(
            viewport=SIZE, locale="en-US"
        )  # type: ignore[arg-type]
        self.context.set_default_timeout(120_000)
        answer = self.context.request.post(
            f"{url}/api/sessions",
            data={"name": NAME, "password": PASSWORD},
            headers={"Origin": url},
        )
        assert answer.status == 201, answer.text()
        self.page: Page = self.context.new_page()
        self.page.add_init_script(PROBE)
        self.tools: CDPSession = self.context.new_cdp_session(self.page)
        window = self.tools.send("Browser.getWindowForTarget")["windowId"]
        self.tools.send(
            "Browser.setWindowBounds", {"windowId": window, "bounds": WINDOW}
        )
        self.tools.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
        self.tools.send("Performance.enable")
        self.requests = 0
        self.page.on("request", self._count)

    def _count(self, _: object) -> None:
        self.requests += 1

    def open(self, path: str, until: str) -> Page:
        self.page.goto(self.url + path)
        self.page.locator(until).first.wait_for()
        return self.page

    def probe(self, name: str) -> Any:
        return self.page.evaluate(f"probe.{name}")

    def rest(self, milliseconds: float = 500) -> None:
        self.page.wait_for_timeout(milliseconds)

    def task_seconds(self) -> float:
        """CPU seconds of the main thread."""
        metrics = self.tools.send("Performance.getMetrics")["metrics"]
        return next(float(m["value"]) for m in metrics if m["name"] == "TaskDuration")

    def heap(self) -> tuple[float, int]:
        """MB of the heap after a collection, and the elements of the document."""
        for _ in range(2):
            self.tools.send("HeapProfiler.collectGarbage")
        used = self.tools.send("Runtime.getHeapUsage")["usedSize"] / 1e6
        return used, self.page.evaluate("document.querySelectorAll('*').length")

    def close(self) -> None:
        self.context.close()


def enrol(api: Api) -> None:
    """Make the account of the bench."""
    said = {"name": NAME, "roles": ["admin"], "password": PASSWORD}
    made = api.post("/api/users", said)
    assert made.status in (201, 409), made.body


@contextmanager
def chromium() -> Iterator[Browser]:
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        raise SystemExit("bench: there is no Chromium (apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--enable-precise-memory-info",
            ],
        )
        yield browser
        browser.close()
