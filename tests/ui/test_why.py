"""Why a step did not run, or does not run yet, in the words of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect
from servers import ASKS, Api, playbook
from web_pages import Visitor

GATE = playbook(
    "gate",
    """
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: gated}]}}
    - step: gated
      spec:
        policy:
          admit:
            rules:
              - {when: "{{ ctx.seen is defined }}", then: {allow: true}}
              - {else: {then: {allow: false}}}
      tool: {kind: noop}
    """,
)
JOIN = playbook(
    "join",
    """
    - step: start
      tool: {kind: noop}
      next: {spec: {mode: inclusive}, arcs: [{step: quick}, {step: asks}]}
    - {step: quick, tool: {kind: noop}, next: {arcs: [{step: both}]}}
    - {step: asks, tool: {kind: wait, signal: go}, next: {arcs: [{step: both}]}}
    - {step: both, spec: {join: {mode: all}}, tool: {kind: noop}}
    """,
)
POOL = playbook(
    "pool",
    "- {step: start, tool: {kind: noop, spec: {pool: gpu}}}",
)
PLACE = {"key": "one place of a page", "limit": 1}


@pytest.fixture
def begun(api: Api) -> Iterator[list[str]]:
    """Executions that are cancelled in the end."""
    ids: list[str] = []
    yield ids
    for each in ids:
        api.post(f"/api/executions/{each}/cancel")


def why(visitor: Visitor, execution_id: str, step: str) -> Locator:
    page = visitor.open(f"/executions/{execution_id}?sel={step}&panel=why")
    return page.get_by_role("complementary")


def test_a_gate_shows_the_rule_that_denied_the_token(
    visitor: Visitor, api: Api
) -> None:
    panel = why(visitor, api.run(GATE)["execution_id"], "gated")

    expect(panel).to_contain_text("Why did gated not begin?")
    expect(panel.locator(".verdict-no .guard")).to_have_text(
        "{{ ctx.seen is defined }}"
    )


def test_another_guard_is_tried_in_a_fork_from_before_the_decision(
    visitor: Visitor, api: Api
) -> None:
    execution_id = api.run(GATE)["execution_id"]
    why(visitor, execution_id, "gated")
    page = visitor.page
    page.get_by_role("button", name="Try another guard: fork at").click()
    text = page.get_by_label("Playbook: a whole new text")
    mended = text.input_value().replace("ctx.seen is defined", "ctx.seen is undefined")
    assert "ctx.seen is undefined" in mended
    text.fill(mended)
    page.get_by_role("button", name="Fork 1 execution").click()
    expect(page).not_to_have_url(re.compile(execution_id))

    fork = page.url.partition("/executions/")[2].partition("?")[0]
    assert api.finish(fork)["status"] == "completed"
    done = page.locator(".node[data-step='gated']")
    expect(done).to_have_class(re.compile("state-done"))

    page = visitor.open(f"/executions/{fork}?tab=yaml&at=1")
    shown = page.locator(".execution-tab")
    expect(shown).to_contain_text("the playbook of the origin")
    expect(shown).to_contain_text("ctx.seen is defined")
    page.get_by_role("slider").press("End")
    expect(shown).to_contain_text("ctx.seen is undefined")
    expect(shown).not_to_contain_text("the playbook of the origin")


def test_a_join_shows_what_has_come_and_what_still_can(
    visitor: Visitor, api: Api, begun: list[str]
) -> None:
    begun.append(api.start(JOIN))
    api.await_event(begun[0], "token.joined")
    panel = why(visitor, begun[0], "both")

    expect(panel).to_contain_text("tokens wait there for others")
    expect(panel.locator(".verdict-yes").first).to_contain_text("quick")
    expect(panel.locator(".verdict-waiting").first).to_contain_text("asks")


def test_a_pool_without_a_worker_is_named(
    visitor: Visitor, api: Api, begun: list[str]
) -> None:
    begun.append(api.start(POOL))
    panel = why(visitor, begun[0], "start")

    expect(panel).to_contain_text("a worker of pool gpu")
    expect(panel).to_contain_text("no worker asks for work of the pool gpu")


@pytest.mark.in_a_cluster_too
def test_a_place_shows_the_execution_that_holds_it(
    visitor: Visitor, api: Api, begun: list[str]
) -> None:
    begun.append(api.start(ASKS, concurrency=PLACE))
    api.await_event(begun[0], "task.suspended")
    begun.append(api.start(ASKS, concurrency=PLACE))
    panel = why(visitor, begun[1], "start")

    expect(panel).to_contain_text("place of one place of a page")
    expect(panel.get_by_role("link", name=begun[0])).to_be_visible()
