"""The editor: diagnostics, quick fixes, completion, graph, form, tests, register."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect
from servers import HEAD, Api, Running
from web_pages import Visitor

TEXT = f"""{HEAD}metadata: {{name: edited, path: edit/NAME, version: "1.0"}}
workload:
  order: 11  # the number of the order
workflow:
- step: start
  tool: {{kind: noop, result: 1}}
  next: {{arcs: [{{step: fetch}}]}}
- step: fetch
  tool: {{kind: noop}}
"""
Register = Callable[[str], str]


@pytest.fixture(scope="module")
def register(running: Running) -> Register:
    """Registers a playbook of this name and returns the address of its editor."""
    api = Api(running.url, running.token)

    def make(name: str) -> str:
        text = TEXT.replace("NAME", name)
        assert api.post("/api/catalog", {"playbook": text}).status < 300
        return f"/catalog/edit/{name}/-/edit"

    return make


def text_of(page: Page) -> Locator:
    return page.get_by_role("textbox", name=re.compile("^Playbook, in YAML"))


def replace(page: Page, before: str, after: str) -> None:
    """Replace a text in the editor as find and replace would, by selection."""
    choose(page, before)
    page.keyboard.insert_text(after)


def choose(page: Page, before: str) -> None:
    text_of(page).click()
    page.keyboard.press("Control+Home")
    page.keyboard.press("Control+f")
    find = page.locator(".cm-search [name=search]")
    find.fill(before)
    find.press("End")  # the field is read when a key is released
    find.press("Enter")
    find.press("Escape")


def problems(page: Page) -> Locator:
    return page.locator(".problems > li")


def test_a_wrong_word_is_marked_and_mended_by_apply(
    visitor: Visitor, register: Register
) -> None:
    page = visitor.open(register("mend"))
    expect(page.get_by_text("No problem was found.")).to_be_visible()
    replace(page, "step: fetch}", "step: fetsh}")

    found = problems(page).filter(has_text="fetsh")
    expect(found).to_contain_text("did you mean 'fetch'?")
    expect(found).to_contain_text("9:24")
    expect(page.locator(".cm-lintRange-error")).to_have_text("fetsh")
    expect(page.get_by_role("button", name="Register")).to_be_disabled()
    found.get_by_role("button", name="Replace by 'fetch'").click()

    expect(page.get_by_text("No problem was found.")).to_be_visible()
    expect(text_of(page)).to_contain_text("arcs: [{step: fetch}]")


def test_a_problem_leads_to_its_line(visitor: Visitor, register: Register) -> None:
    page = visitor.open(register("lead"))
    replace(page, "kind: noop, ", "kind: nop, ")
    page.get_by_role("button", name="Go to line 8, column 16").click()

    expect(page.locator(".cm-activeLine")).to_contain_text("kind: nop")
    expect(text_of(page)).to_be_focused()


def test_keys_are_completed_by_kind(visitor: Visitor, register: Register) -> None:
    page = visitor.open(register("complete"))
    replace(page, "{kind: noop}", "{kind: http, ")
    page.keyboard.type("met")
    options = page.get_by_role("option")
    expect(options.first).to_contain_text("method")
    options.first.click()

    expect(text_of(page)).to_contain_text("{kind: http, method: ")


def test_a_key_is_explained(visitor: Visitor, register: Register) -> None:
    page = visitor.open(register("explain"))
    page.get_by_text("workload", exact=True).first.hover()

    expect(page.locator(".cm-explain")).to_contain_text("Immutable inputs")


def test_graph_and_form_follow_the_text(visitor: Visitor, register: Register) -> None:
    page = visitor.open(register("follow"))
    page.get_by_role("tab", name="Graph").click()
    expect(page.locator(".graph .node .name")).to_have_text(["start", "fetch"])
    replace(page, "- step: fetch", "- step: more")
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Home")  # the indent
    page.keyboard.insert_text("- step: fetch")
    expect(page.locator(".graph .node .name")).to_have_count(3)

    page.get_by_role("tab", name="Form").click()
    expect(page.get_by_label("order")).to_have_value("11")
    expect(page.get_by_text("the number of the order").last).to_be_visible()


def test_a_step_of_the_graph_leads_to_its_line(
    visitor: Visitor, register: Register
) -> None:
    page = visitor.open(register("click"))
    page.get_by_role("tab", name="Graph").click()
    page.locator(".graph .node").filter(has_text="fetch").click()

    expect(page.locator(".cm-activeLine")).to_contain_text("- step: fetch")


def test_tests_are_run(visitor: Visitor, register: Register) -> None:
    page = visitor.open(register("tested") + "?tab=tests")
    suite = page.get_by_label("Tests, in YAML")
    suite.fill("cases:\n- {name: it fails, expect: {status: failed}}\n")
    page.get_by_role("button", name="Run the tests").click()
    expect(problems(page)).to_contain_text("it fails")
    expect(page.get_by_text("1 failed")).to_be_visible()

    suite.fill("cases:\n- {name: it completes, expect: {status: completed}}\n")
    page.get_by_role("button", name="Run the tests").click()
    expect(page.get_by_text("1 passed")).to_be_visible()


def test_a_new_version_is_registered(
    visitor: Visitor, register: Register, api: Api
) -> None:
    page = visitor.open(register("publish"))
    expect(page.get_by_text("No problem was found.")).to_be_visible()
    replace(page, 'version: "1.0"', 'version: "1.1"')
    page.get_by_role("button", name="Register").click()

    expect(page).to_have_url(f"{visitor.url}/catalog/edit/publish")
    expect(page.get_by_text("1.1", exact=True).first).to_be_visible()
    assert api.get("/api/catalog/edit/publish").body["version"] == "1.1"


def test_a_version_that_is_taken_is_shown_as_a_difference(
    visitor: Visitor, register: Register
) -> None:
    visitor.refusals.add(409)
    page = visitor.open(register("taken"))
    expect(page.get_by_text("No problem was found.")).to_be_visible()
    replace(page, "result: 1", "result: 2")
    page.get_by_role("button", name="Register").click()

    expect(page.get_by_role("alert")).to_contain_text("raise metadata.version")
    expect(page.get_by_role("tab", name="Diff")).to_have_attribute(
        "aria-selected", "true"
    )
    expect(page.locator(".cm-deletedChunk")).to_contain_text("result: 1")
    expect(page.locator(".cm-changedLine")).to_contain_text("result: 2")


def test_a_draft_survives_until_it_is_discarded(
    visitor: Visitor, register: Register
) -> None:
    page = visitor.open(register("draft"))
    expect(page.get_by_text("No problem was found.")).to_be_visible()
    replace(page, "result: 1", "result: 77")
    expect(page.get_by_text("draft kept")).to_be_visible()
    page.reload()
    expect(text_of(page)).to_contain_text("result: 77")

    page.get_by_role("button", name="Discard").click()
    page.get_by_role("button", name="Discard the draft").click()
    expect(text_of(page)).to_contain_text("result: 1}")
    page.reload()
    expect(text_of(page)).to_contain_text("result: 1}")


def test_a_draft_of_an_older_version_says_so(
    visitor: Visitor, register: Register, api: Api
) -> None:
    address = register("older")
    page = visitor.open(address)
    expect(page.get_by_text("No problem was found.")).to_be_visible()
    replace(page, "result: 1", "result: 3")
    expect(page.get_by_text("draft kept")).to_be_visible()
    newer = TEXT.replace("NAME", "older").replace('"1.0"', '"1.1"')
    assert api.post("/api/catalog", {"playbook": newer}).status == 201
    page.reload()

    notice = page.get_by_text("Your draft began from version 1.0")
    expect(notice).to_contain_text("what it changes in 1.1")


def test_a_session_that_ends_loses_no_text(
    visitor: Visitor, register: Register
) -> None:
    visitor.refusals.add(401)
    visitor.hold_stream()
    page = visitor.open(register("ended"))
    expect(page.get_by_text("No problem was found.")).to_be_visible()
    choose(page, "result: 1")
    visitor.context.clear_cookies()
    page.keyboard.insert_text("result: 5")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Your session has ended")
    visitor.sign_in()
    dialog.get_by_role("button", name="Close").click()

    expect(text_of(page)).to_contain_text("result: 5")


def test_a_new_playbook_begins_with_a_text_that_runs(
    visitor: Visitor, api: Api
) -> None:
    page = visitor.open("/catalog/-/new")
    expect(page.get_by_text("No problem was found.")).to_be_visible()
    replace(page, "examples/hello", "edit/made")
    page.get_by_role("button", name="Register").click()

    expect(page).to_have_url(f"{visitor.url}/catalog/edit/made")


def test_a_hostile_text_is_text(visitor: Visitor, register: Register) -> None:
    page = visitor.open(register("hostile"))
    expect(page.get_by_text("No problem was found.")).to_be_visible()
    replace(page, "kind: noop}", "kind: '<img src=x onerror=alert(1)>'}")

    expect(problems(page).first).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.locator("img")).to_have_count(0)


def test_text_replaces_lines_without_breaking_the_policy(
    visitor: Visitor, register: Register
) -> None:
    page = visitor.open(register("over"))
    text_of(page).click()
    page.keyboard.press("Control+a")
    page.keyboard.type("x")

    expect(text_of(page)).to_have_text("x")
    page.keyboard.press("Control+z")
    expect(text_of(page)).to_contain_text("- step: fetch")
