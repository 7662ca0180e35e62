"""When each run of a step was under way, its attempts and its iterations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from math import floor, isnan, log10

from noetl.report.markup import Html, element
from noetl.report.material import Material
from noetl.report.runs import Call, Iterations, StepRun
from noetl.report.words import count, duration

HEIGHT = 22
LANES = 6
SEPARATE = 60
"""Iterations that are drawn one by one; of more, only how many were in flight."""
BUCKETS = 160


class _Scale:
    """Moments as shares of the width."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.span = max(end - start, 1e-6)
        self.end = start + self.span

    def at(self, moment: float) -> float:
        share = (moment - self.start) / self.span
        return 100 * min(1.0, max(0.0, share))

    def ticks(self) -> Iterator[float]:
        """Offsets at round numbers, about six of them."""
        raw = self.span / 6
        power = 10 ** floor(log10(raw))
        step = next(power * each for each in (1, 2, 5, 10) if power * each >= raw)
        number = 0
        while number * step <= self.span * 1.0001:
            yield number * step
            number += 1


def timeline(material: Material) -> Html | None:
    record = material.record
    if not record.runs.count:
        return None
    scale = _Scale(record.started, record.ended)
    rows = [
        _gap(number) if run is None else _row(material, run, scale)
        for number, run in record.runs.parts()
    ]
    return element(
        "section",
        element("h2", "Timeline"),
        element(
            "div",
            element(
                "div", element("span"), _axis(scale), element("span"), class_="axis"
            ),
            element("ol", rows),
            class_="gantt",
        ),
        id="timeline",
    )


def _gap(left_out: int) -> Html:
    return element("li", f"… {count(left_out, 'run')} not shown", class_="gap")


def _axis(scale: _Scale) -> Html:
    marks = [
        element(
            "text",
            "0" if not tick else duration(tick),
            x=_percent(scale.at(scale.start + tick)),
            y=13,
            class_="tick-text first" if not tick else "tick-text",
        )
        for tick in scale.ticks()
        if scale.at(scale.start + tick) < 96
    ]
    return element("svg", marks, height=18, width="100%", aria_hidden="true")


def _row(material: Material, run: StepRun, scale: _Scale) -> Html:
    took = None if run.ended is None else run.ended - run.started
    words = "denied" if run.is_skipped else duration(took)
    when = "kept" if run.is_kept else f"begun after {_offset(run, scale)}"
    tip = f"{run.step}: {run.status}, {words}, {when}"
    return element(
        "li",
        element("span", material.step_link(run.step), class_="who"),
        element(
            "svg",
            element("title", tip),
            _grid(scale),
            None if run.is_kept else _bars(run, scale),
            height=_height(run),
            width="100%",
            role="img",
        ),
        element("span", "kept" if run.is_kept else words, class_="took"),
        class_=f"lane {run.status}",
    )


def _offset(run: StepRun, scale: _Scale) -> str:
    return duration(run.started - scale.start)


def _height(run: StepRun) -> int:
    is_tall = run.loop is not None and run.loop.starts and not run.is_kept
    return 34 if is_tall else HEIGHT


def _grid(scale: _Scale) -> Html:
    lines = (_percent(scale.at(scale.start + tick)) for tick in scale.ticks())
    return Html(
        "".join(
            element("line", x1=x, x2=x, y1=0, y2="100%", class_="rule") for x in lines
        )
    )


def _bars(run: StepRun, scale: _Scale) -> Iterator[Html]:
    end = scale.end if run.ended is None else run.ended
    if run.is_skipped:
        x = _percent(scale.at(run.started))
        yield element("circle", cx=x, cy=HEIGHT // 2, r=4, class_="dot")
        return
    height = _height(run)
    yield _bar(scale, run.started, end, 3, height - 6, "span")
    if run.loop is not None and run.loop.starts:
        yield from _iterations(run.loop, scale, end)
    for call in run.trail.calls.kept().values():
        yield from _call(call, scale, end)


def _call(call: Call, scale: _Scale, end: float) -> Iterator[Html]:
    ended = end if call.ended is None else call.ended
    role = "call bad" if call.is_error else "call"
    tip = f"{call.label}, attempt {call.attempt}: {duration(ended - call.started)}"
    yield _bar(scale, call.started, ended, 7, HEIGHT - 14, role, tip)
    for began, stopped in call.waits:
        until = ended if stopped is None else stopped
        tip = f"{call.label} waits: {duration(until - began)}"
        yield _bar(scale, began, until, 7, HEIGHT - 14, "wait", tip)


def _iterations(loop: Iterations, scale: _Scale, end: float) -> Iterator[Html]:
    lanes = _lanes(loop, end) if len(loop.starts) <= SEPARATE else None
    if lanes is None or max(lanes, default=0) >= LANES:
        yield from _flight(loop, scale, end)
        return
    depth = 24 / (max(lanes) + 1)
    for number, lane in enumerate(lanes):
        start, stop = loop.starts[number], _or(loop.ends[number], end)
        role = "turn bad" if loop.bad[number] else "turn"
        tip = f"iteration {number}: {duration(stop - start)}"
        yield _bar(scale, start, stop, 5 + lane * depth, depth - 1, role, tip)


def _lanes(loop: Iterations, end: float) -> list[int]:
    """Which line each takes, so that those at the same time stand below each other."""
    free: list[float] = []
    lanes = []
    for number, start in enumerate(loop.starts):
        stop = _or(loop.ends[number], end)
        lane = next((n for n, until in enumerate(free) if until <= start), len(free))
        free[lane : lane + 1] = [stop]
        lanes.append(lane)
    return lanes


def _flight(loop: Iterations, scale: _Scale, end: float) -> Iterator[Html]:
    """How many iterations were in flight, and where some failed."""
    first, last = loop.starts[0], max(_or(stop, end) for stop in loop.ends)
    width = max(last - first, 1e-9) / BUCKETS
    load, bad = _Load(), [0] * BUCKETS
    for number, start in enumerate(loop.starts):
        stop = _or(loop.ends[number], end)
        load.add((start - first) / width, (stop - first) / width)
        if loop.bad[number]:
            bad[min(BUCKETS - 1, int((stop - first) / width))] += 1
    busy = load.buckets()
    yield element(
        "svg",
        element("title", f"at most about {max(busy):,.0f} in flight"),
        _area(busy),
        (
            element(
                "rect", x=number - 0.25, y=20, width=1.5, height=4, class_="turn bad"
            )
            for number, failed in enumerate(bad)
            if failed
        ),
        x=_percent(scale.at(first)),
        y=5,
        width=_percent(scale.at(last) - scale.at(first)),
        height=24,
        viewBox=f"0 0 {BUCKETS} 24",
        preserveAspectRatio="none",
    )


def _area(busy: list[float]) -> Html:
    most = max(busy) or 1.0
    tops = (f"V{19 - 19 * share / most:.1f}h1" for share in busy)
    return element("path", d=f"M0 19{''.join(tops)}V19z", class_="turn")


class _Load:
    """How many spans cover each bucket, on average; a span costs the same whatever
    its length."""

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
) -> Html:
    left, right = scale.at(start), scale.at(end)
    return element(
        "rect",
        element("title", tip) if tip else None,
        x=_percent(left),
        y=f"{y:.1f}",
        width=_percent(max(right - left, 0.15)),
        height=f"{height:.1f}",
        class_=role,
        rx=2 if height > 6 else None,
    )


def _percent(share: float) -> str:
    return f"{share:.2f}%"
