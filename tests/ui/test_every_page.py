"""What holds for every page: refusals, nothing there, waiting, themes, a phone."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from servers import HEAD, Api, Running
from web_pages import People, Visitor

PROBLEM = {"kind": "auth.role", "message": "not for you", "hint": "ask an admin"}


class Asks(NamedTuple):
    """A page, its heading, the call that it asks, an answer without rows, and what it
    says then."""

    path: str
    heading: str
    call: str
    nothing: dict[str, object]
    says: str


PAGES = [
    Asks(
        "/catalog",
        "Catalog",
        "catalog?*",
        {"playbooks": [], "cursor": None},
        "No playbook is registered",
    ),
    Asks(
        "/inbox",
        "Inbox",
        "inbox?mine*",
        {"items": [], "total_mine": 0, "total_others": 0, "cursor": None},
        "Nothing waits for an answer",
    ),
    Asks("/triggers", "Triggers", "triggers", {"triggers": []}, "No trigger"),
    Asks("/workers", "Workers", "workers", {"workers": []}, "No worker asked for work"),
    Asks("/keychain", "Keychain", "keychain", {"keychain": []}, "No secret is stored"),
    Asks("/users", "Users", "users", {"users": []}, "No account"),
    Asks("/sessions", "Sessions", "sessions", {"sessions": []}, "No browser session"),
    Asks(
        "/audit",
        "Audit",
        "audit?*",
        {"entries": [], "cursor": None},
        "Nothing has been changed yet",
    ),
]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.heading)


def heading(page: Page, text: str) -> None:
    expect(page.get_by_role("heading", level=1, name=text)).to_be_visible()


@pytest.fixture(scope="module")
def filled(running: Running) -> Running:
    """A server that has something for each page."""
    api = Api(running.url, running.token)
    text = f"""{HEAD}metadata: {{name: asks, path: every/asks}}
workload: {{amount: 1200}}
workflow:
- step: start
  tool:
  - ask:
      kind: wait
      signal: approval
      timeout: 20h
      schema:
        title: "Pay {{{{ workload.amount }}}}?"
        type: object
        required: [approved, by]
        properties: {{approved: {{type: boolean}}, by: {{type: string}}}}
"""
    assert api.post("/api/catalog", {"playbook": text}).status < 300
    started = api.post("/api/executions", {"path": "every/asks"}).body
    api.await_event(started["execution_id"], "task.suspended")
    schedule = {"cron": "0 3 * * *", "zone": "Europe/Berlin"}
    trigger = {"name": "nightly", "playbook": "every/asks", "schedule": schedule}
    assert api.post("/api/triggers", {"trigger": trigger}).status < 300
    assert api.post("/api/keychain/warehouse", {"value": "s3cret"}).status < 300
    return running


@every_page
def test_a_refusal_shows_message_and_hint(visitor: Visitor, page: Asks) -> None:
    visitor.answer(page.call, 403, PROBLEM)
    shown = visitor.open(page.path)

    heading(shown, page.heading)
    expect(shown.get_by_text("You may not see this")).to_be_visible()
    expect(shown.get_by_text("not for you")).to_be_visible()
    expect(shown.get_by_text("ask an admin")).to_be_visible()


@every_page
def test_a_failure_can_be_tried_again(visitor: Visitor, page: Asks) -> None:
    broken = {"kind": "query.invalid", "message": "the store is torn"}
    visitor.answer(page.call, 422, broken)
    visitor.send_no_stream()
    shown = visitor.open(page.path)
    expect(shown.get_by_text("the store is torn")).to_be_visible()

    visitor.context.unroute(f"{visitor.url}/api/{page.call}")
    visitor.answer(page.call, 200, page.nothing)
    shown.get_by_role("button", name="Try again").click()

    expect(shown.get_by_text(page.says).first).to_be_visible()


@every_page
def test_nothing_there_says_what_would_be(visitor: Visitor, page: Asks) -> None:
    visitor.answer(page.call, 200, page.nothing)
    shown = visitor.open(page.path)

    expect(shown.get_by_text(page.says).first).to_be_visible()


@every_page
def test_waiting_for_an_answer_is_shown(visitor: Visitor, page: Asks) -> None:
    held: list[Route] = []
    is_held = True

    def hold(route: Route) -> None:
        if is_held:
            held.append(route)
        else:
            route.fulfill(json=page.nothing)

    visitor.context.route(f"{visitor.url}/api/{page.call}", hold)
    shown = visitor.open(page.path)
    expect(shown.get_by_role("status", name="Loading").first).to_be_visible()

    is_held = False
    for route in held:
        route.fulfill(json=page.nothing)
    expect(shown.get_by_text(page.says).first).to_be_visible()


ALL = [
    *(page.path for page in PAGES),
    "/settings",
    "/catalog/every/asks",
    "/catalog/every/asks?tab=runs",
    "/catalog/every/asks?tab=versions",
    "/catalog/every/asks?tab=source",
    "/catalog/every/asks/-/run",
    "/catalog/every/asks/-/edit",
    "/catalog/every/asks/-/edit?tab=graph",
    "/catalog/every/asks/-/edit?tab=tests",
    "/triggers?trigger=nightly",
]


PARTS = {
    "/executions/{id}": ("executions/*/head", "waits for"),
    "/catalog/every/asks": ("catalog/every/asks*", "every/asks"),
    "/catalog/every/asks/-/run": ("catalog/every/asks/-/form*", "Start"),
    "/catalog/every/asks/-/edit": ("catalog/every/asks*", "Register"),
}


@pytest.mark.parametrize("path", PARTS)
def test_the_page_of_one_thing_is_refused_waited_for_and_tried_again(
    visitor: Visitor, filled: Running, path: str
) -> None:
    api = Api(filled.url, filled.token)
    found = api.get("/api/executions?path=every/asks").body["executions"][0]
    call, shows = PARTS[path]
    held: list[Route] = []
    is_held = True
    visitor.refusals.add(403)

    def hold(route: Route) -> None:
        if is_held:
            held.append(route)
        else:
            route.continue_()

    pattern = f"{visitor.url}/api/{call}"
    visitor.context.route(pattern, hold)
    with visitor.page.expect_request(pattern):
        page = visitor.open(path.format(id=found["execution_id"]))
    expect(page.get_by_role("status", name="Loading").first).to_be_visible()
    is_held = False
    for route in held:
        route.fulfill(status=403, json=PROBLEM)
    expect(page.get_by_text("not for you").first).to_be_visible()
    page.get_by_role("button", name="Try again").first.click()

    expect(page.get_by_text(shows).first).to_be_visible()
    expect(page.get_by_text("not for you")).to_have_count(0)


def settle(page: Page) -> None:
    """Wait until the page has its heading and nothing is loaded any more."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_a_serious_finding_of_axe(
    browser: Browser, filled: Running, people: People, theme: Literal["light", "dark"]
) -> None:
    visitor = Visitor(browser, filled, people, theme=theme)
    found = {}
    for path in ALL:
        settle(visitor.open(path))
        found[path] = visitor.axe()

    assert {path: each for path, each in found.items() if each} == {}
    visitor.leave()


