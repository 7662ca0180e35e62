"""``/api/executions/{id}/fork`` and ``/retry``: continue from an earlier event."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated

import msgspec
from msgspec import Meta

from noetl.access.initiator import initiator_of
from noetl.access.permissions import require_somewhere
from noetl.api.control import CONTROL
from noetl.api.executions import INLINE, check_size, named, playbook_kinds, require_code
from noetl.api.http.problems import Problem
from noetl.api.http.routes import Call, Nothing, Reply, Routes
from noetl.api.schemas.executions import Name, Strict, Text
from noetl.engine.state import ExecutionStatus
from noetl.runtime.forks.plan import Edits
from noetl.service.executions.start import ResolvedPlaybook, StartInputs
from noetl.types import JSON

routes = Routes()

PROBLEMS = (
    *("execution.unknown", "execution.state", "fork.impossible", "inputs.invalid"),
    *("keychain.unresolved", "playbook.invalid", "quota.executions"),
)


class _Changes(Strict):
    """Changes of a fork.

    ``workload`` is merged over that of the origin; the names in ``ctx`` may be dotted.
    ``playbook`` is the source of a replacement.
    """

    workload: dict[str, JSON] = msgspec.field(default_factory=dict)
    ctx: dict[str, JSON] = msgspec.field(default_factory=dict)
    playbook: Text | None = None
    timeout: Annotated[float, Meta(gt=0, le=366 * 86400)] | None = None
    dry_run: bool = False


class ForkRequest(_Changes, kw_only=True):
    """Keep the events up to ``at``; ``dry_run`` returns a preview only."""

    at: Annotated[int, Meta(ge=1, le=2**31 - 1)]


class RetryRequest(_Changes, kw_only=True):
    """Repeat ``step``, by default the failed steps; ``run`` is its N-th run or the
    last."""

    step: Name | None = None
    run: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None


class ForkAnswer(msgspec.Struct):
    """``at`` is the last event kept, moved back to the end of a complete decision."""

    execution_id: str
    status: ExecutionStatus
    at: int


class Outlook(msgspec.Struct):
    """Preview: the step runs that a fork keeps, and those that it runs."""

    forked_from: dict[str, JSON]
    kept: list[dict[str, JSON]]
    again: list[dict[str, JSON]]
    next: list[dict[str, JSON]]
    workload: dict[str, JSON]
    set_ctx: dict[str, JSON]
    playbook: dict[str, JSON] | None


@routes.route(
    "POST",
    "/api/executions/{execution_id}/fork",
    permission=CONTROL,
    body=ForkRequest,
    answers={201: ForkAnswer, 200: Outlook},
    problems=PROBLEMS,
)
async def fork_execution(call: Call[ForkRequest, Nothing]) -> Reply:
    """Create an execution that continues from an event of this one.

    It keeps the events up to `at`; unfinished steps begin again. The origin remains
    unchanged, even if it is still running.
    """
    return await _fork(call, at=call.body.at)


@routes.route(
    "POST",
    "/api/executions/{execution_id}/retry",
    permission=CONTROL,
    body=RetryRequest,
    answers={201: ForkAnswer, 200: Outlook},
    problems=PROBLEMS,
)
async def retry_execution(call: Call[RetryRequest, Nothing]) -> Reply:
    """Repeat steps of a finished execution, in a new execution.

    By default the steps whose failure was not handled; or `step`, and all steps after
    it.
    """
    return await _fork(call, step=call.body.step, run=call.body.run)


async def _fork(
    call: Call[_Changes, Nothing],
    *,
    at: int | None = None,
    step: str | None = None,
    run: int | None = None,
) -> Reply:
    body, forking = call.body, call.site.forking
    newer = await _newer(call)
    edits = Edits(body.workload, body.ctx, body.timeout)
    plan = await forking.plan(
        named(call), edits, newer=newer, at=at, step=step, run=run
    )
    if body.dry_run:
        return Reply(200, await forking.preview(plan))
    digest = sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()
    asked = {**(call.caller or {}), "idempotency_key": None, "sha256": digest}
    made = await forking.begin(plan, asked, initiator_of(call.principal))
    name = made.started.execution_id
    answer = {"execution_id": name, "status": made.started.status, "at": made.at}
    return Reply(201, answer, {"Location": f"/api/executions/{name}"})


async def _newer(call: Call[_Changes, Nothing]) -> ResolvedPlaybook | None:
    """Return the replacement playbook, and check the rights that it needs."""
    text = call.body.playbook
    if text is None:
        return None
    require_somewhere(call.principal, INLINE)
    check_size(text)
    found = await call.site.starting.resolve(StartInputs(playbook=text))
    path = found.entry.about.get("path")
    call.require(INLINE, path)
    if found.entry.playbook is not None:
        require_code(call, playbook_kinds(found), path)
        origin = named(call).playbook.get("path")
        if path != origin:
            message = f"the playbook's path is '{path}', the execution's '{origin}'"
            raise Problem("fork.impossible", message)
    return found
