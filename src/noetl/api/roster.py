"""``/api/workers``: who does the work."""

from __future__ import annotations

import msgspec

from noetl.api.routing import READ, Call, Nothing, Reply, Routes
from noetl.api.shapes import Name, Strict
from noetl.engine.times import rfc3339

routes = Routes()


class OfPool(Strict):
    pool: Name | None = None


class WorkerLine(msgspec.Struct):
    """``account`` is whose token it has; ``running`` of its ``slots`` are taken.

    ``account`` and ``address`` are null for a caller whose roles are for some paths.
    """

    worker: str
    account: str | None
    pool: str
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
    query=OfPool,
    answers={200: WorkerList},
)
async def list_workers(call: Call[Nothing, OfPool]) -> Reply:
    """Workers that asked a server for work within the last hour, by pool and name.

    On a database those of all servers; what another server heard may be some seconds
    old. A server's own slots are not among them.
    """
    found = await call.site.roll.list_all()
    whole = call.allows(READ, None)
    lines = [
        {
            "worker": each.worker.partition("/")[2],
            "account": each.worker.partition("/")[0] if whole else None,
            "pool": each.pool,
            "slots": each.slots,
            "running": each.running,
            "seen_at": rfc3339(each.seen_at),
            "address": each.address if whole else None,
        }
        for each in found
        if call.query.pool in (None, each.pool)
    ]
    return Reply(200, {"workers": lines})
