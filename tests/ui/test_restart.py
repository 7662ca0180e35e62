"""A page left open while its server ends and comes back."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, expect
from servers import ASKS, Api, Running
from web_pages import BehindAnother, Host, People, Visitor


def watch(browser: Browser, people: People, host: Host) -> tuple[Visitor, str]:
    """Open the page of an execution that waits; its server may go away."""
    api = Api(host.url, host.token)
    execution_id = api.start(ASKS)
    api.await_event(execution_id, "task.suspended")
    visitor = Visitor(browser, host, people)
    visitor.goes_away = True
    page = visitor.open(f"/executions/{execution_id}?tab=events&sel=-")
    expect(page.locator(".event-row")).not_to_have_count(0)
    return visitor, execution_id


def tell(api: Api, execution_id: str) -> None:
    sent = api.post(f"/api/executions/{execution_id}/signal", {"name": "go"})
    assert sent.status == 200, sent.body


def shows_all(page: Page, api: Api, execution_id: str) -> None:
    """Every event is shown, and each of them once."""
    last = len(list(api.stream(execution_id)))
    expect(page.locator(".execution-head")).to_contain_text("completed", timeout=60_000)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("slider")).to_have_attribute("aria-valuemax", str(last))
    shown = page.locator(".event-row [role=cell]:first-child").all_inner_texts()
    assert shown == sorted(set(shown), key=int)
    done = page.locator(".node[data-step='end']")
    expect(done).to_have_class(re.compile("state-done"))


def test_a_page_over_a_restart_misses_nothing_and_doubles_nothing(
    browser: Browser, people: People, tmp_path: Path
) -> None:
    server = Running(tmp_path / "home")
    visitor, execution_id = watch(browser, people, server)
    server.stop()
    again = Running(tmp_path / "home", port=urlsplit(server.url).port)
    api = Api(again.url, again.token)
    tell(api, execution_id)

    shows_all(visitor.page, api, execution_id)
    visitor.leave()
    again.stop()


def test_a_page_shows_what_happened_while_its_server_of_a_cluster_was_dead(
    browser: Browser, people: People, tmp_path: Path
) -> None:
    cluster = BehindAnother(tmp_path / "home")
    visitor, execution_id = watch(browser, people, cluster)
    api = Api(cluster.url, cluster.token)
    visitor.refusals.add(401)  # sessions cannot be checked while NATS answers late
    cluster.kill_pages()
    tell(api, execution_id)
    api.finish(execution_id)
    cluster.start_pages()

    shows_all(visitor.page, api, execution_id)
    visitor.leave()
    cluster.stop()
