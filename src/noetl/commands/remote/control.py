"""Commands to an execution: sent to the process that runs it, or applied to its log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from noetl.adapters.stores.sqlite.connection import Holder
from noetl.client.http import Client
from noetl.commands.local.logs import (
    find_execution,
    find_listener,
    open_alone,
    read_summary,
)
from noetl.commands.remote.choose_server import need_own_server, server_of
from noetl.commands.remote.executions import whole_id
from noetl.config import Settings
from noetl.embedded import Embedded
from noetl.engine.state import status_of
from noetl.errors import ConfigError
from noetl.local.control_socket import ask
from noetl.local.home import Home
from noetl.ports import Summary
from noetl.types import JSON

Act = Callable[[Embedded], Awaitable[None]]


async def steer(
    settings: Settings,
    execution: str,
    order: dict[str, JSON],
    act: Act,
    server: str | None = None,
) -> dict[str, JSON]:
    """Send ``order`` to the server or process that runs the execution.

    ``act`` applies it to the log if no process runs the execution.
    """
    client = await server_of(settings, server, execution)
    if client is not None:
        return send(client, whole_id(client, execution), order)
    home = Home.of(settings)
    place = await find_execution(home, execution)
    path, summary = place.log, await read_summary(place)
    if path == home.server_log:
        return send(need_own_server(settings), summary.execution_id, order)
    if summary.finished_at is not None:
        raise ConfigError(f"{summary.execution_id} has already ended: {summary.status}")
    holder = await find_listener(path)
    request = {"execution_id": summary.execution_id, **order}
    if holder is not None:
        status = await _order(path, holder, request)
    else:
        status = await _act(settings, home, path, summary, act)
    return {"execution_id": summary.execution_id, "status": status}


def send(client: Client, execution_id: str, order: dict[str, JSON]) -> dict[str, JSON]:
    body = {name: value for name, value in order.items() if name != "do"}
    path = f"/api/executions/{execution_id}/{order['do']}"
    answer: dict[str, JSON] = client.post(path, body or None)
    return answer


async def _order(path: Path, holder: Holder, request: dict[str, JSON]) -> JSON:
    if holder.socket is None:
        raise ConfigError(f"{holder} uses {path} and takes no requests")
    try:
        return await ask(Path(holder.socket), request)
    except OSError as error:
        message = f"{holder} uses {path} and cannot be reached: {error}"
        raise ConfigError(message) from None


async def _act(
    settings: Settings, home: Home, path: Path, summary: Summary, act: Act
) -> JSON:
    """Open the log as its only writer and apply ``act``."""
    runtime = await Embedded.reopen(
        home,
        await open_alone(path),
        summary.playbook.get("folder"),
        settings,
        summary.execution_id,
    )
    try:
        await runtime.resume_from_log(resume=False)
        await act(runtime)
        return status_of(runtime.orchestrator.cache[summary.execution_id].state)
    finally:
        await runtime.close()
