"""Tables of `noetl sql` and of exports: columns, types and meanings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import msgspec

from noetl.engine.event_codec import event_line
from noetl.engine.execution_document import elapsed_ms
from noetl.ports import LogReader, Summary
from noetl.types import JSON


class Column(msgspec.Struct, frozen=True):
    type: str
    doc: str


class Table(msgspec.Struct, frozen=True):
    doc: str
    columns: Mapping[str, Column]


_TEXT, _JSON, _TIME = "VARCHAR", "JSON", "TIMESTAMPTZ"

EXECUTIONS = Table(
    "One row per execution.",
    {
        "execution_id": Column(_TEXT, "The execution; ids are in the order of time."),
        "status": Column(
            _TEXT,
            "running, waiting, paused, completed, failed, cancelled or quarantined.",
        ),
        "playbook": Column(_TEXT, "Name of the playbook."),
        "path": Column(_TEXT, "Its `metadata.path`."),
        "version": Column(_TEXT, "Its version, if it has one."),
        "sha256": Column(_TEXT, "Digest of the playbook that was run."),
        "started_at": Column(_TIME, "When it was requested."),
        "finished_at": Column(_TIME, "When it ended; null before."),
        "duration_ms": Column("DOUBLE", "Time from start to end."),
        "error_kind": Column(_TEXT, "Kind of the error, if it failed."),
        "error_message": Column(_TEXT, "Its message."),
        "error_step": Column(_TEXT, "The step that failed."),
        "error": Column(_JSON, "All of the error."),
        "parent_id": Column(_TEXT, "The execution that called it, if one did."),
        "forked_from": Column(_TEXT, "The execution that it is a fork of, if it is."),
        "labels": Column(_JSON, "Its labels: `labels->>'$.team'`."),
        "events": Column("BIGINT", "Number of events in its log."),
    },
)

EVENTS = Table(
    "One row per event, with the members of the envelope as columns.",
    {
        "event_id": Column(_TEXT, "`<execution_id>.<seq>`."),
        "execution_id": Column(_TEXT, "The execution."),
        "seq": Column("BIGINT", "The place in its log, from 1, without gaps."),
        "timestamp": Column(_TIME, "When it was recorded, in microseconds."),
        "source": Column(_TEXT, "server or worker."),
        "name": Column(_TEXT, "Such as `step.done`: see [Events](events.md)."),
        "entity_type": Column(_TEXT, "playbook, workflow, step, task, loop or next."),
        "entity_id": Column(_TEXT, "Id of that entity."),
        "parent_id": Column(_TEXT, "Id of the entity that contains it."),
        "status": Column(_TEXT, "in_progress, success, error, paused or skipped."),
        "step": Column(_TEXT, "The step's name."),
        "step_run_id": Column(_TEXT, "One firing of a step."),
        "iteration_id": Column(_TEXT, "One iteration of a loop."),
        "task_run_id": Column(_TEXT, "One visit of a task."),
        "task_label": Column(_TEXT, "The task's label."),
        "attempt": Column("INTEGER", "From 1; a retry counts on."),
        "action_id": Column(_TEXT, "The same for all attempts of one effect."),
        "payload": Column(_JSON, "Fields of this kind of event: `payload->>'$.on'`."),
        "trace_id": Column(_TEXT, "W3C trace id."),
        "span_id": Column(_TEXT, "W3C span id of the entity, or of the attempt."),
    },
)

RESULTS = Table(
    "One row per execution, step run and iteration that has ended, with its result. "
    "A result that a fork has kept is there twice: `WHERE NOT kept` counts it once.",
    {
        "execution_id": Column(_TEXT, "The execution."),
        "seq": Column("BIGINT", "The event that ended it."),
        "kind": Column(_TEXT, "execution, step or iteration."),
        "step": Column(_TEXT, "The step's name; null for an execution."),
        "step_run_id": Column(_TEXT, "The run of the step."),
        "iteration_id": Column(_TEXT, "The iteration, if it is one."),
        "status": Column(_TEXT, "done or failed; of an execution its status."),
        "result": Column(
            _JSON,
            "The result; a value too large for an event is its reference, as in "
            "the log.",
        ),
        "error": Column(_JSON, "Why it failed."),
        "attempts": Column("INTEGER", "The highest attempt of any of its tasks."),
        "started_at": Column(_TIME, "When it began."),
        "ended_at": Column(_TIME, "When it ended."),
        "duration_ms": Column("DOUBLE", "Time from start to end."),
        "kept": Column("BOOLEAN", "Whether it had ended before this fork began."),
    },
)

TABLES: Mapping[str, Table] = {
    "executions": EXECUTIONS,
    "events": EVENTS,
    "results": RESULTS,
}

FILL_RESULTS = """
INSERT INTO results
WITH begun AS (
  SELECT step_run_id, iteration_id, min(timestamp) AS started_at
  FROM events WHERE name IN ('step.scheduled', 'loop.iteration.started')
  GROUP BY ALL
), tried AS (
  SELECT step_run_id, iteration_id, max(attempt) AS attempts
  FROM events WHERE name = 'task.started' GROUP BY GROUPING SETS (
    (step_run_id, iteration_id), (step_run_id))
), most AS (
  SELECT step_run_id, iteration_id, max(attempts) AS attempts FROM tried GROUP BY ALL
), opened AS (
  SELECT execution_id, timestamp AS started_at FROM events WHERE seq = 1
), forked AS (
  SELECT execution_id, max(seq) AS fork, max(timestamp) AS forked_at
  FROM events WHERE name = 'workflow.forked' GROUP BY ALL
), undone AS (  -- runs of an origin that a retry does not count
  SELECT execution_id, (payload->>'$.fork.undone.last')::BIGINT AS last,
    coalesce((payload->'$.fork.undone.keep')::BIGINT[], []) AS keep,
    unnest((payload->'$.fork.undone.runs')::BIGINT[][]) AS runs
  FROM events WHERE seq = 1
), ended AS (
  SELECT e.execution_id,
    CASE WHEN e.name LIKE 'loop.%' THEN 'iteration' ELSE 'step' END AS kind,
    e.step, e.step_run_id, e.iteration_id,
    CASE WHEN e.status = 'error' THEN 'failed' ELSE 'done' END AS status,
    e.payload, most.attempts, begun.started_at, e.timestamp AS ended_at, e.seq
  FROM events AS e
  LEFT JOIN begun ON begun.step_run_id = e.step_run_id
    AND begun.iteration_id IS NOT DISTINCT FROM e.iteration_id
  LEFT JOIN most ON most.step_run_id = e.step_run_id
    AND most.iteration_id IS NOT DISTINCT FROM e.iteration_id
  WHERE e.name IN ('step.done', 'step.failed',
    'loop.iteration.done', 'loop.iteration.failed')
  UNION ALL
  SELECT e.execution_id, 'execution', NULL, NULL, NULL,
    e.payload->>'$.status', e.payload, NULL, opened.started_at, e.timestamp, e.seq
  FROM events AS e LEFT JOIN opened USING (execution_id)
  WHERE e.name = 'workflow.finished'
)
SELECT execution_id, seq, kind, step, step_run_id, iteration_id, status,
  nullif(payload->'$.result', 'null'::JSON) AS result,
  nullif(payload->'$.error', 'null'::JSON) AS error,
  attempts::INTEGER AS attempts,
  -- A run that had not ended when the fork was made began again then.
  if(seq > fork, greatest(started_at, forked_at), started_at) AS began_at, ended_at,
  epoch_us(ended_at - began_at) / 1000.0 AS duration_ms,
  coalesce(seq < fork, false) AS kept
