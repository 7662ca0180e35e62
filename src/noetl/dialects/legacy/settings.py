"""The modes of a step: what its ``spec`` and ``loop`` say about case and failure."""

from __future__ import annotations

import msgspec

from noetl.dialects.legacy.actions import POLICIES, Wish
from noetl.dialects.legacy.warnings import note_use
from noetl.dsl.diagnostics import Report
from noetl.dsl.grammar.reader import Reader
from noetl.dsl.grammar.shape import Field, Record, one_of
from noetl.dsl.grammar.steps import STEP_SPEC
from noetl.dsl.place import Place
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
    """``element`` spells the loop's element; ``timers`` are those of a waiting step."""

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


def read_settings(step: Place, report: Report) -> Settings:
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
