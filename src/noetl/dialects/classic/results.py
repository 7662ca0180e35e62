"""Results of steps by name: arcs pass them on with the token.

The result of a step that templates elsewhere name becomes an argument of its arcs, and
arguments travel with the token. A last step without a tool has the result of the step
before it, or of the one that the calling playbook has requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from noetl.dialects.classic.task import Uses, changed, listed, made, mapping, text_of
from noetl.dialects.classic.texts import Labelled, labelled, references, visible
from noetl.dsl.node import Location, Node
from noetl.dsl.template_scopes import NAMESPACES
from noetl.types import JSON

RETURN_STEP = "_return_step"
"""The workload key by which a caller requests the result of a step."""

COUNTS = {"total": "total", "success": "done", "failed": "failed"}
"""Counts of a loop, and their names in its event."""

_RESULT = "_result"


class Read(msgspec.Struct):
    """Reads of steps by templates elsewhere: results, counts of loops, and results of
    single tasks."""

    results: set[str] = msgspec.field(default_factory=set)
    stats: set[str] = msgspec.field(default_factory=set)
    tasks: dict[str, set[str]] = msgspec.field(default_factory=dict)

    def note(self, path: tuple[str, ...], known: Mapping[str, Known]) -> None:
        about = known[path[0]]
        labels = () if about.is_loop else about.labels
        if path[1:2] == ("results",) and set(path[2:3]) & set(labels):
            self.tasks.setdefault(about.name, set()).add(path[2])
        else:
            self.results.add(about.name)
        if about.is_loop and (len(path) == 1 or path[1] == "stats"):
            self.stats.add(about.name)


class Known(msgspec.Struct, frozen=True):
    """Facts about a step: its name, whether it is a loop, its tasks."""

    name: str
    is_loop: bool
    is_http: bool
    labels: tuple[str, ...] = ()

    @property
    def own(self) -> str:
        """Expression of the step's result in its own arcs."""
        if self.is_loop:
            return "(event.payload.results | default(event.payload.result))"
        return "event.payload.result"

    @property
    def handed_on(self) -> str:
        """Template of the result for later steps; of a failed step, its error."""
        error = "{'status': 'error', 'error': event.payload.error}"
        return f"{{{{ {self.own} | default({error}) }}}}"

    @property
    def stats(self) -> str:
        """Expression of the counts of a loop in its own arcs."""
        pairs = (f"'{name}': event.payload.{key}" for name, key in COUNTS.items())
        return f"{{{', '.join(pairs)}}}"

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
            tasks = labelled(Location(step).get("tool"))
            is_http = bool(tasks) and tasks[-1].kind == "http"
            labels = tuple(each.label for each in tasks if each.label.isidentifier())
            known = Known(name, "loop" in step.entries, is_http, labels)
            found.setdefault(name, known)
    return found


def find_reads(
    steps: Iterable[Location], workbook: Location | None, known: Mapping[str, Known]
) -> Read:
    """Return what later templates read of steps by name."""
    places = [each for each in steps if each.node.is_mapping]
    written = written_names(places)
    found = Read()
    if workbook is not None:
        _note(workbook, written, known, found)
    for step in places:
        own = text_of(step.node.entries.get("step"))
        iterators = _iterators(step.node)
        for key in step.child_keys():
            # The collection of a loop is read before the iterator exists.
            hidden = written if key == "loop" else written | iterators
            # Its own name is no result yet where the collection is read.
            if key in ("next", "loop") and own is not None and own in known:
                hidden = hidden | {own}
            if key == "tool":
                _note_tasks(labelled(step[key]), hidden, known, found)
            elif key not in ("step", "desc"):
                _note(step[key], hidden, known, found)
    return found


def _note_tasks(
    tasks: list[Labelled], hidden: set[str], known: Mapping[str, Known], found: Read
) -> None:
    for place, task in enumerate(tasks):
        labels = {each.label for each in visible(tasks, place)}
        _note(task.body, hidden | labels, known, found)


def _note(
    at: Location, hidden: set[str], known: Mapping[str, Known], found: Read
) -> None:
    for _, path in references(at):
        if path[0] in known and path[0] not in hidden:
            found.note(path, known)


def _iterators(step: Node) -> set[str]:
    names, loop = set(), step.entries.get("loop")
    while loop is not None:
        names.add(text_of(loop.entries.get("iterator")) or "")
        loop = loop.entries.get("loop")
    return names


def written_names(steps: Iterable[Location]) -> set[str]:
    """Return the names that the author assigns: they do not refer to steps."""
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


def passed_by(name: str, workflow: Iterable[Node]) -> set[str]:
    """Return the steps that a token may reach without passing ``name`` before."""
    arcs = {text_of(each.entries.get("step")): _targets(each) for each in workflow}
    waiting = ["start" if "start" in arcs else next(iter(arcs), None)]
    found: set[str] = set()
    while waiting:
        step = waiting.pop()
        if step is None or step in found:
            continue
        found.add(step)
        if step != name:
            waiting.extend(arcs.get(step, ()))
    return found


def _targets(step: Node) -> list[str | None]:
    return [text_of(arc.entries.get("step")) for arc in _arcs(step)]


def hand_on(step: Node, known: Mapping[str, Known], read: Read, returns: bool) -> Node:
    """Return the step with its result in the arguments of its arcs."""
    name = text_of(step.entries.get("step"))
    about = known.get(name or "")
    arcs = _arcs(step)
    if about is None or "tool" not in step.entries or not arcs:
        return step
    carried: dict[str, JSON] = {}
    if about.name in read.results:
        carried[about.name] = about.handed_on
    if about.name in read.stats:
        carried[f"{about.name}_stats"] = f"{{{{ {about.stats} }}}}"
    tasks = sorted(read.tasks.get(about.name, ()))
    if tasks:
        carried[f"{about.name}_results"] = {
            label: f"{{{{ _outcomes.{label}.result }}}}" for label in tasks
        }
    if returns:
        carried[_RESULT] = about.returned
    if not carried:
        return step
    router = step.entries["next"]
    behind = [_with_args(each, carried) for each in router.entries["arcs"].items]
    arcs_node = listed(behind, router.entries["arcs"])
    return changed(step, {"next": changed(router, {"arcs": arcs_node})})


def _with_args(arc: Node, carried: Mapping[str, JSON]) -> Node:
    if not arc.is_mapping:
        return arc
    args = arc.entries.get("args") or made({}, arc)
    if not args.is_mapping:
        return arc
    missing = {key: made(text, arc) for key, text in carried.items()}
    entries = {**missing, **args.entries}
    return changed(arc, {"args": mapping(entries, args)})


def is_bare(step: Node) -> bool:
    """Return whether a step has neither a tool nor a next step."""
    busy = {"tool", "next", "loop", "case"}
    return not busy & step.entries.keys() and "step" in step.entries


def give_result(step: Location, uses: Uses) -> Node:
    what = "the result of the step before in a bare last step"
    uses.accept(step, what, "tool: {kind: noop, result: …}, with the value by arc args")
    task = {"kind": "noop", "result": f"{{{{ args.{_RESULT} | default(none) }}}}"}
    return changed(step.node, {"tool": made(task, step.node)})
