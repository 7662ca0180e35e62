"""A question that a signed link opens, for one who has no account."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from servers import Api, Running, playbook
from web_pages import People, Visitor

PAY = playbook(
    "pay",
    """
    - step: start
      tool: {kind: noop}
      next: {arcs: [{step: ask, args: {amount: 1200}}]}
    - step: ask
      tool: {kind: wait, signal: approval, schema: {title: Pay 1200?, type: object}}
    """,
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    server = Running(tmp_path / "home", answer_links=True)
    yield server
    server.stop()


@pytest.fixture
def stranger(browser: Browser, server: Running) -> Iterator[Visitor]:
    """A browser without a session."""
    visitor = Visitor(browser, server, People())
    visitor.refusals.update({401, 409})
    yield visitor
    visitor.leave()


def ask(server: Running) -> tuple[Api, str]:
    api = Api(server.url, server.token)
    execution_id = api.start(PAY)
    api.await_event(execution_id, "task.suspended")
    return api, execution_id


def open_link(visitor: Visitor, api: Api, execution_id: str) -> Page:
    body = {"data": {"approved": True}}
    made = api.post(f"/api/executions/{execution_id}/answer-links", body).body
    visitor.page.goto(f"{visitor.url}{made['url_path']}")
    return visitor.page


def test_a_link_shows_its_question_and_waits_for_a_press(
    server: Running, stranger: Visitor
) -> None:
    api, execution_id = ask(server)
    page = open_link(stranger, api, execution_id)

    expect(page.get_by_role("heading", name="Pay 1200?")).to_be_visible()
    expect(page.get_by_text("1200", exact=True)).to_be_visible()
    expect(page.get_by_text("in the name of local")).to_be_visible()
    expect(page).to_have_url(re.compile("/answer$"))
    path = f"/api/executions/{execution_id}"
    assert api.get(path).body["status"] == "waiting"
    page.get_by_role("button", name="Send this answer").click()
    expect(page.get_by_text("Your answer is recorded.")).to_be_visible()

    assert api.finish(execution_id)["result"] == {"approved": True}


def test_an_answer_that_comes_too_late_says_so(
    server: Running, stranger: Visitor
) -> None:
    api, execution_id = ask(server)
    page = open_link(stranger, api, execution_id)
    button = page.get_by_role("button", name="Send this answer")
    expect(button).to_be_visible()
    signal = {"name": "approval", "data": {"approved": False}}
    api.post(f"/api/executions/{execution_id}/signal", signal)
    button.click()

    expect(page.get_by_role("alert")).to_contain_text("answered already")


def test_the_page_of_a_link_has_no_serious_finding_of_axe(
    server: Running, stranger: Visitor
) -> None:
    page = open_link(stranger, *ask(server))
    expect(page.get_by_role("heading", name="Pay 1200?")).to_be_visible()

    assert stranger.axe() == []
