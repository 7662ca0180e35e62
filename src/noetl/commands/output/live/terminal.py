"""The board as a tree of styled lines: still pure, and the same for every terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import tzinfo
from itertools import islice
from typing import TypeAlias

import msgspec

from noetl.commands.live.board import Board
from noetl.commands.live.rows import Level, Row
from noetl.commands.live.words import activity_words, one_line, rate, span

Line: TypeAlias = list[tuple[str, str]]
"""Pieces of text, each with its style."""

_SIGNS = {"waiting": "◷", "done": "✓", "failed": "✗", "skipped": "-"}
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_STYLES = {
    "running": "cyan",
    "waiting": "yellow",
    "paused": "yellow",
    "cancelling": "yellow",
    "done": "green",
    "completed": "green",
    "failed": "red",
    "cancelled": "red",
    "skipped": "dim",
}
_SHOWN = 3  # pipelines of a step that are told one by one
_BAR = 20
_NAMES = 32


class Branch(msgspec.Struct):
    """A step's line, and what is to be said below it."""

    line: Line
    below: list[Line]

    @property
    def height(self) -> int:
        return 1 + len(self.below)


def headline(board: Board, now: float) -> Line:
    """``orders 0192… running 12.3 s``"""
    status = board.status
    if status == "running" and _only_waits(board.rows.values()):
        status = "waiting"
    line = [
        (one_line(board.name), "bold"),
        (f"  {board.execution_id}", "dim"),
        (f"  {status}", _STYLES.get(status, "")),
    ]
    if board.started is not None:
        line.append((f"  {span((board.ended or now) - board.started)}", ""))
    if status == "paused" and any(row.working for row in board.rows.values()):
        line.append(("  running tasks finish; Ctrl-C leaves at once", "dim"))
    return line


def _only_waits(rows: Iterable[Row]) -> bool:
    states = {row.state for row in rows if row.open}
    return states == {"waiting"}


def branches(
    board: Board, now: float, room: int | None = None, zone: tzinfo | None = None
) -> list[Branch]:
    """A branch per step; with ``room`` for so many lines, those that matter most."""
    rows = list(board.rows.values())
    shown = rows if room is None else _choose(rows, room)
    width = min(_NAMES, max((len(row.step) for row in shown), default=0))
    found = [_branch(row, now, width, zone) for row in shown]
    if len(shown) < len(rows):
        names = {row.step for row in shown}
        hidden = [row for row in rows if row.step not in names]
        found.insert(0, Branch(_hidden(hidden), []))
    return found


def _choose(rows: Sequence[Row], room: int) -> list[Row]:
    """Open steps before those that are over, and the latest before earlier ones."""
    if sum(map(_height, rows)) <= room:
        return list(rows)
    left = room - 1  # the line that counts the others
    chosen = set()
    ranked = sorted(enumerate(rows), key=lambda each: (not each[1].open, -each[0]))
    for place, row in ranked:
        left -= _height(row)
        if left < 0:
            break
        chosen.add(place)
    return [row for place, row in enumerate(rows) if place in chosen]


def _hidden(rows: Sequence[Row]) -> Line:
    running = sum(bool(row.open) for row in rows)
    words = [f"{running} open"] if running else []
    words += [f"{len(rows) - running} over"] if running < len(rows) else []
    return [(f"… {len(rows)} more steps: {', '.join(words)}", "dim")]


def _height(row: Row) -> int:
    below = _told_below(row)
    return 1 + min(below, _SHOWN) + (below > _SHOWN) + max(0, len(row.levels) - 1)


def _told_below(row: Row) -> int:
    """How many pipelines have lines of their own: a single one is on the step's."""
    return 0 if _is_single(row) else len(row.holding)


def _is_single(row: Row) -> bool:
    return not row.levels and len(row.working) + len(row.holding) == 1


def _branch(row: Row, now: float, width: int, zone: tzinfo | None) -> Branch:
    state = row.state
    sign = _SIGNS.get(state) or _SPINNER[int(now * 8) % len(_SPINNER)]
    style = _STYLES[state]
    line: Line = [(f"{sign} ", style), (f"{row.step:<{width}}", "bold"), ("  ", "")]
    if row.levels:
        line += _loop(row, row.levels[0], now)
    else:
        line += _runs(row, now)
    if _is_single(row):
        activity = next(iter((*row.working.values(), *row.holding.values())))
        line.append((f"  {activity_words(activity, now, zone)}", style))
    elif len(row.working) > 1:
        line.append((f"  {len(row.working):,} at work", style))
    if row.retries:
        line.append((f"  {_count(row.retries, 'retry', 'retries')}", "yellow"))
    if row.state == "failed" and row.error:
        line.append((f"  {one_line(row.error)}", "red"))
    return Branch(line, _below(row, now, zone))


def _below(row: Row, now: float, zone: tzinfo | None) -> list[Line]:
    lines = [_inner(level, depth) for depth, level in enumerate(row.levels[1:], 2)]
    if not _told_below(row):
        return lines
    for pipeline, activity in islice(row.holding.items(), _SHOWN):
        which = pipeline.partition("/")[2]
        name = f"[{which.replace('/', ', ')}] " if which else ""
        lines.append([(f"{name}{activity_words(activity, now, zone)}", "yellow")])
    if len(row.holding) > _SHOWN:
        lines.append([(f"… {len(row.holding) - _SHOWN:,} more wait", "yellow")])
    return lines


def _inner(level: Level, depth: int) -> Line:
    return [(f"level {depth}: {level.over:,} of {level.total:,}", "dim")]


def _runs(row: Row, now: float) -> Line:
    """How often it has run, and how long that took."""
    line: Line = []
    if row.ended + len(row.open) > 1:
        runs = f"{row.ended:,} runs" if row.ended != 1 else "1 run"
        line.append((runs, ""))
        if row.ended:
            line.append((f" of {span(row.seconds / row.ended)}", "dim"))
        if len(row.open) > 1:
            line.append((f", {len(row.open):,} open", _STYLES["running"]))
    elif row.open:
        line.append((span(now - next(iter(row.open.values()))), ""))
    elif row.ended:
        line.append((span(row.seconds), ""))
    if row.failed and row.failed != row.ended:
        line.append((f", {row.failed:,} failed", "red"))
    if row.skipped:
        times = f" {row.skipped:,} times" if row.skipped > 1 else ""
        line.append((f"{', ' if line else ''}not admitted{times}", "dim"))
    return line


def _loop(row: Row, level: Level, now: float) -> Line:
    """A bar, counts, the rate and what is left."""
    share = level.over / level.total if level.total else 1.0
    style = "yellow" if level.failed else _STYLES[row.state]
    full, rest = bar(share)
    line: Line = [(full, style), (rest, "dim"), (f" {int(share * 100):>3}%", "")]
    line.append((f"  {level.over:,} of {level.total:,}", ""))
    if level.failed:
        line.append((f", {level.failed:,} failed", "red"))
    if not row.open:
        if row.seconds and level.over:
            speed = rate(level.over / row.seconds)
            line.append((f"  {span(row.seconds)}, {speed}", "dim"))
        return line
    speed_now = level.pace.rate(now, level.over)
    if speed_now:
        left = (level.total - level.over) / speed_now
        line.append((f"  {rate(speed_now)}, {span(left)} left", "cyan"))
    return line


def bar(share: float, width: int = _BAR) -> tuple[str, str]:
    """The full and the empty part."""
    full = int(min(1.0, share) * width)
    return "━" * full, "─" * (width - full)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
