"""``/api/executions/{id}/cancel`` and the other orders; one to many at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from noetl.access.principal import roles_at
from noetl.api.executions import moment, named
from noetl.api.problems import Problem
from noetl.api.routing import Call, Nothing, Reply, Routes
from noetl.api.shapes import BulkAnswer, BulkRequest, ControlAnswer, SignalRequest
from noetl.engine.callers import Caller
from noetl.engine.signals import Sender
from noetl.engine.state import ExecutionStatus
from noetl.service.looking import Filter
from noetl.service.refusal import Refusal
from noetl.service.steering import Steering
from noetl.types import JSON

routes = Routes()

CONTROL = "executions:control"
PROBLEMS = ("execution.unknown", "execution.state")

Order = Callable[[Steering, str, Caller], Awaitable[ExecutionStatus]]
ORDERS: Mapping[str, Order] = {
    "cancel": Steering.cancel,
    "pause": Steering.pause,
    "resume": Steering.resume,
}
FITTING: Mapping[str, tuple[ExecutionStatus, ...]] = {
    "cancel": ("running", "waiting", "paused"),
    "pause": ("running", "waiting"),
    "resume": ("paused", "quarantined"),
}


@routes.route(
    "POST",
    "/api/executions/bulk",
    permission=CONTROL,
    body=BulkRequest,
    answers={200: BulkAnswer},
)
async def steer_many(call: Call[BulkRequest, Nothing]) -> Reply:
    """Cancel, pause or resume all executions that fit the filters.

    At most `limit` of them, the newest first; `more` says that there are others.
    """
    body = call.body
    call.trail.add(order=body.action, status=body.status, path=body.path)
    if body.status is None and body.path is None and body.since is None:
        message = "at least one of status, path and since is needed"
        raise Problem("request.invalid", message)
    statuses = FITTING[body.action]
    if body.status is not None:
        statuses = (body.status,)
    done: list[JSON] = []
    refused: list[JSON] = []
    more = False
    for status in statuses:
        wanted = Filter(status=status, path=body.path, since=moment(body.since))
        left = body.limit - len(done) - len(refused)
        page = await call.site.looking.find(
            wanted,
            visible=lambda each: call.allows(CONTROL, each.playbook.get("path")),
            limit=left,
        )
        more = more or page.cursor is not None
        for each in page.executions:
            line = {"execution_id": each.execution_id, "status": each.status}
            try:
                line["status"] = await ORDERS[body.action](
                    call.site.steering, each.execution_id, call.caller
                )
                done.append(line)
            except Refusal as refusal:
                refused.append({**line, "status": refusal.more["state"]})
    return Reply(200, {"done": done, "refused": refused, "more": more})


@routes.route(
    "POST",
    "/api/executions/{execution_id}/cancel",
    permission=CONTROL,
    answers={200: ControlAnswer},
    problems=PROBLEMS,
)
async def cancel_execution(call: Call[Nothing, Nothing]) -> Reply:
    """Cancel it and its children: tools are stopped. A second time changes nothing."""
    return await _steer(call, Steering.cancel)


@routes.route(
    "POST",
    "/api/executions/{execution_id}/pause",
    permission=CONTROL,
    answers={200: ControlAnswer},
    problems=PROBLEMS,
)
async def pause_execution(call: Call[Nothing, Nothing]) -> Reply:
    """Pause it and its children: what runs is finished, nothing new starts."""
    return await _steer(call, Steering.pause)


@routes.route(
    "POST",
    "/api/executions/{execution_id}/resume",
    permission=CONTROL,
    answers={200: ControlAnswer},
    problems=(*PROBLEMS, "execution.quarantined"),
)
async def resume_execution(call: Call[Nothing, Nothing]) -> Reply:
    """Go on with it and its children, as if they had never been paused.

    What was set aside because of a defect is taken back, if it can be read again.
    """
    return await _steer(call, Steering.resume)


@routes.route(
    "POST",
    "/api/executions/{execution_id}/signal",
    permission=CONTROL,
    body=SignalRequest,
    answers={200: ControlAnswer},
    problems=(*PROBLEMS, "signal.invalid", "signal.unknown"),
    recorded="log",
)
async def signal_execution(call: Call[SignalRequest, Nothing]) -> Reply:
    """Send it a signal; a task of the kind `wait` takes it, now or later.

    It is refused, and not recorded, if its data do not fit the task's `schema`
    (`problems` lists why), if whoever sends it has none of the task's `roles`, or if
    nothing can take it any more. `waits` is what the execution waits for.
    """
    name, data = call.body.name, call.body.data
    roles = roles_at(call.principal, named(call).playbook.get("path"))
    sender = Sender(call.principal.name, sorted(roles))
    return await _steer(
        call,
        lambda steering, who, caller: steering.signal(who, name, data, sender, caller),
    )


async def _steer(call: Call[object, object], order: Order) -> Reply:
    execution_id = named(call).execution_id
    status = await order(call.site.steering, execution_id, call.caller)
    return Reply(200, {"execution_id": execution_id, "status": status})
