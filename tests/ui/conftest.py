"""A real Chromium, a real server, and a person who is signed in.

A server, and a cluster for the tests that are marked ``in_a_cluster_too`` (for all of
them with ``CAMPAIGN=full``), are shared by the tests of one process, the browser by
those of one module: while Playwright runs, no other event loop can run in its thread. A
page fails its test if it broke its content policy, logged an error or asked another
host.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaign import FULL
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from servers import Api, Running
from web_pages import BehindAnother, Host, People, Visitor, make_context, page_url

expect.set_options(timeout=15_000)
NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=program,
            args=[
                "--no-sandbox",  # tests may run as root, which it refuses
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--process-per-site",
            ],
        )
        yield chromium
        chromium.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on one server, and those that are marked in a cluster too."""
    if "running" not in metafunc.fixturenames:
        return
    is_marked = metafunc.definition.get_closest_marker("in_a_cluster_too") is not None
    hosts = ["server", "cluster"] if FULL or is_marked else ["server"]
    metafunc.parametrize("running", hosts, indirect=True, scope="session")


@pytest.fixture(scope="session")
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    home = tmp_path_factory.mktemp("ui") / "home"
    host = BehindAnother(home) if request.param == "cluster" else Running(home)
    yield host
    host.stop()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Running]:
    """A server of one's own."""
    server = Running(tmp_path / "home")
    yield server
    server.stop()


@pytest.fixture
def api(running: Host) -> Api:
    return Api(running.url, running.token)


@pytest.fixture(scope="session")
def people() -> People:
    return People()


@pytest.fixture(scope="module")
def context(browser: Browser, running: Host) -> BrowserContext:
    """Where the visitors of a module come in turn.

    Its first page keeps a process alive in which NoETL's pages are compiled: a new one
    costs a second of CPU.
    """
    context = make_context(browser)
    context.new_page().goto(f"{page_url(running)}/healthz")
    return context


@pytest.fixture
def visitor(
    browser: Browser, running: Host, people: People, context: BrowserContext
) -> Iterator[Visitor]:
    """An administrator before the pages; `trouble` is looked at in the end."""
    one = Visitor(browser, running, people, within=context)
    yield one
    one.leave()


@pytest.fixture
def page(visitor: Visitor) -> Page:
    return visitor.page
