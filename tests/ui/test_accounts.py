"""The keychain, users, sessions, audit and settings; sign-in by a one-time link."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect
from servers import Api, Running
from web_pages import Host, People, Visitor

SECRET = "canary-of-a-secret-61"


@pytest.fixture
def api(visitor: Visitor, running: Host) -> Api:
    """The server of the pages: stored secrets are a file of its home, and codes of
    one-time links are kept in its memory."""
    return Api(visitor.url, running.token)


def test_a_secret_is_written_and_never_shown(visitor: Visitor, api: Api) -> None:
    page = visitor.open("/keychain")
    page.get_by_role("button", name="Store a secret").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("name").fill("written_here")
    dialog.get_by_label("value").fill(SECRET)
    dialog.get_by_role("button", name="Add to for playbooks").click()
    dialog.get_by_label("1", exact=False).first.fill("sales/*")
    dialog.get_by_role("button", name="Store", exact=True).click()
    expect(dialog).to_have_count(0)

    page.get_by_role("button", name="written_here").click()
    expect(page.get_by_role("dialog")).to_contain_text("sales/*")
    assert SECRET not in page.content()
    lines = api.get("/api/keychain").body["keychain"]
    assert [each["for"] for each in lines if each["name"] == "written_here"] == [
        ["sales/*"]
    ]


def test_a_credential_has_fields(visitor: Visitor, api: Api) -> None:
    page = visitor.open("/keychain")
    page.get_by_role("button", name="Store a secret").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("tab", name="Fields of a credential").click()
    dialog.get_by_label("name").fill("fields_here")
    dialog.get_by_label("value").fill(f'{{"user": "u", "password": "{SECRET}"}}')
    dialog.get_by_role("button", name="Store", exact=True).click()

    row = page.get_by_role("row").filter(has_text="fields_here")
    expect(row).to_contain_text("password, user")


def test_a_secret_is_deleted_after_a_question(visitor: Visitor, api: Api) -> None:
    assert api.post("/api/keychain/gone_soon", {"value": "x"}).status < 300
    page = visitor.open("/keychain")
    page.get_by_role("button", name="gone_soon").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete 1 secret").click()

    expect(page.get_by_role("row").filter(has_text="gone_soon")).to_have_count(0)


def test_an_account_is_made_and_its_roles_change(visitor: Visitor, api: Api) -> None:
    page = visitor.open("/users")
    page.get_by_role("button", name="New account").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("name").first.fill("made_here")
    dialog.get_by_role("button", name="Create the account").click()
    expect(dialog).to_have_count(0)

    page.get_by_role("button", name="made_here").click()
    page.get_by_role("button", name="Change roles").click()
    roles = page.get_by_role("dialog", name="Roles of made_here")
    roles.get_by_role("textbox").first.fill("operator:finance/*")
    roles.get_by_role("button", name="Change the roles").click()

    expect(roles).to_have_count(0)
    assert api.get("/api/users/made_here").body["roles"] == ["operator:finance/*"]


def test_a_wrong_role_is_refused_in_the_form(visitor: Visitor) -> None:
    visitor.refusals.add(422)
    page = visitor.open("/users")
    page.get_by_role("button", name="New account").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("name").first.fill("wrong_role")
    dialog.get_by_role("group", name="roles").get_by_role("textbox").fill("operatr")
    dialog.get_by_role("button", name="Create the account").click()

    expect(dialog.get_by_role("alert")).to_contain_text("unknown role 'operatr'")


def test_tokens_are_made_on_the_command_line(visitor: Visitor) -> None:
    page = visitor.open("/users")
    page.get_by_role("table").get_by_role("button", name=visitor.name).click()

    command = f'noetl token create {visitor.name} --label "purpose"'
    expect(page.get_by_role("dialog").get_by_text(command)).to_be_visible()


def test_an_ended_session_is_signed_out(
    browser: Browser, running: Running, people: People, visitor: Visitor
) -> None:
    other = Visitor(browser, running, people, "auditor")
    other.refusals.add(401)
    other.open("/settings")
    page = visitor.open("/sessions")
    row = page.get_by_role("row").filter(has_text=other.name)
    row.get_by_role("button", name="End").click()
    page.get_by_role("button", name="End 1 session").click()
    expect(row).to_have_count(0)

    other.page.goto(f"{other.url}/executions")
    expect(other.page.get_by_role("heading", name="Sign in")).to_be_visible()
    other.leave()


def test_the_audit_names_who_did_what(visitor: Visitor, api: Api) -> None:
    assert api.post("/api/keychain/audited", {"value": "x"}).status < 300
    page = visitor.open("/audit?action=store_secret")
    page.get_by_role("row").filter(has_text="audited").get_by_role("button").click()

    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("local")
    expect(drawer).to_contain_text("audited")


def test_settings_are_kept(visitor: Visitor) -> None:
    page = visitor.open("/settings")
    page.get_by_label("Dark").check()
    page.get_by_label("UTC", exact=True).check()
    page.reload()

    expect(page.get_by_label("Dark")).to_be_checked()
    expect(page.get_by_label("UTC", exact=True)).to_be_checked()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.mark.parametrize(
    ("roles", "hidden"),
    [
        (("viewer",), ("Keychain", "Users", "Audit")),
        (("auditor",), ("Keychain", "Users")),
        (("secrets",), ("Catalog", "Executions", "Users", "Audit")),
    ],
    ids=lambda value: value[0],
)
def test_pages_that_would_be_refused_are_in_no_navigation(
    browser: Browser,
    running: Running,
    people: People,
    roles: tuple[str, ...],
    hidden: tuple[str, ...],
) -> None:
    person = Visitor(browser, running, people, *roles)
    page = person.open("/settings")
    pages = page.get_by_role("navigation", name="Pages").first
    expect(pages.get_by_role("link", name="Settings")).to_be_visible()

    for name in hidden:
        expect(pages.get_by_role("link", name=name)).to_have_count(0)
    person.leave()


def test_a_one_time_link_opens_the_pages_once(
    browser: Browser, running: Running, people: People, api: Api
) -> None:
    link = api.post("/api/sessions/invitations", {}).body["url_path"]
    first = Visitor(browser, running, people)
    first.page.goto(first.url + link)
    expect(first.page.get_by_role("heading", name="Executions")).to_be_visible()
    assert "code" not in first.page.url
    first.leave()

    second = Visitor(browser, running, people)
    second.refusals.add(401)
    second.page.goto(second.url + link)

    expect(second.page.get_by_role("alert")).to_be_visible()
    expect(second.page.get_by_text("noetl ui")).to_be_visible()
    assert "code" not in second.page.url
    second.leave()
