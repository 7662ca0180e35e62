"""The board on a terminal: redrawn by a timer, whatever the number of events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text
from rich.tree import Tree

from noetl.commands.live.board import Board
from noetl.commands.live.tree import Line, branches, headline
from noetl.commands.progress import Progress
from noetl.engine.events import Event

_INTERVAL = 1 / 8
_SHARE = 20  # a picture that is slow to draw is drawn more seldom: 5 % of the time
_MARGIN = 2  # lines of the terminal that stay free


class LiveProgress(Progress):
    """A tree of steps on standard error; what it showed last stays there."""

    def __init__(self) -> None:
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

    def take(self, events: Sequence[Event]) -> None:
        self._board.take(events)

    def recall(self, events: Sequence[Event]) -> None:
        self._board.take(events)  # what happened before is part of the picture

    def __enter__(self) -> Self:
        self._live.start()
        self._console.show_cursor(True)  # a killed run must not take it along
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

    def _picture(self, room: int | None) -> Tree:
        now = time.time()
        tree = Tree(_text(headline(self._board, now)), guide_style="dim")
        for branch in branches(self._board, now, room):
            step = tree.add(_text(branch.line))
            for line in branch.below:
                step.add(_text(line))
        return tree


def _text(line: Line) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    for piece, style in line:
        text.append(piece, style)
    return text
