"""Rows of the live view: the open work of a step, and its times and waits as text."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Literal

import msgspec

from noetl.dsl.node import printable
from noetl.dsl.secret_patterns import mask
from noetl.engine.endings import Ignored
from noetl.engine.times import seconds_of
from noetl.engine.waits.resume import WaitLine
from noetl.report.format import duration
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl.runtime.worker.executor import SlotUse

On = Literal["work", "retry", "limit", "timer", "signal", "event", "playbook"]
State = Literal["running", "waiting", "done", "failed", "skipped"]

_SPACING = 0.5  # seconds between two samples
_SAMPLES = 20


class Activity(msgspec.Struct):
    """The current activity of one pipeline: a running task, or a wait.

    ``attempts`` is the limit of a retry and ``error`` its reason; ``until`` is in
    seconds since the epoch; ``about`` is the signal's name or the child playbook.
    """

    label: str
    attempt: int
    on: On = "work"
    attempts: int | None = None
    error: str = ""
    until: float | None = None
    about: str = ""


class Pace:
    """The growth rate of a count, from the last ``_SAMPLES`` samples."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)

    def note(self, now: float, count: int) -> None:
        if not self._samples or now - self._samples[-1][0] >= _SPACING:
            self._samples.append((now, count))

    def rate(self, now: float, count: int) -> float | None:
        """Return the rate per second; None if there are too few samples."""
        if not self._samples or now - self._samples[0][0] < _SPACING:
            return None
        first, before = self._samples[0]
        return (count - before) / (now - first)


class Level(msgspec.Struct):
    """The loops of a step at one depth of nesting, over all runs of the step."""

    total: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    pace: Pace = msgspec.field(default_factory=Pace)

    @property
    def over(self) -> int:
        return self.done + self.failed + self.cancelled


class Row(msgspec.Struct):
    """A step by its name, over all its runs.

    ``open`` maps runs to their start; ``working`` and ``holding`` map pipelines by
    their id. The size does not grow with finished work.
    """

    step: str
    open: dict[str, float] = msgspec.field(default_factory=dict)
    working: dict[str, Activity] = msgspec.field(default_factory=dict)
    holding: dict[str, Activity] = msgspec.field(default_factory=dict)
    levels: list[Level] = msgspec.field(default_factory=list)
    done: int = 0
    failed: int = 0
    skipped: int = 0
    retries: int = 0
    seconds: float = 0.0
    last: State = "skipped"
    error: str = ""
    ignored: Ignored | None = None
    unfired: str = ""
    partial: str = ""
    queued: str = ""

    @property
    def state(self) -> State:
        if not self.open:
            return self.last
        return "waiting" if self.holding and not self.working else "running"

    @property
    def ended(self) -> int:
        return self.done + self.failed

    def level(self, depth: int) -> Level:
        while len(self.levels) <= depth:
            self.levels.append(Level())
        return self.levels[depth]

    def work(self, pipeline: str, activity: Activity) -> None:
        self.holding.pop(pipeline, None)
        self.working[pipeline] = activity

    def hold(self, pipeline: str, activity: Activity) -> None:
        self.working.pop(pipeline, None)
        self.holding[pipeline] = activity

    def leave(self, pipeline: str) -> None:
        self.working.pop(pipeline, None)
        self.holding.pop(pipeline, None)


_ERROR = 160


def clock(moment: float, now: float, zone: tzinfo | None = None) -> str:
    """Format the time of day, with the date if it is 12 h away; local by default."""
    time = datetime.fromtimestamp(moment, UTC).astimezone(zone)
    return f"{time:%H:%M:%S}" if moment - now < 43_200 else f"{time:%Y-%m-%d %H:%M:%S}"


def rate(per_second: float) -> str:
    """``0.20/s``, ``5.2/s``, ``12,345/s``."""
    if per_second >= 100:
        return f"{per_second:,.0f}/s"
    return f"{per_second:.{1 if per_second >= 1 else 2}f}/s"


