"""Export to an OTLP collector over HTTP: traces, and task logs as log records."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from noetl import __version__
from noetl.adapters.exports.http import Receiver
from noetl.engine.ids import span_id_of, trace_id_of
from noetl.ports import ExportedExecution
from noetl.ports.task_logs import StoredChunk
from noetl.telemetry.otlp import (
    Record,
    encode_logs,
    encode_spans,
    log_record,
    span_record,
)
from noetl.telemetry.span import Value
from noetl.telemetry.spans import Spans

log = logging.getLogger("noetl.exports")

MAX_RECORDS = 2_000
"""Spans or log records of one request."""
MAX_LOG_CHARS = 1024**2
"""Characters of log lines after which a request is sent."""
_JSON = "application/json"


class _Rejection(msgspec.Struct, rename="camel"):
    rejected_spans: int | str = 0
    rejected_log_records: int | str = 0
    error_message: str = ""


class _Answer(msgspec.Struct, rename="camel"):
    partial_success: _Rejection | None = None


class OtlpExport:
    """Sends spans, and log records if ``signals`` has them.

    An execution is folded page by page; a request holds spans of several executions.
    """

    name = "otlp"

    def __init__(
        self, receiver: Receiver, signals: Collection[str], service: str = "noetl"
    ) -> None:
        self._receiver = receiver
        self._signals = signals
        self._resource = {"service.name": service, "service.version": __version__}

    async def take(self, executions: Sequence[ExportedExecution]) -> int:
        spans: list[Record] = []
        lines: list[Record] = []
        events, chars = 0, 0
        for each in executions:
            hides = each.summary.playbook.get("sensitive") is True
            trace_id = trace_id_of(each.summary.execution_id)
            fold = Spans(hides=hides)
            async for page in each.pages():
                events += len(page)
                if page[0].seq == 1:
                    trace_id = page[0].payload["trace_id"]
                spans += map(span_record, fold.take(page))
                while len(spans) >= MAX_RECORDS:
                    await self._send_spans(spans[:MAX_RECORDS])
                    del spans[:MAX_RECORDS]
            if hides or "logs" not in self._signals:
                continue
            async for chunks in each.logs():
                for stored in chunks:
                    chars += sum(len(text.text) for text in stored.chunk.texts)
                    lines += records_of(stored, trace_id)
                    if len(lines) >= MAX_RECORDS or chars >= MAX_LOG_CHARS:
                        await self._send_logs(lines)
                        lines, chars = [], 0
        await self._send_spans(spans)
        await self._send_logs(lines)
        return events

    async def _send_spans(self, spans: Sequence[Record]) -> None:
        if spans and "traces" in self._signals:
            body = encode_spans(spans, self._resource)
            _warn(await self._receiver.post("/v1/traces", body, _JSON))

    async def _send_logs(self, lines: Sequence[Record]) -> None:
        if lines:
            body = encode_logs(lines, self._resource)
            _warn(await self._receiver.post("/v1/logs", body, _JSON))

    async def close(self) -> None:
        await self._receiver.close()


def records_of(stored: StoredChunk, trace_id: str) -> Iterator[Record]:
    """Yield a log record for each line of a chunk.

    ``log.record.uid`` is the same in each export: receivers that know it keep a record
    once.
    """
    source = stored.chunk.source
    span_id = span_id_of(source.task_run_id, source.attempt)
    uid = f"{source.task_run_id}#{source.attempt}.{source.epoch}:{stored.chunk.part}"
    about: Mapping[str, Value] = {
        "noetl.execution_id": source.execution_id,
        "noetl.step": source.step,
        "noetl.task": source.task,
        "noetl.attempt": source.attempt,
        "noetl.iteration": source.iteration,
    }
    number = 0
    for text in stored.chunk.texts:
        level = text.level or ("error" if text.stream == "stderr" else "info")
        for line in text.text.split("\n"):
            number += 1
            own = {"log.iostream": text.stream, "log.record.uid": f"{uid}.{number}"}
            yield log_record(
                line, text.time, level, trace_id, span_id, {**about, **own}
            )


def _warn(answer: bytes) -> None:
    """Log what a collector has rejected: it must not be sent again (OTLP)."""
    try:
        found = msgspec.json.decode(answer or b"{}", type=_Answer).partial_success
    except msgspec.DecodeError:
        return
    if found is None:
        return
    count = int(found.rejected_spans) + int(found.rejected_log_records)
    if count or found.error_message:
        message = found.error_message[:300]
        log.warning("the collector rejected %d records: %s", count, message)
