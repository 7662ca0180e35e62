"""Figures for Prometheus: requests, executions, events, watchers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from noetl.engine.events import Event

MEDIA_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """A registry of its own: several servers may live in one process.

    Labels are routes and statuses, never what somebody sent.
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "noetl_http_requests_total",
            "Requests that were answered.",
            ["method", "route", "status"],
            registry=registry,
        )
        self.seconds = Histogram(
            "noetl_http_request_seconds",
            "Time until an answer began.",
            ["route"],
            registry=registry,
        )
        self.fenced = Counter(
            "noetl_fenced_total",
            "Reports and beats of workers that had lost their lease: refused.",
            registry=registry,
        )
        self.quarantined = Counter(
            "noetl_quarantined_total",
            "Executions that this server set aside.",
            registry=registry,
        )
        self._events = Counter(
            "noetl_events_total", "Events committed by this server.", registry=registry
        )
        self._started = Counter(
            "noetl_executions_started_total",
            "Executions accepted by this server.",
            registry=registry,
        )
        self._finished = Counter(
            "noetl_executions_finished_total",
            "Executions that ended on this server.",
            ["status"],
            registry=registry,
        )

    def gauge(self, name: str, doc: str, value: Callable[[], float]) -> None:
        """A figure that is asked for when somebody looks."""
        Gauge(name, doc, registry=self._registry).set_function(value)

    def note(self, events: Sequence[Event]) -> None:
        """A batch was committed."""
        self._events.inc(len(events))
        if events[0].seq == 1:
            self._started.inc()
        last = events[-1]
        if last.name == "playbook.processed":
            self._finished.labels(last.payload["status"]).inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)