FROM ended LEFT JOIN forked USING (execution_id)
WHERE NOT EXISTS (
  SELECT 1 FROM undone AS u
  WHERE u.execution_id = ended.execution_id AND ended.seq <= u.last
    AND regexp_extract(ended.step_run_id, '-([0-9]+)$', 1)::BIGINT
      BETWEEN u.runs[1] AND u.runs[2]
    AND NOT (ended.kind = 'iteration' AND ended.status = 'done'
      AND list_contains(u.keep,
        regexp_extract(ended.step_run_id, '-([0-9]+)$', 1)::BIGINT))
)
ORDER BY execution_id, seq
"""


PAGE = 2_000

_encode = msgspec.json.Encoder().encode


async def event_lines(
    store: LogReader, execution_id: str, last: int | None = None
) -> AsyncIterator[bytes]:
    """Yield the events up to ``last``, or to the end, a page of lines at a time.

    Each page is a transaction of its own, so that no writer is blocked for long.
    """
    after, trace = 0, ""
    while last is None or after < last:
        limit = PAGE if last is None else min(PAGE, last - after)
        events = await store.read(execution_id, after=after, limit=limit)
        if not events:
            return
        trace = trace or events[0].payload["trace_id"]
        yield b"\n".join([event_line(event, trace) for event in events]) + b"\n"
        after += len(events)


def execution_line(summary: Summary, events: int) -> bytes:
    """Encode one row of the table of executions."""
    error = summary.error or {}
    about = summary.playbook
    finished = summary.finished_at
    row: dict[str, JSON] = {
        "execution_id": summary.execution_id,
        "status": summary.status,
        "playbook": about.get("name"),
        "path": about.get("path"),
        "version": about.get("version"),
        "sha256": about.get("sha256"),
        "started_at": summary.started_at,
        "finished_at": finished,
        "duration_ms": elapsed_ms(summary.started_at, finished) if finished else None,
        "error_kind": error.get("kind"),
        "error_message": error.get("message"),
        "error_step": error.get("step"),
        "error": summary.error,
        "parent_id": summary.parent_id,
        "forked_from": (summary.forked_from or {}).get("execution_id"),
        "labels": summary.labels,
        "events": events,
    }
    return _encode(row) + b"\n"
