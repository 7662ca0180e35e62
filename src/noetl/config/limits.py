"""Settings of the operator's limits, which no playbook can raise."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noetl.config.host import Role
from noetl.config.setting import Setting, parse_names
from noetl.dsl.times import parse_duration
from noetl.engine.limits import EVERY_POOL, EXECUTION_EVENTS, TOOL_TIME, Ceilings
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl.config.reading import Settings

_NO_POOL = "none"
_DEFAULT_POOLS = frozenset({"default"})
_MAX_TOOL_TIME_S = 366 * 86_400.0
_MIN_EVENTS, _MAX_EVENTS = 1_000, 1_000_000_000
_PATTERN = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*(/\*)?", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,10}\Z")


def parse_pools(value: JSON, _: Path) -> frozenset[str] | None:
    names = parse_names(value)
    if names == {_NO_POOL}:
        return frozenset()
    if not all(name.isprintable() and len(name) <= 255 for name in names):
        raise ValueError
    if _NO_POOL in names or (EVERY_POOL in names and len(names) > 1):
        raise ValueError
    return names


def parse_tool_time(value: JSON, _: Path) -> float:
    seconds = parse_duration(value)
    if not 1 <= seconds <= _MAX_TOOL_TIME_S:
        raise ValueError
    return seconds


def parse_events(value: JSON, _: Path) -> int:
    if isinstance(value, str) and _NUMBER.match(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError
    if not _MIN_EVENTS <= value <= _MAX_EVENTS:
        raise ValueError
    return value


def parse_executions(value: JSON, _: Path) -> tuple[tuple[str, int], ...]:
    found: dict[str, int] = {}
    for each in parse_names(value):
        pattern, number = (part.strip() for part in each.partition("=")[::2])
        if not _PATTERN.fullmatch(pattern) or not _NUMBER.match(number):
            raise ValueError
        if found.setdefault(pattern, int(number)) != int(number):
            raise ValueError
    return tuple(sorted(found.items()))


def _by_role() -> None:
    return None


POOLS_CODE: Setting[frozenset[str] | None] = Setting(
    name="pools_code",
    words="names of worker pools separated by commas, * for every pool, or none",
    doc="Worker pools of a server that run `python`, `script` and `shell`. A step with "
    "such a task that names another pool fails with `pool.code_off`. The server "
    "decides; a worker whose own setting does not name its pool refuses code that the "
    "server sends. In a configuration file: `pools.code`, a list; an empty list is "
    "`none`.",
    parse=parse_pools,
    default=_by_role,
    default_words="`noetl run`: every pool; a server and `noetl up`: `default`; a "
    "worker: what its server allows",
)
LIMITS_TOOL_TIME: Setting[float] = Setting(
    name="limits_tool_time",
    words="a duration from 1s to 366d (90m, 24h), or seconds",
    doc="The maximum time of one call of a tool, even if `spec.timeout` of its task is "
    "longer. The worker that runs the tool enforces it. Calls of tasks and kinds "
    "without a timeout end after one hour. In a configuration file: "
    "`limits.tool_time`.",
    parse=parse_tool_time,
    default=lambda: TOOL_TIME,
    default_words="86400 (24 h)",
)
LIMITS_EXECUTION_EVENTS: Setting[int] = Setting(
    name="limits_execution_events",
    words=f"a whole number from {_MIN_EVENTS} to {_MAX_EVENTS}",
    doc="The maximum number of events in the log of one execution. An execution that "
    "reaches it fails with `limit.exceeded`; its running tasks and its children are "
    "stopped. In a configuration file: `limits.execution_events`.",
    parse=parse_events,
    default=lambda: EXECUTION_EVENTS,
    default_words="10000000",
)
LIMITS_EXECUTIONS: Setting[tuple[tuple[str, int], ...]] = Setting(
    name="limits_executions",
    words="paths with numbers, separated by commas (sales/*=100, ops/report=5)",
    doc="The maximum number of unfinished executions that a server accepts for a "
    "playbook, or for all below a path, such as those of a team. A further start is "
    "refused with `quota.executions` (429); a schedule tries again. Children of "
    "executions are not counted. With several servers the limit may be exceeded by "
    "what they start within 10 seconds. In a configuration file: `limits.executions`, "
    "a list.",
    parse=parse_executions,
    default=tuple[tuple[str, int], ...],
    default_words="none",
)
LIMIT_SETTINGS: tuple[Setting[Any], ...] = (
    POOLS_CODE,
    LIMITS_TOOL_TIME,
    LIMITS_EXECUTION_EVENTS,
    LIMITS_EXECUTIONS,
)


def ceilings_of(settings: Settings, role: Role) -> Ceilings:
    """Combine the settings with the defaults of a role."""
    pools = settings[POOLS_CODE]
    if pools is None:
        pools = frozenset({EVERY_POOL}) if role == "embedded" else _DEFAULT_POOLS
    return Ceilings(
        code_pools=pools,
        tool_time=settings[LIMITS_TOOL_TIME],
        execution_events=settings[LIMITS_EXECUTION_EVENTS],
    )


def worker_ceilings(settings: Settings) -> Ceilings:
    """Return the limits of a worker, whose server has already decided about code."""
    return ceilings_of(settings, "embedded")
