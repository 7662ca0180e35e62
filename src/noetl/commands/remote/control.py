"""Orders to an execution: to the process that runs it, or to its log if none does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from noetl.adapters.stores.sqlite.lock import Holder
from noetl.client import Client
from noetl.commands.logs import (
    find_execution,
    find_listener,
    open_alone,
    read_summary,
)
from noetl.commands.remote import whole_id
from noetl.commands.targets import need_own_server, server_of
from noetl.control import ask
from noetl.embedded import Embedded
from noetl.engine.runs import status_of
from noetl.errors import ConfigError
from noetl.home import Home
from noetl.ports import Summary
from noetl.types import JSON

Act = Callable[[Embedded], Awaitable[None]]


async def steer(
    execution: str, order: dict[str, JSON], act: Act, server: str | None = None
) -> dict[str, JSON]:
    """Have it done, by the server that is named or has the execution; ``act`` does it
    where no process runs it."""
    client = await server_of(server, execution)
    if client is not None:
        return send(client, whole_id(client, execution), order)
    home = Home.of()
    place = await find_execution(home, execution)
    path, summary = place.log, await read_summary(place)
    if path == home.server_log:
        return send(need_own_server(), summary.execution_id, order)
    if summary.finished_at is not None:
        raise ConfigError(f"{summary.execution_id} has ended already: {summary.status}")
    holder = await find_listener(path)
    request = {"execution_id": summary.execution_id, **order}
    if holder is not None:
        status = await _order(path, holder, request)
    else:
        status = await _act(home, path, summary, act)
    return {"execution_id": summary.execution_id, "status": status}


def send(client: Client, execution_id: str, order: dict[str, JSON]) -> dict[str, JSON]:
    body = {name: value for name, value in order.items() if name != "do"}
    path = f"/api/executions/{execution_id}/{order['do']}"
    answer: dict[str, JSON] = client.post(path, body or None)
    return answer


async def _order(path: Path, holder: Holder, request: dict[str, JSON]) -> JSON:
    if holder.socket is None:
        raise ConfigError(f"{holder} has {path} and takes no orders")
    try:
        return await ask(Path(holder.socket), request)
    except OSError as error:
        message = f"{holder} has {path} and cannot be reached: {error}"
        raise ConfigError(message) from None


async def _act(home: Home, path: Path, summary: Summary, act: Act) -> JSON:
    """Nobody runs it: open its log, as the one process that writes it."""
    runtime = Embedded(
        home,
        await open_alone(path),
        summary.playbook.get("folder"),
        execution_id=summary.execution_id,
    )
    try:
        await runtime.take_up(resume=False)
        await act(runtime)
        return status_of(runtime.orchestrator.state(summary.execution_id))
    finally:
        await runtime.close()
