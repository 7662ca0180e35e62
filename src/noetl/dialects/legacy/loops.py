"""``collection``, ``element``, ``batch_size``: the loop by its canonical names."""

from __future__ import annotations

from noetl.dialects.legacy.nodes import changed
from noetl.dialects.legacy.warnings import note_use
from noetl.dsl.diagnostics import Report
from noetl.dsl.grammar.reader import Reader
from noetl.dsl.grammar.shape import Field, Record, one_of
from noetl.dsl.grammar.steps import LOOP, LOOP_SPEC
from noetl.dsl.node import Node
from noetl.dsl.place import Place
from noetl.types import JSON

_ON_ERROR = Record(
    "legacy_loop_spec",
    "loop.spec",
    {"on_error": Field(one_of("fail", "continue"), "LEG-STEP-07", "Failing.")},
    unknown="allow",
)
_NAMES = {"collection": "in", "element": "iterator"}


def rewrite_loop(loop: Place, report: Report) -> Node:
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


def _spec(spec: Place, report: Report) -> Node:
    fresh: dict[str, JSON] = {}
    Reader(report).read(spec, _ON_ERROR)
    for key in ("batch_size", "on_error"):
        if key in spec:
            note_use(report, spec.key(key), key, LOOP_SPEC.retired[key].replacement)
    mode = spec.get("mode")
    if "batch_size" in spec and mode is not None and mode.node.value == "parallel":
        fresh["max_in_flight"] = spec["batch_size"].node
    return changed(spec.node, fresh, frozenset({"batch_size", "on_error"}))
