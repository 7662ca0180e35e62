"""Views of the log in the documents of the specification.

A view takes the events of one execution in order, from the first on, and yields
documents. ``001`` is the log as it is, ``000`` has the formal names and the tokens as
separate events, ``003`` has cases, tools, retries and polls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec

from noetl.dialects.views.formal import FormalView
from noetl.dialects.views.technical import TechnicalView
from noetl.engine.events import Event
from noetl.engine.ids import span_id_of
from noetl.types import JSON

DIALECTS = ("000", "001", "003")


class View(Protocol):
    def take(self, event: Event) -> Iterable[dict[str, JSON]]:
        """Yield the documents of this event, given the events before it."""
        ...


class PlainView:
    """Canonical log, each event with its place in the trace."""

    def __init__(self) -> None:
        self._trace: JSON = None

    def take(self, event: Event) -> Iterable[dict[str, JSON]]:
        self._trace = self._trace or event.payload.get("trace_id")
        span = span_id_of(event.entity_id, event.attempt)
        document: dict[str, JSON] = msgspec.to_builtins(event)
        yield {**document, "trace_id": self._trace, "span_id": span}


_VIEWS: Mapping[str, Callable[[], View]] = {
    "000": FormalView,
    "001": PlainView,
    "003": TechnicalView,
}


def make_view(dialect: str) -> View:
    return _VIEWS[dialect]()
