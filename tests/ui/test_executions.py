"""The list of executions: filters, live rows, orders to many, what is not drawn."""

from __future__ import annotations

import re
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from servers import ASKS, HELLO, Api, Running, playbook
from web_pages import People, Visitor

FAILS = playbook(
    "fails",
    "- {step: start, tool: {kind: python, code: 'def main(): raise ValueError(7)'}}",
)
ROW = "[role=row][data-id]"


@pytest.fixture(scope="module")
def ids(running: Running) -> dict[str, str]:
    """One execution that failed and one that completed."""
    api = Api(running.url, running.token)
    return {
        "failed": api.run(FAILS)["execution_id"],
        "completed": api.run(HELLO)["execution_id"],
    }


def row(page: Page, execution_id: str) -> Any:
    return page.locator(f"[data-id='{execution_id}']")


def test_a_row_shows_status_playbook_and_error(
    visitor: Visitor, ids: dict[str, str]
) -> None:
    page = visitor.open("/executions")

    failed = row(page, ids["failed"])
    expect(failed).to_contain_text("failed")
    expect(failed).to_contain_text("tests/fails")
    expect(failed).to_contain_text("start: ValueError: 7")
    expect(row(page, ids["completed"])).to_contain_text("completed")


def test_filters_are_in_the_address_and_survive_back(
    visitor: Visitor, ids: dict[str, str]
) -> None:
    page = visitor.open("/executions")
    page.get_by_role("button", name=re.compile("^failed")).click()
    expect(page).to_have_url(re.compile("status=failed"))
    expect(row(page, ids["completed"])).to_have_count(0)

    row(page, ids["failed"]).get_by_role("link").click()
    expect(page).to_have_url(re.compile(ids["failed"]))
    page.go_back()

    expect(page).to_have_url(re.compile(r"\?status=failed$"))
    expect(row(page, ids["failed"])).to_be_visible()
    expect(row(page, ids["completed"])).to_have_count(0)


def test_text_filters_on_the_server(visitor: Visitor, ids: dict[str, str]) -> None:
    page = visitor.open("/executions")
    expect(row(page, ids["completed"])).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("ValueError")

    expect(page).to_have_url(re.compile("text=ValueError"))
    expect(row(page, ids["completed"])).to_have_count(0)
    expect(row(page, ids["failed"])).to_be_visible()


@pytest.mark.in_a_cluster_too
def test_new_executions_wait_until_they_are_asked_for(
    visitor: Visitor, api: Api, ids: dict[str, str]
) -> None:
    page = visitor.open("/executions")
    expect(row(page, ids["failed"])).to_be_visible()

    started = api.run(HELLO)["execution_id"]

    arrived = page.get_by_role("button", name=re.compile(r"^\d+ new$"))
    expect(arrived).to_be_visible()
    expect(row(page, started)).to_have_count(0)
    arrived.click()
    expect(row(page, started)).to_be_visible()
    expect(arrived).to_have_count(0)


