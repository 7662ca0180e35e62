"""Every example runs as it says: ``noetl run`` against the demo API, from nothing."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from demo_api import EXAMPLES, DemoApi, Noetl

PLAYBOOKS = sorted(
    path.name for path in EXAMPLES.glob("*.yaml") if ".test" not in path.suffixes
)


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_an_example_has_nothing_to_complain_about(noetl: Noetl, name: str) -> None:
    validated = noetl("validate", "--strict", f"examples/{name}")
    verified = noetl("verify", f"examples/{name}")

    assert validated.returncode == 0, validated.stdout
    assert verified.returncode == 0, verified.stdout
    assert ": sound" in verified.stdout


def test_all_examples_together_have_no_warning(noetl: Noetl) -> None:
    done = noetl("validate", "--strict", "examples", "--json")
    every = json.loads(done.stdout)["files"]
    # Those of the dialect have a warning for each of its forms (S-01).
    files = [each for each in every if "/classic/" not in each["file"]]

    found = [each for file in files for each in file["diagnostics"]]
    assert {each["severity"] for each in found} <= {"hint"}
    assert sum(not file["valid"] for file in files) == 0


def test_the_list_of_examples_names_every_one() -> None:
    listed = (EXAMPLES / "README.md").read_text()

    assert [name for name in PLAYBOOKS if f"({name})" not in listed] == []


def test_hello(noetl: Noetl) -> None:
    document = noetl.run("hello.yaml", name="Ada")

    assert (document["exit_code"], document["status"]) == (0, "completed")
    assert document["result"] == "Hello, Ada!"


def test_countdown(noetl: Noetl) -> None:
    document = noetl.run("countdown.yaml", numbers="[1]")

    assert document["result"] == "1, lift-off"


@pytest.mark.spec("LOOP-24", "ACC-05", "S-14", "S-47", "POL-08", "POL-11", "PIPE-12")
def test_pagination_reads_every_page_once_and_retries_what_fails(
    noetl: Noetl, api: DemoApi
) -> None:
    document = noetl.run("pagination.yaml", api=api.url)

    assert document["status"] == "completed"
    assert document["result"] == {"orders": 10, "unpaid": 180}
    assert document["ctx"]["pages"] == 4
    assert [order["id"] for order in document["ctx"]["orders"]] == list(range(1, 11))
    # Page 1 once too early, page 3 once broken, and each of the four pages once.
    assert api.calls() == {"GET /orders": {"429": 1, "500": 1, "200": 4}}
    delays = [task["directive"]["delay"] for task in retries(noetl, document)]
    assert delays == [1, 0.2], "as Retry-After says, then as the rule does"


def test_pagination_gives_up_when_the_attempts_are_used_up(
    noetl: Noetl, api: DemoApi
) -> None:
    api.post("/reset", {"plan": [{"path": "/orders", "answers": [500] * 9}]})

    document = noetl.run("pagination.yaml", api=api.url)

    assert (document["exit_code"], document["status"]) == (1, "failed")
    assert document["error"]["kind"] == "http.server"
    assert api.calls() == {"GET /orders": {"500": 4}}


@pytest.mark.spec("PIPE-14", "LOOP-24", "POL-08", "DIR-06")
def test_pages_to_duckdb_stores_every_order_once_however_often_it_runs(
    noetl: Noetl, api: DemoApi, tmp_path: Path
) -> None:
    home = tmp_path / "home"  # its files may be touched
    files = {"database": home / "o.duckdb", "export": home / "o.parquet"}

    for _ in range(2):
        document = noetl.run(
            "pages_to_duckdb.yaml", api=api.url, patience="5ms", **files
        )

        assert (document["exit_code"], document["error"]) == (0, None)
        assert document["result"]["rows"] == [
            {"customer": "grace", "orders": 1, "unpaid": 90},
            {"customer": "edsger", "orders": 1, "unpaid": 60},
            {"customer": "barbara", "orders": 1, "unpaid": 30},
        ]
    # Page 1 once too early, page 3 once broken, and each of the four pages twice.
    assert api.calls() == {"GET /orders": {"429": 1, "500": 1, "200": 8}}
    saved = [
        payload["outcome"]["result"]
        for payload in (
            event["payload"] for event in noetl.events(document["execution_id"])
        )
        if "format" in ((payload.get("outcome") or {}).get("result") or {})
    ]
    size = files["export"].stat().st_size
    path = str(files["export"].resolve())
    assert saved == [{"path": path, "format": "parquet", "rows": 10, "size": size}]


@pytest.mark.spec("LOOP-21", "LOOP-25", "LOOP-26", "ACC-04", "S-12", "S-28", "PIPE-18")
def test_hotels_reads_all_cities_and_survives_the_lost_ones(
    noetl: Noetl, api: DemoApi
) -> None:
    document = noetl.run("hotels.yaml", api=api.url, patience="5ms")

    assert (document["exit_code"], document["status"]) == (0, "completed")
    expected = {"read": 7, "failed": 1, "hotels": 27, "most": "rome"}
    assert document["result"] == expected
    pages = {"cairo": 1, "kyoto": 2, "lima": 2, "oslo": 1, "quito": 2, "rome": 3}
    assert api.calls() == {
        "GET /cities": {"200": 1},
        "GET /cities/atlantis/hotels": {"503": 2, "404": 1},
        "GET /cities/pompeii/hotels": {"503": 2, "410": 1},
        **{
            f"GET /cities/{city}/hotels": {"503": 2 * pages[city], "200": pages[city]}
            for city in pages
        },
        "POST /results/hotels": {"201": 11},
        "POST /results/unknown": {"201": 1},
    }
    stored = api.get("/results/hotels").body["items"]
    found = [hotel["id"] for page in stored for hotel in page["hotels"]]
    assert len(set(found)) == len(found) == 27
    assert Counter(page["city"] for page in stored) == pages
    assert api.get("/results/unknown").body["items"] == [{"city": "atlantis"}]


@pytest.mark.spec("LOOP-05", "ACC-06")
def test_hotels_never_asks_for_more_than_three_cities_at_once(
    noetl: Noetl, api: DemoApi
) -> None:
    document = noetl.run("hotels.yaml", api=api.url, patience="5ms")

    assert api.get("/stats").body["most_at_once"] <= 3
    under_way, most = set(), 0
    for event in noetl.events(document["execution_id"]):
        if event["name"] == "loop.iteration.started":
            under_way.add(event["iteration_id"])
            most = max(most, len(under_way))
        elif event["name"].startswith("loop.iteration."):
            under_way.remove(event["iteration_id"])
    assert most == 3


@pytest.mark.spec("S-60")
def test_hotels_stores_once_what_it_must_send_twice(noetl: Noetl, api: DemoApi) -> None:
    fault = {"method": "POST", "path": "/results/*", "answers": [502], "late": True}
    api.post("/reset", {"plan": [fault]})

    document = noetl.run("hotels.yaml", api=api.url, patience="5ms")

    assert document["status"] == "completed"
    assert api.calls()["POST /results/unknown"] == {"502": 1, "200": 1}
    assert api.get("/results/unknown").body["count"] == 1
    assert api.get("/results/hotels").body["count"] == 11


@pytest.mark.spec("NEXT-06", "S-04", "STEP-04")
@pytest.mark.parametrize(
    ("thorough", "customer", "asked"),
    [
        pytest.param(
            "false", "nobody asked", {}, id="a branch not taken does not block"
        ),
        pytest.param("true", "barbara", {"GET /orders/7": {"200": 1}}, id="all three"),
    ],
)
def test_fan_out_fan_in_reports_once(
    noetl: Noetl, api: DemoApi, thorough: str, customer: str, asked: dict[str, Any]
) -> None:
    document = noetl.run("fan_out_fan_in.yaml", api=api.url, thorough=thorough)

    assert document["status"] == "completed"
    assert document["result"] == {"cities": 8, "pages": 4, "customer": customer}
    steps = Counter(step["step"] for step in document["steps"])
    assert steps["report"] == 1
    assert api.calls() == {"GET /cities": {"200": 1}, **asked}


@pytest.mark.spec("S-08", "S-09", "S-11", "POL-05", "DIR-12")
@pytest.mark.parametrize(
    ("case", "ran", "result", "kind"),
    [
        pytest.param(
            "handled",
            [("handled", "failed"), ("apologize", "done")],
            "Sorry, there is no order '99'.",
            None,
            id="an arc asked about it",
        ),
        pytest.param(
            "unhandled",
            [("unhandled", "failed"), ("tidy_up", "done")],
            "tidy",
            "http.client",
            id="an arc fired without asking",
        ),
        pytest.param(
            "refused",
            [("refused", "failed")],
            None,
            "policy.fail",
            id="by its own rule",
        ),
    ],
)
def test_errors(
    noetl: Noetl,
    api: DemoApi,
    case: str,
    ran: list[tuple[str, str]],
    result: str | None,
    kind: str | None,
) -> None:
    document = noetl.run("errors.yaml", api=api.url, case=case)

    steps = [(step["step"], step["status"]) for step in document["steps"]]
    assert steps == [("start", "done"), *ran]
    assert document["result"] == result
    assert (document["error"] or {}).get("kind") == kind
    assert document["exit_code"] == (0 if kind is None else 1)
    number = 3 if case == "refused" else 99
    assert sum(api.calls()[f"GET /orders/{number}"].values()) == 1, "no retry was asked"


def retries(noetl: Noetl, document: dict[str, Any]) -> list[dict[str, Any]]:
    """What was decided at each failed attempt, in order."""
    events = noetl.events(document["execution_id"])
    done = [event["payload"] for event in events if event["name"] == "task.done"]
    return [payload for payload in done if payload["directive"]["do"] == "retry"]


@pytest.mark.spec("KEY-04", "KEY-06", "KEY-07", "PIPE-16", "S-41", "S-67")
def test_secrets_authenticate_every_tool_and_a_token_is_refreshed(
    noetl: Noetl, api: DemoApi
) -> None:
    noetl.environ["DEMO_TOKEN"] = "demo-token"
    user = ["--kind", "http_credential", "--field", "username=demo"]
    client = ["--kind", "oauth2", "--field", f"token_url={api.url}/oauth/token"]
    client += ["--field", "client_id=demo-client", "--field", "client_secret"]
    for name, fields, secret in (
        ("demo_user", [*user, "--field", "password"], "demo-password"),
        ("demo_client", client, "demo-client-secret"),
    ):
        stored = noetl("keychain", "set", name, *fields, stdin=f"{secret}\n")
        assert stored.returncode == 0, stored.stderr

    document = noetl.run("secrets.yaml", api=api.url)

    assert (document["exit_code"], document["status"]) == (0, "completed")
    assert api.calls() == {
        "GET /private/basic": {"200": 1},
        "GET /private/bearer": {"200": 2},
        "GET /private/oauth": {"200": 5, "401": 1},
        "POST /oauth/token": {"200": 2},
    }
    assert document["ctx"]["token"].keys() == {"secret"}
    log = json.dumps(noetl.events(document["execution_id"]))
    for secret in ("demo-token", "demo-password", "access-1", "access-2"):
        assert secret not in log


def test_secrets_that_are_missing_are_named_before_anything_runs(
    noetl: Noetl, api: DemoApi
) -> None:
    document = noetl.run("secrets.yaml", api=api.url)

    assert (document["exit_code"], document["status"]) == (2, "failed")
    entries = [entry["name"] for entry in document["error"]["entries"]]
    assert entries == ["demo_token", "demo_user", "demo_client"]
    assert api.calls() == {}


@pytest.mark.spec("QNT-01", "QNT-02", "QNT-03", "QNT-04")
def test_quantum_sweep_finds_the_angle_and_never_has_more_than_two_jobs(
    noetl: Noetl,
) -> None:
    document = noetl.run("quantum_sweep.yaml", patience="20ms")

    assert (document["exit_code"], document["status"]) == (0, "completed")
    assert document["result"]["angle"] == 3.2
    assert sum(document["result"]["counts"].values()) == 2000
    assert document["ctx"]["best"]["job"].keys() == {"provider", "job"}
    under_way, most, jobs = set(), 0, set()
    for event in noetl.events(document["execution_id"]):
        if event["name"] == "loop.iteration.started":
            under_way.add(event["iteration_id"])
            most = max(most, len(under_way))
        elif event["name"].startswith("loop.iteration."):
            under_way.remove(event["iteration_id"])
        elif event["name"] == "task.done" and event["task_label"] == "submit":
            jobs.add(event["payload"]["outcome"]["result"]["job"])
    assert (most, len(jobs)) == (2, 5)
    again = noetl.run("quantum_sweep.yaml", patience="20ms")
    assert again["result"] == document["result"], "the workload says it all"
