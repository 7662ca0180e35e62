"""Metrics for Prometheus: requests, executions, events, connections, quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from noetl.api.http.quotas import Connections, Quotas
from noetl.engine.events import Event
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.subscriptions import Subscriptions

MEDIA_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """The metrics of one server; one process may run several servers.

    Labels are routes and statuses, never text from a request.
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "noetl_http_requests_total",
            "Answered HTTP requests.",
            ["method", "route", "status"],
            registry=registry,
        )
        self.seconds = Histogram(
            "noetl_http_request_seconds",
            "Seconds from a request to the first byte of its answer.",
            ["route"],
            registry=registry,
        )
        self.fenced = Counter(
            "noetl_fenced_total",
            "Reports and heartbeats refused because the worker had lost its lease.",
            registry=registry,
        )
        self.quarantined = Counter(
            "noetl_quarantined_total",
            "Executions that this server quarantined.",
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
        """Add a gauge whose value is read at each scrape."""
        Gauge(name, doc, registry=self._registry).set_function(value)

    def counter(self, name: str, doc: str, value: Callable[[], float]) -> None:
        """Add a counter whose value is read at each scrape."""
        self._registry.register(_ReadCounter(name, doc, value))

    def watch_load(self, connections: Connections, quotas: Quotas) -> None:
        """Add the metrics of connections and quotas: their use, and refusals."""
        streams, claims = quotas.streams, quotas.claims
        gauges: Sequence[tuple[str, str, Callable[[], float]]] = (
            ("connections", "Open connections.", lambda: len(connections)),
            (
                "open_streams",
                "Open event streams and open waits for the end of an execution.",
                lambda: streams.total,
            ),
            (
                "waiting_claims",
                "Claims of workers that wait for work.",
                lambda: claims.total,
            ),
            (
                "request_body_bytes",
                "Bytes of large request bodies in memory.",
                lambda: quotas.bodies.total + quotas.worker_bodies.total,
            ),
        )
        counters: Sequence[tuple[str, str, Callable[[], float]]] = (
            (
                "connections_refused_total",
                "Connections refused because all allowed connections were in use.",
                lambda: connections.refused,
            ),
            (
                "connections_closed_idle_total",
                "Idle connections closed to make room for new ones.",
                lambda: connections.dropped,
            ),
            (
                "quota_refusals_total",
                "Streams, waits, claims and bodies refused because a quota was full.",
                lambda: sum(
                    each.refused
                    for each in (streams, claims, quotas.bodies, quotas.worker_bodies)
                ),
            ),
        )
        for name, doc, value in gauges:
            self.gauge(f"noetl_{name}", doc, value)
        for name, doc, value in counters:
            self.counter(f"noetl_{name}", doc, value)

    def watch_executions(
        self, orchestrator: Orchestrator, subscriptions: Subscriptions
    ) -> None:
        """Add the metrics of executions, and count the events of each commit."""
        orchestrator.watch(self.note)
        self.gauge(
            "noetl_event_subscribers",
            "Subscribers to events of executions.",
            lambda: float(len(subscriptions)),
        )
        self.gauge(
            "noetl_executions_loaded",
            "Executions in the memory of this server.",
            lambda: float(len(orchestrator.cache)),
        )

    def watch_wakeups(self, count_missed: Callable[[], float]) -> None:
        self.counter(
            "noetl_wakeups_lost_total",
            "Wake-ups that NATS did not accept; polling finds their work.",
            count_missed,
        )

    def note(self, events: Sequence[Event]) -> None:
        """Count the events of a committed batch."""
        self._events.inc(len(events))
        if events[0].seq == 1:
            self._started.inc()
        last = events[-1]
        if last.name == "playbook.processed":
            self._finished.labels(last.payload["status"]).inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _ReadCounter(Collector):
    """A counter that another object keeps; ``name`` ends in ``_total``."""

    def __init__(self, name: str, doc: str, value: Callable[[], float]) -> None:
        self._name = name
        self._doc = doc
        self._value = value

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(self._name, self._doc, value=self._value())
