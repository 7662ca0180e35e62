"""A page left open while its server ends and comes back."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, expect
from servers import ASKS, Api, Running
from web_pages import People, Visitor


def test_a_page_over_a_restart_misses_nothing_and_doubles_nothing(
    browser: Browser, people: People, tmp_path: Path
) -> None:
    server = Running(tmp_path / "home")
    api = Api(server.url, server.token)
    execution_id = api.start(ASKS)
    api.await_event(execution_id, "task.suspended")
    visitor = Visitor(browser, server, people)
    visitor.goes_away = True
    page = visitor.open(f"/executions/{execution_id}?tab=events&sel=-")
    slider = page.get_by_role("slider")
    expect(page.locator(".event-row")).not_to_have_count(0)
    server.stop()
    again = Running(tmp_path / "home", port=urlsplit(server.url).port)
    api = Api(again.url, again.token)

    sent = api.post(f"/api/executions/{execution_id}/signal", {"name": "go"})
    assert sent.status == 200, sent.body

    last = len(list(api.stream(execution_id)))
    expect(page.locator(".execution-head")).to_contain_text("completed", timeout=60_000)
    expect(slider).to_have_attribute("aria-valuemax", str(last))
    shown = page.locator(".event-row [role=cell]:first-child").all_inner_texts()
    assert shown == sorted(set(shown), key=int)
    expect(page.locator(".node[data-step='end']")).to_have_class(
        re.compile("state-done")
    )
    visitor.leave()
    again.stop()
