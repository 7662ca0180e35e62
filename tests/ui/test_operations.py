"""Triggers, backfills, workers and pools."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect
from servers import HELLO, Api, Running
from web_pages import People, Visitor


@pytest.fixture(scope="module")
def playbook(running: Running) -> str:
    api = Api(running.url, running.token)
    made = api.post("/api/catalog", {"playbook": HELLO})
    assert made.status < 300
    path: str = made.body["path"]
    return path


def schedule(api: Api, name: str, playbook: str) -> None:
    body = {"name": name, "playbook": playbook, "schedule": {"cron": "0 3 * * *"}}
    assert api.post("/api/triggers", {"trigger": body}).status < 300


def test_a_schedule_is_made_by_a_form(
    visitor: Visitor, api: Api, playbook: str
) -> None:
    page = visitor.open("/triggers")
    page.get_by_role("button", name="New trigger").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("name").fill("weekly")
    dialog.get_by_label("playbook").fill(playbook)
    dialog.get_by_role("button", name="Create the trigger").click()
    expect(dialog.get_by_role("alert")).to_have_text("is required")

    dialog.get_by_label("cron").fill("0 3 * * 1")
    dialog.get_by_label("zone").fill("Europe/Berlin")
    dialog.get_by_role("button", name="Create the trigger").click()

    expect(dialog).to_have_count(0)
    expect(page.get_by_role("row").filter(has_text="weekly")).to_contain_text("active")
    made = api.get("/api/triggers/weekly").body["definition"]["schedule"]
    assert made["cron"] == "0 3 * * 1"
    assert made["zone"] == "Europe/Berlin"


def test_the_token_of_a_webhook_is_shown_once(
    visitor: Visitor, api: Api, playbook: str
) -> None:
    page = visitor.open("/triggers")
    page.get_by_role("button", name="New trigger").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("tab", name="Webhook").click()
    dialog.get_by_label("name").fill("push")
    dialog.get_by_label("playbook").fill(playbook)
    dialog.get_by_role("button", name="Create the trigger").click()
    token = dialog.locator(".command code").first.inner_text()
    dialog.get_by_role("button", name="I have it").click()

    delivery = Api(api.url, token).post("/hooks/push", {})
    assert delivery.status == 201
    assert token not in page.content()


def test_a_trigger_is_paused_resumed_and_deleted(
    visitor: Visitor, api: Api, playbook: str
) -> None:
    schedule(api, "short-lived", playbook)
    page = visitor.open("/triggers")
    row = page.get_by_role("row").filter(has_text="short-lived")
    row.get_by_role("button", name="short-lived").click()
    drawer = page.get_by_role("dialog").first
    drawer.get_by_role("button", name="Pause").click()
    expect(drawer.get_by_role("button", name="Resume")).to_be_visible()
    assert api.get("/api/triggers/short-lived").body["paused"]

    drawer.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete 1 trigger").click()

    expect(row).to_have_count(0)
    assert api.get("/api/triggers/short-lived").status == 404


def test_a_trigger_that_is_fired_opens_its_execution(
    visitor: Visitor, api: Api, playbook: str
) -> None:
    schedule(api, "by-hand", playbook)
    page = visitor.open("/triggers?trigger=by-hand")
    page.get_by_role("button", name="Fire now").click()

    expect(page).to_have_url(re.compile("/executions/"))


def test_a_trigger_is_changed(visitor: Visitor, api: Api, playbook: str) -> None:
    schedule(api, "changed", playbook)
    page = visitor.open("/triggers?trigger=changed")
    page.get_by_role("button", name="Change", exact=True).click()
    dialog = page.get_by_role("dialog", name="Change changed")
    text = dialog.get_by_label("Definition, as JSON")
    text.fill(text.input_value().replace("0 3 * * *", "30 4 * * *"))
    dialog.get_by_role("button", name="Change the trigger").click()

    expect(dialog).to_have_count(0)
    expect(page.get_by_role("dialog")).to_contain_text("30 4 * * *")
    changed = api.get("/api/triggers/changed").body["definition"]
    assert changed["schedule"]["cron"] == "30 4 * * *"


def test_missing_slots_are_run(visitor: Visitor, api: Api, playbook: str) -> None:
    schedule(api, "late", playbook)
    page = visitor.open("/triggers?trigger=late")
    page.get_by_role("button", name="Run missing slots").click()
    dialog = page.get_by_role("dialog", name="Run missing slots of late")
    dialog.get_by_label("since").fill("2026-01-01")
    dialog.get_by_label("until").fill("2026-01-04")
    dialog.get_by_role("button", name="Start the backfill").click()

    expect(page.get_by_text("3 of 3 slots")).to_be_visible()
    expect(page.get_by_text("finished")).to_be_visible()


def test_a_refused_form_shows_the_reason_and_keeps_its_values(
    visitor: Visitor, api: Api, playbook: str
) -> None:
    visitor.refusals.add(422)
    schedule(api, "strict", playbook)
    page = visitor.open("/triggers?trigger=strict")
    page.get_by_role("button", name="Run missing slots").click()
    dialog = page.get_by_role("dialog", name="Run missing slots of strict")
    dialog.get_by_label("since").fill("tomorrow-ish")
    dialog.get_by_role("button", name="Start the backfill").click()

    expect(dialog.get_by_role("alert")).to_contain_text("tomorrow-ish")
    expect(dialog.get_by_label("since")).to_have_value("tomorrow-ish")


def test_a_viewer_is_offered_no_order(
    browser: Browser, running: Running, people: People, api: Api, playbook: str
) -> None:
    schedule(api, "looked-at", playbook)
    viewer = Visitor(browser, running, people, "viewer")
    page = viewer.open("/triggers?trigger=looked-at")

    expect(page.get_by_role("dialog")).to_contain_text("0 3 * * *")
    for name in (
        "Pause",
        "Fire now",
        "Change",
        "Delete",
        "Run missing slots",
        "New trigger",
    ):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
    viewer.leave()


def test_a_pool_without_workers_says_that_it_waits(visitor: Visitor) -> None:
    pool = {"pool": "gpu", "ready": 3, "delayed": 0, "leased": 0}
    visitor.answer("pools", 200, {"pools": [{**pool, "workers": 0, "slots": 0}]})
    page = visitor.open("/workers")

    row = page.get_by_role("row").filter(has_text="gpu")
    expect(row).to_contain_text("waits for a worker")
