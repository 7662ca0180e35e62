"""Timeline of the runs of steps, with attempts and iterations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from math import floor, isnan, log10

from noetl.report.format import count, duration
from noetl.report.page_data import Data, PageData
from noetl.report.runs import Call, Iterations, StepRun

HEIGHT = 22
TALL = 34
LANES = 6
SEPARATE = 60
"""Iterations that are drawn one by one; above it, only the number in flight is."""
BUCKETS = 160
QUEUED_S = 0.1
"""Seconds in the queue from which a run has a dashed bar."""


class _Scale:
    """Moments as fractions of the width."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.span = max(end - start, 1e-6)
        self.end = start + self.span

    def at(self, moment: float) -> float:
        share = (moment - self.start) / self.span
        return 100 * min(1.0, max(0.0, share))

    def ticks(self) -> Iterator[float]:
        """Return offsets at round numbers, about six of them."""
        raw = self.span / 6
        power = 10 ** floor(log10(raw))
        step = next(power * each for each in (1, 2, 5, 10) if power * each >= raw)
        number = 0
        while number * step <= self.span * 1.0001:
            yield number * step
            number += 1


def timeline(page: PageData) -> Data | None:
    record = page.record
    if not record.runs.count:
        return None
    scale = _Scale(record.started, record.ended)
    marks = [(scale.at(scale.start + tick), tick) for tick in scale.ticks()]
    shown = [run for _, run in record.runs.parts() if run is not None]
    return {
        "has_queue": any(_queued(run) is not None for run in shown),
        "ticks": [
            {"x": _percent(at), "words": duration(tick) if tick else "0"}
            for at, tick in marks
            if at < 96
        ],
        "grid": [_percent(at) for at, _ in marks],
        "rows": [
            {"gap": f"… {count(number, 'run')} not shown"}
            if run is None
            else _row(page, run, scale)
            for number, run in record.runs.parts()
        ],
    }


def _row(page: PageData, run: StepRun, scale: _Scale) -> Data:
    began = run.started if _queued(run) is None else run.queued_until
    took = None if run.ended is None or began is None else run.ended - began
    words = "denied" if run.is_skipped else duration(took)
    offset = duration(run.started - scale.start)
    when = "kept" if run.is_kept else f"begun after {offset}"
    if (queued := _queued(run)) is not None:
        when = f"queued {duration(queued)}, scheduled after {offset}"
    is_tall = run.loop is not None and run.loop.starts and not run.is_kept
    return {
        "step": page.step(run.step),
        "status": run.status,
        "took": "kept" if run.is_kept else words,
        "tip": f"{run.step}: {run.status}, {words}, {when}",
        "height": TALL if is_tall else HEIGHT,
        "shapes": [] if run.is_kept else list(_shapes(run, scale)),
    }


def _queued(run: StepRun) -> float | None:
    """Return how long a run waited for a slot, if that is worth telling."""
    until = run.queued_until
    waited = 0.0 if until is None or run.is_kept else until - run.started
    return waited if waited >= QUEUED_S else None


