"""Modes of a step: settings of ``spec`` and ``loop`` for case and failure."""

from __future__ import annotations

import msgspec

from noetl.dialects.legacy.case import POLICIES, Wish
from noetl.dialects.legacy.nodes import changed, note_use
from noetl.dsl.diagnostics import Report
from noetl.dsl.grammar.reader import Reader
from noetl.dsl.grammar.records import Field, Record, one_of
from noetl.dsl.grammar.steps import LOOP, LOOP_SPEC, STEP_SPEC
from noetl.dsl.node import Location, Node
from noetl.types import JSON

MODES = Record(
    "legacy_spec",
    "step.spec",
    {
        "case_mode": Field(one_of("exclusive", "inclusive"), "LEG-CASE-02", "Mode."),
        "eval_mode": Field(one_of("on_entry", "on_event"), "LEG-CASE-08", "When."),
        "branch_order": Field(one_of("source", "priority"), "LEG-CASE-06", "Order."),
        "next_policy": Field(one_of(*POLICIES), "LEG-NEXT-03", "After a 'next'."),
        "on_error": Field(one_of("fail", "ignore", "retry"), "LEG-STEP-03", "Failing."),
    },
    unknown="allow",
)


class Settings(msgspec.Struct):
    """Modes; ``element`` is the loop's element, ``timers`` those of a waiting step."""

    case_mode: str = "exclusive"
    waits: bool = False
    branch_order: str = "source"
    next_policy: str = "end_step"
    on_error: str = "fail"
    looped: bool = False
    best_effort: bool = False
    element: dict[str, str] = msgspec.field(default_factory=dict)
    timers: dict[str, JSON] = msgspec.field(default_factory=dict)
    gone: frozenset[str] = frozenset()

    def policy(self, wish: Wish) -> str:
        return wish.policy or self.next_policy


def read_settings(step: Location, report: Report) -> Settings:
    spec, loop = step.get("spec"), step.get("loop")
    settings = Settings(looped=loop is not None)
    if spec is not None and spec.node.is_mapping:
        found = Reader(report).read(spec, MODES)
        for key in MODES.fields:
            if key in spec:
                settings.gone |= {key}
                replacement = STEP_SPEC.retired[key].replacement
                note_use(report, spec.key(key), key, replacement)
            if key in found and key != "eval_mode":
                setattr(settings, key, found[key].node.value)
        for key in ("next_mode", "set_vars"):
            if key in spec:
                settings.gone |= {key}
                replacement = STEP_SPEC.retired[key].replacement
                note_use(report, spec.key(key), key, replacement)
        mode = found.get("eval_mode")
        settings.waits = mode is not None and mode.node.value == "on_event"
        if settings.waits:
            timers = spec.get("timers")
            if timers is not None and timers.node.is_mapping:
                settings.timers = dict(timers.node.entries)
            if "timeout" in spec:
                settings.timers["timeout"] = spec["timeout"].node
            settings.gone |= {"timers"}
    if loop is not None:
        at = loop.get("element") or loop.get("iterator")
        if at is not None and isinstance(at.node.value, str):
            settings.element = {at.node.value: f"iter.{at.node.value}"}
        inner = loop.get("spec")
        failing = inner.get("on_error") if inner is not None else None
        if failing is not None and failing.node.value == "continue":
            settings.best_effort = True
    return settings


_ON_ERROR = Record(
    "legacy_loop_spec",
    "loop.spec",
    {"on_error": Field(one_of("fail", "continue"), "LEG-STEP-07", "Failing.")},
    unknown="allow",
)
_NAMES = {"collection": "in", "element": "iterator"}


def rewrite_loop(loop: Location, report: Report) -> Node:
    fresh: dict[str, JSON] = {}
    gone: set[str] = set()
    for old, new in _NAMES.items():
        if old in loop:
            gone.add(old)
            note_use(report, loop.key(old), old, LOOP.retired[old].replacement)
            if new in loop:
                message = f"'{old}' and '{new}' are two names of the same thing"
                report.error("VAL-03", "loop", loop.key(old), message, "keep one")
            else:
                fresh[new] = loop[old].node
    spec = loop.get("spec")
    if spec is not None and spec.node.is_mapping:
        fresh["spec"] = _spec(spec, report)
    found = changed(loop.node, fresh, frozenset(gone))
    for old in gone:
        found.key_marks[_NAMES[old]] = loop.node.key_marks[old]
    return found


def _spec(spec: Location, report: Report) -> Node:
    fresh: dict[str, JSON] = {}
    Reader(report).read(spec, _ON_ERROR)
    for key in ("batch_size", "on_error"):
        if key in spec:
            note_use(report, spec.key(key), key, LOOP_SPEC.retired[key].replacement)
    mode = spec.get("mode")
    if "batch_size" in spec and mode is not None and mode.node.value == "parallel":
        fresh["max_in_flight"] = spec["batch_size"].node
    return changed(spec.node, fresh, frozenset({"batch_size", "on_error"}))
