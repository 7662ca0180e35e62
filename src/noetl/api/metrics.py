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

from noetl.api.connections import Connections
from noetl.api.quotas import Quotas
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

    def watch_load(self, connections: Connections, quotas: Quotas) -> None:
        """What callers hold at this moment, and how often they wanted more."""
        streams, claims = quotas.streams, quotas.claims
        figures: Sequence[tuple[str, str, Callable[[], float]]] = (
            ("connections", "Open connections.", lambda: len(connections)),
            (
                "connections_refused",
                "Connections that were refused, for all that were open were in use.",
                lambda: connections.refused,
            ),
            (
                "connections_dropped",
                "Idle connections that were closed to make room.",
                lambda: connections.dropped,
            ),
            (
                "held_streams",
                "Streams of events and waits for an end that are open.",
                lambda: streams.total,
            ),
            ("held_claims", "Workers that wait for work.", lambda: claims.total),
            (
                "held_body_bytes",
                "Bytes of large request bodies in memory.",
                lambda: quotas.bodies.total + quotas.worker_bodies.total,
            ),
            (
                "held_refused",
                "Streams, waits, claims and bodies that were refused as too many.",
                lambda: sum(
                    each.refused
                    for each in (streams, claims, quotas.bodies, quotas.worker_bodies)
                ),
            ),
        )
        for name, doc, value in figures:
            self.gauge(f"noetl_{name}", doc, value)

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
