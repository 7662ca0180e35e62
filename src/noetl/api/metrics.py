"""Metrics for Prometheus: requests, executions, events, connections, quotas."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import astuple
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
from noetl.ports import Backlog
from noetl.ports.access import WorkerRecord
from noetl.runtime.executions.loaded import LoadedExecution
from noetl.runtime.executions.snapshots import refusals
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.subscriptions import Subscriptions
from noetl.service.retention.sweeper import Sweeper
from noetl.service.telemetry.exports import Exports
from noetl.service.telemetry.run_metrics import RunMetrics

MEDIA_TYPE = CONTENT_TYPE_LATEST
MAX_LABELS = 200
OTHER = "other"
_NOTHING: Mapping[str, LoadedExecution] = {}


class Metrics:
    """The metrics of one server; one process may run several servers.

    Labels are routes, statuses and pools, at most ``MAX_LABELS`` of them; ``other``
    stands for the rest. ``RunMetrics`` has those with paths of playbooks.
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._runs = RunMetrics()
        self._known = _NOTHING
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
        self._add_slots()
        self._add_pools()
        self._add_exports()

    def _add_exports(self) -> None:
        registry, export = self._registry, ["export"]
        self._waiting = Gauge(
            "noetl_exports_pending",
            "Executions that ended and wait for the export, of all servers.",
            export,
            registry=registry,
        )
        self._lag = Gauge(
            "noetl_export_lag_seconds",
            "Seconds since the end of the execution that has waited longest.",
            export,
            registry=registry,
        )
        self._delivered = Counter(
            "noetl_exported_events_total",
            "Events that this server delivered.",
            export,
            registry=registry,
        )
        self._failures = Counter(
            "noetl_export_failures_total",
            "Deliveries of this server that failed; they are repeated.",
            export,
            registry=registry,
        )

    def _add_slots(self) -> None:
        self._late = Counter(
            "noetl_schedule_slots_late_total",
            "Slots of schedules that this server started more than a minute late.",
            registry=self._registry,
        )
        self._left_out = Counter(
            "noetl_schedule_slots_missed_total",
            "Slots of schedules that this server decided to leave out.",
            registry=self._registry,
        )

    def note_slots(self, *, late: int = 0, left_out: int = 0) -> None:
        """Count slots that started late, or were left out after an outage."""
        self._late.inc(late)
        self._left_out.inc(left_out)

    def _add_pools(self) -> None:
        registry, pool = self._registry, ["pool"]
        self._queued = Gauge(
            "noetl_queued_commands",
            "The same as noetl_commands_ready, under its earlier name.",
            pool,
            registry=registry,
        )
        self._ready = Gauge(
            "noetl_commands_ready",
            "Commands that wait for a slot, of all servers of the store.",
            pool,
            registry=registry,
        )
        self._oldest = Gauge(
            "noetl_commands_oldest_ready_seconds",
            "Seconds for which the oldest of these commands has waited.",
            pool,
            registry=registry,
        )
        self._leased = Gauge(
            "noetl_slots_in_use",
            "Slots that run a command, of all servers of the store.",
            pool,
            registry=registry,
        )
        self._slots = Gauge(
            "noetl_worker_slots",
            "Slots of workers that asked for work within the last hour.",
            pool,
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
                "Streams, waits, claims, bodies and tests refused as a quota was full.",
                lambda: sum(each.refused for each in astuple(quotas)),
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
        self._known = orchestrator.cache
        self.gauge(
            "noetl_event_subscribers",
            "Subscribers to events of executions.",
            lambda: float(len(subscriptions)),
        )
        self.gauge(
            "noetl_sweep_age_seconds",
            "Seconds since this server last looked for due timers and lost leases.",
            orchestrator.sweep.age,
        )
        self.gauge(
            "noetl_timers_late_seconds",
            "Seconds by which the oldest timer of the last look was overdue.",
            lambda: orchestrator.sweep.late,
        )
        self.gauge(
            "noetl_executions_loaded",
            "Executions in the memory of this server.",
            lambda: float(len(orchestrator.cache)),
        )
        self.counter(
            "noetl_stalled_total",
            "Open executions that were found without any command, lease or timer.",
            lambda: float(orchestrator.stalls.count),
        )
        self.counter(
            "noetl_snapshots_refused_total",
            "Snapshots that do not fit their logs; the logs are read instead.",
            lambda: float(refusals.count),
        )

    def watch_retention(self, sweeper: Sweeper) -> None:
        """Add the metrics of removals."""
        self.counter(
            "noetl_retention_removed_total",
            "Executions that this server removed because they were old.",
            lambda: sweeper.removed,
        )
        self.counter(
            "noetl_retention_values_removed_total",
            "Stored values that this server removed because no log named them.",
            lambda: sweeper.values_removed,
        )
        self.counter(
            "noetl_retention_failures_total",
            "Passes of this server that an error ended before all was removed.",
            lambda: sweeper.failures,
        )
        self.gauge(
            "noetl_retention_last_pass_timestamp_seconds",
            "Time at which this server had last removed all that was old.",
            lambda: sweeper.ended_at,
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
        self._runs.note(events, self._about)

    def _about(self, execution_id: str) -> tuple[str | None, str] | None:
        loaded = self._known.get(execution_id)
        if loaded is None:
            return None
        return loaded.about.get("path"), loaded.state.started_at

    def note_backlog(
        self,
        backlog: Mapping[str, Backlog],
        oldest: Mapping[str, float],
        workers: Iterable[WorkerRecord],
        now: float,
    ) -> None:
        """Set the figures of pools; pools with the most commands have their label.

        ``oldest`` has the time since which the oldest command of a pool waits.
        """
        slots = Counts[str]()
        for each in workers:
            slots[each.pool] += each.slots
        ranked = sorted({*backlog, *slots}, key=lambda x: backlog.get(x, Backlog()))
        shown = set(ranked[-MAX_LABELS:])
        gauges = (self._ready, self._queued, self._oldest, self._leased, self._slots)
        for gauge in gauges:
            gauge.clear()
        ages = dict[str, float]()
        for pool in ranked:
            label = pool if pool in shown else OTHER
            found = backlog.get(pool, Backlog())
            self._ready.labels(label).inc(found.ready)
            self._queued.labels(label).inc(found.ready)
            self._leased.labels(label).inc(found.leased)
            self._slots.labels(label).inc(slots[pool])
            age = max(0.0, now - oldest[pool]) if oldest.get(pool) else 0.0
            ages[label] = max(age, ages.get(label, 0.0))
        for label, age in ages.items():
            self._oldest.labels(label).set(age)

    async def note_exports(self, exports: Exports) -> None:
        """Set the figures of exports. Raises ``StoreError``."""
        for name, waiting in (await exports.waiting()).items():
            self._waiting.labels(name).set(waiting.waiting)
            self._lag.labels(name).set(await exports.lag(waiting))
        for each in exports.loops:
            name, done = each.export.name, each.take_counts()
            self._delivered.labels(name).inc(done.events)
            self._failures.labels(name).inc(done.failures)

    def text(self, *, with_paths: bool = True) -> bytes:
        text = generate_latest(self._registry)
        return text + generate_latest(self._runs.registry) if with_paths else text


class _ReadCounter(Collector):
    """A counter that another object keeps; ``name`` ends in ``_total``."""

    def __init__(self, name: str, doc: str, value: Callable[[], float]) -> None:
        self._name = name
        self._doc = doc
        self._value = value

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(self._name, self._doc, value=self._value())
