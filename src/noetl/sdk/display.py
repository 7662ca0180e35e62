"""HTML of an execution for notebooks: its steps on a time axis, within bounds."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import msgspec

from noetl.dsl.node import shorten
from noetl.engine.execution_document import StepLine
from noetl.engine.times import seconds_of
from noetl.report.format import duration
from noetl.types import JSON

MAX_STEPS = 200
_COLOURS = {"done": "#1a7f5a", "failed": "#c2410c", "skipped": "#7a7a7a"}
_OTHER = "#2563a8"


def html_of(document: Mapping[str, JSON]) -> str:
    """Return a heading with the status, and one row for each run of a step."""
    steps = msgspec.convert(document.get("steps") or [], list[StepLine])
    name = (document.get("playbook") or {}).get("path") or "playbook"
    took = document.get("duration_ms")
    head = [str(name), str(document["status"])]
    if took is not None:
        head.append(duration(took / 1000))
    rows = [_row(step, document) for step in steps[:MAX_STEPS]]
    if len(steps) > MAX_STEPS:
        rows.append(f"<tr><td colspan=4>… {len(steps) - MAX_STEPS} more</td></tr>")
    error = document.get("error")
    said = f"<p>{escape(_words(error))}</p>" if error else ""
    return (
        f"<div><p><b>{escape(' · '.join(head))}</b> "
        f"<code>{escape(str(document['execution_id']))}</code></p>{said}"
        f"<table>{''.join(rows)}</table></div>"
    )


def _row(step: StepLine, document: Mapping[str, JSON]) -> str:
    colour = _COLOURS.get(step.status, _OTHER)
    took = "" if step.duration_ms is None else duration(step.duration_ms / 1000)
    left, width = _place(step, document)
    bar = (
        '<div style="width:240px;background:#8882">'
        f'<div style="margin-left:{left:.1f}%;width:{width:.1f}%;height:10px;'
        f'background:{colour}"></div></div>'
    )
    cells = (escape(shorten(step.step)), escape(step.status), bar, escape(took))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _place(step: StepLine, document: Mapping[str, JSON]) -> tuple[float, float]:
    """Return the bar's begin and width in percent of the execution."""
    began, whole = document.get("started_at"), document.get("duration_ms")
    if not whole or began is None or step.started_at is None:
        return 0.0, 1.0
    offset = (seconds_of(step.started_at) - seconds_of(began)) * 1000
    left = min(max(offset / whole * 100, 0.0), 99.0)
    width = (step.duration_ms or 0.0) / whole * 100
    return left, min(max(width, 1.0), 100.0 - left)


def _words(error: Mapping[str, JSON]) -> str:
    return shorten(f"{error.get('kind')}: {error.get('message')}")
