"""``noetl export``: what ``noetl run`` did arrives at OpenTelemetry and ClickHouse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from export_peers import receiving

from noetl.adapters.exports.clickhouse import schema

FLOW = '- {step: start, tool: {kind: python, code: "print(7); result = 1"}}'
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_what_ran_here_is_sent_on_request_as_often_as_one_likes(shell: Any) -> None:
    file = shell.write("sent", FLOW)
    shell.set(TRACEPARENT=f"00-{TRACE}-{SPAN}-01")
    shell.run(file)

    with receiving() as peer:
        shell.set(
            NOETL_OTLP_ENDPOINT=peer.url,
            NOETL_CLICKHOUSE_URL=peer.url.replace("//", "//noetl:pw@"),
        )
        shell.noetl("export", "--all")
        spans, rows = dict(peer.spans), dict(peer.rows)
        again = shell.noetl("export", "last", "--json")

    assert SPAN in {each.get("parentSpanId") for each in spans.values()}
    assert {trace for trace, _ in spans} == {TRACE}
    assert {each["body"]["stringValue"] for each in peer.logs.values()} == {"7"}
    assert (peer.spans, peer.rows) == (spans, rows)
    sent = json.loads(again.stdout)["exports"]
    assert [(each["export"], each["executions"]) for each in sent] == [
        ("otlp", 1),
        ("clickhouse", 1),
    ]
    keys = {head.get("X-ClickHouse-Key") for path, head in peer.requests if "?" in path}
    assert keys == {"pw"}


@pytest.mark.parametrize(
    ("environ", "arguments", "code", "message"),
    [
        pytest.param({}, ["last"], 2, "set NOETL_OTLP_ENDPOINT or", id="no receiver"),
        pytest.param({}, [], 2, "name executions, or use --all", id="nothing named"),
        pytest.param(
            {"NOETL_OTLP_ENDPOINT": "http://127.0.0.1:9"},
            ["last", "--to", "clickhouse"],
            2,
            "set NOETL_CLICKHOUSE_URL",
            id="not this receiver",
        ),
        pytest.param(
            {"NOETL_OTLP_ENDPOINT": "http://127.0.0.1:9"},
            ["--all"],
            3,
            "http://127.0.0.1:9/v1/traces does not answer",
            id="a receiver that is away",
        ),
        pytest.param(
            {"NOETL_OTLP_ENDPOINT": "http://ann:pw@127.0.0.1:9"},
            ["--all"],
            2,
            "must not contain a credential",
            id="a credential in the address",
        ),
    ],
)
def test_a_wrong_call_says_what_to_do(
    shell: Any, environ: dict[str, str], arguments: list[str], code: int, message: str
) -> None:
    if code == 3:
        shell.run(shell.write("sent", FLOW))
    shell.set(**environ)

    done = shell.noetl("export", *arguments)

    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_table_of_clickhouse_is_printed(shell: Any) -> None:
    assert shell.noetl("export", "--schema").stdout == schema()


def test_a_wrong_trace_of_the_caller_is_a_warning(shell: Any) -> None:
    shell.set(TRACEPARENT="nonsense")
    file = shell.write("sent", FLOW)

    done = shell.noetl("run", file, "--json")

    assert "warning: TRACEPARENT is ignored: expected 00-" in done.stderr
    assert json.loads(done.stdout)["status"] == "completed"
