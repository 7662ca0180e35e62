"""``…/graph``: the net of a playbook with its layout."""

from __future__ import annotations

from starlette.responses import Response

from noetl.api.executions import named
from noetl.api.http.quotas import keep
from noetl.api.http.responses import answer_tagged, tag_of
from noetl.api.http.routes import Call, Nothing, Routes
from noetl.api.schemas.executions import VersionQuery
from noetl.net.draw.picture import Picture
from noetl.service.executions.views.graphs import Drawing

routes = Routes()

READ = "playbooks:read"
PROBLEMS = (
    *("playbook.invalid", "ref.gone", "ref.corrupt"),
    *("request.rate", "server.busy"),
)


@routes.route(
    "GET",
    "/api/executions/{execution_id}/graph",
    permission=READ,
    answers={200: Picture, 304: None},
    problems=("execution.unknown", *PROBLEMS),
    hides=True,
)
async def show_execution_graph(call: Call[Nothing, Nothing]) -> Response:
    """Return the net of the executed playbook with its layout: the place of every step,
    the path of every arc.

    The drawing is made once for each playbook. The header `If-None-Match` with the tag
    of an earlier answer gets 304 if it has not changed.
    """
    _wait_in_turn(call)
    drawing = await call.site.graphs.of_execution(named(call).execution_id)
    return _answer(call, drawing)


@routes.route(
    "GET",
    "/api/catalog/{path:path}/-/graph",
    permission=READ,
    query=VersionQuery,
    answers={200: Picture, 304: None},
    problems=("playbook.not_found", *PROBLEMS),
)
async def show_playbook_graph(call: Call[Nothing, VersionQuery]) -> Response:
    """Return the net of a registered version with its layout; by default of the latest.

    The answer is that of the graph of an execution.
    """
    path = call.params["path"]
    if not call.allows(READ, None):
        call.require(READ, path)
    _wait_in_turn(call)
    return _answer(call, await call.site.graphs.of_version(path, call.query.version))


def _wait_in_turn(call: Call[Nothing, object]) -> None:
    """Count a drawing, which may wait for others. Raises ``Problem``."""
    keep(call.request.scope, call.site.quotas.drawings.take(call.principal.user_id))


def _answer(call: Call[Nothing, object], drawing: Drawing) -> Response:
    return answer_tagged(call, tag_of("graph", drawing.source), drawing.body)
