"""``next``: a router with arcs, whatever shape it was written in."""

from __future__ import annotations

from noetl.dsl.grammar.dialects import or_enabled
from noetl.dsl.grammar.steps import ARC, NEXT_SPEC, ROUTER
from noetl.dsl.model import Arc, Router
from noetl.dsl.node import describe
from noetl.dsl.parse.context import Context, Spot
from noetl.dsl.place import Place


def parse_router(context: Context, at: Place, step: str) -> Router | None:
    """The router at ``step.next``; None (and reported) if it is none."""
    if not at.node.is_mapping:
        return _other_shape(context, at)
    fields = context.reader.read(at, ROUTER)
    mode = "exclusive"
    if "spec" in fields:
        spec = context.reader.read(fields["spec"], NEXT_SPEC)
        mode = spec["mode"].node.value if "mode" in spec else mode
    targets = fields.get("arcs")
    if targets is None or not targets.node.is_sequence:
        return None
    if not targets.node.items:
        message = "'arcs' is empty: the router leads nowhere"
        hint = "add - step: name, or remove 'next'"
        context.report.error("VAL-13", "router", targets, message, hint)
    arcs = _arcs(context, targets, step)
    body = fields["spec"].node.plain() if "spec" in fields else {}
    return Router(mode, arcs, body, at=at)  # type: ignore[arg-type]


def _other_shape(context: Context, at: Place) -> Router | None:
    """Lists and bare names are older forms."""
    name = at.node.value if isinstance(at.node.value, str) else "name"
    message = f"'next' must be a router with 'arcs', found {describe(at.node)}"
    hint = or_enabled(f"write next: {{arcs: [{{step: {name}}}]}}")
    context.report.error("VAL-13", "router", at, message, hint)
    return None


def _arcs(context: Context, targets: Place, step: str) -> tuple[Arc, ...]:
    spot = Spot(step, "arc")
    recorded = Spot(step, "arc", recorded=True, statements=False)
    arcs: list[Arc] = []
    for at in targets.children():
        if not at.node.is_mapping:
            message = f"an arc must be a mapping, found {describe(at.node)}"
            name = at.node.value if isinstance(at.node.value, str) else "name"
            hint = f"write - step: {name}"
            context.report.error("NEXT-04", "type", at, message, hint)
            continue
        parts = context.reader.read(at, ARC)
        when = context.guard(parts["when"], spot) if "when" in parts else None
        args = context.value(parts["args"], recorded) if "args" in parts else None
        if "step" in parts:
            target = parts["step"].node.value
            arcs.append(Arc(target, when, args, at.node.plain(), at=at))
    return tuple(arcs)
