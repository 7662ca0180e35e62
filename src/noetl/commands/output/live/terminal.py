"""The rows as a tree of styled lines. Pure, and independent of the terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from datetime import tzinfo
from itertools import islice
from typing import Self, TypeAlias

import msgspec
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.text import Text
from rich.tree import Tree

from noetl.commands.output.live.model import Board
from noetl.commands.output.live.rows import (
    Level,
    Row,
    activity_words,
    one_line,
    queue_words,
    rate,
)
from noetl.commands.output.log_lines import (
    colour_of,
    label_of,
    shorten,
    text_of,
)
from noetl.commands.output.progress import LookAtSlots, Progress
from noetl.engine.events import Event
from noetl.report.format import duration
from noetl.service.executions.task_logs import LogLine

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
_AMBER = "yellow"
_MAX_LINES = 3  # maximum number of pipelines of a step with their own line
_BAR = 20
_SHORT_BAR = 4
_NAMES = 32
_GUIDE = 4  # columns of the lines of the tree before a step
_ECHO = 2  # columns that are left free for the ^C that a terminal writes


class Branch(msgspec.Struct):
    """The line of a step and the lines below it."""

    line: Line
    below: list[Line]

    @property
    def height(self) -> int:
        return 1 + len(self.below)


class Frame(msgspec.Struct, frozen=True):
    """What all steps of one picture have in common. A ``still`` picture stays on the
    terminal, and ``columns`` limits the lines of loops."""

    now: float
    zone: tzinfo | None = None
    paused: bool = False
    still: bool = False
    columns: int | None = None


def headline(board: Board, now: float) -> Line:
    """Format ``orders running 12.3 s 0192…``."""
    status = board.status
    if status == "running" and _only_waits(board.rows.values()):
        status = "waiting"
    line = [
        (one_line(board.name), "bold"),
        (f"  {status}", _STYLES.get(status, "")),
    ]
    if board.started is not None:
        line.append((f"  {duration((board.ended or now) - board.started)}", ""))
    if status == "paused" and any(row.working for row in board.rows.values()):
        line.append(("  running tasks finish; Ctrl-C leaves at once", "dim"))
    line.append((f"  {board.execution_id}", "dim"))
    return line


def _only_waits(rows: Iterable[Row]) -> bool:
    states = {row.state for row in rows if row.open}
    return states == {"waiting"}


def branches(board: Board, frame: Frame, room: int | None = None) -> list[Branch]:
    """Return a branch per step; with ``room`` lines, the most important ones only."""
    rows = list(board.rows.values())
    shown = rows if room is None else _choose(rows, room)
    width = min(_NAMES, max((len(row.step) for row in shown), default=0))
    found = [_branch(row, frame, width) for row in shown]
    if len(shown) < len(rows):
        names = {row.step for row in shown}
        hidden = [row for row in rows if row.step not in names]
        found.insert(0, Branch(_hidden(hidden), []))
    return found


def _choose(rows: Sequence[Row], room: int) -> list[Row]:
    """Choose open steps before finished ones, and later steps before earlier ones."""
    if sum(map(_height, rows)) <= room:
        return list(rows)
    left = room - 1  # the line that counts the hidden steps
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
    words += [f"{len(rows) - running} finished"] if running < len(rows) else []
    return [(f"… {len(rows)} more steps: {', '.join(words)}", "dim")]


def _height(row: Row) -> int:
    below = _own_lines(row)
    return (
        1 + min(below, _MAX_LINES) + (below > _MAX_LINES) + max(0, len(row.levels) - 1)
    )


def _own_lines(row: Row) -> int:
    """Count the pipelines with their own line; a single one is on the step's line."""
    return 0 if _is_single(row) else len(row.holding)


def _is_single(row: Row) -> bool:
    return not row.levels and len(row.working) + len(row.holding) == 1


def _branch(row: Row, frame: Frame, width: int) -> Branch:
    line = _counted(row, frame, width)
    if row.partial:
        line.append((f"  {one_line(row.partial.partition(': ')[2])}", _AMBER))
    if row.ignored is not None:
        line.append((f"  {one_line(row.ignored.words())}", _AMBER))
    if row.unfired:
        line.append((f"  {one_line(row.unfired)}", _AMBER))
    if row.state == "failed" and row.error:
        line.append((f"  {one_line(row.error)}", "red"))
    return Branch(line, _below(row, frame))