def test_lines_that_the_stream_tells_of_first_are_not_new(
    visitor: Visitor, ids: dict[str, str]
) -> None:
    """The first page comes after what the page asks when its stream has opened."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        if held:
            route.continue_()
        held.append(route)

    pattern = f"{visitor.url}/api/executions?*"
    visitor.context.route(pattern, hold)
    with visitor.page.expect_response(pattern):
        page = visitor.open("/executions")
    held[0].continue_()

    expect(row(page, ids["failed"])).to_be_visible()
    expect(page.get_by_role("button", name=re.compile(r"^\d+ new$"))).to_have_count(0)


def test_an_order_to_many_begins_with_what_it_would_do(
    visitor: Visitor, api: Api, ids: dict[str, str]
) -> None:
    one = api.run(FAILS)["execution_id"]
    page = visitor.open("/executions?status=failed&path=tests/fails")
    row(page, one).get_by_role("checkbox").check()
    page.get_by_role("button", name="Retry…").click()

    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Retry 1 execution?")
    dialog.get_by_role("button", name="Retry 1 execution").click()

    expect(page.get_by_role("status").last).to_contain_text("Retried 1 execution")
    lines = api.get("/api/executions?path=tests/fails").body["executions"]
    assert len(lines) == len({line["execution_id"] for line in lines})


@pytest.mark.in_a_cluster_too
def test_an_order_to_a_filter_reaches_what_its_dry_run_said(
    visitor: Visitor, api: Api
) -> None:
    """What fails after the dry run is not retried."""
    text = FAILS.replace("tests/fails", "tests/bulk")
    before = [api.run(text)["execution_id"] for _ in range(3)]
    page = visitor.open("/executions?status=failed&path=tests/bulk")
    expect(row(page, before[0])).to_be_visible()
    page.get_by_role("button", name="Retry…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Retry 3 executions?")
    late = api.run(text)["execution_id"]
    dialog.get_by_role("button", name="Retry 3 executions").click()

    expect(page.get_by_role("status").last).to_contain_text("Retried 3 executions")
    forks = [len(api.get(f"/api/executions/{i}/head").body["forks"]) for i in before]
    assert forks == [1, 1, 1]
    assert api.get(f"/api/executions/{late}/head").body["forks"] == []


def test_a_row_changes_in_its_place(visitor: Visitor, api: Api) -> None:
    execution_id = api.start(ASKS)
    api.await_event(execution_id, "task.suspended")
    page = visitor.open("/executions")
    waits = row(page, execution_id)
    expect(waits).to_contain_text("waits for go")
    waits.evaluate("(element) => { element.dataset.same = 'yes' }")
    place = waits.bounding_box()
    api.post(f"/api/executions/{execution_id}/signal", {"name": "go"})

    expect(waits).to_contain_text("completed")
    expect(waits).to_have_attribute("data-same", "yes")
    assert waits.bounding_box() == place
    expect(page.get_by_role("button", name=re.compile(r"^\d+ new$"))).to_have_count(0)


def test_a_viewer_is_shown_no_orders(
    browser: Browser, running: Running, people: People, ids: dict[str, str]
) -> None:
    viewer = Visitor(browser, running, people, "viewer")
    page = viewer.open("/executions?status=failed")

    expect(row(page, ids["failed"])).to_be_visible()
    expect(page.get_by_role("checkbox")).to_have_count(0)
    expect(page.get_by_role("button", name="Retry…")).to_have_count(0)
    answer = viewer.context.request.post(
        f"{viewer.url}/api/executions/{ids['failed']}/retry",
        data={},
        headers={"Origin": viewer.url},
    )
    assert answer.status == 403
    viewer.leave()


def test_an_empty_server_shows_three_commands(
    browser: Browser, fresh: Running, people: People
) -> None:
    visitor = Visitor(browser, fresh, people)
    page = visitor.open("/")

    expect(page.get_by_text("Nothing has run yet")).to_be_visible()
    expect(page.locator(".command")).to_have_count(3)
    visitor.leave()


def test_a_refusal_shows_its_message_and_hint(visitor: Visitor) -> None:
    problem = {"kind": "auth.role", "message": "not for you", "hint": "ask an admin"}
    visitor.answer("executions?*", 403, problem)
    page = visitor.open("/executions")

    expect(page.get_by_text("You may not see this")).to_be_visible()
    expect(page.get_by_text("not for you")).to_be_visible()
    expect(page.get_by_text("ask an admin")).to_be_visible()


def test_rows_are_waited_for_with_a_skeleton(visitor: Visitor) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    visitor.context.route(f"{visitor.url}/api/executions?*", hold)
    page = visitor.open("/executions")
    expect(page.get_by_role("status", name="Loading").first).to_be_visible()
    for route in held:
        route.fulfill(json={"executions": [], "cursor": None})

    expect(page.get_by_text("Nothing has run yet")).to_be_visible()


def test_a_server_that_fails_leaves_the_rows_with_a_notice(
    visitor: Visitor, ids: dict[str, str]
) -> None:
    page = visitor.open("/executions")
    expect(row(page, ids["failed"])).to_be_visible()
    visitor.answer("executions?*", 422, {"kind": "x", "message": "broken filter"})
    page.evaluate("history.pushState(null, '', '/executions?text=zzz')")

    expect(page.get_by_text("broken filter")).to_be_visible()


def test_ten_thousand_rows_keep_few_elements(visitor: Visitor) -> None:
    lines = [
        {
            "execution_id": f"01a1f222-0000-7000-8000-{number:012x}",
            "status": ("completed", "failed", "waiting")[number % 3],
            "playbook": {"path": f"many/p{number % 50}", "version": "1"},
            "started_at": "2026-11-01T10:00:00.000Z",
            "finished_at": None,
            "duration_ms": number,
            "error": None,
            "parent_id": None,
            "concurrency": None,
            "ignored_errors": 0,
            "not_reached": 0,
            "labels": {},
            "trigger": None,
        }
        for number in range(10_000)
    ]
    visitor.answer("executions?*", 200, {"executions": lines, "cursor": None})
    page = visitor.open("/executions")
    expect(page.get_by_text("10,000 executions shown")).to_be_visible()
    page.locator(".list-rows").evaluate("(list) => { list.scrollTop = 1e9 }")

    expect(row(page, lines[-1]["execution_id"])).to_be_visible()
    assert page.evaluate("document.querySelectorAll('*').length") < 5000


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_the_list(
    browser: Browser,
    running: Running,
    people: People,
    ids: dict[str, str],
    theme: Literal["light", "dark"],
) -> None:
    visitor = Visitor(browser, running, people, theme=theme)
    page = visitor.open("/executions")
    expect(row(page, ids["failed"])).to_be_visible()

    assert visitor.axe() == []
    visitor.leave()


def test_a_narrow_screen_needs_no_sideways_scrolling(
    browser: Browser, running: Running, people: People, ids: dict[str, str]
) -> None:
    visitor = Visitor(browser, running, people, phone=True)
    page = visitor.open("/executions")
    expect(row(page, ids["failed"])).to_be_visible()

    wide = "document.documentElement.scrollWidth > window.innerWidth"
    assert not page.evaluate(wide)
    visitor.leave()
