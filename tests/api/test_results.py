"""``/api/executions/{id}/results`` and ``/api/results/{ref}``."""

from __future__ import annotations

import json
from typing import Any

import pytest
from servers import HELLO, Api, Running, playbook

pytestmark = pytest.mark.spec("RES-03", "RES-04", "S-48", "SRV-03")

TEXT = "row " * 30_000
LARGE = playbook(
    "large",
    """
    - step: make
      tool: {kind: noop, result: "{{ 'row ' * 30000 }}"}
      next: {arcs: [{step: each}]}
    - step: each
      loop: {in: "{{ range(2) }}", iterator: n}
      tool: {kind: noop, result: "{{ iter.n ~ 'x' * 40000 }}"}
    """,
)


@pytest.fixture(scope="module")
def ran(running: Running) -> dict[str, Any]:
    return Api(running.url, running.token).run(LARGE)


@pytest.fixture
def key(ran: dict[str, Any]) -> str:
    found: str = ran["steps"][0]["result"]["key"]
    return found


def test_what_was_stored_is_listed_with_its_place(
    api: Api, ran: dict[str, Any], key: str
) -> None:
    place = f"/api/executions/{ran['execution_id']}/results"

    whole = api.get(place)
    first = api.get(f"{place}?limit=1").body
    rest = api.get(f"{place}?after={first['cursor']}").body

    line = whole.body["results"][0]
    assert whole.status == 200
    assert (line["key"], line["size"], line["step"]) == (key, len(TEXT) + 2, "make")
    assert line["path"] == "outcome.result"
    assert line["schema_hint"] == "text"
    assert whole.body["cursor"] is None
    keys = [each["key"] for each in (*first["results"], *rest["results"])]
    assert set(keys) == {each["key"] for each in whole.body["results"]}
    assert api.get("/api/executions/nobody/results").status == 404


def test_a_result_is_read_by_its_key(api: Api, ran: dict[str, Any], key: str) -> None:
    named = api.get(f"/api/results/{key}?execution_id={ran['execution_id']}")
    found = api.get(f"/api/results/sha256:{key}")

    assert (named.status, named.body) == (200, TEXT)
    assert named.headers["content-type"] == "application/json"
    assert found.body == TEXT, "the newest executions are searched"


@pytest.mark.parametrize(
    ("ref", "header", "expected"),
    [
        (":0-3", None, b'"row'),
        ("", "bytes=0-3", b'"row'),
        ("", "bytes=119999-", b'w "'),
        ("", "bytes=-3", b'w "'),
        ("", "bytes=119999-999999999", b'w "'),
    ],
)
def test_a_part_of_it_can_be_asked_for(
    api: Api, key: str, ref: str, header: str | None, expected: bytes
) -> None:
    said = {"Range": header} if header else {}

    answer = api.get(f"/api/results/{key}{ref}", **said)

    assert (answer.status, answer.body) == (206, expected)
    assert answer.headers["content-range"].endswith("/120002")
    assert answer.headers["content-length"] == str(len(expected))


@pytest.mark.parametrize("span", ["100-50", "0-1000000000000000000", "5", "x", "-1-5"])
def test_92_a_range_is_within_the_bytes_that_there_are(
    api: Api, key: str, span: str
) -> None:
    answer = api.get(f"/api/results/{key}:{span}")

    assert (answer.status, answer.body["kind"]) == (422, "ref.range")


def test_92_a_range_of_a_header_too(api: Api, key: str) -> None:
    answer = api.get(f"/api/results/{key}", Range="bytes=999999999-")

    assert (answer.status, answer.body["kind"]) == (422, "ref.range")
    assert api.get(f"/api/results/{key}", Range="lines=0-3").status == 200


@pytest.mark.parametrize(
    "ref",
    [
        "../../etc/passwd",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/etc/passwd",
        "a" * 5000,
        "0" * 64,
        "0" * 63 + "%00",
        "log:nobody-1",
        "log:../../etc-1",
    ],
)
def test_90_a_foreign_blob_key_is_not_found(api: Api, ref: str) -> None:
    answer = api.get(f"/api/results/{ref}")

    assert answer.status == 404
    assert answer.body["kind"] in (
        "ref.not_found",
        "execution.unknown",
        "route.unknown",
    )


def test_90_a_key_of_another_execution_is_not_found(api: Api, key: str) -> None:
    other = api.run(HELLO)["execution_id"]

    answer = api.get(f"/api/results/{key}?execution_id={other}")

    assert (answer.status, answer.body["kind"]) == (404, "ref.not_found")


def test_who_may_not_see_the_execution_does_not_see_its_results(
    running: Running, ran: dict[str, Any], key: str
) -> None:
    stranger = running.person("results-stranger", "viewer:other/*")

    by_key = stranger.get(f"/api/results/{key}")
    by_name = stranger.get(f"/api/results/{key}?execution_id={ran['execution_id']}")

    assert (by_key.status, by_key.body["kind"]) == (404, "ref.not_found")
    assert (by_name.status, by_name.body["kind"]) == (404, "execution.unknown")


def test_the_results_of_a_loop_are_read_from_the_log(
    api: Api, ran: dict[str, Any]
) -> None:
    reference = ran["result"]
    assert reference["key"].startswith("log:")

    answer = api.get(f"/api/results/{reference['key']}")

    assert answer.body == [f"{n}{'x' * 40_000}" for n in range(2)]


def test_the_text_of_a_playbook_is_there(api: Api, ran: dict[str, Any]) -> None:
    answer = api.get(f"/api/executions/{ran['execution_id']}/playbook")

    assert (answer.status, answer.body.decode()) == (200, LARGE)
    assert json.dumps(answer.headers["content-type"]) == '"application/yaml"'


def test_the_rows_of_a_result_come_in_pages(api: Api, ran: dict[str, Any]) -> None:
    document = api.get(f"/api/executions/{ran['execution_id']}").body
    loop = document["steps"][1]["result"]["key"]

    whole = api.get(f"/api/results/{loop}/rows").body
    second = api.get(f"/api/results/{loop}/rows?offset=1&limit=1").body

    assert (whole["columns"], whole["total"], whole["complete"]) == (["value"], 2, True)
    assert second["rows"] == whole["rows"][1:]
    assert whole["rows"][0][0]["$cut"] > 40_000


def test_what_has_no_rows_says_so(api: Api, key: str) -> None:
    answer = api.get(f"/api/results/{key}/rows")

    assert (answer.status, answer.body["kind"]) == (422, "ref.rows")
    assert api.get(f"/api/results/{'0' * 64}/rows").status == 404
    assert api.get(f"/api/results/{key}:0-3/rows").status == 404
    for query in ("limit=201", "limit=0", "offset=-1", "page=1"):
        assert api.get(f"/api/results/{key}/rows?{query}").status == 422
