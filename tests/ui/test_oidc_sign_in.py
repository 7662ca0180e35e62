"""Sign-in by a provider, in a real browser, from the page that was asked for."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from oidc_peer import CLIENT, SECRET, Provider
from playwright.sync_api import Browser, expect
from servers import Running
from web_pages import People, Visitor

from noetl.access.oidc import OidcClient


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    provider.peer.claims = {"sub": "ann", "roles": ["engineers"], "name": "Ann"}
    provider.peer.now = int(time.time())
    yield provider
    provider.stop()


@pytest.fixture
def server(provider: Provider, tmp_path: Path) -> Iterator[Running]:
    port = free_port()
    client = OidcClient(
        issuer=provider.peer.address,
        client_id=CLIENT,
        client_secret=SECRET,
        redirect_uri=f"http://127.0.0.1:{port}/api/sessions/oidc/callback",
        roles={"engineers": "developer"},
    )
    provider.peer.redirect = client.redirect_uri
    server = Running(tmp_path / "home", port=port, oidc=client)
    yield server
    server.stop()


def test_a_provider_signs_in_and_returns_to_the_page(
    browser: Browser, server: Running, provider: Provider, people: People
) -> None:
    visitor = Visitor(browser, server, people)
    visitor.refusals.add(401)
    page = visitor.page
    page.goto(f"{visitor.url}/catalog?prefix=sales")
    page.get_by_role("link", name="Continue with your organisation").click()

    expect(page.get_by_role("heading", name="Catalog")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/catalog\?prefix=sales$"))
    page.goto(f"{visitor.url}/settings")
    expect(page.get_by_text("developer", exact=True)).to_be_visible()
    asked = f"request: {provider.peer.address}"
    visitor.trouble = [each for each in visitor.trouble if not each.startswith(asked)]
    visitor.leave()


def test_a_provider_opens_beside_a_page_whose_session_ended(
    browser: Browser, server: Running, provider: Provider, people: People
) -> None:
    visitor = Visitor(browser, server, people)
    visitor.refusals.add(401)
    page = visitor.open("/catalog/-/new")
    expect(page.get_by_text("No problem was found.")).to_be_visible()
    page.get_by_role("tab", name="Tests").click()
    run = page.get_by_role("button", name="Run the tests")
    expect(run).to_be_visible()
    visitor.context.clear_cookies()
    run.dispatch_event("click")  # a background call may have opened the dialog before
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("what you typed is still there")
    with visitor.context.expect_page() as opened:
        dialog.get_by_role("link", name="Continue with your organisation").click()
    expect(opened.value.get_by_text('"roles"')).to_be_visible()
    opened.value.close()
    page.evaluate("window.dispatchEvent(new Event('focus'))")

    expect(dialog).to_have_count(0)
    expect(page.get_by_label("Tests, in YAML")).to_have_value(re.compile("cases:"))
    visitor.leave()