def _shapes(run: StepRun, scale: _Scale) -> Iterator[Data]:
    """Yield bars, a dot, or a curve of the number in flight."""
    end = scale.end if run.ended is None else run.ended
    if run.is_skipped:
        yield {"dot": _percent(scale.at(run.started)), "y": HEIGHT // 2}
        return
    loop = run.loop if run.loop is not None and run.loop.starts else None
    height = HEIGHT if loop is None else TALL
    started, queued = run.started, _queued(run)
    if queued is not None:
        tip, started = f"queued {duration(queued)}", run.started + queued
        yield _bar(scale, run.started, started, 7, HEIGHT - 14, "queue", tip)
    yield _bar(scale, started, end, 3, height - 6, "span")
    if loop is not None:
        yield from _iterations(loop, scale, end)
    for call in run.trail.calls.kept().values():
        yield from _call(call, scale, end)


def _call(call: Call, scale: _Scale, end: float) -> Iterator[Data]:
    ended = end if call.ended is None else call.ended
    role = "call bad" if call.is_error else "call"
    tip = f"{call.label}, attempt {call.attempt}: {duration(ended - call.started)}"
    yield _bar(scale, call.started, ended, 7, HEIGHT - 14, role, tip)
    for began, stopped in call.waits:
        until = ended if stopped is None else stopped
        tip = f"{call.label} waits: {duration(until - began)}"
        yield _bar(scale, began, until, 7, HEIGHT - 14, "wait", tip)


def _iterations(loop: Iterations, scale: _Scale, end: float) -> Iterator[Data]:
    lanes = _lanes(loop, end) if len(loop.starts) <= SEPARATE else None
    if lanes is None or max(lanes, default=0) >= LANES:
        yield _flight(loop, scale, end)
        return
    depth = 24 / (max(lanes) + 1)
    for number, lane in enumerate(lanes):
        start, stop = loop.starts[number], _or(loop.ends[number], end)
        role = "turn bad" if loop.bad[number] else "turn"
        tip = f"iteration {number}: {duration(stop - start)}"
        yield _bar(scale, start, stop, 5 + lane * depth, depth - 1, role, tip)


def _lanes(loop: Iterations, end: float) -> list[int]:
    """Return the row of each iteration, so that concurrent ones do not overlap."""
    free: list[float] = []
    lanes = []
    for number, start in enumerate(loop.starts):
        stop = _or(loop.ends[number], end)
        lane = next((n for n, until in enumerate(free) if until <= start), len(free))
        free[lane : lane + 1] = [stop]
        lanes.append(lane)
    return lanes


def _flight(loop: Iterations, scale: _Scale, end: float) -> Data:
    """Return the curve of iterations in flight, with marks of failures."""
    first, last = loop.starts[0], max(_or(stop, end) for stop in loop.ends)
    width = max(last - first, 1e-9) / BUCKETS
    load, bad = _Load(), [0] * BUCKETS
    for number, start in enumerate(loop.starts):
        stop = _or(loop.ends[number], end)
        load.add((start - first) / width, (stop - first) / width)
        if loop.bad[number]:
            bad[min(BUCKETS - 1, int((stop - first) / width))] += 1
    busy = load.buckets()
    return {
        "curve": _curve(busy),
        "tip": f"at most about {max(busy):,.0f} in flight",
        "bad": [number - 0.25 for number, failed in enumerate(bad) if failed],
        "x": _percent(scale.at(first)),
        "width": _percent(scale.at(last) - scale.at(first)),
        "buckets": BUCKETS,
    }


def _curve(busy: list[float]) -> str:
    most = max(busy) or 1.0
    tops = (f"V{19 - 19 * share / most:.1f}h1" for share in busy)
    return f"M0 19{''.join(tops)}V19z"


class _Load:
    """Average number of spans per bucket; a span of any length costs the same."""

    def __init__(self) -> None:
        self._parts = [0.0] * (BUCKETS + 1)
        self._steps = [0] * (BUCKETS + 2)

    def add(self, start: float, stop: float) -> None:
        first, last = min(int(start), BUCKETS - 1), min(int(stop), BUCKETS - 1)
        if first == last:
            self._parts[first] += stop - start
            return
        self._parts[first] += first + 1 - start
        self._parts[last] += stop - last
        self._steps[first + 1] += 1
        self._steps[last] -= 1

    def buckets(self) -> list[float]:
        whole = accumulate(self._steps)
        return [p + w for p, w in zip(self._parts, whole, strict=False)][:BUCKETS]


def _or(moment: float, end: float) -> float:
    return end if isnan(moment) else moment


def _bar(
    scale: _Scale,
    start: float,
    end: float,
    y: float,
    height: float,
    role: str,
    tip: str = "",
) -> Data:
    left, right = scale.at(start), scale.at(end)
    return {
        "x": _percent(left),
        "y": f"{y:.1f}",
        "width": _percent(max(right - left, 0.15)),
        "height": f"{height:.1f}",
        "role": role,
        "is_round": height > 6,
        "tip": tip,
    }


def _percent(share: float) -> str:
    return f"{share:.2f}%"
