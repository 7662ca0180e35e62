"""A report under a number that was used before: does the log have the same?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from noetl.engine.events import Event
from noetl.engine.references import is_reference, is_same
from noetl.engine.reports import Fact
from noetl.types import JSON

Verdict = Literal["same", "other", "unknown"]

_FIXED = {"seconds", "until", "timers"}
"""What the server makes moments of, by its own clock."""
_PATCHES = {"set_ctx", "set_iter"}


def judge(facts: Sequence[Fact], events: Sequence[Event]) -> Verdict:
    """``events`` are those of the pipeline. It is the ``same`` if they have all of the
    facts, ``other`` if they have one of them otherwise."""
    verdict: Verdict = "same"
    for fact in facts:
        about = [event for event in events if _is_about(event, fact)]
        if any(_says(event, fact) for event in about):
            continue
        if about:
            return "other"
        verdict = "unknown"
    return verdict


def _is_about(event: Event, fact: Fact) -> bool:
    """A task that is run again after a jump has several."""
    told = (fact.name, fact.label, fact.attempt)
    return (event.name, event.task_label, event.attempt) == told


def _says(event: Event, fact: Fact) -> bool:
    if fact.name not in ("task.done", "task.suspended"):
        return True  # of these the server says everything itself
    stored, told = event.payload, fact.payload
    changed = {"spilled", "refused"}
    if fact.name == "task.suspended":
        changed |= _FIXED
    if "refused" in stored:  # it was made a failure of
        changed |= {"directive", "error"}
    patches = _PATCHES & told.keys()
    changed |= {key for key in patches if _is_unfolded(stored, told, key)}
    members = (stored.keys() | told.keys()) - changed
    return all(_agree(stored.get(key), told.get(key)) for key in members)


def _is_unfolded(stored: dict[str, JSON], told: dict[str, JSON], key: str) -> bool:
    """Whether a dotted key led into a value that is stored elsewhere."""
    names, said = set(stored.get(key) or ()), set(told[key] or ())
    return names != said and _first(names) == _first(said)


def _first(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def _agree(stored: JSON, told: JSON) -> bool:
    """Equal, but for values that the server has put elsewhere."""
    if stored == told:
        return True
    if is_reference(stored):
        return is_same(stored, told)
    if isinstance(stored, dict) and isinstance(told, dict):
        return stored.keys() == told.keys() and all(
            _agree(stored[key], told[key]) for key in told
        )
    if isinstance(stored, list) and isinstance(told, list):
        pairs = zip(stored, told, strict=False)
        return len(stored) == len(told) and all(_agree(*pair) for pair in pairs)
    return False
