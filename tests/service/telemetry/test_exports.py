"""Exports: each execution that has ended arrives, whatever happens on the way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from export_peers import Peer, receiving

from noetl import load
from noetl.adapters.exports.clickhouse import ClickHouseExport
from noetl.adapters.exports.http import Receiver
from noetl.adapters.exports.otlp import OtlpExport
from noetl.adapters.stores.memory.store import MemoryStore
from noetl.adapters.stores.task_log_files import TaskLogFiles
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Outcome
from noetl.ports import Append, Export, Summary, TimerChanges, Transition, export_timer
from noetl.ports.task_logs import LogChunk, LogSource, LogText
from noetl.service.telemetry import exports
from noetl.service.telemetry.exports import LEASE_S, ExportLoop, Exports

START = 1_800_000_000.0
TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: tests/t}
workflow:
  - step: start
    loop: {in: "{{ range(3) }}", iterator: x}
    tool: [{work: {kind: noop, v: "{{ iter.x }}"}}]
"""


class Killed(BaseException):
    """The end of a server, at this point of its work."""


class Clock:
    """Time that passes while the loop sleeps, and when the test says so."""

    def __init__(self) -> None:
        self.time = START + 10
        self.slept: list[float] = []
        self.most = 1

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        if len(self.slept) >= self.most:
            raise TimeoutError


class Site:
    """A store with executions that have ended, and servers that export them."""

    def __init__(self, folder: Path, peer: Peer) -> None:
        self.store = MemoryStore()
        self.logs = TaskLogFiles(folder)
        self.clock = Clock()
        self.peer = peer
        self.undo = AsyncExitStack()

    async def end(self, name: str, *targets: str, sensitive: bool = False) -> int:
        """Store an execution that has ended; the number of its events."""
        playbook = load(TEXT).playbook
        assert playbook is not None
        simulation = Simulation(
            playbook, lambda call: Outcome.ok("s3cr3t"), execution_id=name, clock=START
        )
        simulation.run()
        about: dict[str, Any] = {"path": "tests/t", "sensitive": sensitive}
        ended = "2027-01-15T08:00:00.000000Z"
        line = Summary(name, "completed", about, ended, ended)
        timers = [export_timer(name, each, START) for each in targets or ("otlp",)]
        await self.store.commit(
            [
                Transition(
                    execution_id=name,
                    log=Append(0, simulation.log),
                    summary=line,
                    timers=TimerChanges(timers),
                )
            ]
        )
        return len(simulation.log)

    def stored(self, summary: Summary) -> exports.StoredExecution:
        return exports.StoredExecution(summary, self.store, self.logs)

    def server(self, *made: Export) -> ExportLoop:
        """The loop of one more server."""
        export = made[0] if made else self.otlp()
        self.undo.push_async_callback(export.close)
        return ExportLoop(export, self.store, self.store, self.logs, self.clock)

    def otlp(self) -> OtlpExport:
        return OtlpExport(Receiver(self.peer.url, {}), {"traces", "logs"})

    def clickhouse(self) -> ClickHouseExport:
        return ClickHouseExport(Receiver(self.peer.url, {}))

    async def serve(self, loop: ExportLoop, *, pauses: int) -> None:
        """Let a loop serve until it has paused so often, in all."""
        self.clock.most = pauses
        with suppress(TimeoutError):
            await loop.serve()

    async def pending(self) -> int:
        counts = await self.store.count_exports()
        return sum(each.waiting for each in counts.values())


Test = Callable[[Site], Coroutine[Any, Any, None]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Test], None]:
    def start(test: Test) -> None:
        async def main() -> None:
            with receiving() as peer:
                site = Site(tmp_path, peer)
                async with site.undo:
                    await test(site)
                site.logs.close()

        asyncio.run(main())

    return start


Run = Callable[[Test], None]


