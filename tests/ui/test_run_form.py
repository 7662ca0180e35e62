"""The form that starts an execution."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect
from servers import HEAD, Api, Running
from web_pages import People, Visitor

ORDERS = f"""{HEAD}metadata:
  name: orders
  path: forms/orders
  version: "1"
  inputs:
    type: object
    required: [order, region]
    properties:
      order: {{type: integer, minimum: 1, description: The number of the order.}}
      region: {{enum: [eu, us]}}
      rush: {{type: boolean, default: false}}
      tags: {{type: array, items: {{type: string}}}}
      place: {{type: object, properties: {{street: {{type: string}}}}}}
      token: {{type: string, secret: true}}
workload:
  order: 11
workflow:
- {{step: start, tool: {{kind: noop, result: "{{{{ workload }}}}"}}}}
"""
PLAIN = f"""{HEAD}metadata: {{name: plain, path: forms/plain, version: "1"}}
workload:
  order: 11  # the number of the order
  # Two letters.
  region: eu
  nested: {{deep: {{deeper: {{deepest: 1}}}}}}
workflow:
- {{step: start, tool: {{kind: noop, result: "{{{{ workload }}}}"}}}}
"""


@pytest.fixture(scope="module", autouse=True)
def registered(running: Running) -> None:
    api = Api(running.url, running.token)
    for text in (ORDERS, PLAIN):
        assert api.post("/api/catalog", {"playbook": text}).status < 300


def started(page: Page) -> str:
    expect(page).to_have_url(re.compile("/executions/"))
    return page.url.rpartition("/")[2].partition("?")[0]


def start(page: Page) -> None:
    page.get_by_role("button", name="Start", exact=True).click()


def test_typed_values_reach_the_execution(visitor: Visitor, api: Api) -> None:
    page = visitor.open("/catalog/forms/orders/-/run")
    expect(page.get_by_label("order")).to_have_value("11")
    expect(page.get_by_text("The number of the order.")).to_be_visible()
    page.get_by_label("order").fill("12")
    page.get_by_label("region").select_option(label="us")
    page.get_by_label("rush").check()
    page.get_by_role("button", name="Add to tags").click()
    page.locator("[data-path='tags.0']").fill("a")
    page.get_by_label("street").fill("Elm 1")
    start(page)

    done = api.finish(started(page))
    assert done["result"] == {
        "order": 12,
        "region": "us",
        "rush": True,
        "tags": ["a"],
        "place": {"street": "Elm 1"},
    }


def test_comments_explain_inputs_that_are_not_declared(
    visitor: Visitor, api: Api
) -> None:
    page = visitor.open("/catalog/forms/plain/-/run")
    expect(page.get_by_text("the number of the order")).to_be_visible()
    expect(page.get_by_text("Two letters.")).to_be_visible()
    start(page)

    done = api.finish(started(page))
    assert done["result"] == {
        "order": 11,
        "region": "eu",
        "nested": {"deep": {"deeper": {"deepest": 1}}},
    }


def test_a_wrong_value_is_marked_and_nothing_starts(visitor: Visitor, api: Api) -> None:
    page = visitor.open("/catalog/forms/orders/-/run")
    page.get_by_label("order").fill("eleven")
    start(page)

    alerts = page.get_by_role("alert")
    expect(alerts).to_have_text(["expected a number, found 'eleven'", "choose one"])
    expect(page.get_by_label("order")).to_be_focused()
    expect(page).to_have_url(re.compile("/-/run$"))


def test_what_only_the_server_can_refuse_is_shown_and_can_be_mended(
    visitor: Visitor, api: Api
) -> None:
    visitor.refusals.add(422)
    page = visitor.open("/catalog/forms/orders/-/run")
    page.get_by_role("tab", name="JSON").click()
    whole = page.get_by_label("inputs, as JSON")
    whole.fill('{"order": 0, "region": "mars"}')
    start(page)
    expect(page.get_by_role("alert")).to_contain_text("the inputs do not fit")

    whole.fill('{"order": 1, "region": "eu"}')
    start(page)
    assert api.finish(started(page))["result"]["order"] == 1


def test_the_json_mode_has_what_was_typed_before(visitor: Visitor) -> None:
    page = visitor.open("/catalog/forms/orders/-/run")
    page.get_by_label("order").fill("7")
    page.get_by_label("region").select_option(label="eu")
    page.get_by_role("tab", name="JSON").click()
    whole = page.get_by_label("inputs, as JSON")
    expect(whole).to_have_value(re.compile('"order": 7'))
    whole.fill('{"order": 8, "region": "us"}')
    page.get_by_role("tab", name="Form").click()

    expect(page.get_by_label("order")).to_have_value("8")


def test_a_double_click_starts_once(visitor: Visitor, api: Api) -> None:
    page = visitor.open("/catalog/forms/plain/-/run")
    page.get_by_label("order").fill("4711")
    page.get_by_role("button", name="Start", exact=True).dblclick()

    started(page)
    lines = api.get("/api/executions?path=forms/plain").body["executions"]
    made = [api.get(f"/api/executions/{each['execution_id']}").body for each in lines]
    assert [each["workload"]["order"] for each in made].count(4711) == 1


def test_a_session_that_ends_loses_no_input(visitor: Visitor, api: Api) -> None:
    visitor.refusals.add(401)
    page = visitor.open("/catalog/forms/plain/-/run")
    page.get_by_label("order").fill("99")
    visitor.context.clear_cookies()
    start(page)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Your session has ended")
    visitor.sign_in()
    dialog.get_by_role("button", name="Close").click()

    expect(page.get_by_label("order")).to_have_value("99")
    start(page)
    assert api.finish(started(page))["result"]["order"] == 99


def test_a_viewer_gets_no_form(
    browser: Browser, running: Running, people: People
) -> None:
    viewer = Visitor(browser, running, people, "viewer")
    page = viewer.open("/catalog/forms/orders/-/run")

    expect(page.get_by_text("Your roles do not start executions")).to_be_visible()
    viewer.leave()
