"""Lookups of leases by the stored command, and those that a server remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from noetl.engine.events import Event
from noetl.engine.reports.accept import Fact
from noetl.errors import LeaseLost, LeaseNotOwned, StoreError
from noetl.ports import CommandRow, Lease
from noetl.runtime.worker_protocol import leases, reports
from noetl.runtime.worker_protocol.leases import Caller, KnownLeases, judge
from noetl.runtime.worker_protocol.messages import LeaseKey, ReportReply

REPLY = ReportReply()
LEASED = CommandRow("e", "default", 2, "w", held=True, reported=3)
ENDED = CommandRow("e", "default", 2, "w", held=False, reported=3)
NEVER = CommandRow("e", "default", 0, "w", held=False, reported=0)


def caller(name: str, pool: str = "default") -> Caller:
    return Caller(name, lambda asked: asked == pool, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "epoch", "who", "refusal", "has_lease"),
    [
        pytest.param(LEASED, 2, caller("w"), None, True, id="held"),
        pytest.param(ENDED, 2, caller("w"), LeaseLost, True, id="ended"),
        pytest.param(LEASED, 1, caller("w"), LeaseLost, False, id="leased again"),
        pytest.param(LEASED, 1, caller("v"), LeaseLost, False, id="lost to another"),
        pytest.param(LEASED, 2, caller("v"), LeaseNotOwned, False, id="of another"),
        pytest.param(ENDED, 2, caller("v"), LeaseLost, False, id="another's, ended"),
        pytest.param(LEASED, 3, caller("w"), LeaseNotOwned, False, id="too high"),
        pytest.param(NEVER, 0, caller("w"), LeaseNotOwned, False, id="never leased"),
        pytest.param(
            LEASED, 2, caller("w", "other"), LeaseNotOwned, False, id="other pool"
        ),
    ],
)
def test_the_stored_command_says_who_holds_a_lease(
    row: CommandRow,
    epoch: int,
    who: Caller,
    refusal: type[Exception] | None,
    has_lease: bool,
) -> None:
    found = judge(row, LeaseKey("e-1", epoch), who)

    assert type(found.refusal) is (refusal or type(None))
    assert found.lease == (Lease("e-1", "e", "w", 2) if has_lease else None)
    assert found.reported == (3 if refusal is None else 0)
    assert not found.is_unknown


def test_a_command_that_the_store_lacks_is_unknown() -> None:
    found = judge(None, LeaseKey("e-1", 1), caller("w"))

    assert found.is_unknown
    assert isinstance(found.refusal, LeaseNotOwned)


def lease(number: int, owner: str = "w", epoch: int = 1) -> Lease:
    return Lease(f"e-{number}", "e", owner, epoch)


def test_a_known_lease_is_found_by_command_epoch_and_owner() -> None:
    known = KnownLeases()
    known.note(lease(1), "default")

    assert known.find("e-1", 1, "w") == (lease(1), "default")
    assert known.find("e-1", 2, "w") is None
    assert known.find("e-1", 1, "v") is None
    assert known.find("e-2", 1, "w") is None


def test_the_oldest_known_leases_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MAX_ENDED", 2)
    known = KnownLeases(most=3)
    for number in range(4):
        known.note(lease(number), "default")
    assert [known.find(f"e-{n}", 1, "w") is not None for n in range(4)] == [
        *(False, True, True, True)
    ]

    known.end(["e-9", "e-1", "e-2", "e-3"])
    assert [known.ended(f"e-{n}") is not None for n in range(4)] == [
        *(False, False, True, True)
    ]
    assert known.find("e-3", 1, "w") is None
    assert known.ended("e-3") == CommandRow("e", "default", 1, "w", False, 0)


class Log:
    """A log that counts the reads of its pages."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self.pages: list[tuple[int, int]] = []

    async def length(self, execution_id: str) -> int:
        return len(self._events)

    async def read(self, execution_id: str, after: int, limit: int) -> list[Event]:
        self.pages.append((after, limit))
        return list(self._events[after : after + limit])


def event(seq: int, name: str, run: str = "e-1", loop: str | None = None) -> Event:
    return Event(
        event_id=f"e.{seq}",
        execution_id="e",
        seq=seq,
        timestamp="2026-11-15T08:00:00.000000Z",
        source="worker",
        name=name,
        entity_type="step",
        parent_id=None,
        entity_id=run,
        step_run_id=run,
        iteration_id=loop,
        status="in_progress",
        payload={},
    )


async def test_a_repeated_report_is_sought_from_the_end_to_the_start_of_its_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reports, "PAGE", 2)
    names = ["step.done", "step.scheduled", "step.started", "x.y", "x.y"]
    events = [event(n, name) for n, name in enumerate(names[:3], 1)]
    events += [event(n, name, "e-2") for n, name in enumerate(names[3:], 4)]
    held = Lease("e-1", "e", "w", 1)

    log = Log(events)
    assert await reports.recall(log, held, [Fact("step.started")]) == "same"
    assert log.pages == [(3, 2), (1, 2)]

    log = Log(events)
    assert await reports.recall(log, held, [Fact("step.done")]) == "unknown"
    assert log.pages == [(3, 2), (1, 2)], "the run begins on this page"

    assert await reports.recall(Log([]), held, [Fact("step.done")]) == "unknown"


async def test_a_page_in_the_middle_of_a_run_is_not_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reports, "PAGE", 2)
    names = ["step.scheduled", "step.started", "task.started", "task.done"]
    log = Log([event(n, name) for n, name in enumerate(names, 1)])
    held = Lease("e-1", "e", "w", 1)

    assert await reports.recall(log, held, [Fact("step.started")]) == "same"
    assert log.pages == [(2, 2), (0, 2)]


async def test_reports_that_need_each_other_are_recorded_at_the_same_time() -> None:
    second = asyncio.Event()

    async def waits() -> ReportReply:
        await second.wait()
        return REPLY

    async def comes() -> ReportReply:
        second.set()
        raise LeaseLost("too late")

    async with asyncio.timeout(5):
        first, last = await reports._outcomes([waits(), comes()])
    assert first is REPLY
    assert isinstance(last, LeaseLost)


async def test_a_repeated_report_of_an_iteration_is_not_one_of_its_step() -> None:
    events = [
        event(1, "step.scheduled"),
        event(2, "step.started", loop="e-1/0"),
    ]
    facts = [Fact("step.started")]

    found = [
        await reports.recall(Log(events), Lease(name, "e", "w", 1), facts)
        for name in ("e-1/0", "e-1", "e-1/1")
    ]
    assert found == ["same", "unknown", "unknown"]


@pytest.mark.parametrize("kind", ["store.missing", "store.unavailable"])
async def test_a_report_of_a_removed_execution_is_one_without_a_lease(
    kind: str,
) -> None:
    async def judge(execution_id: str, error: Exception) -> None:
        raise StoreError(f"no {execution_id}", kind)

    fenced: list[bool] = []
    orchestrator: Any = SimpleNamespace(quarantine=SimpleNamespace(judge=judge))
    leases: Any = None
    taken = reports.WorkerReports(
        orchestrator, leases, None, lambda: fenced.append(True)
    )

    if kind == "store.missing":
        reply = await taken._blame(lease(1), ValueError("x"))
        assert (reply.stop, reply.error) == (True, ("lease.lost", "no e"))
    else:
        with pytest.raises(StoreError, match="no e"):
            await taken._blame(lease(1), ValueError("x"))
    assert fenced == [True] * (kind == "store.missing")
