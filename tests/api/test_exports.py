"""A server and its exports: what ends on it arrives, also after it was stopped."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from export_peers import HUNG, receiving
from servers import Api, Running, playbook

from noetl.ports import exports
from noetl.service.telemetry import exports as loops

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TEXT = playbook(
    "exported", '- {step: start, tool: {kind: python, code: "print(7); result = 1"}}'
)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver at once, and soon again, without waiting for late task logs."""
    monkeypatch.setattr(exports, "LOGS_FOLLOW_S", 0.0)
    monkeypatch.setattr(loops, "POLL_S", 0.05)
    monkeypatch.setattr(loops, "FIRST_PAUSE_S", 0.05)
    # A server may stop between a claim and its answer: then the lease must run out.
    monkeypatch.setattr(loops, "LEASE_S", 0.5)


def figure(api: Api, name: str) -> float:
    """The value of a metric of exports."""
    text = api.get("/metrics").body.decode()
    [value] = re.findall(rf"^{name}{{[^}}]*}} (\S+)$", text, re.MULTILINE)
    return float(value)


def await_figure(api: Api, name: str, is_right: Callable[[float], bool]) -> None:
    until = time.monotonic() + HUNG
    while not is_right(figure(api, name)):
        assert time.monotonic() < until, name


def test_what_ends_arrives_in_the_trace_of_its_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving() as peer:
        monkeypatch.setenv("NOETL_OTLP_ENDPOINT", peer.url)
        monkeypatch.setenv("NOETL_OTLP_HEADERS", "Authorization=Bearer t0ken")
        running = Running(tmp_path)
        api = Api(running.url, running.token)
        try:
            answer = api.post(
                "/api/executions",
                {"playbook": TEXT},
                traceparent=f"00-{TRACE}-{SPAN}-01",
            )
            document = api.finish(answer.body["execution_id"])
            peer.until(lambda: len(peer.spans) == 3 and len(peer.logs) == 1)
            await_figure(api, "noetl_exports_pending", lambda count: count == 0)
            count = figure(api, "noetl_exported_events_total")
        finally:
            running.stop()

    roots = [each for each in peer.spans.values() if each["name"] == "tests/exported"]
    assert [each["parentSpanId"] for each in roots] == [SPAN]
    assert {trace for trace, _ in peer.spans} == {TRACE}
    [record] = peer.logs.values()
    assert (record["body"], record["traceId"]) == ({"stringValue": "7"}, TRACE)
    assert (TRACE, record["spanId"]) in peer.spans
    assert {each["Authorization"] for _, each in peer.requests} == {"Bearer t0ken"}
    assert count >= document["events"]


def test_what_a_server_could_not_deliver_is_delivered_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_OTLP_ENDPOINT", "http://127.0.0.1:9")
    running = Running(tmp_path)
    api = Api(running.url, running.token)
    try:
        execution_id = api.run(TEXT)["execution_id"]
        await_figure(api, "noetl_export_failures_total", lambda count: count > 0)
        assert figure(api, "noetl_exports_pending") == 1
        assert figure(api, "noetl_export_lag_seconds") > 0
    finally:
        running.stop()

    with receiving() as peer:
        monkeypatch.setenv("NOETL_OTLP_ENDPOINT", peer.url)
        running = Running(tmp_path)
        try:
            peer.until(lambda: len(peer.spans) == 3)
        finally:
            running.stop()

    assert {trace for trace, _ in peer.spans} == {execution_id.replace("-", "")}
