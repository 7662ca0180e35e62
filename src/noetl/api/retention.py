"""``/api/retention``: removal of old executions by request."""

from __future__ import annotations

from typing import Annotated

import msgspec

from noetl.api.http.routes import Call, Nothing, Reply, Routes
from noetl.api.schemas.executions import Strict

routes = Routes()

REMOVE = "executions:remove"


class CleanRequest(Strict):
    """``older_than`` are seconds since the end of an execution."""

    older_than: Annotated[float, msgspec.Meta(ge=0, le=1e10)]
    dry_run: bool = False
    after: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 0


class CleanAnswer(msgspec.Struct):
    """``after`` is where the next request continues; null at the end."""

    dry_run: bool
    executions: int
    events: int
    after: int | None


@routes.route(
    "POST",
    "/api/retention/clean",
    permission=REMOVE,
    body=CleanRequest,
    answers={200: CleanAnswer},
    problems=("retention.busy",),
)
async def remove_old(call: Call[CleanRequest, Nothing]) -> Reply:
    """Remove executions that ended more than `older_than` seconds ago.

    Families go together; what runs, waits, was forked, or has a longer time of its own
    in its playbook stays. One request takes some seconds: repeat it with the `after` of
    the answer until that is null. With `dry_run` nothing is removed.
    """
    call.require(REMOVE, None)
    body = call.body
    call.trail.add(older_than=body.older_than, dry_run=body.dry_run)
    done = await call.site.sweeper.clean(
        body.older_than, after=body.after, dry_run=body.dry_run
    )
    return Reply(200, {"dry_run": body.dry_run, **msgspec.to_builtins(done)})
