"""A terminal for a child process: what it prints, and what the screen then shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence

_PART = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|\x1b.|[\r\n]|[^\x1b\r\n]+", re.DOTALL)


class Screen:
    """Just as much of a terminal as a line-wise redraw needs; never scrolls off."""

    def __init__(self) -> None:
        self._lines: list[str] = [""]
        self._row = self._column = 0

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._lines]

    def feed(self, text: str) -> None:
        for found in _PART.finditer(text):
            part, argument, command = found[0], found[1], found[2]
            if command == "A":
                self._row = max(0, self._row - int(argument or 1))
            elif command == "K":
                kept = "" if argument == "2" else self._lines[self._row][: self._column]
                self._lines[self._row] = kept
            elif part == "\r":
                self._column = 0
            elif part == "\n":
                self._row += 1
                if self._row == len(self._lines):
                    self._lines.append("")
            elif not part.startswith("\x1b"):
                self._write(part)

    def _write(self, text: str) -> None:
        line = self._lines[self._row].ljust(self._column)
        end = self._column + len(text)
        self._lines[self._row] = line[: self._column] + text + line[end:]
        self._column = end


class Session:
    """``noetl`` with these arguments; its standard error is a terminal.

    The end that the program writes to stays open here, too: a terminal that its last
    writer closes may answer EIO before it has handed over the last lines.
    """

    def __init__(
        self,
        args: Sequence[str],
        environ: Mapping[str, str],
        *,
        size: tuple[int, int] = (40, 120),
        stdout: int | None = None,
    ) -> None:
        self._ours, theirs = pty.openpty()
        self._theirs = theirs
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.child = subprocess.Popen(
            [sys.executable, "-m", "noetl", *args],
            stdin=subprocess.DEVNULL,
            stdout=theirs if stdout is None else stdout,
            stderr=theirs,
            env={"TERM": "xterm", **environ},
        )
        self._ended = os.pidfd_open(self.child.pid)
        self.raw = ""
        self.screen = Screen()
        self._rest = b""

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        for descriptor in (self._ours, self._theirs, self._ended):
            os.close(descriptor)
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()

    def read_until(self, *words: str) -> list[str]:
        """The screen as soon as a line has all words; fails if the child ends before.

        A picture is drawn from the top, so the lines above that one are whole.
        """
        while not any(all(w in line for w in words) for line in self.screen.lines):
            assert self._read(), f"it ended: {self.screen.lines}"
        return self.screen.lines

    def finish(self) -> tuple[int, list[str]]:
        """The exit code, and the screen at the end."""
        while self._read():
            pass
        return self.child.wait(), self.screen.lines

    def _read(self) -> bool:
        readable, _, _ = select.select([self._ours, self._ended], [], [])
        if self._ours not in readable:  # it may have written before it ended
            readable, _, _ = select.select([self._ours], [], [], 0)
        if not readable:
            return False
        data = os.read(self._ours, 65536)
        # A character, or a command, may be cut in two.
        text = (self._rest + data).decode("utf-8", "surrogateescape")
        cut = re.search(r"(\x1b\[?[\d;?]*|[\udc80-\udcff]+)\Z", text)
        whole = text if cut is None else text[: cut.start()]
        self._rest = text[len(whole) :].encode("utf-8", "surrogateescape")
        self.raw += whole
        self.screen.feed(whole)
        return bool(data)
