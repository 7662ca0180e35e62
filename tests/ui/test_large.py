"""A long log, a wide net and many executions: the pages show a part, and it is right.

One home serves all tests of the file. ``CAMPAIGN=full`` takes the sizes that the pages
are measured with: 24,000 iterations, 50,000 executions, 50 positions of the slider.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from campaign import FULL
from large_home import LargeHome, prepare
from playwright.sync_api import Browser, Page, expect
from servers import Api, Running
from web_pages import People, Visitor

from noetl.local.home import Home

STEPS = 1_000
ITERATIONS = 24_000 if FULL else 3_000
EXECUTIONS = 50_000 if FULL else 3_000
POSITIONS = 50 if FULL else 10
MOST_ELEMENTS = 15_000
ROW = "[role=row][data-id]"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> LargeHome:
    home = Home(tmp_path_factory.mktemp("large") / "home")
    return prepare(home, STEPS, ITERATIONS, EXECUTIONS)


@pytest.fixture(scope="module")
def host(large: LargeHome) -> Iterator[Running]:
    server = Running(large.home.folder)
    yield server
    server.stop()


@pytest.fixture
def visitor(browser: Browser, host: Running, people: People) -> Iterator[Visitor]:
    one = Visitor(browser, host, people)
    yield one
    one.leave()


def node(page: Page, step: str) -> Any:
    return page.locator(f".node[data-step='{step}']")


def elements(page: Page) -> int:
    count: int = page.evaluate("document.querySelectorAll('*').length")
    return count


def replay(large: LargeHome, seq: int) -> dict[str, Any]:
    """The state after an event, as the command line folds it."""
    command = [sys.executable, "-m", "noetl", "replay", large.execution_id]
    done = subprocess.run(
        [*command, "--at", str(seq), "--json"],
        env={**os.environ, "NOETL_HOME": str(large.home.folder)},
        capture_output=True,
        check=True,
    )
    state: dict[str, Any] = json.loads(done.stdout)
    return state


def test_the_slider_shows_what_a_replay_folds(
    visitor: Visitor, host: Running, large: LargeHome
) -> None:
    api = Api(host.url, host.token)
    last = api.get(f"/api/executions/{large.execution_id}/head").body["last_seq"]
    chance = random.Random(11)
    page = visitor.open(f"/executions/{large.execution_id}?sel=-")
    slider = page.get_by_role("slider")
    expect(slider).to_have_attribute("aria-valuemax", str(last))
    for number, seq in enumerate(sorted(chance.sample(range(7, last), POSITIONS))):
        state = replay(large, seq)
        runs = {run["step"]: run["ended"] for run in state["runs"].values()}
        step = next(iter(runs), "many")
        move(page, seq, "data", step)

        expect(slider).to_have_attribute("aria-valuenow", str(seq))
        values = page.locator(f".values[data-seq='{seq}']")
        expect(values).not_to_have_class(re.compile("old"))
        for key, value in state["ctx"].items():
            expect(values).to_contain_text(re.compile(rf"\b{key}\W+{value}\b"))
        if step in runs:
            words = "done|partial" if runs[step] else "ready|running"
            expect(node(page, step)).to_have_class(re.compile(f"state-({words})"))
        for loop in state["loops"].values():
            ended = loop["next"] - len(loop["open"])
            pill = f"{ended:,}/{loop['total']:,}"
            expect(node(page, "many").locator(".pill")).to_have_text(pill)
        if number % 3:
            continue
        [event] = events(api, large, seq)
        move(page, seq, "events", step)
        here = page.locator(".event-row.here")
        expect(here).to_have_attribute("data-seq", str(seq))
        expect(here).to_contain_text(event["name"])


def test_writers_of_ctx_are_those_before_the_event_however_long_the_log(
    visitor: Visitor, large: LargeHome
) -> None:
    """The chain that writes `ctx` comes after the loop, at the end of the log."""
    page = visitor.open(f"/executions/{large.execution_id}?tab=data&sel=-")
    writers = page.locator(".writers li")
    expect(writers).to_have_count(100)
    expect(writers.first).to_contain_text(f"s{STEPS - 2}")
    writers.nth(50).get_by_role("button").click()

    expect(writers.first).to_contain_text(f"s{STEPS - 52}")


def move(page: Page, seq: int, tab: str, step: str) -> None:
    page.evaluate(
        "(query) => history.pushState(null, '', location.pathname + query)",
        f"?at={seq}&tab={tab}&sel={step}",
    )


def events(api: Api, large: LargeHome, seq: int) -> list[dict[str, Any]]:
    path = f"/api/executions/{large.execution_id}/events"
    page = api.get(f"{path}?after={seq - 1}&limit=1").body
    found: list[dict[str, Any]] = page["events"]
    return found


def test_a_loop_opens_on_its_progress_its_errors_and_one_iteration(
    visitor: Visitor, large: LargeHome
) -> None:
    page = visitor.open(f"/executions/{large.execution_id}?sel=many&panel=calls")
    loop = page.get_by_role("region", name="Iterations")
    failed = ITERATIONS // 1_000
    expect(loop).to_contain_text(f"{ITERATIONS:,}/{ITERATIONS:,}")
    groups = loop.locator(".loop-errors")
    expect(groups).to_contain_text(f"{failed} \N{MULTIPLICATION SIGN}")
    expect(groups).to_contain_text("first #500")
    loop.get_by_label("Which iterations").select_option("failed")
    expect(loop.locator(".iteration")).to_have_count(failed)
    expect(loop.locator(".iteration").last).to_contain_text(f"#{ITERATIONS - 500}")
    loop.locator(".iteration").first.click()

    expect(page).to_have_url(re.compile(r"at=\d+"))
    expect(loop).to_contain_text(re.compile(r"At event [\d,]+, [\d,]+ of [\d,]+ had"))
    assert elements(page) < MOST_ELEMENTS


def test_a_net_of_a_thousand_steps_is_found_panned_zoomed_and_walked(
    visitor: Visitor, large: LargeHome
) -> None:
    page = visitor.open(f"/executions/{large.execution_id}?sel=-&tab=yaml")
    expect(node(page, "many")).to_be_in_viewport()
    page.get_by_role("button", name="Find a step").click()
    page.get_by_label("Find a step").fill("s777")
    expect(node(page, "s777")).to_be_in_viewport()
    expect(node(page, "s777")).to_have_class(re.compile("state-done"))
    page.keyboard.press("Escape")
    assert page.locator(".node").count() < 100, "what is out of view is detached"

    before = node(page, "s777").bounding_box()
    page.mouse.move(300, 250)
    page.mouse.down()
    page.mouse.move(360, 270, steps=4)
    page.mouse.up()
    page.wait_for_url(re.compile("zoom="))
    after = node(page, "s777").bounding_box()
    assert before is not None
    assert after is not None
    assert round(after["x"] - before["x"]) == 60
    assert round(after["y"] - before["y"]) == 20

    page.locator("svg.net").focus()
    page.keyboard.press("ArrowDown")
    expect(page).to_have_url(re.compile("sel=s778"))
    expect(node(page, "s778")).to_be_in_viewport()

    page.get_by_role("button", name="Fit into view").click()
    expect(page.locator(".node")).to_have_count(STEPS + 1)
    expect(page.locator(".node text")).to_have_count(0)
    assert elements(page) < MOST_ELEMENTS


ROW_IN_VIEW = """() => {
  const list = document.querySelector(".list-rows");
  const { x, y, width, height } = list.getBoundingClientRect();
  const there = document.elementFromPoint(x + width / 2, y + height / 2);
  return there?.closest("[data-id]")?.dataset.id;
}"""
"""Id of the execution in the middle of the list, once its row is drawn."""


def test_a_filtered_list_comes_back_where_it_was_left(
    visitor: Visitor, large: LargeHome
) -> None:
    page = visitor.open("/executions")
    expect(page.locator(ROW).first).to_be_visible()
    page.get_by_role("button", name=re.compile("^failed")).click()
    expect(page).to_have_url(re.compile("status=failed"))
    expect(page.locator(ROW, has_text="completed")).to_have_count(0)
    expect(page.get_by_text("100 executions shown")).to_be_visible()
    rows = page.locator(".list-rows")
    for shown in (200, 300, 400):
        rows.evaluate("(list) => { list.scrollTop = list.scrollHeight }")
        expect(page.get_by_text(f"{shown} executions shown")).to_be_visible()
    rows.evaluate("(list) => { list.scrollTop -= 1000 }")
    chosen = page.wait_for_function(ROW_IN_VIEW).json_value()
    left = rows.evaluate("(list) => list.scrollTop")
    page.locator(f"[data-id='{chosen}']").get_by_role("link").first.click()
    expect(page.locator(".failure")).to_contain_text("division by zero")
    page.go_back()

    expect(page.locator(f"[data-id='{chosen}']")).to_be_in_viewport()
    assert rows.evaluate("(list) => list.scrollTop") == left
    expect(page.get_by_text("400 executions shown")).to_be_visible()
    assert elements(page) < 5_000