def test_a_narrow_screen_needs_no_sideways_scrolling(
    browser: Browser, filled: Running, people: People
) -> None:
    visitor = Visitor(browser, filled, people, phone=True)
    wide = []
    for path in ALL:
        page = visitor.open(path)
        settle(page)
        if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            wide.append(path)

    assert wide == []
    visitor.leave()


MANY = 10_000


def lines_of(heading: str) -> dict[str, object]:
    """An answer of ten thousand rows for a page."""
    moment = "2026-11-01T10:00:00.000Z"
    numbers = range(MANY)
    match heading:
        case "Catalog":
            made = {"sha256": "0" * 64, "registered_at": moment, "registered_by": "a"}
            common = {**made, "version": "1", "name": "n", "extensions": []}
            rows = [
                {**common, "playbook_id": f"{n}", "path": f"many/p{n}"} for n in numbers
            ]
            return {"playbooks": rows, "cursor": None}
        case "Triggers":
            made = {"created_at": moment, "created_by": "a", "owner": "a"}
            common = {**made, "kind": "webhook", "playbook": "a/b", "paused": False}
            common |= {"definition": {}, "hook": "/x", "next_at": None, "last": None}
            return {"triggers": [{**common, "name": f"many-{n}"} for n in numbers]}
        case "Workers":
            common = {"account": "a", "pool": "p", "code": False, "slots": 1}
            common |= {"running": 0, "seen_at": moment, "address": None}
            return {"workers": [{**common, "worker": f"many-{n}"} for n in numbers]}
        case "Keychain":
            common = {"kind": "k", "fields": None, "updated_at": moment, "for": ["*"]}
            common |= {"declared": None}
            return {"keychain": [{**common, "name": f"many-{n}"} for n in numbers]}
        case "Users":
            common = {"roles": ["viewer"], "email": None, "display_name": None}
            common |= {"disabled": False, "has_password": True, "issuer": None}
            common |= {"user_id": "u", "created_at": moment}
            return {"users": [{**common, "name": f"many-{n}"} for n in numbers]}
        case "Sessions":
            common = {"roles": ["viewer"], "created_at": moment, "expires_at": moment}
            common |= {"last_activity_at": moment, "client_ip": None}
            rows = [
                {**common, "session_id": f"{n}", "user": f"many-{n}"} for n in numbers
            ]
            return {"sessions": rows}
        case _:
            common = {"at": moment, "principal": "a", "means": "token", "address": "::"}
            common |= {"target": {}, "status": 200, "problem": None}
            rows = [
                {**common, "audit_id": f"{n}", "action": f"many-{n}"} for n in numbers
            ]
            return {"entries": rows, "cursor": None}


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.heading != "Inbox"],
    ids=lambda page: page.heading,
)
def test_ten_thousand_rows_keep_few_elements(visitor: Visitor, page: Asks) -> None:
    visitor.answer(page.call, 200, lines_of(page.heading))
    shown = visitor.open(page.path)
    last = re.compile(rf"^many[-/]p?{MANY - 1}$")
    list_of_rows = shown.locator(".rows").last
    expect(list_of_rows.get_by_text(re.compile(r"^many[-/]p?0$"))).to_be_visible()
    list_of_rows.evaluate("(box) => { box.scrollTop = 1e9 }")

    expect(list_of_rows.get_by_text(last)).to_be_visible()
    assert shown.evaluate("document.querySelectorAll('*').length") < 2000


def test_rows_are_walked_and_opened_by_keys(visitor: Visitor) -> None:
    visitor.answer("keychain", 200, lines_of("Keychain"))
    page = visitor.open("/keychain")
    expect(page.get_by_text("many-0", exact=True)).to_be_visible()
    for key in ("j", "j", "j", "k", "Enter"):
        page.keyboard.press(key)

    expect(page.get_by_role("dialog", name="many-1")).to_be_visible()


def test_a_slash_goes_to_the_find_field(visitor: Visitor) -> None:
    page = visitor.open("/triggers")
    heading(page, "Triggers")
    page.keyboard.press("/")

    expect(page.get_by_label("Find triggers")).to_be_focused()
