"""Times, counts and waits in the words of people."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from noetl.commands.live.rows import Activity
from noetl.dsl.node import printable
from noetl.dsl.secrets import mask
from noetl.engine.times import seconds_of
from noetl.engine.waits import WaitLine
from noetl.types import JSON

_ERROR = 160


def span(seconds: float) -> str:
    """``12 ms``, ``3.2 s``, ``4 min 05 s``, ``2 h 03 min``, ``3 d 4 h``."""
    if seconds < 0.0995:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {left:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def clock(moment: float, now: float, zone: tzinfo | None = None) -> str:
    """The time of day, with the date if it is not soon; local unless told."""
    time = datetime.fromtimestamp(moment, UTC).astimezone(zone)
    return f"{time:%H:%M:%S}" if moment - now < 43_200 else f"{time:%Y-%m-%d %H:%M:%S}"


def rate(per_second: float) -> str:
    """``0.20/s``, ``5.2/s``, ``12,345/s``."""
    if per_second >= 100:
        return f"{per_second:,.0f}/s"
    return f"{per_second:.{1 if per_second >= 1 else 2}f}/s"


def one_line(text: str) -> str:
    """A message of others: no control characters, no secrets, no second line."""
    text = " ".join(text[: 4 * _ERROR].split())
    text = printable(mask(text))
    return text if len(text) <= _ERROR else text[:_ERROR] + "…"


def waiting_words(wait: WaitLine, now: float) -> str:
    """``ask.decision: signal 'approval', since …, until …, for operator``."""
    if wait.on == "signal":
        about = f"signal '{one_line(wait.signal or '')}'"
    elif wait.on == "playbook":
        about = f"playbook {one_line(wait.playbook or '')} ({wait.execution_id})"
    else:
        about = "another attempt" if wait.on == "delay" else "a time"
    words = f"◷ {wait.step}.{wait.task}: {about}"
    if wait.since is not None:
        began = seconds_of(wait.since)
        words += f", since {_date(began)} ({span(max(0.0, now - began))} ago)"
    if wait.until is not None:
        end = seconds_of(wait.until)
        left = f"in {span(end - now)}" if end > now else "over"
        words += f", until {_date(end)} ({left})"
    if wait.roles:
        words += f", for {' or '.join(wait.roles)}"
    return words + _form_words(wait.schema)


def _form_words(schema: JSON) -> str:
    """The fields of a form, the needed ones with a star."""
    fields = (schema or {}).get("properties", {})
    needed = (schema or {}).get("required", ())
    names = [f"{name}*" if name in needed else name for name in fields]
    title = (schema or {}).get("title")
    words = f"\n    {one_line(title)}" if isinstance(title, str) else ""
    return words + (f"\n    fields: {one_line(', '.join(names))}" if names else "")


def _date(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC).astimezone():%Y-%m-%d %H:%M:%S}"


def activity_words(activity: Activity, now: float, zone: tzinfo | None = None) -> str:
    """``call, attempt 2`` or what the pipeline waits for."""
    label = activity.label
    match activity.on:
        case "work":
            again = f", attempt {activity.attempt}" if activity.attempt > 1 else ""
            return f"{label}{again}"
        case "retry":
            return f"{label}: {_retry(activity, now)}"
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
    """When comes before why: a line that is too long loses its end."""
    bound = f" of {activity.attempts}" if activity.attempts else ""
    left = (activity.until or now) - now
    when = f"in {span(left)}" if left > 0 else "now"
    why = one_line(activity.error) or "not yet"
    return f"attempt {activity.attempt + 1}{bound} {when}: {why}"


def _until(activity: Activity, now: float, zone: tzinfo | None) -> str:
    if activity.until is None:
        return ""
    left = max(0.0, activity.until - now)
    return f"until {clock(activity.until, now, zone)} (in {span(left)})"
