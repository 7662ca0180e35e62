"""``/api/executions/{id}/results`` and ``/api/results/{ref}``: stored values."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from noetl.api.executions import named
from noetl.api.http.problems import Problem
from noetl.api.http.responses import BYTES, send_file
from noetl.api.http.routes import READ, Call, Nothing, Reply, Routes, find_execution
from noetl.api.schemas.executions import Limit, Name, Seq, Strict
from noetl.service.executions.filters import Filter
from noetl.service.executions.result_rows import MAX_ROWS, RowPage
from noetl.service.executions.results import Ref, Stored, line_of, no_result, owner_of

routes = Routes()

MAX_SEARCHED = 200
"""Executions that are searched for a result if the request names none."""

_KEY = re.compile(r"(?:sha256:)?([0-9a-f]{64})(?::(.*))?", re.DOTALL)
_LOOP = re.compile(r"log:[0-9A-Za-z-]{1,80}(?:/[0-9]{1,9}){0,16}")
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_MEDIA = {"csv": "text/csv", "ndjson": "application/x-ndjson", "parquet": BYTES}


class ResultsQuery(Strict):
    after: Seq = 0
    limit: Limit = 500


class ResultLine(msgspec.Struct):
    """A stored value that an event references; ``path`` is the place in its payload."""

    key: str
    size: int
    checksum: str | None
    schema_hint: str | None
    seq: int
    event: str
    step: str | None
    task: str | None
    iteration_id: str | None
    path: str


class ResultList(msgspec.Struct):
    """A page of results; ``cursor`` is the next value of ``after``, null at the end."""

    results: list[ResultLine]
    cursor: int | None


class ResultQuery(Strict):
    execution_id: Name | None = None


@routes.route(
    "GET",
    "/api/executions/{execution_id}/results",
    permission=READ,
    query=ResultsQuery,
    answers={200: ResultList},
    problems=("execution.unknown",),
)
async def list_results(call: Call[Nothing, ResultsQuery]) -> Reply:
    """List the values that an execution stored beside its log.

    `after` is the number of an event. A key is listed once per page.
    """
    query, name = call.query, named(call).execution_id
    found, cursor = await call.site.results.named(
        name, after=query.after, limit=query.limit
    )
    return Reply(200, {"results": [line_of(each) for each in found], "cursor": cursor})


class RowsQuery(ResultQuery):
    offset: Annotated[int, Meta(ge=0, le=10**12)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_ROWS)] = MAX_ROWS


@routes.route(
    "GET",
    "/api/results/{ref:path}/rows",
    permission=READ,
    query=RowsQuery,
    answers={200: RowPage},
    problems=(
        *("execution.unknown", "ref.not_found", "ref.rows"),
        *("ref.gone", "ref.corrupt"),
    ),
)
async def list_rows(call: Call[Nothing, RowsQuery]) -> Reply:
    """Return rows of a stored table: CSV, JSON lines, or a list.

    At most 200 rows of 64 columns; a cell above 1 KB is `{"$cut": BYTES, "head":
    TEXT}`. `total` is null until the end of the file was seen. One call looks through
    256 MB: `complete` is false if another one must continue. A list in JSON has at most
    16 MB.
    """
    ref = _read_ref(call.params["ref"])
    if ref.range is not None:
        raise no_result(call.params["ref"])
    stored = await _find(call, ref.key)
    query = call.query
    page = await call.site.results.rows(stored, offset=query.offset, limit=query.limit)
    return Reply(200, page)


@routes.route(
    "GET",
    "/api/results/{ref:path}",
    permission=READ,
    query=ResultQuery,
    answers={200: None, 206: None},
    problems=(
        *("execution.unknown", "ref.not_found", "ref.range"),
        *("ref.gone", "ref.corrupt"),
    ),
    media=("application/json", BYTES),
)
async def show_result(call: Call[Nothing, ResultQuery]) -> Response:
    """Return a stored value; its bytes are verified before the first is sent.

    `ref` is a key, or `KEY:FIRST-LAST` for a part; the header `Range` selects a part,
    too. `execution_id` names the owner; without it the newest executions that the
    caller may see are searched. The results of a loop (`log:…`) are JSON.
    """
    ref = _read_ref(call.params["ref"])
    stored = await _find(call, ref.key)
    if owner_of(ref.key) is not None:
        body = await call.site.results.collected(stored)
        return Response(body, media_type="application/json")
    media = _MEDIA.get(stored.hint or "", "application/json")
    wanted = _asked_range(call) if ref.range is None else None
    opened = call.site.results.file(stored)
    return await send_file(opened, media, lambda size: _span(ref, wanted, size))


def _read_ref(text: str) -> Ref:
    if found := _KEY.fullmatch(text):
        return Ref(found[1], found[2])
    if _LOOP.fullmatch(text):
        return Ref(text)
    raise no_result(text)


async def _find(call: Call[Nothing, Any], key: str) -> Stored:
    results, owner = call.site.results, call.query.execution_id or owner_of(key)
    if owner is None:
        page = await call.site.looking.find(
            Filter(), visible=call.sees_data, limit=MAX_SEARCHED
        )
        return await results.find(key, [each.execution_id for each in page.executions])
    summary = await find_execution(call.site, call.principal, READ, owner)
    return await results.find(key, [summary.execution_id])


def _asked_range(call: Call[Nothing, ResultQuery]) -> tuple[str, str] | None:
    """Return the byte range of the request; None for any other Range header."""
    found = _RANGE.fullmatch(call.request.headers.get("range", ""))
    return (found[1], found[2]) if found and (found[1] or found[2]) else None


def _span(
    ref: Ref, wanted: tuple[str, str] | None, size: int
) -> tuple[int, int] | None:
    """Return the first byte and the length; None for the whole value."""
    if wanted is None:
        return ref.span(size) if ref.range is not None else None
    first, last = wanted
    start = int(first) if first else max(size - int(last), 0)
    end = min(int(last), size - 1) if first and last else size - 1
    if start > end:
        raise Problem("ref.range", f"the range is not within {size:,} bytes")
    return start, end - start + 1
