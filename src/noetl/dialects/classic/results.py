"""Results of steps by their names: arcs hand them on with the token.

The result of a step that templates elsewhere name becomes an argument of its arcs,
and arguments travel with the token. A last step without a tool has the result of the
step before it, or of the one that the calling playbook has asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from noetl.dialects.classic.nodes import changed, listed, made, mapping, text_of
from noetl.dialects.classic.texts import references
from noetl.dialects.classic.uses import Uses
from noetl.dsl.node import Node
from noetl.dsl.place import Place
from noetl.dsl.scopes import NAMESPACES

RETURN_STEP = "_return_step"
"""The workload key by which a caller asks for the result of a step."""

_RESULT = "_result"


class Known(msgspec.Struct, frozen=True):
    """What is known of a step: its name, and whether it is a loop."""

    name: str
    is_loop: bool
    is_http: bool

    @property
    def own(self) -> str:
        """Its result, as its own arcs see it."""
        if self.is_loop:
            return "(event.payload.results | default(event.payload.result))"
        return "event.payload.result"

    @property
    def handed_on(self) -> str:
        """The same for those behind it; of a failed one, its error."""
        error = "{'status': 'error', 'error': event.payload.error}"
        return f"{{{{ {self.own} | default({error}) }}}}"

    @property
    def returned(self) -> str:
        kept = f"args.{_RESULT} | default(none)"
        asked = f"(workload.{RETURN_STEP} | default('{self.name}')) == '{self.name}'"
        return f"{{{{ ({self.own} | default(none)) if {asked} else ({kept}) }}}}"


def known_steps(workflow: Iterable[Node]) -> dict[str, Known]:
    found: dict[str, Known] = {}
    for step in workflow:
        name = text_of(step.entries.get("step"))
        if name is not None and name.isidentifier() and name not in NAMESPACES:
            loop = "loop" in step.entries
            found.setdefault(name, Known(name, loop, _last_kind(step) == "http"))
    return found


def _last_kind(step: Node) -> str | None:
    tool = step.entries.get("tool")
    last = tool.items[-1] if tool is not None and tool.items else tool
    if last is None or "kind" in last.entries:
        return text_of(last.entries.get("kind")) if last is not None else None
    bodies = list(last.entries.values())
    return text_of(bodies[-1].entries.get("kind")) if bodies else None


def named_results(
    steps: Iterable[Place], workbook: Place | None, known: Mapping[str, Known]
) -> set[str]:
    """The steps whose results templates behind them read by name."""
    places = [each for each in steps if each.node.is_mapping]
    written = _written(places)
    found: set[str] = set()
    if workbook is not None:
        found = {path[0] for _, path in references(workbook)} & known.keys() - written
    for step in places:
        own = text_of(step.node.entries.get("step"))
        for key in step.child_keys():
            if key in ("step", "desc"):
                continue
            names = {path[0] for _, path in references(step[key])}
            if key == "next":
                names.discard(own or "")
            if key != "loop":  # whose collection is read before there is an iterator
                names -= _iterators(step.node)
            found |= (names & known.keys()) - written
    return found


def _iterators(step: Node) -> set[str]:
    names, loop = set(), step.entries.get("loop")
    while loop is not None:
        names.add(text_of(loop.entries.get("iterator")) or "")
        loop = loop.entries.get("loop")
    return names


def _written(steps: Iterable[Place]) -> set[str]:
    """Names that the author gives values to: they mean those, and no step."""
    found: set[str] = set()
    for step in steps:
        stack = [step.node]
        while stack:
            node = stack.pop()
            for key, child in node.entries.items():
                if key in ("set_ctx", "set_iter"):
                    found |= {name.split(".")[0] for name in child.entries}
                stack.append(child)
            stack.extend(node.items)
        for arc in _arcs(step.node):
            args = arc.entries.get("args")
            found |= set(args.entries) if args is not None else set()
    return found


def _arcs(step: Node) -> list[Node]:
    router = step.entries.get("next")
    arcs = router.entries.get("arcs") if router is not None else None
    return [arc for arc in arcs.items if arc.is_mapping] if arcs is not None else []


def hand_on(
    step: Node, known: Mapping[str, Known], named: set[str], returns: bool
) -> Node:
    """The step with its result in the arguments of its arcs."""
    name = text_of(step.entries.get("step"))
    about = known.get(name or "")
    arcs = _arcs(step)
    if about is None or "tool" not in step.entries or not arcs:
        return step
    carried: dict[str, str] = {}
    if about.name in named:
        carried[about.name] = about.handed_on
    if returns:
        carried[_RESULT] = about.returned
    if not carried:
        return step
    router = step.entries["next"]
    behind = [_with_args(each, carried) for each in router.entries["arcs"].items]
    arcs_node = listed(behind, router.entries["arcs"])
    return changed(step, {"next": changed(router, {"arcs": arcs_node})})


def _with_args(arc: Node, carried: Mapping[str, str]) -> Node:
    if not arc.is_mapping:
        return arc
    args = arc.entries.get("args") or made({}, arc)
    if not args.is_mapping:
        return arc
    missing = {key: made(text, arc) for key, text in carried.items()}
    entries = {**missing, **args.entries}
    return changed(arc, {"args": mapping(entries, args)})


def is_bare(step: Node) -> bool:
    """A step that does nothing and leads nowhere."""
    busy = {"tool", "next", "loop", "case"}
    return not busy & step.entries.keys() and "step" in step.entries


def give_result(step: Place, uses: Uses) -> Node:
    what = "the result of the step before as that of a bare last step"
    uses.accept(step, what, "tool: {kind: noop, result: …}, with the value by arc args")
    task = {"kind": "noop", "result": f"{{{{ args.{_RESULT} | default(none) }}}}"}
    return changed(step.node, {"tool": made(task, step.node)})
