"""``…/runs``, ``…/why``, ``…/ctx``: step runs with their calls, the reasons, and what
they wrote."""

from __future__ import annotations

from typing import get_args

from noetl.api.executions import named
from noetl.api.http.problems import Problem
from noetl.api.http.routes import READ, Call, Nothing, Reply, Routes
from noetl.api.schemas.views import (
    CtxChanges,
    CtxQuery,
    IterationList,
    IterationsQuery,
    RunDetails,
    RunList,
    RunsQuery,
    RunStatus,
    WhyQuery,
)
from noetl.report.run_lines import RunLine
from noetl.report.why import Why
from noetl.service.executions.sensitive import HIDDEN
from noetl.service.executions.views.iterations import IterationQuery
from noetl.service.executions.views.runs import Position, RunFilter
from noetl.types import JSON

routes = Routes()

STATUSES: tuple[str, ...] = get_args(RunStatus)


@routes.route(
    "GET",
    "/api/executions/{execution_id}/runs",
    permission=READ,
    query=RunsQuery,
    answers={200: RunList},
    problems=("execution.unknown",),
    hides=True,
)
async def list_runs(call: Call[Nothing, RunsQuery]) -> Reply:
    """List step runs in the order of their begin, without values, at most 200 a page.

    `status` has one or more statuses: `failed,waiting`; a run is `partial` if it is
    done and errors of it were ignored or iterations failed. An empty page may have a
    `cursor`.
    """
    query, summary = call.query, named(call)
    wanted = RunFilter(query.step, _statuses(query.status))
    start = Position.read(query.cursor)
    runs, following = await call.site.runs.page(summary, wanted, start, query.limit)
    hides = not call.sees_data(summary)
    lines = [_line(each, hides=hides) for each in runs]
    cursor = None if following is None else str(following)
    return Reply(200, {"runs": lines, "cursor": cursor})


def _line(run: RunLine, *, hides: bool) -> dict[str, JSON]:
    line = run.as_json()
    if hides and line["error"] is not None:
        line["error"] = {**line["error"], "message": HIDDEN}
    return line


def _statuses(text: str | None) -> frozenset[str]:
    asked = frozenset(text.split(",")) if text else frozenset()
    unknown = sorted(asked.difference(STATUSES))
    if unknown:
        message = f"unknown status '{unknown[0][:40]}'"
        hint = f"statuses of runs: {', '.join(STATUSES)}"
        raise Problem("query.invalid", message, hint=hint, more={"parameter": "status"})
    return asked


@routes.route(
    "GET",
    "/api/executions/{execution_id}/runs/{run}",
    permission=READ,
    answers={200: RunDetails},
    problems=("execution.unknown", "run.unknown"),
)
async def show_run(call: Call[Nothing, Nothing]) -> Reply:
    """Show a step run, by its id or its number: its calls with their directives, and
    the reasons of its admission and of its arcs.

    Of a loop, the calls of iterations are left out.
    """
    return Reply(200, await call.site.runs.show(named(call), call.params["run"]))


@routes.route(
    "GET",
    "/api/executions/{execution_id}/runs/{run}/iterations",
    permission=READ,
    query=IterationsQuery,
    answers={200: IterationList},
    problems=("execution.unknown", "run.unknown"),
    hides=True,
)
async def list_iterations(call: Call[Nothing, IterationsQuery]) -> Reply:
    """Show the progress of the loop of a step run, its errors in groups, and a page of
    its iterations.

    `order` is that of the items (`index`), the latest first (`time`), or the longest
    first (`duration`); the last two end after 10,000 iterations. One call reads at most
    100,000 events: the answer says whether it is `complete`.
    """
    query = call.query
    summary, run = named(call), call.params["run"]
    wanted = IterationQuery(query.status, query.order, query.cursor, query.limit)
    hides = not call.sees_data(summary)
    return Reply(
        200, await call.site.iterations.show(summary, run, wanted, hides=hides)
    )


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
