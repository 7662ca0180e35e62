"""``/api/executions``: list and count executions that match a filter."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from noetl.api.http.problems import Problem
from noetl.api.http.routes import READ, Call, Nothing, Reply, Routes, bad_query
from noetl.api.schemas.executions import (
    BulkRequest,
    CountQuery,
    ExecutionCounts,
    ExecutionList,
    ListQuery,
)
from noetl.dsl.labels import read_labels
from noetl.engine.state import ExecutionStatus
from noetl.engine.times import rfc3339
from noetl.ports import Summary, summary_document
from noetl.service.executions.filters import Filter
from noetl.service.executions.queries import waiting_document
from noetl.service.executions.sensitive import hide_in_line
from noetl.types import JSON

routes = Routes()


@routes.route(
    "GET",
    "/api/executions",
    permission=READ,
    query=ListQuery,
    answers={200: ExecutionList},
)
async def list_executions(call: Call[Nothing, ListQuery]) -> Reply:
    """List executions, the newest first.

    `status` may be several, such as `running,waiting`; `path` is one playbook, or
    `sales/*` for all below; `since` and `until` are times; `label` is `name=value`, and
    may be repeated: all must match. `text` is a part of the id, the playbook, a label,
    the trigger or the error. `trigger` and `caller` started it, `parent` called it, and
    with `roots` no execution did. Pass the answer's `cursor` for the next page: a page
    may have fewer than `limit` executions, or none, as one call looks at 10,000 of
    them, and at the callers of 500. With `waiting` only executions that wait are
    listed, each with its `waits`.
    """
    query, looking = call.query, call.site.looking
    wanted = filter_of(query, caller=query.caller)
    if query.waiting:
        page, waits = await looking.find_waiting(
            wanted, visible=call.sees, limit=query.limit, cursor=query.cursor
        )
        lines = [
            shown_line(call, each, waiting_document(each, waits))
            for each in page.executions
        ]
        return Reply(200, {"executions": lines, "cursor": page.cursor})
    page = await looking.find(
        wanted,
        visible=call.sees,
        readable=call.sees_data,
        limit=query.limit,
        cursor=query.cursor,
    )
    lines = [shown_line(call, each) for each in page.executions]
    return Reply(200, {"executions": lines, "cursor": page.cursor})


@routes.route(
    "GET",
    "/api/executions/counts",
    permission=READ,
    query=CountQuery,
    answers={200: ExecutionCounts},
)
async def count_executions(call: Call[Nothing, CountQuery]) -> Reply:
    """Count executions by status, and by the hour in which they began.

    The filters are those of the list, without `caller`. The newest 10,000 executions
    are looked at.
    """
    counts = await call.site.looking.count(
        filter_of(call.query), visible=call.sees, readable=call.sees_data
    )
    return Reply(200, counts)


def filter_of(query: CountQuery, caller: str | None = None) -> Filter:
    """Return the filter that a query asks for. Raises ``Problem``."""
    return Filter(
        statuses=statuses_of(query),
        path=query.path,
        since=moment(query.since),
        until=moment(query.until),
        text=query.text,
        trigger=query.trigger,
        caller=caller,
        parent=query.parent,
        roots=query.roots,
        labels=labels_of(query.label),
    )


def statuses_of(query: CountQuery | BulkRequest) -> tuple[ExecutionStatus, ...]:
    """Return the statuses that are asked for. Raises ``Problem``."""
    names = () if query.status is None else query.status.split(",")
    try:
        return msgspec.convert(names, tuple[ExecutionStatus, ...])
    except msgspec.ValidationError as error:
        raise bad_query("status", f"status: {error}", type(query)) from None


def shown_line(
    call: Call[Any, Any], summary: Summary, line: dict[str, JSON] | None = None
) -> dict[str, JSON]:
    """Return the line of a listing, as the caller may see it."""
    shown = summary_document(summary) if line is None else line
    shown |= call.site.history.describe(summary)
    return shown if call.sees_data(summary) else hide_in_line(shown)


def labels_of(texts: Sequence[str]) -> dict[str, str]:
    """Return the labels that a query asks for. Raises ``Problem``."""
    try:
        return read_labels(tuple(texts))
    except ValueError as error:
        message = f"the query is not valid: label: {error}"
        raise Problem("query.invalid", message, more={"parameter": "label"}) from None


def moment(time: datetime | None) -> str | None:
    return None if time is None else rfc3339(time.timestamp())
