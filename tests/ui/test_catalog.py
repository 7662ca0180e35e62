"""The catalog and the pages of one playbook."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect
from servers import HEAD, Api, Running
from web_pages import People, Visitor

HOSTILE = "<img src=x onerror=alert(1)> \u202e{{ 7 * 7 }}"


def text_of(path: str, version: str, result: str = "1", name: str = "books") -> str:
    return f"""{HEAD}metadata: {{name: '{name}', path: {path}, version: '{version}'}}
workflow:
- step: start
  tool: {{kind: noop, result: {result}}}
  next: {{arcs: [{{step: last}}]}}
- {{step: last, tool: {{kind: noop}}}}
"""


@pytest.fixture(scope="module")
def path(running: Running) -> str:
    """A playbook with two versions and one execution."""
    api = Api(running.url, running.token)
    for version, result in (("1.0", "old"), ("1.1", "new")):
        text = text_of("library/books", version, result)
        assert api.post("/api/catalog", {"playbook": text}).status < 300
    started = api.post("/api/executions?wait=20", {"path": "library/books"})
    assert started.body["status"] == "completed"
    return "library/books"


def test_the_list_opens_a_playbook_and_its_graph(visitor: Visitor, path: str) -> None:
    page = visitor.open("/catalog?prefix=library")
    page.get_by_role("button", name=path).click()

    expect(page).to_have_url(f"{visitor.url}/catalog/{path}")
    expect(page.locator(".graph .node .name")).to_have_text(["start", "last"])


def test_the_find_field_is_in_the_address(visitor: Visitor, path: str) -> None:
    page = visitor.open("/catalog")
    page.get_by_label("Path begins with").fill("no/such")

    expect(page.get_by_text("No playbook begins with")).to_be_visible()
    expect(page).to_have_url(re.compile(r"prefix=no%2Fsuch"))


def test_executions_of_a_playbook_are_listed(visitor: Visitor, path: str) -> None:
    page = visitor.open(f"/catalog/{path}?tab=runs")
    row = page.get_by_role("row").filter(has_text="completed")
    row.get_by_role("link").click()

    expect(page).to_have_url(re.compile("/executions/"))


def test_two_versions_are_compared(visitor: Visitor, path: str) -> None:
    page = visitor.open(f"/catalog/{path}?tab=versions")
    page.get_by_role("link", name="since 1.0").click()

    expect(page.locator(".cm-deletedChunk")).to_contain_text(["1.0", "old"])
    expect(page.locator(".cm-changedLine")).to_contain_text(["1.1", "new"])


def test_the_source_of_a_version_is_shown(visitor: Visitor, path: str) -> None:
    page = visitor.open(f"/catalog/{path}?tab=source&version=1.0")

    text = page.get_by_role("textbox", name=f"Source of {path}")
    expect(text).to_contain_text("result: old")
    expect(text).not_to_be_editable()


def test_an_unknown_playbook_is_not_found(visitor: Visitor) -> None:
    visitor.refusals.add(404)
    page = visitor.open("/catalog/no/such")

    expect(page.get_by_text("Not found")).to_be_visible()


def test_a_viewer_is_offered_no_change(
    browser: Browser, running: Running, people: People, path: str
) -> None:
    viewer = Visitor(browser, running, people, "viewer")
    page = viewer.open(f"/catalog/{path}")
    expect(page.get_by_role("heading", name=path)).to_be_visible()
    expect(page.get_by_role("link", name="Edit")).to_have_count(0)
    expect(page.get_by_role("link", name="Run")).to_have_count(0)

    page.goto(f"{viewer.url}/catalog/{path}/-/edit")
    expect(page.get_by_text("Your roles do not change this playbook")).to_be_visible()
    forced = viewer.context.request.post(
        f"{viewer.url}/api/catalog",
        data={"playbook": text_of("library/books", "9")},
        headers={"Origin": viewer.url},
    )
    assert forced.status == 403
    viewer.leave()


def test_an_author_of_one_prefix_may_change_only_that(
    browser: Browser, running: Running, people: People, path: str
) -> None:
    author = Visitor(browser, running, people, "viewer", "developer:mine/*")
    page = author.open("/catalog?prefix=library")
    expect(page.get_by_role("button", name=path)).to_be_visible()

    expect(page.get_by_role("link", name=f"Edit {path}")).to_have_count(0)
    expect(page.get_by_role("link", name="New playbook")).to_be_visible()
    author.leave()


def test_hostile_names_are_text(visitor: Visitor, api: Api) -> None:
    text = text_of("library/evil", "1", name=HOSTILE)
    assert api.post("/api/catalog", {"playbook": text}).status < 300
    page = visitor.open("/catalog?prefix=library/evil")

    row = page.get_by_role("row").filter(has_text="library/evil")
    expect(row).to_contain_text("<img src=x onerror=alert(1)>")
    expect(row).to_contain_text("U+202E")
    expect(page.locator("img")).to_have_count(0)
