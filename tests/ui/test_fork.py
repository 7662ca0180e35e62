"""Forks with another playbook: what a plan says, and what it is compared with."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect
from servers import Api, Running, playbook
from web_pages import Visitor

BROKEN = playbook(
    "mended",
    """
    - step: start
      tool: {kind: python, code: "def main(): return 1"}
      next: {arcs: [{step: divide}]}
    - {step: divide, tool: {kind: noop, result: "{{ 1 // workload.by }}"}}
    """,
    "workload: {by: 0}\n",
)
MENDED = BROKEN.replace("1 // workload.by", "1 // (workload.by + 1)")


@pytest.fixture(scope="module")
def broken(running: Running) -> str:
    """An execution that divides by zero in its second step."""
    document = Api(running.url, running.token).run(BROKEN)
    assert document["status"] == "failed"
    execution_id: str = document["execution_id"]
    return execution_id


@pytest.fixture
def dialog(visitor: Visitor, broken: str) -> Locator:
    """The dialog of a retry, with its changes open."""
    page = visitor.open(f"/executions/{broken}")
    page.get_by_role("button", name="Retry failed").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Changes:").click()
    return dialog


def test_a_mended_playbook_continues_where_the_old_one_failed(
    visitor: Visitor, dialog: Locator
) -> None:
    dialog.get_by_label("Playbook: a whole new text").fill(MENDED)
    dialog.get_by_role("button", name="Retry 1 execution").click()

    head = visitor.page.locator(".execution-head")
    expect(head).to_contain_text("completed")
    expect(visitor.page.locator(".lineage")).to_contain_text("forked from")


def test_a_playbook_without_a_step_that_is_needed_is_explained(
    visitor: Visitor, dialog: Locator
) -> None:
    visitor.refusals.add(409)
    text = MENDED.replace("divide", "halve")
    dialog.get_by_label("Playbook: a whole new text").fill(text)

    plan = dialog.get_by_role("region", name="What it would do")
    expect(plan).to_contain_text("divide")
    expect(plan.locator(".notice")).to_be_visible()
    button = dialog.get_by_role("button", name="Retry 1 execution")
    expect(button).to_be_disabled()


def test_a_plan_marks_calls_that_have_effects(visitor: Visitor, broken: str) -> None:
    page = visitor.open(f"/executions/{broken}")
    page.get_by_role("button", name="Retry failed").click()
    plan = page.get_by_role("dialog").locator(".fork-plan")
    expect(plan).to_contain_text("divide")
    expect(plan.locator(".effects")).to_have_count(0)

    page.get_by_label("Step", exact=True).select_option("start")
    expect(plan.locator(".effects")).to_have_text(["calls python"])


def test_ctx_is_compared_with_a_pinned_event_and_with_the_begin_of_a_step(
    visitor: Visitor, api: Api
) -> None:
    rule = "{policy: {rules: [{else: {then: {do: continue, set_ctx: {n: %d}}}}]}}"
    text = playbook(
        "compared",
        f"""
        - step: start
          tool:
            - one: {{kind: noop, result: 1, spec: {rule % 1}}}
            - two: {{kind: noop, result: 2, spec: {rule % 2}}}
            - three: {{kind: noop, result: 3, spec: {rule % 3}}}
        """,
    )
    execution_id = api.run(text)["execution_id"]
    page = visitor.open(f"/executions/{execution_id}?tab=data&sel=start")
    writers = page.locator(".writers").get_by_role("button")
    expect(writers).to_have_count(3)
    first, last = (writers.nth(at).inner_text().removeprefix("#") for at in (2, 0))
    writers.nth(0).click()
    changed = page.locator(".differences")
    expect(changed).to_contain_text(f"Changed by event {last}")
    expect(changed).to_contain_text(re.compile(r"n.*2.*3"))
    page.get_by_label("compared with").select_option("step")
    expect(changed.locator(".added")).to_contain_text("n")

    writers.last.click()
    page.get_by_role("button", name=f"Pin event {first}").click()
    page.keyboard.press("End")
    expect(page).to_have_url(re.compile(f"vs={first}"))
    expect(changed).to_contain_text(f"Changed from event {first} to")
    expect(changed).to_contain_text(re.compile(r"n.*1.*3"))
