"""``/api/executions/{id}/fork`` and ``/retry``: go on from an event of another one."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated

import msgspec
from msgspec import Meta

from noetl.access.initiators import initiator_of
from noetl.api.control import CONTROL
from noetl.api.executions import INLINE, check_size, named, playbook_kinds, require_code
from noetl.api.problems import Problem
from noetl.api.routing import Call, Nothing, Reply, Routes
from noetl.api.shapes import Name, Strict, Text
from noetl.engine.state import ExecutionStatus
from noetl.runtime.fork_plans import Edits
from noetl.service.starting import Asked, Found
from noetl.types import JSON

routes = Routes()

PROBLEMS = (
    *("execution.unknown", "fork.impossible", "keychain.unresolved"),
    "playbook.invalid",
)


class _Changes(Strict):
    """``workload`` is laid over that of the origin; the names of ``ctx`` may be
    dotted. A ``playbook`` is a text that takes over."""

    workload: dict[str, JSON] = msgspec.field(default_factory=dict)
    ctx: dict[str, JSON] = msgspec.field(default_factory=dict)
    playbook: Text | None = None
    timeout: Annotated[float, Meta(gt=0, le=366 * 86400)] | None = None
    dry_run: bool = False


class ForkRequest(_Changes, kw_only=True):
    """Keep the events up to ``at``; ``dry_run`` only says what would happen."""

    at: Annotated[int, Meta(ge=1, le=2**31 - 1)]


class RetryRequest(_Changes, kw_only=True):
    """Without a ``step``, those that failed; ``run`` is its N-th run, or the last."""

    step: Name | None = None
    run: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None


class ForkAnswer(msgspec.Struct):
    """``at`` is the last event that it keeps: one that is half of a decision is not."""

    execution_id: str
    status: ExecutionStatus
    at: int


class Outlook(msgspec.Struct):
    """What a fork would keep, and what it would do."""

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
    """Make a new execution that goes on from an event of this one.

    It keeps what was done up to `at`; what was under way begins again. This one stays
    as it is, also if it is still running.
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
    """Run steps of a finished execution again, in a new execution.

    Those that failed with nobody to handle it; or a step, and what came after it.
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


async def _newer(call: Call[_Changes, Nothing]) -> Found | None:
    """A text of their own, with the rights that one needs to run."""
    text = call.body.playbook
    if text is None:
        return None
    call.site.access.may(call.principal, INLINE)
    check_size(text)
    found = await call.site.starting.resolve(Asked(playbook=text))
    path = found.entry.about.get("path")
    call.require(INLINE, path)
    if found.entry.playbook is not None:
        require_code(call, playbook_kinds(found), path)
        origin = named(call).playbook.get("path")
        if path != origin:
            message = f"the playbook has the path '{path}', the execution '{origin}'"
            raise Problem("fork.impossible", message)
    return found