def _counted(row: Row, frame: Frame, width: int) -> Line:
    """Format the step with its counts; in few columns the bar shrinks first, then the
    rate is left out."""
    line: Line = []
    for with_rate in (True, False):
        line = _head(row, frame, width, _BAR, with_rate=with_rate)
        over = _columns(line) - (frame.columns or _columns(line))
        if over <= 0 or not row.levels:
            return line
        size = max(_SHORT_BAR, _BAR - over)
        line = _head(row, frame, width, size, with_rate=with_rate)
        if _BAR - size >= over:
            return line
    return line


def _columns(line: Line) -> int:
    return sum(cell_len(text) for text, _ in line)


def _head(row: Row, frame: Frame, width: int, size: int, *, with_rate: bool) -> Line:
    sign, style = _sign(row, frame)
    line: Line = [(f"{sign} ", style), (f"{row.step:<{width}}", "bold"), ("  ", "")]
    if row.levels:
        line += _loop(row, row.levels[0], frame, size, with_rate=with_rate)
    else:
        line += _runs(row, frame.now)
    if row.open and row.queued:
        line.append((f"  {row.queued}", "yellow"))
    elif _is_single(row):
        activity = next(iter((*row.working.values(), *row.holding.values())))
        line.append((f"  {activity_words(activity, frame.now, frame.zone)}", style))
    elif len(row.working) > 1:
        line.append((f"  {len(row.working):,} at work", style))
    if row.retries:
        line.append((f"  {_count(row.retries, 'retry', 'retries')}", "yellow"))
    return line


def _sign(row: Row, frame: Frame) -> tuple[str, str]:
    """Return the sign of a step and its style."""
    state = row.state
    if _is_halted(row, frame):
        return "‖", _STYLES["paused"]
    if state == "done" and (row.ignored or row.unfired or row.partial):
        return "!", _AMBER
    if state == "running" and frame.still:
        return "…", _STYLES[state]
    spinner = _SPINNER[int(frame.now * 8) % len(_SPINNER)]
    return _SIGNS.get(state) or spinner, _STYLES[state]


def _is_halted(row: Row, frame: Frame) -> bool:
    """Return whether nothing happens in an open step because of a pause."""
    return bool(row.open) and frame.paused and (frame.still or not row.working)


def _below(row: Row, frame: Frame) -> list[Line]:
    lines = [_inner(level, depth) for depth, level in enumerate(row.levels[1:], 2)]
    if not _own_lines(row):
        return lines
    for pipeline, activity in islice(row.holding.items(), _MAX_LINES):
        which = pipeline.partition("/")[2]
        name = f"[{which.replace('/', ', ')}] " if which else ""
        words = activity_words(activity, frame.now, frame.zone)
        lines.append([(f"{name}{words}", "yellow")])
    if (more := len(row.holding) - _MAX_LINES) > 0:
        lines.append(
            [(f"… {more:,} more {'waits' if more == 1 else 'wait'}", "yellow")]
        )
    return lines


def _inner(level: Level, depth: int) -> Line:
    return [(f"level {depth}: {level.over:,} of {level.total:,}", "dim")]


def _runs(row: Row, now: float) -> Line:
    """Format the number of runs and their duration."""
    line: Line = []
    if row.ended + len(row.open) > 1:
        runs = f"{row.ended:,} runs" if row.ended != 1 else "1 run"
        line.append((runs, ""))
        if row.ended:
            line.append((f" of {duration(row.seconds / row.ended)}", "dim"))
        if len(row.open) > 1:
            line.append((f", {len(row.open):,} open", _STYLES["running"]))
    elif row.open:
        line.append((duration(now - next(iter(row.open.values()))), ""))
    elif row.ended:
        line.append((duration(row.seconds), ""))
    if row.failed and row.failed != row.ended:
        line.append((f", {row.failed:,} failed", "red"))
    if row.skipped:
        times = f" {row.skipped:,} times" if row.skipped > 1 else ""
        line.append((f"{', ' if line else ''}not admitted{times}", "dim"))
    return line


