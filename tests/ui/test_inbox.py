"""The inbox: who may answer, what does not fit, and who came too late."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from servers import HEAD, Api, Running
from web_pages import People, Visitor

ASKS = f"""{HEAD}metadata: {{name: pay, path: pay/approve}}
workload: {{amount: 1200}}
workflow:
- step: start
  tool:
  - ask:
      kind: wait
      signal: approval
      roles: [operator]
      schema:
        title: "Pay {{{{ workload.amount }}}}?"
        type: object
        required: [approved, by]
        properties:
          approved: {{type: boolean}}
          by: {{type: string, minLength: 2, description: Who decides.}}
        additionalProperties: false
"""


@pytest.fixture
def asked(running: Running) -> Iterator[str]:
    """An execution that asks for an approval."""
    api = Api(running.url, running.token)
    assert api.post("/api/catalog", {"playbook": ASKS}).status < 300
    started = api.post("/api/executions", {"path": "pay/approve"}).body
    name = started["execution_id"]
    api.await_event(name, "task.suspended")
    yield name
    api.post(f"/api/executions/{name}/cancel")


@pytest.fixture
def operator(browser: Browser, running: Running, people: People) -> Iterator[Visitor]:
    one = Visitor(browser, running, people, "operator")
    yield one
    one.leave()


def card(page: Page, execution_id: str) -> Locator:
    link = page.locator(f"a[href='/executions/{execution_id}']")
    return page.get_by_role("article").filter(has=link)


@pytest.mark.in_a_cluster_too
def test_an_approval_is_given_by_a_button(
    operator: Visitor, asked: str, api: Api
) -> None:
    page = operator.open("/inbox")
    question = card(page, asked)
    expect(question).to_contain_text("Pay 1200?")
    question.get_by_label("by").fill("ann")
    question.get_by_role("button", name="Approve").click()

    expect(question).to_have_count(0)
    done = api.finish(asked)
    assert done["result"] == {"approved": True, "by": "ann"}


def test_a_refusal_is_an_answer_too(operator: Visitor, asked: str, api: Api) -> None:
    page = operator.open("/inbox")
    card(page, asked).get_by_label("by").fill("bob")
    card(page, asked).get_by_role("button", name="Refuse").click()

    expect(card(page, asked)).to_have_count(0)
    assert api.finish(asked)["result"] == {"approved": False, "by": "bob"}


def test_data_that_do_not_fit_are_marked_and_not_sent(
    operator: Visitor, asked: str, api: Api
) -> None:
    page = operator.open("/inbox")
    question = card(page, asked)
    question.get_by_label("by").fill("a")
    question.get_by_role("button", name="Approve").click()

    expect(question.get_by_role("alert")).to_have_text("at least 2 characters")
    expect(question.get_by_label("by")).to_be_focused()
    assert api.get(f"/api/executions/{asked}").body["waits"]


def test_one_without_the_role_sees_the_question_and_no_form(
    browser: Browser, running: Running, people: People, asked: str
) -> None:
    viewer = Visitor(browser, running, people, "viewer")
    page = viewer.open("/inbox")

    question = card(page, asked)
    expect(question).to_contain_text("Your roles do not answer this.")
    expect(question.get_by_role("button")).to_have_count(0)
    forced = viewer.context.request.post(
        f"{viewer.url}/api/executions/{asked}/signal",
        data={"name": "approval", "data": {"approved": True, "by": "vera"}},
        headers={"Origin": viewer.url},
    )
    assert forced.status == 403
    viewer.leave()


@pytest.mark.in_a_cluster_too
def test_a_late_answer_shows_the_account_that_was_faster(
    operator: Visitor, visitor: Visitor, asked: str, api: Api
) -> None:
    operator.refusals.add(409)
    late, early = operator.open("/inbox"), visitor.open("/inbox")
    card(late, asked).get_by_label("by").fill("late")
    # One page is behind the other.
    before = operator.context.request.get(f"{operator.url}/api/inbox?mine=true").json()
    operator.answer("inbox?mine=true*", 200, before)

    card(early, asked).get_by_label("by").fill("early")
    card(early, asked).get_by_role("button", name="Approve").click()
    expect(card(early, asked)).to_have_count(0)
    api.finish(asked)
    card(late, asked).get_by_role("button", name="Approve").click()

    notice = card(late, asked).get_by_text("Too late")
    expect(notice).to_contain_text(visitor.name)
    expect(late.locator(".toast")).to_contain_text(visitor.name)


def test_a_question_that_is_not_answered_here_goes_away(
    operator: Visitor, asked: str, api: Api
) -> None:
    page = operator.open("/inbox")
    expect(card(page, asked)).to_be_visible()
    api.post(
        f"/api/executions/{asked}/signal",
        {"name": "approval", "data": {"approved": True, "by": "cli"}},
    )

    expect(card(page, asked)).to_have_count(0)


def test_ten_thousand_questions_are_counted_and_come_in_pages(
    operator: Visitor, asked: str
) -> None:
    path = f"{operator.url}/api/inbox?mine=true"
    operator.open("/settings")
    body = operator.context.request.get(path).json()
    [item] = [each for each in body["items"] if each["execution_id"] == asked]
    items = [{**item, "command_id": f"{number}"} for number in range(100)]
    more = {"items": items, "total_mine": 10_000, "cursor": "next"}
    operator.answer("inbox?mine=true*", 200, {**body, **more})
    page = operator.open("/inbox")

    expect(page.get_by_text("10,000 for me")).to_be_visible()
    expect(page.get_by_role("article")).to_have_count(100)
    expect(page.get_by_role("button", name="Show more")).to_be_visible()
    assert page.evaluate("document.querySelectorAll('*').length") < 5_000


def test_what_was_typed_stays_while_others_are_asked(
    operator: Visitor, asked: str, api: Api
) -> None:
    page = operator.open("/inbox")
    card(page, asked).get_by_label("by").fill("half typ")
    other = api.post("/api/executions", {"path": "pay/approve"}).body["execution_id"]

    expect(card(page, other)).to_be_visible()
    expect(card(page, asked).get_by_label("by")).to_have_value("half typ")
    expect(card(page, asked).get_by_label("by")).to_be_focused()
    api.post(f"/api/executions/{other}/cancel")


def test_an_approval_is_given_on_a_phone(
    browser: Browser, running: Running, people: People, asked: str, api: Api
) -> None:
    person = Visitor(browser, running, people, "operator", phone=True)
    page = person.open("/executions")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Inbox").tap()
    question = card(page, asked)
    question.get_by_label("by").fill("on a phone")
    button = question.get_by_role("button", name="Approve")
    box = button.bounding_box()
    assert box is not None
    assert box["height"] >= 44
    button.tap()

    expect(question).to_have_count(0)
    assert api.finish(asked)["result"] == {"approved": True, "by": "on a phone"}
    person.leave()


def test_an_approval_is_given_by_keyboard_alone(
    operator: Visitor, asked: str, api: Api
) -> None:
    page = operator.open("/executions")
    expect(page.get_by_role("row").filter(has_text="waiting").first).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("i")
    expect(card(page, asked)).to_be_visible()
    field = card(page, asked).get_by_label("by")
    for _ in range(40):
        if field.evaluate("(each) => each === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.type("by keys")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(card(page, asked)).to_have_count(0)
    assert api.finish(asked)["result"] == {"approved": True, "by": "by keys"}
