"""The page of an execution: failure, graph, log, values, time travel, retry, fork."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect
from servers import ASKS, HEAD, Api, Running, playbook
from web_pages import People, Visitor

ORDERS = playbook(
    "shop",
    """
    - step: list
      desc: Lists what is open.
      tool: {kind: noop, result: 7}
      next: {arcs: [{step: fetch}]}
    - step: fetch
      tool:
        - get:
            kind: python
            args: {order: "{{ workload.order }}"}
            code: |
              def main(order):
                  print('asked for', order)
                  if order > 10:
                      raise ValueError('404 Not Found')
                  return {'order': order}
            spec:
              policy:
                rules:
                  - when: "{{ outcome.status == 'error' }}"
                    then: {do: retry, attempts: 2, delay: 0.01}
                  - else:
                      then: {do: continue, set_ctx: {last: "{{ workload.order }}"}}
      next: {arcs: [{step: write, when: "{{ event.name == 'step.done' }}"}]}
    - {step: write, tool: {kind: noop, result: ok}}
    """,
    "workload: {order: 11}\n",
)
LOOP = playbook(
    "loop",
    """
    - step: start
      spec: {policy: {failure: best_effort}}
      loop: {in: "{{ workload.rows }}", iterator: n, spec: {mode: parallel}}
      tool: {kind: noop, result: "{{ 10 // iter.n }}"}
      next: {arcs: [{step: end}]}
    - {step: end, tool: {kind: noop, result: ok}}
    """,
    "workload: {rows: [1, 2, 0, 4, 0, 6]}\n",
)


@pytest.fixture(scope="module")
def failed(running: Running) -> str:
    """An execution whose step `fetch` failed after two attempts."""
    document = Api(running.url, running.token).run(ORDERS)
    assert document["status"] == "failed"
    execution_id: str = document["execution_id"]
    return execution_id


def node(page: Page, step: str) -> Any:
    return page.locator(f".node[data-step='{step}']")


def panel(page: Page) -> Any:
    return page.get_by_role("complementary")


@pytest.mark.in_a_cluster_too
def test_a_failed_execution_opens_at_its_failure(visitor: Visitor, failed: str) -> None:
    page = visitor.open(f"/executions/{failed}")

    expect(page.locator(".failure")).to_contain_text("ValueError: 404 Not Found")
    expect(page.locator(".failure")).to_contain_text("step fetch, task get")
    expect(page.get_by_role("button", name="Why?")).to_be_in_viewport()
    expect(page.get_by_role("button", name="Retry failed")).to_be_in_viewport()
    expect(panel(page).get_by_role("heading", name="fetch")).to_be_visible()
    expect(panel(page)).to_contain_text("get #2")
    expect(node(page, "list")).to_have_class(re.compile("state-done"))
    for name in ("selected", "state-failed"):  # the order of classes has no meaning
        expect(node(page, "fetch")).to_contain_class(name)
    expect(node(page, "write")).to_have_class(re.compile("state-not_reached"))


@pytest.mark.in_a_cluster_too
def test_a_retry_with_another_workload_completes(visitor: Visitor, failed: str) -> None:
    page = visitor.open(f"/executions/{failed}")
    page.get_by_role("button", name="Retry failed").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".fork-plan")).to_contain_text("kept, done")
    dialog.get_by_text("Changes:").click()
    dialog.get_by_label("Workload").fill('{"order": 3}')
    expect(dialog.locator(".fork-plan")).to_contain_text('{"order":3}')
    dialog.get_by_role("button", name="Retry 1 execution").click()

    expect(page).not_to_have_url(re.compile(failed))
    expect(page.locator(".execution-head")).to_contain_text("completed")
    expect(page.locator(".lineage")).to_contain_text("forked from")
    page.locator(".lineage").get_by_role("link").first.click()
    expect(page).to_have_url(re.compile(failed))
    expect(page.locator(".lineage")).to_contain_text("forked as")


def test_an_edit_that_is_not_json_cannot_be_sent(visitor: Visitor, failed: str) -> None:
    page = visitor.open(f"/executions/{failed}")
    page.get_by_role("button", name="Retry failed").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Changes:").click()
    dialog.get_by_label("Workload").fill("{order: 3")

    expect(dialog.get_by_role("alert")).to_contain_text("workload:")
    expect(dialog.get_by_role("button", name="Retry 1 execution")).to_be_disabled()


def test_a_fork_says_where_it_really_begins(visitor: Visitor, failed: str) -> None:
    """Event 9 ends the first step; the decision is one batch with the events after."""
    page = visitor.open(f"/executions/{failed}?at=9")
    page.get_by_role("button", name="Fork here").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Event", exact=True)).to_have_value("9")
    answer = visitor.context.request.post(
        f"{visitor.url}/api/executions/{failed}/fork",
        data={"at": 9, "dry_run": True},
        headers={"Origin": visitor.url},
    )
    seq = answer.json()["forked_from"]["seq"]

    expect(dialog).to_contain_text(f"It keeps the events up to {seq}")
    dialog.get_by_role("button", name="Fork 1 execution").click()
    expect(page.locator(".lineage")).to_contain_text(f"at event {seq}")


def test_all_parts_show_the_event_of_the_cursor(
    visitor: Visitor, api: Api, failed: str
) -> None:
    page = visitor.open(f"/executions/{failed}?tab=events&sel=-")
    slider = page.get_by_role("slider")
    last = int(slider.get_attribute("aria-valuemax") or 0)
    expect(node(page, "fetch")).to_have_class(re.compile("state-failed"))
    page.keyboard.press("Home")
    for seq in range(1, last + 1):
        expect(slider).to_have_attribute("aria-valuenow", str(seq))
        expect(page.locator(".event-row.here")).to_have_attribute("data-seq", str(seq))
        state = api.get(f"/api/executions/{failed}/state?at={seq}").body
        status = (node(page, "fetch").get_attribute("class") or "").split("state-")[1]
        runs = [run for run in state["runs"].values() if run["step"] == "fetch"]
        is_open = any(not run["ended"] for run in runs)
        is_open = is_open or '"fetch"' in json.dumps(state["tokens"])
        assert status.startswith(("running", "ready")) == is_open, (seq, status)
        page.keyboard.press("ArrowRight")


def test_the_position_is_in_the_address_and_survives_a_reload(
    visitor: Visitor, failed: str
) -> None:
    page = visitor.open(f"/executions/{failed}")
    expect(node(page, "list")).to_have_class(re.compile("state-done"))
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowRight")

    expect(page).to_have_url(re.compile(r"at=\d+"))
    at = page.get_by_role("slider").get_attribute("aria-valuenow")
    page.reload()
    expect(page.get_by_role("slider")).to_have_attribute("aria-valuenow", at or "")


@pytest.mark.in_a_cluster_too
def test_the_cursor_stays_while_events_arrive(
    visitor: Visitor, api: Api, running: Running
) -> None:
    execution_id = api.start(ASKS)
    api.await_event(execution_id, "task.suspended")
    page = visitor.open(f"/executions/{execution_id}?at=4")
    slider = page.get_by_role("slider")
    before = int(slider.get_attribute("aria-valuemax") or 0)

    sent = api.post(f"/api/executions/{execution_id}/signal", {"name": "go"})
    assert sent.status == 200

    expect(slider).not_to_have_attribute("aria-valuemax", str(before))
    expect(page.locator(".execution-head")).to_contain_text("completed")
    expect(slider).to_have_attribute("aria-valuenow", "4")


@pytest.mark.in_a_cluster_too
def test_a_wait_is_answered_from_the_page(visitor: Visitor, api: Api) -> None:
    execution_id = api.start(ASKS)
    page = visitor.open(f"/executions/{execution_id}")
    expect(page.locator(".notice.waiting")).to_contain_text("waits for signal go")
    page.get_by_role("button", name="Answer…").click()
    page.get_by_role("dialog").get_by_role("button", name="Send").click()

    expect(page.locator(".execution-head")).to_contain_text("completed")
    expect(node(page, "end")).to_have_class(re.compile("state-done"))


def test_cancelling_asks_first(visitor: Visitor, api: Api) -> None:
    execution_id = api.start(ASKS)
    page = visitor.open(f"/executions/{execution_id}")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel 1 execution").click()

    expect(page.locator(".execution-head")).to_contain_text("cancelled")


@pytest.mark.in_a_cluster_too
def test_a_loop_is_one_node_that_counts(visitor: Visitor, api: Api) -> None:
    execution_id = api.run(LOOP)["execution_id"]
    page = visitor.open(f"/executions/{execution_id}?sel=start")

    expect(page.locator(".node")).to_have_count(2)
    expect(node(page, "start")).to_have_class(re.compile("state-partial"))
    expect(node(page, "start").locator(".pill")).to_have_text("6")
    loop = page.get_by_role("region", name="Iterations")
    expect(loop).to_contain_text("6/6")
    expect(loop.locator(".loop-errors li")).to_have_count(1)
    expect(loop.locator(".loop-errors")).to_contain_text("2 ")
    loop.get_by_label("Which iterations").select_option("failed")
    expect(loop.locator(".iteration")).to_have_count(2)
    expect(loop.locator(".iteration").first).to_contain_text("#2")


def test_why_shows_the_rule_and_the_values_that_its_guard_saw(
    visitor: Visitor, failed: str
) -> None:
    page = visitor.open(f"/executions/{failed}")
    page.get_by_role("button", name="Why?").click()

    expect(panel(page)).to_contain_text("Why did fetch fail?")
    expect(panel(page).locator(".saw")).to_contain_text("outcome.status")
    expect(panel(page).locator(".saw")).to_contain_text("error")
    panel(page).get_by_role("button", name=re.compile(r"^line \d+$")).nth(1).click()
    expect(page.locator(".source-row.here")).to_be_in_viewport()


def test_why_not_yet_shows_what_a_step_misses(visitor: Visitor, failed: str) -> None:
    page = visitor.open(f"/executions/{failed}?sel=write")

    expect(panel(page)).to_contain_text("Why did write not begin?")
    expect(panel(page)).to_contain_text("fetch -> write")
    expect(panel(page).locator(".saw")).to_contain_text("step.failed")


def test_writers_of_ctx_lead_to_their_events(visitor: Visitor, api: Api) -> None:
    execution_id = api.run(ORDERS, workload={"order": 3})["execution_id"]
    page = visitor.open(f"/executions/{execution_id}?tab=data")
    writer = page.locator(".writers").get_by_role("button").first
    seq = writer.inner_text().removeprefix("#")
    writer.click()

    expect(page.get_by_role("slider")).to_have_attribute("aria-valuenow", seq)
    expect(page.locator(".differences")).to_contain_text("last")
    expect(page.get_by_role("heading", name=f"ctx after event {seq}")).to_be_visible()


def test_output_is_shown_from_its_first_line_and_searched(
    visitor: Visitor, failed: str
) -> None:
    page = visitor.open(f"/executions/{failed}?tab=output")
    expect(page.locator(".output-row")).to_have_count(2)
    page.get_by_label("Find in the output").fill("nowhere")

    expect(page.get_by_text("No line has this text")).to_be_visible()


def test_the_playbook_is_shown_at_the_line_of_the_step(
    visitor: Visitor, failed: str
) -> None:
    page = visitor.open(f"/executions/{failed}?tab=yaml&sel=fetch")

    expect(page.locator(".source-row.here")).to_contain_text("step: fetch")


def test_children_open_inline_three_deep(visitor: Visitor, api: Api) -> None:
    call = "- {step: start, tool: {kind: playbook, path: tests/%s}}"
    for name, text in {
        "deep3": "- {step: bottom, tool: {kind: noop, result: 1}}",
        "deep2": call % "deep3",
        "deep1": call % "deep2",
    }.items():
        assert api.post("/api/catalog", {"playbook": playbook(name, text)}).status < 300
    execution_id = api.run(playbook("deep0", call % "deep1"))["execution_id"]
    page = visitor.open(f"/executions/{execution_id}?sel=start&panel=calls")
    for name in ("deep1", "deep2", "deep3"):
        page.get_by_role("button", name=f"Steps of tests/{name}").click()

    expect(panel(page)).to_contain_text("bottom")


def test_a_thousand_steps_can_be_found_panned_and_walked(
    visitor: Visitor, api: Api
) -> None:
    steps = "".join(
        f"  - {{step: s{at}, tool: {{kind: noop}}, "
        f"next: {{arcs: [{{step: s{at + 1}}}, {{step: s{min(at + 40, 1000)}}}]}}}}\n"
        for at in range(1000)
    )
    text = f"{HEAD}metadata: {{name: big, path: tests/big}}\nworkflow:\n{steps}"
    text += "  - {step: s1000, tool: {kind: noop}}\n"
    started = api.post("/api/executions", {"playbook": text})
    assert started.status == 201, started.body
    api.post(f"/api/executions/{started.body['execution_id']}/cancel")
    page = visitor.open(f"/executions/{started.body['execution_id']}?sel=-")
    expect(page.locator(".node").first).to_be_attached()

    page.get_by_role("button", name="Find a step").click()
    page.get_by_label("Find a step").fill("s777")
    expect(node(page, "s777")).to_be_in_viewport()
    page.keyboard.press("Escape")
    page.locator("svg.net").focus()
    page.keyboard.press("ArrowDown")
    expect(page).to_have_url(re.compile("sel=s778|sel=s817"))
    page.get_by_role("button", name="Smaller").click()
    drawn = page.locator(".node").count()
    assert drawn < 900, "what is out of view is not in the document"


def test_hostile_values_are_text(visitor: Visitor, api: Api) -> None:
    bad = "<img src=x onerror=alert(1)>\u202e\u0007<script>alert(2)</script>"
    text = playbook(
        "hostile",
        f"""
        - step: start
          desc: {json.dumps(bad)}
          tool:
            kind: python
            args: {{bad: {json.dumps(bad)}}}
            code: |
              def main(bad):
                  print(bad + 'y' * 10_000_000)
                  raise ValueError(bad + 'x' * 10_000_000)
        """,
    )
    execution_id = api.run(text, labels={"team": "<b>x</b>"})["execution_id"]
    for tab in ("timeline", "events", "data", "output", "yaml", "steps"):
        page = visitor.open(f"/executions/{execution_id}?tab={tab}&at=7&panel=calls")
        expect(page.locator(".failure")).to_contain_text("<img src=x onerror=alert(1)>")
        assert "\u202e" not in page.inner_text("body")
        assert page.locator("img, .execution script").count() == 0
    page = visitor.open("/executions")
    expect(page.locator(f"[data-id='{execution_id}']")).to_contain_text("<img")


def test_an_unknown_execution_is_said_to_be_unknown(visitor: Visitor) -> None:
    visitor.refusals.add(404)
    page = visitor.open("/executions/01a1f222-604a-75ec-b273-562d5d6820ab")

    expect(page.get_by_role("alert")).to_contain_text("Not found")


@pytest.mark.parametrize(
    ("status", "title"),
    [(403, "You may not see this"), (422, "That did not work")],
)
def test_a_refusal_is_shown_in_the_words_of_the_server(
    visitor: Visitor, failed: str, status: int, title: str
) -> None:
    problem = {"kind": "x", "message": "not this one", "hint": "ask an admin"}
    visitor.answer("executions/*/head", status, problem)
    page = visitor.open(f"/executions/{failed}")

    alert = page.get_by_role("alert")
    for text in (title, "not this one", "ask an admin"):
        expect(alert).to_contain_text(text)
    expect(alert.get_by_role("button", name="Try again")).to_be_visible()


def test_a_lost_graph_leaves_the_rest_of_the_page(
    visitor: Visitor, failed: str
) -> None:
    problem = {"kind": "ref.gone", "message": "its text is gone", "hint": None}
    visitor.answer("executions/*/graph", 422, problem)
    page = visitor.open(f"/executions/{failed}")

    expect(page.get_by_text("its text is gone")).to_be_visible()
    expect(page.locator(".failure")).to_be_visible()
    expect(page.locator(".lane:not(.axis)")).to_have_count(2)


def test_a_viewer_is_shown_no_actions(
    browser: Browser, running: Running, people: People, failed: str
) -> None:
    viewer = Visitor(browser, running, people, "viewer")
    page = viewer.open(f"/executions/{failed}")

    expect(page.locator(".failure")).to_be_visible()
    for name in ("Retry failed", "Fork here", "Cancel"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    viewer.leave()


TABS = ["timeline", "events", "data", "output", "steps", "yaml"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_an_execution(
    browser: Browser,
    running: Running,
    people: People,
    failed: str,
    theme: Literal["light", "dark"],
) -> None:
    visitor = Visitor(browser, running, people, theme=theme)
    page = visitor.open(f"/executions/{failed}")
    expect(node(page, "list")).to_be_visible()
    for tab in TABS:
        name = "Playbook" if tab == "yaml" else tab.capitalize()
        page.get_by_role("tab", name=name).first.click()
        expect(page.locator(".skeleton")).to_have_count(0)
        assert visitor.axe() == [], tab
    page.get_by_role("button", name="Retry failed").click()
    expect(page.locator(".fork-plan")).to_be_visible()
    assert visitor.axe() == []
    visitor.leave()


def test_a_failure_is_found_and_an_execution_cancelled_on_a_phone(
    browser: Browser, running: Running, people: People, api: Api, failed: str
) -> None:
    visitor = Visitor(browser, running, people, phone=True)
    page = visitor.open(f"/executions/{failed}")
    expect(page.locator(".failure")).to_be_in_viewport()
    expect(panel(page)).to_have_count(0)
    page.locator(".failure").get_by_role("button", name="fetch").click()
    expect(panel(page)).to_contain_text("get #2")
    wide = "document.documentElement.scrollWidth > window.innerWidth"
    assert not page.evaluate(wide)

    execution_id = api.start(ASKS)
    page = visitor.open(f"/executions/{execution_id}")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel 1 execution").click()
    expect(page.locator(".execution-head")).to_contain_text("cancelled")
    visitor.leave()


TABLE = playbook(
    "table",
    """
    - step: start
      tool:
        kind: python
        code: |
          def main():
              return [{'id': n, 'name': 'row %s' % n} for n in range(20000)]
    """,
)


def test_a_large_result_shows_its_first_rows_and_any_page(
    visitor: Visitor, api: Api
) -> None:
    execution_id = api.run(TABLE)["execution_id"]
    page = visitor.open(f"/executions/{execution_id}?sel=start&panel=data")
    panel(page).get_by_role("button", name="rows").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Rows of 20,000")
    expect(dialog.locator("tbody tr")).to_have_count(200)
    dialog.get_by_label("Page", exact=True).fill("100")

    expect(dialog.locator("tbody tr").last).to_contain_text("row 19999")


def test_events_are_found_by_their_text(visitor: Visitor, failed: str) -> None:
    page = visitor.open(f"/executions/{failed}?tab=events&sel=-")
    page.get_by_label("Find in the events").fill("404 Not Found")
    rows = page.locator(".found-row")
    expect(rows.first).to_contain_text("task.done")
    seq = rows.first.locator("[data-seq]").get_attribute("data-seq")
    rows.first.locator("[data-seq]").click()

    expect(page.get_by_role("slider")).to_have_attribute("aria-valuenow", seq or "")
    expect(page.locator(".event-row.here")).to_have_attribute("data-seq", seq or "")


def test_a_failed_execution_is_retried_by_keyboard_alone(
    visitor: Visitor, api: Api
) -> None:
    failed = api.run(ORDERS)["execution_id"]
    page = visitor.open("/executions?status=failed&path=tests/shop")
    expect(page.locator(f"[data-id='{failed}']")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator(".failure")).to_be_visible()
    page.keyboard.press("r")
    expect(page.locator(".fork-plan")).to_be_visible()
    for _ in range(20):
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type('{"order": 3}')
    expect(page.locator(".fork-plan")).to_contain_text('{"order":3}')
    for _ in range(20):
        if "Retry 1" in page.evaluate("document.activeElement.textContent"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(page).not_to_have_url(re.compile(failed))
    expect(page.locator(".execution-head")).to_contain_text("completed")


def test_eight_tabs_follow_one_execution_without_blocking_each_other(
    visitor: Visitor, api: Api
) -> None:
    execution_id = api.start(ASKS)
    api.await_event(execution_id, "task.suspended")
    visitor.open(f"/executions/{execution_id}")
    tabs = [visitor.page, *(visitor.context.new_page() for _ in range(7))]
    for tab in tabs[1:]:
        tab.goto(f"{visitor.url}/executions/{execution_id}")
    for tab in tabs:
        expect(tab.locator(".execution-head")).to_contain_text("waiting")
    api.post(f"/api/executions/{execution_id}/signal", {"name": "go"})

    for tab in tabs:
        tab.bring_to_front()
        expect(tab.locator(".execution-head")).to_contain_text("completed")
