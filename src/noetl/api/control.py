"""``/api/executions/{id}/cancel`` and other orders, also to many executions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from noetl.access.permissions import roles_at
from noetl.api.executions import moment, named
from noetl.api.http.problems import Problem
from noetl.api.http.routes import Call, Nothing, Reply, Routes
from noetl.api.schemas.executions import (
    BulkAnswer,
    BulkRequest,
    ControlAnswer,
    SignalRequest,
)
from noetl.engine.events import Caller
from noetl.engine.state import ExecutionStatus
from noetl.engine.waits.signals import Sender
from noetl.service.errors import RequestRefused
from noetl.service.executions.control import ExecutionControl
from noetl.service.executions.queries import Filter
from noetl.types import JSON

routes = Routes()

CONTROL = "executions:control"
PROBLEMS = ("execution.unknown", "execution.state")

Order = Callable[[ExecutionControl, str, Caller], Awaitable[ExecutionStatus]]
ORDERS: Mapping[str, Order] = {
    "cancel": ExecutionControl.cancel,
    "pause": ExecutionControl.pause,
    "resume": ExecutionControl.resume,
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
    """Cancel, pause or resume all executions that match the filters.

    At most `limit` of them, the newest first; `more` is true if others match.
    """
    body = call.body
    call.trail.add(order=body.action, status=body.status, path=body.path)
    if body.status is None and body.path is None and body.since is None:
        message = "at least one of status, path and since is required"
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
            except RequestRefused as refusal:
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
    """Cancel an execution and its children: tools are stopped. Repeating it is
    harmless."""
    return await _steer(call, ExecutionControl.cancel)


@routes.route(
    "POST",
    "/api/executions/{execution_id}/pause",
    permission=CONTROL,
    answers={200: ControlAnswer},
    problems=PROBLEMS,
)
async def pause_execution(call: Call[Nothing, Nothing]) -> Reply:
    """Pause an execution and its children: running tasks finish, no new task starts."""
    return await _steer(call, ExecutionControl.pause)


@routes.route(
    "POST",
    "/api/executions/{execution_id}/resume",
    permission=CONTROL,
    answers={200: ControlAnswer},
    problems=(*PROBLEMS, "execution.quarantined"),
)
async def resume_execution(call: Call[Nothing, Nothing]) -> Reply:
    """Resume an execution and its children.

    A quarantined execution is released if its log can be read again.
    """
    return await _steer(call, ExecutionControl.resume)


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
    """Send a signal; a task of the kind `wait` receives it, now or later.

    A signal is refused, and not recorded, if its data do not fit the task's `schema`
    (`problems` lists the reasons), if the sender has none of the task's `roles`, or if
    no task can receive it any more. `waits` lists the waits of the execution.
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
