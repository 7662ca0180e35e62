"""``/api/executions/{id}/cancel`` and other orders to one execution."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from noetl.access.permissions import roles_at
from noetl.api.executions import named
from noetl.api.http.routes import Call, Nothing, Reply, Routes
from noetl.api.schemas.executions import ControlAnswer, SignalRequest
from noetl.engine.events import Caller
from noetl.engine.state import ExecutionStatus
from noetl.engine.waits.signals import Sender
from noetl.service.executions.control import ExecutionControl

routes = Routes()

CONTROL = "executions:control"
PROBLEMS = ("execution.unknown", "execution.state")

Order = Callable[[ExecutionControl, str, Caller], Awaitable[ExecutionStatus]]


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