def one_line(text: str) -> str:
    """Clean a message: one line, without control characters and secrets."""
    text = " ".join(text[: 4 * _ERROR].split())
    text = printable(mask(text))
    return text if len(text) <= _ERROR else text[:_ERROR] + "…"


def waiting_words(wait: WaitLine, now: float) -> str:
    """Format ``ask.decision: signal 'approval', since …, until …, for operator``."""
    if wait.on == "signal":
        about = f"signal '{one_line(wait.signal or '')}'"
    elif wait.on == "playbook":
        about = f"playbook {one_line(wait.playbook or '')} ({wait.execution_id})"
    else:
        about = "another attempt" if wait.on == "delay" else "a time"
    words = f"◷ {wait.step}.{wait.task}: {about}"
    if wait.since is not None:
        began = seconds_of(wait.since)
        words += (
            f", since {local_moment(began)} ({duration(max(0.0, now - began))} ago)"
        )
    if wait.until is not None:
        end = seconds_of(wait.until)
        left = f"in {duration(end - now)}" if end > now else "expired"
        words += f", until {local_moment(end)} ({left})"
    if wait.roles:
        words += f", for {' or '.join(wait.roles)}"
    return words + _form_words(wait.schema)


def _form_words(schema: JSON) -> str:
    """List the fields of a form; required ones have a star."""
    fields = (schema or {}).get("properties", {})
    needed = (schema or {}).get("required", ())
    names = [f"{name}*" if name in needed else name for name in fields]
    title = (schema or {}).get("title")
    words = f"\n    {one_line(title)}" if isinstance(title, str) else ""
    return words + (f"\n    fields: {one_line(', '.join(names))}" if names else "")


def local_moment(moment: float, zone: tzinfo | None = None) -> str:
    """Format ``2026-11-16 23:27:06 CET``: the local time with its zone."""
    time = datetime.fromtimestamp(moment, UTC).astimezone(zone)
    return f"{time:%Y-%m-%d %H:%M:%S %Z}"


def activity_words(activity: Activity, now: float, zone: tzinfo | None = None) -> str:
    """Describe what the pipeline does, ``call, attempt 2``, or waits for."""
    label = activity.label
    match activity.on:
        case "work":
            again = f", attempt {activity.attempt}" if activity.attempt > 1 else ""
            return f"{label}{again}"
        case "retry":
            return f"{label}: {_retry(activity, now)}"
        case "limit":
            when = _until(activity, now, zone)
            return f"{label} waits for its rate or slots {when}".rstrip()
        case "timer":
            return f"{label} waits {_until(activity, now, zone)}".rstrip()
        case "signal":
            until = _until(activity, now, zone)
            limit = f", {until}" if until else ""
            return f"{label} waits for signal '{one_line(activity.about)}'{limit}"
        case "event":
            until = _until(activity, now, zone)
            limit = f", {until}" if until else ""
            return f"{label} waits for an event{limit}"
        case "playbook":
            return f"{label} runs playbook {one_line(activity.about)}".rstrip()


def _retry(activity: Activity, now: float) -> str:
    """Put the time before the reason, because long lines are cut at the end."""
    bound = f" of {activity.attempts}" if activity.attempts else ""
    left = (activity.until or now) - now
    when = f"in {duration(left)}" if left > 0 else "queued"
    why = one_line(activity.error) or "not yet"
    return f"attempt {activity.attempt + 1}{bound} {when}: {why}"


def _until(activity: Activity, now: float, zone: tzinfo | None) -> str:
    if activity.until is None:
        return ""
    left = max(0.0, activity.until - now)
    return f"until {clock(activity.until, now, zone)} (in {duration(left)})"


def queue_words(row: Row, use: SlotUse) -> str:
    """Format ``queued, 16 of 16 slots busy`` for a step of which nothing runs."""
    runs = {command.partition("/")[0] for command in use.commands}
    if row.holding or use.busy < use.slots or not runs.isdisjoint(row.open):
        return ""
    return f"queued, {use.busy:,} of {use.slots:,} slots busy"
