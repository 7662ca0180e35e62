"""The head of an execution: what its page shows first, whatever the log's length."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from noetl.engine.runs import run_of
from noetl.ports import ExecutionIndex, Summary
from noetl.report.tally import COUNTERS, OpenWait, Tally, look_of
from noetl.service.executions.sensitive import HIDDEN
from noetl.service.executions.views.tallies import LogTallies
from noetl.types import JSON

MAX_WAITS = 20
MAX_FORKS = 20
MAX_SCANNED = 1_000
"""Newest lines of the index that are read at first, and forks that are remembered."""
LINES = 100
"""Lines of the index that are read at once."""
_RUNS = ("ready", "running", "waiting", "done", "failed")
_KINDS = {"delay": "timer", "limit": "timer", "playbook": "child"}
Visible = Callable[[Summary], bool]


class Heads:
    """Reads the tally of a log, and the lines of its forks."""

    def __init__(self, index: ExecutionIndex, tallies: LogTallies) -> None:
        self._forks = ForkIndex(index)
        self._tallies = tallies

    async def show(
        self, summary: Summary, visible: Visible, *, hides: bool
    ) -> dict[str, JSON]:
        """Return the head without its line and rights; with ``hides`` without data."""
        aside = summary.status == "quarantined"
        forks = await self._forks.of(summary.execution_id, visible)
        folded = await self._tallies.latest(summary.execution_id, is_damaged=aside)
        tally = folded.tally
        playbook = tally.playbook
        return {
            "execution_id": summary.execution_id,
            "last_seq": tally.seq,
            "ended": tally.ended,
            "defect": _defect(summary, tally, hides=hides) if aside else None,
            "failure": _failure(tally, hides=hides),
            "steps": {
                step: _counts(counters, has_ended=tally.ended)
                for step, counters in tally.steps.items()
            },
            "waits": list(islice(_waits(tally, hides=hides), MAX_WAITS)),
            "waits_total": sum(1 for _ in _waits(tally, hides=hides)),
            "parent": _parent(tally),
            "forked_from": tally.origin,
            "forks": forks,
            "children_total": tally.children,
            "digest": playbook.get("sha256"),
            "playbook": _named(playbook) if playbook else None,
        }


class ForkIndex:
    """Forks by their origins, among the newest executions.

    An execution is read once: a request reads those that have begun since the last one.
    """

    def __init__(self, index: ExecutionIndex) -> None:
        self._index = index
        self._newest = ""
        self._known: OrderedDict[str, Summary] = OrderedDict()

    async def of(self, execution_id: str, visible: Visible) -> list[str]:
        """Return the visible forks of an execution, the newest first."""
        await self._read()
        return [
            each.execution_id
            for each in reversed(self._known.values())
            if (each.forked_from or {}).get("execution_id") == execution_id
            and visible(each)
        ][:MAX_FORKS]

    async def _read(self) -> None:
        before, newest, latest, seen = None, self._newest, self._newest, 0
        while seen < MAX_SCANNED:
            lines = await self._index.find(before=before, limit=LINES)
            for each in lines:
                latest = max(latest, each.execution_id)
                if each.forked_from is not None:
                    self._known[each.execution_id] = each
            seen += len(lines)
            if len(lines) < LINES or lines[-1].execution_id <= newest:
                break
            before = lines[-1].execution_id
        self._newest = latest
        ordered = sorted(self._known.items())[-MAX_SCANNED:]
        self._known = OrderedDict(ordered)


def _named(playbook: dict[str, JSON]) -> dict[str, JSON]:
    return {name: playbook.get(name) for name in ("path", "version")}


def _defect(summary: Summary, tally: Tally, *, hides: bool) -> dict[str, JSON]:
    error = summary.error or {}
    found = {name: str(error.get(name, "")) for name in ("kind", "message")}
    if hides:
        found["message"] = HIDDEN
    return {**found, "seq": tally.seq}


def _failure(tally: Tally, *, hides: bool) -> dict[str, JSON] | None:
    for failure in tally.failures.values():
        found: dict[str, JSON] = msgspec.to_builtins(failure)
        return {**found, "message": HIDDEN} if hides else found
    return None


def _counts(counters: list[int], *, has_ended: bool) -> dict[str, JSON]:
    it = dict(zip(COUNTERS, counters, strict=True))
    loops = {
        "total": it.pop("loop_total"),
        "done": it.pop("loop_done"),
        "failed": it.pop("loop_failed"),
        "in_flight": it.pop("loop_running"),
    }
    runs, status = (
        sum(it[name] for name in _RUNS),
        look_of(counters, has_ended=has_ended),
    )
    return {
        "status": status,
        "runs": runs,
        **it,
        "loops": loops if any(loops.values()) else None,
    }


def _waits(tally: Tally, *, hides: bool) -> Iterator[dict[str, JSON]]:
    """Yield what the execution waits for as a whole, then its pipelines."""
    if tally.paused_at is not None:
        yield _wait("pause", None, tally.paused_at)
    if tally.queued is not None:
        yield _wait("place", None if hides else tally.key, tally.queued)
    for wait in tally.waits.values():
        yield _pipeline_wait(wait, hides=hides)


def _wait(kind: str, name: str | None, since: str) -> dict[str, JSON]:
    nothing = dict.fromkeys(("step", "task", "until", "detail", "run"))
    return {**nothing, "kind": kind, "name": name, "since": since}


def _pipeline_wait(wait: OpenWait, *, hides: bool) -> dict[str, JSON]:
    return {
        "step": wait.step,
        "task": wait.task,
        "kind": _KINDS.get(wait.on, wait.on),
        "name": None if hides else wait.name,
        "until": wait.until,
        "since": wait.since,
        "detail": None if hides else wait.detail,
        "run": wait.run,
    }


def _parent(tally: Tally) -> dict[str, JSON] | None:
    if tally.parent is None:
        return None
    command = tally.parent.get("command_id")
    return {
        "execution_id": tally.parent["execution_id"],
        "run": None if command is None else run_of(str(command)),
    }
