"""Drawing of the net with the result of the execution, and links to the steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from noetl.engine.endings import ignored_words
from noetl.net.draw import Look, Paint
from noetl.net.draw.svg import draw_svg
from noetl.net.net import build_net
from noetl.report.fold import Record, StepCounts
from noetl.report.format import count, duration
from noetl.report.page_data import Data, PageData


def paint_steps(record: Record, steps: Iterable[str]) -> Paint:
    """Return the look and duration of every step, and the tokens of every arc."""
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
        return "flawed" if counts.is_flawed else "done"
    return "skipped" if counts.skipped else "idle"


def waiting_tokens(counts: StepCounts | None) -> int:
    """Count the tokens that a join holds back; consumed ones are not counted."""
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
    if counts.ignored:
        words.append(ignored_words(counts.ignored))
    if counts.failed:
        words.append(f"{counts.failed:,} failed" if counts.runs > 1 else "failed")
    if counts.retries:
        words.append(
            "1 retry" if counts.retries == 1 else f"{counts.retries:,} retries"
        )
    if counts.kept:
        words.append("kept" if counts.kept == counts.runs else f"{counts.kept:,} kept")
    words.append("not finished" if counts.active else duration(counts.spent))
    return " · ".join(words)


MAX_STEPS = 300


def paint_of(page: PageData) -> Paint:
    links = {step: f"#{page.anchor(step)}" for step in page.steps}
    return replace(paint_steps(page.record, page.steps), links=links)


def graph(page: PageData, paint: Paint) -> Data | None:
    """Return the section; ``svg`` is markup that escapes its own text."""
    playbook = page.playbook
    if playbook is None or not playbook.steps:
        return None
    if len(playbook.steps) > MAX_STEPS:
        return {"svg": None, "steps": len(playbook.steps)}
    return {"svg": draw_svg(build_net(playbook), paint)}