@pytest.mark.spec("EVT-26")
def test_an_execution_that_has_ended_is_delivered_once(run: Run) -> None:
    async def test(site: Site) -> None:
        events = [await site.end(name) for name in ("a", "b")]
        loop = site.server()

        assert await loop.deliver()
        assert not await loop.deliver()

        assert {trace for trace, _ in site.peer.spans} == {
            site.peer.spans[key]["traceId"] for key in site.peer.spans
        }
        assert len(site.peer.spans) == site.peer.received == 2 * 8
        assert loop.take_counts().events == sum(events)
        assert await site.pending() == 0

    run(test)


def test_nothing_is_delivered_while_task_logs_may_follow(run: Run) -> None:
    async def test(site: Site) -> None:
        await site.end("a")
        site.clock.time = START + 1
        assert not await site.server().deliver()
        assert await site.pending() == 1

    run(test)


def test_a_receiver_that_is_away_for_long_gets_all_in_the_end(run: Run) -> None:
    async def test(site: Site) -> None:
        for number in range(250):
            await site.end(f"e{number}")
        site.peer.status = 503
        loop = site.server()
        await site.serve(loop, pauses=10)
        assert await site.pending() == 250
        pauses = list(site.clock.slept)
        site.peer.status = None
        await site.serve(loop, pauses=11)
        assert await site.pending() == 0

        assert pauses[:7] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]
        assert len({trace for trace, _ in site.peer.spans}) == 250
        assert len(site.peer.spans) == 250 * 8
        assert loop.done.failures >= 7

    run(test)


def test_a_server_that_is_lost_before_it_notes_a_delivery_leaves_it_to_others(
    run: Run,
) -> None:
    async def test(site: Site) -> None:
        await site.end("a")
        lost = site.server()

        async def end(name: str, execution_ids: Sequence[str]) -> None:
            raise Killed

        whole, site.store.end_exports = site.store.end_exports, end
        with pytest.raises(Killed):
            await lost.deliver()
        site.store.end_exports = whole
        spans = dict(site.peer.spans)
        other = site.server()

        assert not await other.deliver(), "the lease of the first one lasts"
        site.clock.time += LEASE_S
        assert await other.deliver()
        assert site.peer.received == 2 * len(spans)
        assert site.peer.spans == spans, "sent twice, they are the same"
        assert await site.pending() == 0

    run(test)


def test_a_server_that_stops_gives_its_part_back(run: Run) -> None:
    async def test(site: Site) -> None:
        await site.end("a")
        stopping = site.server()
        begun = asyncio.Event()

        async def take(executions: object) -> int:
            begun.set()
            return await asyncio.Event().wait()

        stopping.export.take = take
        work = asyncio.create_task(stopping.deliver())
        await begun.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

        assert await site.server().deliver()
        assert await site.pending() == 0

    run(test)


