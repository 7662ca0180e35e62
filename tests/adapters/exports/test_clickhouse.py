"""Rows for ClickHouse: inserted twice into the real engine, each is there once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from export_peers import receiving

from noetl import load
from noetl.adapters.exports.clickhouse import ClickHouseExport, schema
from noetl.adapters.exports.http import Receiver
from noetl.engine.events import Event
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Outcome
from noetl.ports import ExportFailed, Summary

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: tests/t}
workflow:
  - step: start
    loop: {in: "{{ range(40) }}", iterator: x}
    tool: [{work: {kind: noop, v: "{{ iter.x }}"}}]
    spec: {policy: {failure: best_effort}}
"""


class Simulated:
    """An execution that has ended, read in pages."""

    def __init__(self, name: str) -> None:
        playbook = load(TEXT).playbook
        assert playbook is not None
        simulation = Simulation(playbook, _answer, execution_id=name, clock=1.8e9)
        simulation.run()
        self.log = simulation.log
        self.summary = Summary(name, "completed", {"path": "tests/t"}, "")

    async def pages(self) -> AsyncIterator[Sequence[Event]]:
        for start in range(0, len(self.log), 50):
            yield self.log[start : start + 50]

    async def logs(self) -> AsyncIterator[Any]:
        return
        yield


def _answer(call: Any) -> Outcome:
    if call.inputs["v"] % 4 == 0:
        return Outcome.failed("http.server", "no")
    return Outcome.ok({"n": call.inputs["v"]})


def test_what_is_sent_twice_is_in_the_table_once(tmp_path: Path) -> None:
    """By ClickHouse itself, in this process (chdb)."""
    session = pytest.importorskip(
        "chdb.session", reason="chdb is not installed: 180 MB; pip install chdb"
    )
    db = session.Session(str(tmp_path / "db"))
    simulated = Simulated("a"), Simulated("b")
    bodies: list[bytes] = []

    async def send() -> None:
        with receiving() as peer:
            peer.keep = bodies.append
            export = ClickHouseExport(Receiver(peer.url, {}))
            for batch in (simulated, simulated[:1], simulated[1:]):
                await export.take(batch)
            await export.close()

    asyncio.run(send())
    db.query("CREATE DATABASE d")
    db.query("USE d")
    db.query(schema())
    for number, body in enumerate(bodies):
        file = tmp_path / f"{number}.jsonl"
        file.write_bytes(body)
        db.query(
            f"INSERT INTO noetl_events FROM INFILE '{file}' "
            "SETTINGS date_time_input_format = 'best_effort' FORMAT JSONEachRow"
        )

    def ask(query: str) -> str:
        return str(db.query(query, "CSV")).strip()

    total = sum(len(each.log) for each in simulated)
    assert ask("SELECT count() FROM noetl_events FINAL") == str(total)
    failed = "name = 'task.done' AND payload.outcome.error.kind = 'http.server'"
    assert ask(f"SELECT count() FROM noetl_events FINAL WHERE {failed}") == "20"
    assert ask("SELECT max(seq) FROM noetl_events WHERE execution_id = 'a'") == str(
        len(simulated[0].log)
    )


@pytest.mark.parametrize(
    ("status", "refused"),
    [(400, True), (413, True), (401, False), (404, False), (429, False), (500, False)],
)
def test_only_an_answer_about_the_body_is_a_refusal(status: int, refused: bool) -> None:
    async def send() -> None:
        with receiving() as peer:
            peer.status = status
            export = ClickHouseExport(
                Receiver(peer.url, {"X-ClickHouse-Key": "s3cr3t"})
            )
            try:
                await export.take([Simulated("a")])
            finally:
                await export.close()

    with pytest.raises(ExportFailed, match=f"answers {status}: no$") as caught:
        asyncio.run(send())

    assert caught.value.refused is refused
    assert "s3cr3t" not in str(caught.value)
