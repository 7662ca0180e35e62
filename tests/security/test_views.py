"""What pages show of hostile data is bounded, whoever looks at it."""

from __future__ import annotations

from time import process_time

import pytest
from latency import Latency
from servers import Api, Running, playbook


def stored(admin: Api, query: str, format: str) -> str:
    """Run a query and store its rows; return the path of its rows."""
    tool = f"{{kind: duckdb, command: {query}, export: {{format: {format}}}}}"
    document = admin.run(playbook("rows", f"- {{step: start, tool: {tool}}}"))
    assert document["status"] == "completed", document["error"]
    reference = document["steps"][0]["result"]["rows"]
    owner = document["execution_id"]
    return f"/api/results/{reference['key']}/rows?execution_id={owner}"


@pytest.mark.parametrize(
    ("query", "format"),
    [
        pytest.param('"SELECT repeat(chr(10), 500000) AS a"', "csv", id="line ends"),
        pytest.param(
            '"SELECT range(0, 40000) AS a FROM range(100)"', "ndjson", id="large rows"
        ),
    ],
)
def test_rows_of_a_hostile_table_are_shown_in_time(
    running: Running, admin: Api, query: str, format: str
) -> None:
    path = stored(admin, query, format)
    began = process_time()

    with Latency(running.url) as latency:
        answer = admin.get(path)

    assert answer.status == 200
    assert answer.body["rows"][0][0]["$cut"] > 100_000
    assert process_time() - began < 5
    latency.check()