def _loop(row: Row, level: Level, frame: Frame, size: int, *, with_rate: bool) -> Line:
    """Format a loop: bar, counts, rate and remaining time."""
    share = level.over / level.total if level.total else 1.0
    style = "yellow" if level.failed else _STYLES[row.state]
    full, rest = bar(share, size)
    line: Line = [(full, style), (rest, "dim"), (f" {int(share * 100):>3}%", "")]
    line.append((f"  {level.over:,} of {level.total:,}", ""))
    if level.failed:
        line.append((f", {level.failed:,} failed", "red"))
    if level.cancelled:
        line.append((f", {level.cancelled:,} cancelled", "dim"))
    if not row.open:
        if row.seconds and level.over:
            speed = f", {rate(level.over / row.seconds)}" if with_rate else ""
            line.append((f"  {duration(row.seconds)}{speed}", "dim"))
        return line
    speed_now = level.pace.rate(frame.now, level.over)
    if speed_now and not _is_halted(row, frame):
        left = f"{duration((level.total - level.over) / speed_now)} left"
        speed = f"{rate(speed_now)}, " if with_rate else ""
        line.append((f"  {speed}{left}", "cyan"))
    return line


def bar(share: float, width: int = _BAR) -> tuple[str, str]:
    """Return the full and the empty part of a bar."""
    full = int(min(1.0, share) * width)
    return "━" * full, "─" * (width - full)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


_INTERVAL = 1 / 8
_SHARE = 20  # drawing takes at most 1/20 (5 %) of the time: slow pictures wait longer
_MARGIN = 2  # lines of the terminal that are not used


class LiveProgress(Progress):
    """A tree of steps on standard error, below the lines that tasks print; the last
    picture stays on the terminal. It is ``untitled`` if the command prints status, time
    and id below it."""

    shows_logs = True

    def __init__(self, *, untitled: bool = False) -> None:
        self._untitled = untitled
        self._board = Board()
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._timer: asyncio.TimerHandle | None = None

    def watch_slots(self, look: LookAtSlots) -> None:
        self._board.queues = lambda row: queue_words(row, look())

    def take(self, events: Sequence[Event]) -> None:
        self._board.take(events)

    def print_logs(self, lines: Sequence[LogLine]) -> None:
        shown, note = shorten(lines)
        text = Text(no_wrap=False, overflow="fold")
        if note is not None:
            text.append(f"{note} {self._board.execution_id}\n", "dim")
        for line in shown:
            text.append(f"{label_of(line)} │ ", "dim")
            text.append(f"{text_of(line)}\n", colour_of(line) or "")
        text.rstrip()
        if shown:
            self._console.print(text)

    def say(self, text: str) -> None:
        self._console.print(Text(text))

    def recall(self, events: Sequence[Event]) -> None:
        self._board.take(events)  # earlier events are part of the picture

    def __enter__(self) -> Self:
        self._live.start()
        self._console.show_cursor(True)  # a killed run must not leave the cursor hidden
        self._schedule(_INTERVAL)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._live.stop()
        self._console.print(self._picture(None))

    def _schedule(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self._redraw)

    def _redraw(self) -> None:
        began = time.perf_counter()
        self._board.tick(time.time())
        room = max(1, self._console.height - _MARGIN)
        self._live.update(self._picture(room), refresh=True)
        took = time.perf_counter() - began
        self._schedule(max(_INTERVAL, took * _SHARE))

    def _picture(self, room: int | None) -> RenderableType:
        """Draw the tree; without ``room`` it is the last picture."""
        board, still = self._board, room is None
        width = self._console.width - (0 if still else _ECHO)
        paused = board.status == "paused"
        frame = Frame(time.time(), None, paused, still, width - _GUIDE)
        title = headline(board, frame.now)
        if still and self._untitled:
            title = title[:1]
        tree = Tree(_text(title), guide_style="dim")
        for branch in branches(board, frame, room):
            step = tree.add(_text(branch.line))
            for line in branch.below:
                step.add(_text(line))
        return Constrain(tree, width)


def _text(line: Line) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    for piece, style in line:
        text.append(piece, style)
    return text
