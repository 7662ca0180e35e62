"""``/api/workers`` and ``/api/pools``: the workers of a server."""

from __future__ import annotations

import msgspec

from noetl.api.http.routes import READ, Call, Nothing, Reply, Routes
from noetl.api.schemas.executions import Name, Strict
from noetl.engine.times import rfc3339
from noetl.runtime.worker_protocol.worker_registry import PoolLine

routes = Routes()


class PoolFilter(Strict):
    pool: Name | None = None


class WorkerLine(msgspec.Struct):
    """A worker; ``running`` of its ``slots`` are in use.

    ``code`` is True if the server lets its pool run code (setting `pools.code`).
    ``account`` is the account of its token; ``account`` and ``address`` are null for a
    caller whose roles are limited to paths.
    """

    worker: str
    account: str | None
    pool: str
    code: bool
    slots: int
    running: int
    seen_at: str
    address: str | None


class WorkerList(msgspec.Struct):
    workers: list[WorkerLine]


@routes.route(
    "GET",
    "/api/workers",
    permission="workers:read",
    query=PoolFilter,
    answers={200: WorkerList},
)
async def list_workers(call: Call[Nothing, PoolFilter]) -> Reply:
    """List workers that asked for work within the last hour, by pool and name.

    On a database the list covers all servers; records of other servers may be some
    seconds old. A server's own slots are not listed.
    """
    found = await call.site.roll.list_all()
    whole = call.allows(READ, None)
    lines = [
        {
            "worker": each.worker.partition("/")[2],
            "account": each.worker.partition("/")[0] if whole else None,
            "pool": each.pool,
            "code": call.site.runs_code(each.pool),
            "slots": each.slots,
            "running": each.running,
            "seen_at": rfc3339(each.seen_at),
            "address": each.address if whole else None,
        }
        for each in found
        if call.query.pool in (None, each.pool)
    ]
    return Reply(200, {"workers": lines})


class PoolList(msgspec.Struct):
    pools: list[PoolLine]


@routes.route("GET", "/api/pools", permission="workers:read", answers={200: PoolList})
async def list_pools(call: Call[Nothing, Nothing]) -> Reply:
    """List pools with the commands that are ready, delayed and leased in each, and its
    workers.

    The answer may be a second old; at most 20,000 delayed commands are counted. The
    slots of the server itself belong to no worker.
    """
    return Reply(200, {"pools": await call.site.pools.list_all()})
