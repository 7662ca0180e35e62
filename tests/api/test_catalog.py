"""The catalog: versions that stay as they were registered."""

from __future__ import annotations

import pytest
from servers import Api, playbook


def text_of(result: int, version: str | None = None, name: str = "shelf") -> str:
    steps = f"- {{step: start, tool: {{kind: noop, result: {result}}}}}"
    return playbook(name, steps, version=version)


def register(api: Api, text: str) -> tuple[int, str]:
    answer = api.post("/api/catalog", {"playbook": text})
    return answer.status, answer.body.get("version") or answer.body["kind"]


@pytest.mark.spec("S-43", "SRV-05")
def test_versions_without_a_name_are_numbered(fresh: Api) -> None:
    assert register(fresh, text_of(1)) == (201, "1")
    assert register(fresh, text_of(1)) == (200, "1"), "the same again is the same"
    assert register(fresh, text_of(2)) == (201, "2")
    assert register(fresh, text_of(1)) == (201, "3"), "back again is a change, too"

    versions = fresh.get("/api/catalog/tests/shelf/-/versions").body["versions"]
    assert [each["version"] for each in versions] == ["3", "2", "1"]
    assert versions[0]["sha256"] == versions[2]["sha256"]


def test_a_version_stays_what_it_is(fresh: Api) -> None:
    assert register(fresh, text_of(1, "1.0")) == (201, "1.0")
    assert register(fresh, text_of(1, "1.0")) == (200, "1.0")

    answer = fresh.post("/api/catalog", {"playbook": text_of(2, "1.0")})

    assert (answer.status, answer.body["kind"]) == (409, "catalog.version_taken")
    assert "version 1.0 of 'tests/shelf'" in answer.body["message"]
    assert "raise metadata.version" in answer.body["hint"]
    shown = fresh.get("/api/catalog/tests/shelf?version=1.0").body
    assert shown["source"] == text_of(1, "1.0")
    assert shown["registered_by"] == "local"


def test_a_listing_has_the_latest_of_each_path(fresh: Api) -> None:
    for name, versions in {"a": ["1.9", "1.10"], "b": ["2"], "c": ["1"]}.items():
        for number, version in enumerate(versions):
            register(fresh, text_of(number, version, name))
    seen, cursor = [], ""
    while cursor is not None:
        page = fresh.get(f"/api/catalog?limit=2{cursor}").body
        seen += [(each["path"], each["version"]) for each in page["playbooks"]]
        cursor = page["cursor"] and f"&cursor={page['cursor']}"

    assert seen == [("tests/a", "1.10"), ("tests/b", "2"), ("tests/c", "1")]
    found = fresh.get("/api/catalog?prefix=tests/b").body["playbooks"]
    assert [each["path"] for each in found] == ["tests/b"]
    assert fresh.get("/api/catalog?prefix=%25").body["playbooks"] == []


def test_versions_are_compared(fresh: Api) -> None:
    for number in (1, 2, 3):
        register(fresh, text_of(number))
    place = "/api/catalog/tests/shelf/-/diff"

    latest = fresh.get(place).body["diff"]
    named = fresh.get(f"{place}?from=1&to=3").body["diff"]

    assert latest.splitlines()[:2] == ["--- tests/shelf@2", "+++ tests/shelf@3"]
    assert named.splitlines()[0] == "--- tests/shelf@1"
    assert [line for line in named.splitlines() if line[:2] in ("- ", "+ ")] == [
        "-  - {step: start, tool: {kind: noop, result: 1}}",
        "+  - {step: start, tool: {kind: noop, result: 3}}",
    ]
    assert fresh.get(f"{place}?from=2&to=2").body["diff"] == ""


def test_an_invalid_playbook_is_not_registered(api: Api) -> None:
    answer = api.post("/api/catalog", {"playbook": "workflow: 1"})

    assert (answer.status, answer.body["kind"]) == (422, "playbook.invalid")
    assert {found["code"] for found in answer.body["diagnostics"]} >= {"VAL-07"}


@pytest.mark.parametrize(
    "path", ["nobody", "a/b/-/versions", "a/b/-/diff", "..", "%2e%2e/%2e%2e/etc/passwd"]
)
def test_what_is_not_registered_is_not_there(api: Api, path: str) -> None:
    answer = api.get(f"/api/catalog/{path}")

    assert (answer.status, answer.body["kind"]) == (404, "playbook.not_found")


@pytest.mark.spec("SRV-06")
def test_a_text_is_validated_without_being_stored(api: Api) -> None:
    wrong = api.post("/api/validate", {"playbook": "{{"}).body
    fine = api.post("/api/validate", {"playbook": text_of(1)}).body

    assert (wrong["valid"], wrong["diagnostics"][0]["code"]) == (False, "ROOT-01")
    assert fine == {"valid": True, "diagnostics": []}


@pytest.mark.spec("SRV-06", "PIPE-15")
@pytest.mark.parametrize("path", ["/api/validate", "/api/catalog"])
def test_the_code_of_a_playbook_is_compiled(api: Api, path: str) -> None:
    tool = "{kind: python, code: 'def main(a): return a'}"
    text = playbook("code", f"- {{step: start, tool: {tool}}}")

    [found] = api.post(path, {"playbook": text}).body["diagnostics"]

    assert (found["rule"], found["severity"]) == ("code-main", "error")


@pytest.mark.spec("WARN-01")
def test_a_strict_judgement_turns_warnings_into_errors(api: Api) -> None:
    text = playbook("bare", "- {step: start}")

    answers = [
        api.post("/api/validate", {"playbook": text, "strict": strict}).body
        for strict in (False, True)
    ]

    assert [answer["valid"] for answer in answers] == [True, False]
