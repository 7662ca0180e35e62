"""Results in the dialect's shapes: everything that was there, and more beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from noetl.engine.outcome import Outcome
from noetl.types import JSON


def shape(kind: str, outcome: Outcome) -> Outcome:
    if outcome.status != "ok":
        return outcome
    if kind == "http":
        return replace(outcome, result=answer(outcome))
    if kind in ("postgres", "duckdb") and isinstance(outcome.result, dict):
        return per_command(outcome)
    return outcome


def answer(outcome: Outcome) -> dict[str, JSON]:
    """The body in ``data``, and its own members beside that if it has any."""
    body, seen = outcome.result, outcome.helper
    elapsed = seen.get("elapsed_ms")
    own = dict(body) if isinstance(body, Mapping) else {}
    return {
        **own,
        "status_code": seen.get("status"),
        "headers": seen.get("headers"),
        "data": body,
        "url": seen.get("url"),
        "elapsed": None if elapsed is None else elapsed / 1000,
    }


def per_command(outcome: Outcome) -> Outcome:
    """``command_0``, ``command_1``, … with the rows of each statement."""
    result = dict(outcome.result)
    stored = dict(outcome.stored)
    for number, (path, part) in enumerate(parts_of(result)):
        name = f"command_{number}"
        rows = part.get("rows")
        result[name] = {"rows": rows, "row_count": part.get("rowcount", 0)}
        if f"{path}rows" in stored:
            stored[f"{name}.rows"] = stored[f"{path}rows"]
    result.pop("before", None)
    result["row_count"] = result.get("rowcount", 0)
    return replace(outcome, result=result, stored=stored)


def parts_of(result: Mapping[str, JSON]) -> list[tuple[str, Mapping[str, JSON]]]:
    """The results of the statements, each with its place in the whole."""
    for name, last in (("statements", []), ("before", [("", result)])):
        if name in result:
            found: Sequence[JSON] = result[name]
            return [(f"{name}.{at}.", each) for at, each in enumerate(found)] + last
    return [("", result)]
