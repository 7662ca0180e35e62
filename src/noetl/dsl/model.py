"""Playbook model of the engine: frozen, normalized, templates compiled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Literal

import msgspec

from noetl.dsl.node import Location
from noetl.templates import Template, Value, compile_value
from noetl.types import JSON

Mode = Literal["exclusive", "inclusive"]
LoopMode = Literal["sequential", "parallel"]
Action = Literal["continue", "retry", "jump", "break", "fail", "skip"]
Backoff = Literal["none", "linear", "exponential"]


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a playbook with its location in the text."""

    at: Location


class Directive(Located, frozen=True):
    """Effect of a rule. ``delay`` is in seconds, or yields a duration."""

    do: Action
    attempts: int = 3
    backoff: Backoff = "none"
    delay: float | Value = 0.0
    to: str | None = None
    set_iter: Value | None = None
    set_ctx: Value | None = None
    error: Value | None = None


class Rule(Located, frozen=True):
    """Task rule; ``when`` is None for the fallback (``else``)."""

    when: Template | None
    then: Directive


class Task(Located, frozen=True, dict=True):
    """One labelled tool call of a pipeline.

    ``spec`` is the effective one: kind defaults < executor < step < loop < task.
    ``rules`` is None where the author gave no policy (ok continues, error fails).
    ``body`` is what the author wrote. ``inputs`` are its inputs, compiled, laid over
    the workbook's template where the kind was ``workbook``; ``literals`` are those
    that are taken as written, such as python code; ``guards`` are conditions by name.
    """

    label: str
    kind: str
    inputs: Mapping[str, Value]
    literals: Mapping[str, JSON]
    spec: Mapping[str, JSON]
    rules: tuple[Rule, ...] | None
    body: Mapping[str, JSON]
    label_at: Location
    guards: Mapping[str, Template] = msgspec.field(default_factory=dict)

    @cached_property
    def knobs(self) -> Value:
        """``spec``, compiled when it is first run: knobs may be templates, too."""
        return compile_value(dict(self.spec))


class Loop(Located, frozen=True):
    """Loop of a step; ``items`` is one template, or a list that may hold templates."""

    items: Template | Value
    iterator: str
    mode: LoopMode
    max_in_flight: int | None
    placement: Literal["local", "distributed"] | None
    inner: Loop | None
    body: Mapping[str, JSON]

    def levels(self) -> Iterator[Loop]:
        """Return this loop and the ones inside it, outermost first."""
        level: Loop | None = self
        while level is not None:
            yield level
            level = level.inner


class Arc(Located, frozen=True):
    """Arc of a router; ``when`` is None for an unguarded arc."""

    step: str
    when: Template | None
    args: Value | None
    body: Mapping[str, JSON]


class Router(Located, frozen=True):
    mode: Mode
    arcs: tuple[Arc, ...]
    body: Mapping[str, JSON]


class AdmitRule(Located, frozen=True):
    """Admission rule; ``when`` is None for the fallback (``else``)."""

    when: Template | None
    allow: bool


class Join(Located, frozen=True):
    """Join of a step; ``sources`` is None for every step with an arc to it.

    ``need`` is all, any or a number of tokens.
    """

    need: Literal["all", "any"] | int
    sources: tuple[str, ...] | None


class Step(Located, frozen=True):
    """Transition: admission, pipeline, router.

    ``admit`` is None without a gate. ``best_effort`` keeps a loop running past failed
    iterations. ``deadline`` bounds one run, in seconds. ``keep`` are the labels of
    tasks whose outcomes the step reads later.
    """

    name: str
    desc: str | None
    admit: tuple[AdmitRule, ...] | None
    join: Join | None
    best_effort: bool
    deadline: float | None
    loop: Loop | None
    tasks: tuple[Task, ...]
    next: Router | None
    spec: Mapping[str, JSON]
    keep: tuple[str, ...] = ()


class KeychainEntry(Located, frozen=True):
    """Keychain entry; ``fields`` is compiled and may read the entries before it."""

    name: str
    kind: str
    body: Mapping[str, JSON]
    fields: Value


class Limits(msgspec.Struct, frozen=True):
    """Maximum ``step_runs`` per execution and ``task_runs`` per pipeline (S-36)."""

    step_runs: int = 100_000
    task_runs: int = 1_000_000


class Playbook(Located, frozen=True, dict=True):
    """Whole document. ``extras`` are root keys that an extension allows."""

    name: str
    path: str
    version: str | None
    description: str | None
    metadata: Mapping[str, JSON]
    keychain: tuple[KeychainEntry, ...]
    executor: Mapping[str, JSON]
    workload: Mapping[str, JSON]
    workflow: tuple[Step, ...]
    workbook: Mapping[str, JSON]
    extras: Mapping[str, JSON]
    extensions: frozenset[str]

    @cached_property
    def steps(self) -> Mapping[str, Step]:
        """Steps by name; the first of duplicates, which are an error."""
        named: dict[str, Step] = {}
        for step in self.workflow:
            named.setdefault(step.name, step)
        return named

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels that each of its executions has."""
        return self.metadata.get("labels") or {}

    @property
    def retention(self) -> str | None:
        """Duration for which its executions are kept, if it has one of its own."""
        own = (self.executor.get("spec") or {}).get("retention")
        return None if own is None else str(own)

    @cached_property
    def limits(self) -> Limits:
        """Limits of its executions; the validator allows only lower ones than the
        default."""
        return Limits(**(self.executor.get("spec") or {}).get("limits") or {})

    @property
    def entry(self) -> Step | None:
        """Step that gets the first token: ``start``, else the first one."""
        return self.steps.get("start") or next(iter(self.workflow), None)