def test_a_log_that_cannot_be_folded_holds_no_other_execution_up(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(site: Site) -> None:
        for name in ("good", "odd", "fine"):
            await site.end(name)
        loop = site.server()
        whole = loop.export.take

        async def take(executions: Sequence[Any]) -> int:
            if any(each.summary.execution_id == "odd" for each in executions):
                raise KeyError("outcome")
            return await whole(executions)

        loop.export.take = take
        with caplog.at_level(logging.ERROR, "noetl.exports"):
            assert await loop.deliver()

        assert len({trace for trace, _ in site.peer.spans}) == 2
        assert await site.pending() == 1
        [record] = caplog.records
        assert record.execution_id == "odd"
        assert record.exc_info is not None

    run(test)


def test_two_servers_share_the_work(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "BATCH", 3)

    async def test(site: Site) -> None:
        for number in range(6):
            await site.end(f"e{number}")
        servers = site.server(), site.server()

        assert await asyncio.gather(*(each.deliver() for each in servers)) == [True] * 2

        assert [each.done.executions for each in servers] == [3, 3]
        assert await site.pending() == 0

    run(test)


def test_a_refused_execution_stays_and_does_not_hold_the_others_up(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(site: Site) -> None:
        for name in ("good", "evil", "fine"):
            await site.end(name)
        site.peer.refuses = '"evil"'
        loop = site.server()

        with caplog.at_level(logging.ERROR, "noetl.exports"):
            assert await loop.deliver()

        assert len({trace for trace, _ in site.peer.spans}) == 2
        assert await site.pending() == 1
        [record] = caplog.records
        assert record.execution_id == "evil"
        site.clock.time += 3_000
        assert not await loop.deliver()
        site.clock.time += 600
        site.peer.refuses = None
        assert await loop.deliver()
        assert await site.pending() == 0

    run(test)


def test_one_export_does_not_wait_for_another(run: Run) -> None:
    async def test(site: Site) -> None:
        await site.end("a", "otlp", "clickhouse")
        away = OtlpExport(Receiver("http://127.0.0.1:9", {}), {"traces"})
        both = Exports(
            [away, site.clickhouse()], site.store, site.store, site.logs, site.clock
        )
        site.undo.push_async_callback(both.close)

        assert [await each.deliver() for each in both.loops] == [False, True]

        waiting = await both.waiting()
        assert {name: each.waiting for name, each in waiting.items()} == {
            "otlp": 1,
            "clickhouse": 0,
        }
        assert await both.lag(waiting["otlp"]) == site.clock.time - START
        assert await both.lag(waiting["clickhouse"]) == 0.0

    run(test)


@pytest.mark.spec("EVT-26")
def test_clickhouse_has_each_event_once(run: Run) -> None:
    async def test(site: Site) -> None:
        events = await site.end("a", "clickhouse")
        loop = site.server(site.clickhouse())
        log = await site.store.read("a")

        assert await loop.deliver()
        await loop.export.take([site.stored(await site.store.summary("a"))])

        assert len(site.peer.rows) == events
        assert [site.peer.rows["a", each.seq]["name"] for each in log] == [
            each.name for each in log
        ]
        assert site.peer.received == events, "the token says that it was sent"
        row = site.peer.rows["a", 1]
        assert (row["path"], row["payload"]["trace_id"]) == (
            "tests/t",
            log[0].payload["trace_id"],
        )

    run(test)


def test_data_of_a_sensitive_playbook_stays_here(run: Run) -> None:
    async def test(site: Site) -> None:
        await site.end("a", "otlp", "clickhouse", sensitive=True)
        await site.logs.append([chunk("a", "s3cr3t")])
        for export in (site.otlp(), site.clickhouse()):
            assert await site.server(export).deliver()

        assert site.peer.spans
        assert site.peer.rows
        assert not site.peer.logs
        seen = str([site.peer.spans, site.peer.rows])
        assert "s3cr3t" not in seen

    run(test)


def chunk(execution_id: str, text: str, part: int = 1) -> LogChunk:
    run = f"{execution_id}-1"
    place = f"{run}/2"
    source = LogSource(execution_id, "start", place, "work", f"{place}:work.1", 1, 1)
    return LogChunk(source, part, [LogText(START, "stderr", None, text)])


def test_task_logs_are_log_records_of_their_attempt(run: Run) -> None:
    async def test(site: Site) -> None:
        await site.end("a")
        await site.logs.append([chunk("a", "one\ntwo"), chunk("a", "three", 2)])
        loop = site.server()

        assert await loop.deliver()

        records = list(site.peer.logs.values())
        assert [each["body"]["stringValue"] for each in records] == [
            "one",
            "two",
            "three",
        ]
        [attempt] = {(each["traceId"], each["spanId"]) for each in records}
        assert site.peer.spans[attempt]["name"] == "work"
        assert {each["severityText"] for each in records} == {"ERROR"}

    run(test)


def test_a_partial_success_is_logged_and_not_sent_again(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(site: Site) -> None:
        await site.end("a")
        site.peer.answer = (
            b'{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}}'
        )

        with caplog.at_level(logging.WARNING, "noetl.exports"):
            assert await site.server().deliver()

        assert "the collector rejected 2 records: too old" in caplog.text
        assert await site.pending() == 0

    run(test)
