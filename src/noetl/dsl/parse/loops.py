"""``loop``, and the loops inside it."""

from __future__ import annotations

from collections.abc import Collection

from noetl.dsl.grammar.steps import LOOP, LOOP_POLICY, LOOP_SPEC
from noetl.dsl.model import Loop
from noetl.dsl.parse.context import Context, Spot
from noetl.dsl.parse.knobs import check_knobs
from noetl.dsl.place import Place
from noetl.templates import Template, Value, is_template
from noetl.types import JSON


def parse_loop(
    context: Context, at: Place, step: str, knobs: Collection[str], depth: int = 0
) -> Loop | None:
    """None (and reported) without a sound ``in`` and ``iterator``."""
    fields = context.reader.read(at, LOOP)
    missing = [
        key
        for key, older in (("in", "collection"), ("iterator", "element"))
        if key not in at and older not in at
    ]
    if missing:
        names = " and ".join(f"'{key}'" for key in missing)
        hint = 'a loop has in: "{{ … }}" and iterator: name'
        context.report.error("VAL-03", "loop", at, f"the loop lacks {names}", hint)
    spot = Spot(step, "loop", depth, recorded=True, statements=False)
    items = _items(context, fields.get("in"), spot)
    spec: dict[str, Place] = {}
    policy: dict[str, Place] = {}
    if "spec" in fields:
        spec = context.reader.read(fields["spec"], LOOP_SPEC, extra=knobs)
        check_knobs(context, fields["spec"])
        if "policy" in spec:
            policy = context.reader.read(spec["policy"], LOOP_POLICY)
    inner = None
    if "loop" in fields:
        inner = parse_loop(context, fields["loop"], step, knobs, depth + 1)
    if items is None or "iterator" not in fields:
        return None
    return Loop(
        items=items,
        iterator=fields["iterator"].node.value,
        mode=spec["mode"].node.value if "mode" in spec else "sequential",
        max_in_flight=_plain(spec.get("max_in_flight")),
        placement=_plain(policy.get("exec")),
        inner=inner,
        body=at.node.plain(),
        at=at,
    )


def _plain(at: Place | None) -> JSON:
    return None if at is None else at.node.value


def _items(context: Context, at: Place | None, spot: Spot) -> Template | Value | None:
    if at is None:
        return None
    if at.node.is_sequence:
        return context.value(at, spot)
    if not is_template(at.node.value):
        message = f"'in' must be a template or a list, found '{at.node.value}'"
        hint = f'write in: "{{{{ {at.node.value} }}}}"'
        context.report.error("LOOP-02", "loop-in", at, message, hint)
        return None
    return context.template(at, spot)
