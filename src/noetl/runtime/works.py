"""Work for a worker: a leased pipeline, and where it stands."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.engine.batch import Batch
from noetl.engine.effects import Effects
from noetl.engine.limits import limits_of
from noetl.engine.pipeline import Frame
from noetl.engine.reports import Fact, record
from noetl.engine.runs import find_progress, path_of
from noetl.ports import Lease
from noetl.runtime.live import Input, Live, Work
from noetl.runtime.planning import Planner


def make_work(
    live: Live, lease: Lease, planner: Planner, *, begun: bool = False
) -> Work:
    state = live.state
    run = state.runs[lease.command_id.split("/")[0]]
    path = path_of(lease.command_id)
    frame = Frame(
        state.execution_id,
        state.began_at,
        run.step,
        run.id,
        path,
        run.args,
        state.ctx,
        state.workload,
        limits_of(live.playbook).task_runs,
        state.trace_id,
        state.spilled,
        planner.most_lost,
    )
    progress = find_progress(run, path).copy()
    if begun:
        progress.started = False  # nobody else has begun it: it is not in doubt
    return Work(
        lease,
        live.playbook,
        frame,
        progress,
        live.secrets,
        live.about.get("source", ""),
        live.about.get("folder"),
        begun,
    )


def grant(
    live: Live,
    batch: Batch,
    effects: Effects,
    inputs: Sequence[Input],
    planner: Planner,
) -> list[Lease]:
    """Give those who reported what their reports made ready; its start is recorded.

    One append then ends a step and begins the next one.
    """
    state = batch.state
    if state.status != "running" or state.cancelling is not None:
        return []
    over = set(effects.over)
    ready = [command for command in effects.ready if command not in over]
    leases: list[Lease] = []
    for each in inputs:
        wants, answer = each.wants, each.answer
        if wants is None or answer is None or (each.lease and not answer.stop):
            continue
        command_id = next(
            (one for one in ready if _suits(live, one, each, planner)), None
        )
        if command_id is None:
            continue
        ready.remove(command_id)
        _begin(batch, command_id)
        lease = Lease(command_id, state.execution_id, wants.owner, 1)
        answer.work = make_work(live, lease, planner, begun=True)
        leases.append(lease)
    return leases


def _suits(live: Live, command_id: str, each: Input, planner: Planner) -> bool:
    """Of a local loop whoever has a part gets more. Who begins it, a claim decides."""
    if each.wants is None or planner.pool_of(live, command_id) != each.wants.pool:
        return False
    together = planner.together_of(live, command_id)
    if together is None:
        return True
    return each.lease is not None and each.lease.command_id.startswith(f"{together}/")


def _begin(batch: Batch, command_id: str) -> None:
    run, path = batch.state.runs[command_id.split("/")[0]], path_of(command_id)
    progress = find_progress(run, path)
    facts = [Fact("task.started", progress.label, progress.attempt)]
    if not path:
        facts.insert(0, Fact("step.started"))
    record(batch, run, path, facts)
