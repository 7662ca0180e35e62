"""Pages whose commands are run: what they show is what a reader will see.

In a ``console`` block each ``$ command`` is followed by its output. A ``yaml`` or
``python`` block that begins with the name of a file (``# first.yaml``) is written to
it; one that begins with the path of an example is an excerpt of it (``excerpts.py``).
``^C`` in an output stands for the key, pressed while the command sleeps or a task
waits. What differs from run to run (ids, times, durations) may differ on the page, too.
A page about triggers has a server in its home.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from demo_api import EXAMPLES, DemoApi
from servers import Running

from noetl.adapters.host import HostPolicy

BLOCK = re.compile(
    r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
NAME = re.compile(r"# ([\w.]+\.(?:yaml|py))\n")
OURS = re.compile(r"(^|\| |&& )(noetl |python \w+\.py)")
SHELL = re.compile(r"[|&;<>$*`~]")
"""What only a shell understands."""
SERVED = re.compile(r"^\$ noetl (trigger|backfill) ", re.MULTILINE)
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
VARIABLE = (
    (ID, "ID"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"(since|until) [\d: -]+\d( [A-Z]+)? \([^)]+\)"), r"\1 TIME"),
    (
        re.compile(r"^[0-9a-f]{8}(?=  [a-z]+ )|(?<=noetl signal )[0-9a-f]{8}\b", re.M),
        "ID",
    ),
    (re.compile(r"\d{4}-\d\d-\d\d [\d:]+ [A-Z]+  [\d.]+ m?s +"), "TIME "),
    (re.compile(r"\d{4}-\d\d-\d\d [\d:]+ [A-Z]+ "), "TIME "),
    (re.compile(r"^ID +STATUS .*$", re.M), "HEADER"),
    (re.compile(r"\b(done|failed|steps?|runs?) in [\d.]+ m?s"), r"\1 in TIME"),
    (re.compile(r"^( +\d+) +[\d.]+ s  ", re.M), r"\1 TIME  "),
    (re.compile(r", took [\d.]+ m?s$", re.M), ", took TIME"),
    (re.compile(r"\([\d,]+ KiB\)"), "(SIZE)"),
    (re.compile(r"http://127\.0\.0\.1:\d+/hooks/"), "http://HOST/hooks/"),
    (re.compile(r"nth_[0-9a-f]{64}"), "TOKEN"),
    (re.compile(r"^(running|completed): ID$", re.MULTILINE), "started: ID"),
)
WAITS = " waits for "
"""In the line of a task that waits."""
ADDRESS = "http://127.0.0.1:8765"
"""Where the pages find the demo API; the tests have theirs on a free port."""


class Shown(NamedTuple):
    """A command, what the page says that it prints, and what it printed."""

    command: str
    expected: str
    actual: str
    span: tuple[int, int]

    @property
    def true(self) -> bool:
        return mask(self.expected) == mask(self.actual)


class Reader:
    """Does what a page says, in a folder with the examples and a home of its own."""

    def __init__(self, folder: Path, api: DemoApi) -> None:
        self._folder = folder / "checkout"
        self._folder.mkdir()
        self._address = api.url
        self._ids: dict[str, str] = {}
        self._copy_examples()
        self._asleep, self._awake = folder / "asleep", folder / "awake"
        programs = folder / "bin"
        programs.mkdir()
        self._write_sleep(programs / "sleep")
        path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        home = str(folder / "home")
        self._env = {**os.environ, "PATH": path, "NOETL_HOME": home}

    def follow(self, text: str) -> Iterator[Shown]:
        with self._serve(text):
            yield from self._follow(text)

    @contextmanager
    def _serve(self, text: str) -> Iterator[None]:
        """A server of the home, for pages about what only servers do."""
        if SERVED.search(text) is None:
            yield
            return
        policy = HostPolicy(private="allow")  # the demo API is on this machine
        server = Running(Path(self._env["NOETL_HOME"]), policy=policy)
        try:
            yield
        finally:
            server.stop()

    def _follow(self, text: str) -> Iterator[Shown]:
        for block in BLOCK.finditer(text):
            name = NAME.match(block["body"])
            if name is not None:
                file = self._folder / name[1]
                file.write_text(self._translate(block["body"]))
            elif block["info"] == "console":
                for part in COMMAND.finditer(text, *block.span("body")):
                    if OURS.search(part["command"]):
                        yield self._show(part)

    def _show(self, part: re.Match[str]) -> Shown:
        command, expected = part["command"], part["output"].rstrip("\n")
        before, _, after = expected.partition("^C")
        lines = before.count("\n") if after else None
        actual = self._run(self._translate(command), lines).rstrip("\n")
        self._ids |= zip(ID.findall(expected), ID.findall(actual), strict=False)
        here, shown = (
            each.removeprefix("http://") for each in (self._address, ADDRESS)
        )
        actual = actual.replace(here, shown)  # messages name it without the scheme
        for ours, real in self._ids.items():
            actual = actual.replace(real, ours)
        return Shown(command, expected, actual, part.span("output"))

    def _run(self, command: str, lines: int | None) -> str:
        """What it prints; interrupted after so many lines, in its sleep."""
        plain = command.startswith("noetl ") and not SHELL.search(command)
        words = shlex.split(command)[1:]
        process = subprocess.Popen(
            [sys.executable, "-m", "noetl", *words] if plain else command,
            shell=not plain,
            cwd=self._folder,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )
        seen = ""
        if lines is not None:
            assert process.stdout is not None
            seen = "".join(process.stdout.readline() for _ in range(lines)) + "^C"
            while not self._asleep.exists() and WAITS not in seen:
                assert process.poll() is None, "it never slept"
            os.killpg(process.pid, signal.SIGINT)
            self._awake.touch()
        return seen + process.communicate()[0]

    def _translate(self, text: str) -> str:
        """What the page says, with the address and the ids of this time."""
        text = text.replace(ADDRESS, self._address)
        return ID.sub(lambda found: self._ids.get(found[0], found[0]), text)

    def _copy_examples(self) -> None:
        for example in (*EXAMPLES.rglob("*.yaml"), *EXAMPLES.rglob("*.yml")):
            copy = self._folder / "examples" / example.relative_to(EXAMPLES)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(self._translate(example.read_text()))

    def _write_sleep(self, program: Path) -> None:
        """Until Ctrl-C was pressed it lasts for ever, after that no time at all."""
        wait = f"until [ -e '{self._awake}' ]; do command -p sleep 0.01; done"
        program.write_text(f"#!/bin/sh\n: >'{self._asleep}'\n{wait}\n")
        program.chmod(0o755)


def mask(text: str) -> str:
    for pattern, word in VARIABLE:
        text = pattern.sub(word, text)
    return text


def renew(text: str, folder: Path, api: DemoApi) -> str:
    """The page with true outputs; those that are true already stay as they are."""
    renewed, end = "", 0
    for shown in Reader(folder, api).follow(text):
        if not shown.true:
            start, stop = shown.span
            renewed += text[end:start] + shown.actual + "\n" * bool(shown.actual)
            end = stop
    return renewed + text[end:]
