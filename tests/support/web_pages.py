"""A person before the web pages: signed in by password, watched for broken rules."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest
from faults.cluster import Cluster
from playwright.sync_api import Browser, BrowserContext, Page, Route
from servers import Api, Running

ROOT = Path(__file__).parents[2]
AXE = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
PASSWORD = "a long password of tests 1"
SIZE = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}


class BehindAnother:
    """A cluster of processes: two servers, a worker, PostgreSQL and NATS.

    Executions are started at the first server, which the worker asks for work; pages
    are those of the second.
    """

    def __init__(self, folder: Path) -> None:
        # In a thread of its own, for the caller's may run Playwright's event loop.
        # PostgreSQL and NATS outlive the objects that start them: Python warns of it.
        with warnings.catch_warnings(), ThreadPoolExecutor(1) as threads:
            warnings.simplefilter("ignore", ResourceWarning)
            made = threads.submit(lambda: Cluster(folder, 2, 1, nats=True))
            self._cluster = made.result()
        self.url, self.pages_url = self._cluster.urls
        self.token = self._cluster.token

    def kill_pages(self) -> None:
        """End the server of the pages without a word."""
        self._cluster.kill("server1")

    def start_pages(self) -> None:
        self._cluster.start("server1")
        self._cluster.await_server(1)

    def stop(self) -> None:
        self._cluster.close()


Host = Running | BehindAnother


def page_url(host: Host) -> str:
    """The address of the server whose pages are opened."""
    return host.pages_url if isinstance(host, BehindAnother) else host.url


class People:
    """Accounts that were made, by the server and the roles."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[str, ...]], str] = {}

    def name(self, running: Host, roles: tuple[str, ...]) -> str:
        key = (running.url, roles)
        if key not in self._known:
            name = f"person{len(self._known)}"
            body = {"name": name, "roles": [*roles], "password": PASSWORD}
            made = Api(running.url, running.token).post("/api/users", body)
            assert made.status == 201, made.body
            self._known[key] = name
        return self._known[key]


def make_context(
    browser: Browser, *, theme: Literal["light", "dark"] = "light", phone: bool = False
) -> BrowserContext:
    context = browser.new_context(
        viewport=PHONE if phone else SIZE,
        has_touch=phone,
        color_scheme=theme,
        reduced_motion="reduce",
        locale="en-US",
    )
    context.set_default_timeout(20_000)
    return context


def clear(context: BrowserContext, url: str) -> None:
    """Leave nothing but the first page of a context, and what it has in its cache."""
    first, *pages = context.pages
    for page in pages:
        page.close()
    context.unroute_all(behavior="ignoreErrors")
    context.clear_cookies()
    session = context.new_cdp_session(first)
    everything = {"origin": url, "storageTypes": "all"}
    session.send("Storage.clearDataForOrigin", everything)
    session.detach()


class Visitor:
    """A browser context of one person: one of their own, or ``within`` a shared one,
    from which everything is removed in the end.

    ``refusals`` are statuses that a test causes; with ``goes_away`` the server may
    not be reached for some time.
    """

    goes_away = False

    def __init__(
        self,
        browser: Browser,
        running: Host,
        people: People,
        *roles: str,
        theme: Literal["light", "dark"] = "light",
        phone: bool = False,
        within: BrowserContext | None = None,
    ) -> None:
        self.url = page_url(running)
        self.name = people.name(running, roles or ("admin",))
        self.context = within or make_context(browser, theme=theme, phone=phone)
        self._is_shared = within is not None
        self.page = self.context.new_page()
        self.trouble: list[str] = []
        self.refusals: set[int] = set()
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("console", self._hear)
        self.page.on("request", self._see)

    def sign_in(self) -> None:
        said = {"name": self.name, "password": PASSWORD}
        answer = self.context.request.post(
            f"{self.url}/api/sessions", data=said, headers={"Origin": self.url}
        )
        assert answer.status == 201, answer.text()

    def open(self, path: str) -> Page:
        """Open a page as one who is signed in."""
        if not self.context.cookies():
            self.sign_in()
        self.page.goto(self.url + path)
        return self.page

    def send_no_stream(self) -> None:
        """Let pages live without changes as they happen: they ask by themselves."""
        self.context.route(
            f"{self.url}/api/live?**", lambda route: route.fulfill(status=204)
        )

    def hold_stream(self) -> None:
        """Leave the call of the stream without an answer: pages ask nothing more."""
        self.context.route(f"{self.url}/api/live?**", lambda route: None)

    def answer(self, pattern: str, status: int, body: dict[str, Any]) -> None:
        """Let calls of a pattern be answered by the test, not by the server."""

        def fulfil(route: Route) -> None:
            route.fulfill(status=status, json=body)

        self.refusals.add(status)
        self.context.route(f"{self.url}/api/{pattern}", fulfil)

    def leave(self) -> None:
        if self._is_shared:
            clear(self.context, self.url)
        else:
            self.context.close()
        assert not self.trouble, self.trouble

    def axe(self) -> list[str]:
        """What axe-core finds to be serious, in the page as it is now."""
        if not AXE.is_file():
            pytest.skip("the packages of ui/ are not there; make ui fetches them")
        session = self.context.new_cdp_session(self.page)
        session.send("Runtime.evaluate", {"expression": AXE.read_text("utf-8")})
        found = session.send(
            "Runtime.evaluate",
            {"expression": RUN_AXE, "awaitPromise": True, "returnByValue": True},
        )
        answer: list[str] = found["result"]["value"]
        return answer

    def _hear(self, message: Any) -> None:
        if message.type not in ("error", "warning"):
            return
        if any(f"status of {status} " in message.text for status in self.refusals):
            return
        if self.goes_away and ("net::ERR_" in message.text or "of 503" in message.text):
            return
        self.trouble.append(f"{message.text} {message.location['url']}")

    def _see(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.trouble.append(f"request: {request.url}")


RUN_AXE = """
axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations
  .filter((each) => each.impact === "serious" || each.impact === "critical")
  .map((each) => each.id + ": " + each.nodes.slice(0, 3)
    .map((node) => node.html.slice(0, 200) + " " + (node.any[0]?.message ?? ""))
    .join(" | ")))
"""
