"""What an editor asks: the schema, a form, and a review of a text."""

from __future__ import annotations

from pathlib import Path

import pytest
from servers import HELLO, Api, Running, playbook

from noetl.service import authoring

FORM = playbook(
    "form",
    "- {step: start, tool: {kind: noop}}",
    "workload: {order: 11}\n",
    version="1.0",
)
CLOSED = playbook(
    "closed",
    """
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: one}, {step: two}]}}
    - {step: one, tool: {kind: noop}, next: {arcs: [{step: both}]}}
    - {step: two, tool: {kind: noop}, next: {arcs: [{step: both}]}}
    - {step: both, tool: {kind: noop}, spec: {join: {mode: all, from: [one, two]}}}
    """,
)


def test_the_schema_has_the_tool_kinds_of_the_server(api: Api) -> None:
    answer = api.get("/api/schema")

    kinds = answer.body["$defs"]["task"]["properties"]["kind"]["enum"]
    assert {"http", "python", "postgres"} <= {*kinds}
    again = api.get("/api/schema", If_None_Match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_a_version_has_a_form(api: Api) -> None:
    assert api.post("/api/catalog", {"playbook": FORM}).status in (200, 201)

    answer = api.get("/api/catalog/tests/form/-/form")

    assert answer.status == 200
    assert answer.body["version"] == "1.0"
    assert answer.body["fields"]["properties"]["order"] == {
        "type": "integer",
        "default": 11,
    }


def test_a_form_needs_a_version(api: Api) -> None:
    answer = api.get("/api/catalog/tests/never/-/form")

    assert (answer.status, answer.body["kind"]) == (404, "playbook.not_found")


def test_a_form_of_other_paths_is_not_shown(running: Running, api: Api) -> None:
    assert api.post("/api/catalog", {"playbook": FORM}).status in (200, 201)
    guest = running.person("form-guest", "viewer:tests/hello")

    assert guest.get("/api/catalog/tests/form/-/form").status == 403


def test_a_review_has_what_was_asked_for(api: Api) -> None:
    asked = {"playbook": CLOSED, "verify": True, "graph": True, "form": True}
    answer = api.post("/api/validate", asked).body

    assert answer["valid"]
    assert [node["id"] for node in answer["graph"]["nodes"]] == [
        *("start", "one", "two", "both"),
    ]
    assert answer["form"]["path"] == "tests/closed"
    assert [each["rule"] for each in answer["diagnostics"]] == ["shadowed-arc"]
    found = {each["rule"]: each["witness"] for each in answer["findings"]}
    assert found == {
        "step-unreachable": ["start", "two"],
        "join-source-silent": ["start", "one", "both"],
    }


def test_a_plain_validation_has_no_more_than_before(api: Api) -> None:
    answer = api.post("/api/validate", {"playbook": HELLO}).body

    assert answer == {"valid": True, "diagnostics": []}


def test_an_invalid_text_is_not_reviewed(api: Api) -> None:
    asked = {"playbook": "nothing: here", "verify": True, "graph": True, "form": True}
    answer = api.post("/api/validate", asked)

    assert answer.status == 200
    assert {*answer.body} == {"valid", "diagnostics"}


def test_reviews_are_limited(running: Running) -> None:
    eager = running.person("eager", "viewer")
    asked = {"playbook": HELLO, "graph": True}
    answers = [eager.post("/api/validate", asked) for _ in range(60)]

    refused = [each for each in answers if each.status == 429]
    assert refused
    assert refused[0].body["kind"] == "request.rate"
    assert int(refused[0].headers["retry-after"]) >= 1
    assert eager.post("/api/validate", {"playbook": HELLO}).status == 200


def test_authoring_needs_the_right_to_read_playbooks(running: Running) -> None:
    keeper = running.person("keeper", "secrets")

    assert keeper.get("/api/schema").status == 403
    assert keeper.get("/api/catalog/tests/form/-/form").status == 403


SUITE = """
cases:
  - name: it has an order
    expect: {status: completed}
  - name: it has none
    expect: {status: failed}
"""


def test_tests_of_a_text_are_run(api: Api) -> None:
    answer = api.post("/api/tests", {"playbook": FORM, "suite": SUITE})

    assert answer.status == 200
    assert (answer.body["passed"], answer.body["failed"]) == (1, 1)
    assert [(each["name"], each["verdict"]) for each in answer.body["tests"]] == [
        ("it has an order", "passed"),
        ("it has none", "failed"),
    ]
    assert "status" in answer.body["tests"][1]["message"]
    assert "tests/form" in answer.body["coverage"]


def test_only_the_named_cases_run(api: Api) -> None:
    body = {"playbook": FORM, "suite": SUITE, "only": "has none"}
    answer = api.post("/api/tests", body)

    assert [each["name"] for each in answer.body["tests"]] == ["it has none"]


@pytest.mark.parametrize(
    ("playbook", "suite", "file"),
    [(FORM, "cases: 3", "suite"), ("nothing: here", SUITE, "playbook")],
    ids=["suite", "playbook"],
)
def test_a_wrong_file_has_diagnostics(
    api: Api, playbook: str, suite: str, file: str
) -> None:
    answer = api.post("/api/tests", {"playbook": playbook, "suite": suite})

    assert answer.status == 200
    assert answer.body["tests"] == []
    assert {each["file"] for each in answer.body["diagnostics"]} == {file}


def test_a_suite_reads_no_other_file(api: Api) -> None:
    suite = "playbook: ../../etc/passwd\n" + SUITE
    answer = api.post("/api/tests", {"playbook": FORM, "suite": suite})

    assert (answer.status, answer.body["kind"]) == (422, "request.invalid")
    assert "names no playbook" in answer.body["message"]


def test_code_is_not_run_for_tests(api: Api, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    text = playbook(
        "code",
        f"""
        - step: start
          tool: {{kind: python, code: "def main(): open('{trace}', 'w').close()"}}
        """,
    )
    suite = "tasks: {start: {real: true}}\ncases:\n- {name: a, expect: {status: x}}\n"
    suite = suite.replace("status: x", "status: completed")
    answer = api.post("/api/tests", {"playbook": text, "suite": suite})

    assert answer.status == 200, answer.body
    assert answer.body["failed"] == 1
    assert "cannot be called for real" in answer.body["tests"][0]["message"]
    assert not trace.exists()


def test_tests_that_need_too_long_are_ended(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authoring, "CPU_SECONDS", 1)
    text = playbook(
        "slow",
        """
        - step: start
          loop: {in: "{{ range(500) }}", iterator: i, spec: {mode: parallel}}
          tool: {kind: noop}
        """,
    )
    suite = "schedules: 1000\ncases: [{name: a, expect: {status: completed}}]\n"
    answer = api.post("/api/tests", {"playbook": text, "suite": suite})

    assert (answer.status, answer.body["kind"]) == (422, "request.invalid")
    assert answer.body["message"] == "the tests need more than 1 s"


def test_tests_need_the_right_to_write(running: Running) -> None:
    viewer = running.person("tests-viewer", "viewer")
    answer = viewer.post("/api/tests", {"playbook": FORM, "suite": SUITE})

    assert (answer.status, answer.body["kind"]) == (403, "auth.role")
