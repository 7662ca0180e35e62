"""``…/why`` and ``…/ctx``: why an execution went as it did, and what it wrote."""

from __future__ import annotations

from noetl.api.executions import named
from noetl.api.http.problems import Problem
from noetl.api.http.routes import READ, Call, Nothing, Reply, Routes
from noetl.api.schemas.views import CtxChanges, CtxQuery, WhyQuery
from noetl.report.why import Why

routes = Routes()


@routes.route(
    "GET",
    "/api/executions/{execution_id}/why",
    permission=READ,
    query=WhyQuery,
    answers={200: Why},
    problems=("execution.unknown",),
)
async def explain(call: Call[Nothing, WhyQuery]) -> Reply:
    """Explain an event (`seq`), or the present state of a step (`step`): what was
    considered, the verdict on each, and the values that its guard read.

    The answers are those of the log; no guard is evaluated again. In a parallel loop a
    worker may have seen an earlier `ctx`. A value above 2 KiB is cut, 64 are shown.
    """
    query, summary = call.query, named(call)
    if (query.seq is None) == (query.step is None):
        message = "one of seq and step is required"
        raise Problem("query.invalid", message, more={"parameter": "seq"})
    if query.seq is not None:
        return Reply(200, await call.site.explanations.of_event(summary, query.seq))
    return Reply(200, await call.site.explanations.of_step(summary, query.step or ""))


@routes.route(
    "GET",
    "/api/executions/{execution_id}/ctx",
    permission=READ,
    query=CtxQuery,
    answers={200: CtxChanges},
    problems=("execution.unknown",),
)
async def list_ctx_changes(call: Call[Nothing, CtxQuery]) -> Reply:
    """List the changes of `ctx` between two events, with the values before and after.

    A page has at most 500 changes, or those of 20,000 events.
    """
    query, name = call.query, named(call).execution_id
    first = query.cursor or query.first or 1
    changes, following = await call.site.ctx_changes.page(name, first, query.to)
    return Reply(200, {"changes": changes, "cursor": following})
