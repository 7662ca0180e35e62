"""Places of errors in the playbook that ran: line, column, and frames of Python code.

An error of a template has its place in its details. That of Python code counts the
lines of the code, and is found in the text of the playbook when the error is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from noetl.dsl.model import Playbook, Task
from noetl.dsl.node import Location, printable
from noetl.dsl.python_source import position_in_file
from noetl.dsl.secret_patterns import mask
from noetl.types import JSON

FRAMES = 5
_WIDTH = 110
_TEMPLATE_LINES = 50
_CODE = "<code>"
_FRAME = re.compile(r'  File "(.*)", line (\d+), in (.*)')
_WORD = re.compile(r"[\w.]+|\"[^\"]*\"?")
_UNDEFINED = re.compile(r"(?:^|: )([\w.]+) is undefined")


Find = Callable[[int, int], tuple[int, int] | None]
"""Returns the position in the file of a line and column of a code."""


class Frame(msgspec.Struct, frozen=True):
    """Call in Python code; ``source`` is empty for a line of another file."""

    file: str
    line: int
    function: str
    source: str = ""


class Place(msgspec.Struct, frozen=True):
    """Where an error comes from: a line of the playbook, and the last calls."""

    file: str
    line: int
    column: int
    source: str
    width: int = 1
    hint: str | None = None
    frames: tuple[Frame, ...] = ()

    def as_text(self) -> list[str]:
        """Format the calls, the line with a caret, and the hint."""
        lines = [f"{f.file}:{f.line} in {f.function}: {f.source}" for f in self.frames]
        if self.frames and self.frames[-1].line == self.line:
            lines[-1] = lines[-1].removesuffix(f": {self.frames[-1].source}")
        lines = [line.removesuffix(": ") for line in lines]
        if not self.frames:
            lines.append(f"{self.file}:{self.line}:{self.column}")
        shown, column = self.source, self.column - 1
        if len(shown) > _WIDTH:
            start = max(0, column - _WIDTH // 2)
            shown, column = shown[start : start + _WIDTH], column - start
        width = max(1, min(self.width, len(shown) - column))
        lines.append(f" {self.line:>4} | {shown}")
        lines.append(f"      | {' ' * column}{'^' * width}")
        if self.hint:
            lines.append(f"      = {self.hint}")
        return lines


class Source:
    """Text of the playbook that ran, under the name that is shown for it."""

    def __init__(self, playbook: Playbook | None, text: str, file: str) -> None:
        self._playbook = playbook
        self._lines = text.splitlines()
        self._file = file

    def place_of(self, error: Mapping[str, JSON]) -> Place | None:
        """Return the place of an error of a template, of Python code or of a tool's
        contract."""
        kind, details = str(error.get("kind", "")), error.get("details") or {}
        if isinstance(stored := details.get("place"), Mapping):
            return self._of_template(error, stored, details.get("hint"))
        task = self._task(error)
        if task is None:
            return None
        if kind == "tool.exception" and (code := self._code(task)) is not None:
            return self._of_code(code, details)
        if kind == "tool.contract":
            at = self._code(task) or task.label_at
            return self._at(*at.mark)
        return None

    def _of_template(
        self, error: Mapping[str, JSON], stored: Mapping[str, JSON], hint: JSON
    ) -> Place | None:
        """Return the place of the name that is undefined, or else of the template."""
        line, column = stored.get("line"), stored.get("column")
        if not isinstance(line, int) or not isinstance(column, int):
            return None
        found = _UNDEFINED.search(str(error.get("message", "")))
        if found is not None:
            last = min(line + _TEMPLATE_LINES, len(self._lines))
            for number in range(line, last + 1):
                text = self._lines[number - 1]
                at = text.find(found[1], column - 1 if number == line else 0)
                if at >= 0:
                    line, column = number, at + 1
                    break
        place = self._at(line, column)
        words = str(hint) if hint else None
        return place and msgspec.structs.replace(place, hint=words)

    def _of_code(self, code: Location, details: Mapping[str, JSON]) -> Place | None:
        find = partial(position_in_file, code, self._lines)
        frames = self._frames(str(details.get("traceback", "")), find)
        marks = [find(number, 1) for number in [details.get("line")] if number]
        mark = next(filter(None, marks), None)
        if mark is None:
            return self._at(*code.mark, frames=tuple(frames[-FRAMES:]))
        own: str = code.node.value.split("\n")[details["line"] - 1]
        column = mark[1] + len(own) - len(own.lstrip())
        return self._at(mark[0], column, len(own.strip()), tuple(frames[-FRAMES:]))

    def _frames(self, traceback: str, find: Find) -> list[Frame]:
        """Return the frames of the error itself, not those of its causes."""
        own: list[Frame] = []
        ended = False
        for text in traceback.splitlines():
            called = _FRAME.match(text)
            if called is None:
                ended = ended or not text.startswith("  ")
                continue
            if ended:
                own, ended = [], False
            file, line, function = called[1], int(called[2]), called[3]
            mark = find(line, 1) if file == _CODE else None
            if mark is None:
                own.append(Frame(file, line, function))
            else:
                source = self._shown(mark[0]).strip()
                own.append(Frame(self._file, mark[0], function, source))
        return own

    def _at(
        self,
        line: int,
        column: int,
        width: int | None = None,
        frames: tuple[Frame, ...] = (),
    ) -> Place | None:
        if not 1 <= line <= len(self._lines):
            return None
        shown = self._shown(line)
        if width is None:
            word = _WORD.match(shown, column - 1)
            width = len(word[0]) if word is not None else 1
        return Place(self._file, line, column, shown, width, None, frames)

    def _shown(self, line: int) -> str:
        return printable(mask(self._lines[line - 1].replace("\t", " ")))

    def _task(self, error: Mapping[str, JSON]) -> Task | None:
        steps = self._playbook.steps if self._playbook is not None else {}
        step = steps.get(str(error.get("step")))
        label = error.get("task")
        tasks = step.tasks if step is not None else ()
        return next((task for task in tasks if task.label == label), None)

    def _code(self, task: Task) -> Location | None:
        """Return the place of the code of a task, or of its template."""
        at = task.at.get("code")
        if at is None and (name := task.body.get("name")) is not None:
            for key in ("workbook", name):
                at = self._playbook.at.get(key) if at is None else at.get(key)  # type: ignore[union-attr]
                if at is None:
                    return None
            at = at.get("code") if at is not None else None
        return at if at is not None and isinstance(at.node.value, str) else None
