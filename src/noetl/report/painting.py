"""What happened, as paint for the picture of the net: looks, notes, tokens."""

from __future__ import annotations

from collections.abc import Iterable

from noetl.net.draw.paint import Look, Paint
from noetl.report.record import Record, StepCounts
from noetl.report.words import count, duration


def paint_steps(record: Record, steps: Iterable[str]) -> Paint:
    """Of every step how it ended and how long it took; of every arc how many tokens
    it let through."""
    counts = {step: record.steps.get(step, StepCounts()) for step in steps}
    return Paint(
        looks={step: look_of(each) for step, each in counts.items()},
        notes={step: note_of(each) for step, each in counts.items()},
        fired=record.fired,
    )


def look_of(counts: StepCounts) -> Look:
    if counts.has_failed:
        return "failed"
    if counts.active or (waiting_tokens(counts) and not counts.runs):
        return "active"
    if counts.done:
        return "done"
    return "skipped" if counts.skipped else "idle"


def waiting_tokens(counts: StepCounts | None) -> int:
    """Tokens that a join holds back: what it took is not counted any more."""
    return 0 if counts is None or counts.runs or counts.skipped else counts.joined


def note_of(counts: StepCounts) -> str:
    if waiting_tokens(counts):
        return f"{count(counts.joined, 'token')} waiting"
    if not counts.runs:
        return "denied" if counts.skipped else "not reached"
    words = []
    if counts.runs > 1:
        words.append(count(counts.runs, "run"))
    if counts.iterations:
        words.append(count(counts.iterations, "iteration"))
    if counts.failed_iterations:
        words.append(f"{counts.failed_iterations:,} failed")
    if counts.failed:
        words.append(f"{counts.failed:,} failed" if counts.runs > 1 else "failed")
    if counts.retries:
        words.append(
            "1 retry" if counts.retries == 1 else f"{counts.retries:,} retries"
        )
    if counts.kept:
        words.append("kept" if counts.kept == counts.runs else f"{counts.kept:,} kept")
    words.append("not over" if counts.active else duration(counts.spent))
    return " · ".join(words)
