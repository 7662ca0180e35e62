"""Sign-in by password, out again, and a session that ends while a page is open."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from servers import Api, Running
from web_pages import PASSWORD, Visitor


def test_a_password_opens_the_page_that_was_asked_for(visitor: Visitor) -> None:
    visitor.refusals.add(401)
    page = visitor.page
    page.goto(f"{visitor.url}/executions?status=failed")
    page.get_by_label("Name").fill(visitor.name)
    page.get_by_label("Password").fill("wrong and long enough 1")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()

    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()

    expect(page.get_by_role("heading", name="Executions")).to_be_visible()
    expect(page).to_have_url(re.compile("status=failed"))


def test_a_session_that_ends_opens_the_sign_in_over_the_page(visitor: Visitor) -> None:
    visitor.refusals.add(401)
    page = visitor.open("/executions")
    page.get_by_label("Find", exact=True).fill("typed before")
    visitor.context.clear_cookies()
    # Whatever the page asks for next is refused: the dialog may be open already.
    page.get_by_role("button", name=re.compile("^failed")).dispatch_event("click")

    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Your session has ended")
    dialog.get_by_label("Name").fill(visitor.name)
    dialog.get_by_label("Password").fill(PASSWORD)
    dialog.get_by_role("button", name="Sign in").click()

    expect(dialog).to_have_count(0)
    expect(page.get_by_label("Find", exact=True)).to_have_value("typed before")


def test_a_link_cannot_lead_to_another_host_after_the_sign_in(visitor: Visitor) -> None:
    visitor.refusals.add(401)
    page = visitor.page
    page.goto(f"{visitor.url}/sign-in?next=//evil.example/")
    page.get_by_label("Name").fill(visitor.name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()

    expect(page).to_have_url(f"{visitor.url}/executions")


def test_signing_out_ends_the_session(visitor: Visitor) -> None:
    visitor.refusals.add(401)
    page = visitor.open("/executions")
    page.get_by_role("button", name="your account").click()
    page.get_by_role("button", name="Sign out").click()

    expect(page).to_have_url(f"{visitor.url}/sign-in")
    assert visitor.context.request.get(f"{visitor.url}/api/executions").status == 401


@pytest.mark.in_a_cluster_too
def test_a_one_time_link_signs_in_once(visitor: Visitor, running: Running) -> None:
    visitor.refusals.add(401)
    made = Api(visitor.url, running.token).post("/api/sessions/invitations").body
    path, _, code = made["url_path"].partition("#")
    link = f"{visitor.url}{path}?next=%2Fworkers#{code}"
    page = visitor.page
    page.goto(link)

    expect(page.get_by_role("heading", name="Workers", level=1)).to_be_visible()
    expect(page).to_have_url(f"{visitor.url}/workers")

    visitor.context.clear_cookies()
    page.goto("about:blank")
    page.goto(link)
    expect(page.get_by_role("alert")).to_contain_text("was used or has expired")
    expect(page).not_to_have_url(re.compile("code="))
