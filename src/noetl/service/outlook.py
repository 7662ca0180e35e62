"""What a fork would keep, and what it would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from noetl.engine.context import is_equal
from noetl.engine.document import Document
from noetl.engine.events import Event
from noetl.engine.forking import Fork
from noetl.engine.runs import pipelines
from noetl.engine.state import LoopState, Run, State
from noetl.runtime.fork_plans import Plan
from noetl.runtime.live import PAGE
from noetl.runtime.origins import Log
from noetl.types import JSON


class Outlook:
    """Told the events of the origin; those that are kept count."""

    def __init__(self, fork: Fork, state: State) -> None:
        self._fork = fork
        self._state = state
        self._document = Document()

    def recall(self, events: Sequence[Event]) -> None:
        self._document.note([e for e in events if e.seq <= self._fork.seq])

    def as_json(self) -> dict[str, JSON]:
        fork, state = self._fork, self._state
        kept = Counter(
            (each.step, each.status)
            for each in self._document.steps
            if each.status in ("done", "failed", "skipped")
            and each.step_run_id not in fork.again
        )
        return {
            "forked_from": {"execution_id": fork.origin, "seq": fork.seq},
            "kept": [
                {"step": step, "status": status, "runs": count}
                for (step, status), count in kept.items()
            ],
            "again": [_under_way(run) for run in state.runs.values()],
            "next": [
                {"step": token.step, "args": token.args}
                for token in state.tokens.values()
            ]
            + [{"step": step, "args": {}} for step in state.joining]
            + [
                {"step": token["step"], "args": token["args"]}
                for token in fork.again.values()
            ],
            "workload": self._changes(),
            "set_ctx": fork.set_ctx,
            "playbook": fork.playbook if fork.newer else None,
        }

    def _changes(self) -> dict[str, JSON]:
        """Inputs that will not be what they were."""
        before, after = self._state.workload, self._fork.workload or {}
        return {
            key: value
            for key, value in after.items()
            if key not in before or not is_equal(before[key], value)
        }


async def look_ahead(plan: Plan, log: Log) -> dict[str, JSON]:
    """What it would keep, and what it would do."""
    outlook, after = Outlook(plan.fork, plan.point.state), 0
    while page := await log.read(plan.fork.origin, after=after, limit=PAGE):
        outlook.recall(page)
        after = page[-1].seq
    return outlook.as_json()


def _under_way(run: Run) -> dict[str, JSON]:
    labels = [progress.label for _, progress in pipelines(run)]
    return {
        "step": run.step,
        "step_run_id": run.id,
        "task": labels[0] if run.loop is None else None,
        "iterations": _iterations(run.loop) if run.loop is not None else None,
    }


def _iterations(loop: LoopState) -> dict[str, JSON]:
    """Of the outermost loop: those that are over are kept."""
    over = loop.done + loop.failed
    return {"total": loop.total, "kept": over, "again": len(loop.open)}
