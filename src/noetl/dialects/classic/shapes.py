"""Shapes of steps and tasks that older releases had: routers, notes, inputs."""

from __future__ import annotations

from noetl.dialects.classic.code import give_names
from noetl.dialects.classic.task import (
    Task,
    Uses,
    changed,
    listed,
    made,
    mapping,
    renamed,
    silent,
    text_of,
)
from noetl.dialects.classic.texts import Vocabulary, translate
from noetl.dialects.template_rewrite import Names, expression_of
from noetl.dsl.node import Location, Node, overlay, shorten
from noetl.errors import TemplateError
from noetl.templates import is_template

_NOTES = {
    "assert": "a policy rule with do: fail, or a task that checks it",
    "result": "nothing: large results are stored by themselves",
    "output": "nothing: large results are stored by themselves",
}
"""Keys that say something about a step or a task, without effect on the run."""


def shape_metadata(at: Location, uses: Uses) -> Node:
    """Return the metadata with a path: the name, where there is none."""
    path, name = at.node.entries.get("path"), at.node.entries.get("name")
    if path is None and text_of(name):
        assert name is not None
        uses.accept(at["name"], "a playbook without a 'path'", "path: … in metadata")
        return changed(at.node, {"path": made(name.value, name)})
    text = text_of(path)
    if path is None or text is None or not text.startswith("/"):
        return at.node
    uses.accept(at["path"], "a path with a leading slash", text.lstrip("/"))
    return changed(at.node, {"path": made(text.lstrip("/"), path)})


def shape_step(at: Location, uses: Uses, *, lists: bool) -> Node:
    """Return the step with a router, and without notes.

    ``lists`` says whether ``next`` may be a list; another dialect may read it.
    """
    changes = _without_notes(at, uses)
    _refuse_cursor(at.get("loop"), uses)
    if "loop" in at and at["loop"].node.is_mapping:
        changes["loop"] = _with_knobs(at["loop"], uses)
    router = at.get("next")
    if router is not None and lists:
        changes["next"] = _router(router, uses)
    if "tool" in at:
        changes["tool"] = _tool(at["tool"], uses)
    if "next" in changes or router is not None:
        node = changes.get("next") or at.node.entries["next"]
        changes["next"] = _with_keys(Location(node, at, "next"), uses)
    return changed(at.node, changes)


def _refuse_cursor(loop: Location | None, uses: Uses) -> None:
    spec = loop.get("spec") if loop is not None else None
    mode = spec.node.entries.get("mode") if spec is not None else None
    if loop is not None and ("cursor" in loop or text_of(mode) == "cursor"):
        message = "a loop over a cursor is not supported, not even by the dialect"
        hint = "claim rows in a task, work on them, and go back by a rule: do: jump"
        uses.refuse(loop, message, hint)


def _with_knobs(loop: Location, uses: Uses) -> Node:
    """Return the loop with ``mode`` and ``max_in_flight`` in its ``spec``."""
    entries = loop.node.entries
    found = [key for key in ("mode", "max_in_flight") if key in entries]
    if not found or "collection" in entries:
        return loop.node
    spec = entries.get("spec") or made({}, loop.node)
    for key in found:
        uses.accept(loop[key], f"'{key}' of a loop", f"spec: {{{key}: …}}")
        spec = changed(spec, {key: spec.entries.get(key) or entries[key]})
    return changed(loop.node, {**dict.fromkeys(found), "spec": spec})


def shape_workbook(at: Location, uses: Uses) -> Node:
    if at.node.is_sequence:
        return listed([_template(each, uses) for each in at.children()], at.node)
    if not at.node.is_mapping:
        return at.node
    templates = {name: _template(at[name], uses) for name in at.child_keys()}
    return mapping(templates, at.node)


def _template(at: Location, uses: Uses) -> Node:
    if not {"kind", "tool"} & at.node.entries.keys():
        return at.node
    return _entry(at, uses)


def _without_notes(at: Location, uses: Uses) -> dict[str, Node | None]:
    gone: dict[str, Node | None] = {}
    for key, canonical in _NOTES.items():
        if key in at and at[key].node.is_mapping:
            uses.accept(at.key(key), f"'{key}', which has no effect,", canonical)
            gone[key] = None
    return gone


def _router(at: Location, uses: Uses) -> Node:
    """Return a router for a name or a list of targets."""
    node = at.node
    target = text_of(node)
    if target is not None and target.isidentifier():
        uses.accept(at, "'next' as a name", "next: {arcs: [{step: …}]}")
        return made({"arcs": [{"step": target}]}, node)
    if not node.is_sequence or not all(_is_target(each) for each in node.items):
        return node
    uses.accept(at, "'next' as a list", "next: {arcs: …}")
    arcs = [made({"step": e.value}, e) if text_of(e) else e for e in node.items]
    found = {"arcs": listed(arcs, node)}
    if len(arcs) > 1 and not any("when" in arc.entries for arc in arcs):
        found = {"spec": made({"mode": "inclusive"}, node), **found}
    return mapping(found, node)


def _is_target(node: Node) -> bool:
    return text_of(node) is not None or text_of(node.entries.get("step")) is not None


def _tool(at: Location, uses: Uses) -> Node:
    if at.node.is_sequence:
        return listed([_entry(each, uses) for each in at.children()], at.node)
    return _entry(at, uses)


def _entry(at: Location, uses: Uses) -> Node:
    if "kind" in at:
        return _task(at, uses)
    if "tool" in at and "kind" in at["tool"]:
        inner = {"tool": _task(at["tool"], uses), **_without_notes(at, uses)}
        return changed(at.node, inner)
    entries = {
        label: _task(at[label], uses) if "kind" in body.entries else body
        for label, body in at.node.entries.items()
    }
    return mapping(entries, at.node) if entries else at.node


def _task(at: Location, uses: Uses) -> Node:
    changes = _without_notes(at, uses) if text_of(at["kind"].node) != "noop" else {}
    node = changed(at.node, changes)
    return _with_keys(Location(node, at.parent, at.part), uses)


def _with_keys(at: Location, uses: Uses) -> Node:
    """Return the value with a template in place of each mapping with templated keys
    (S-34)."""
    node = at.node
    if node.is_sequence:
        return listed([_with_keys(each, uses) for each in at.children()], node)
    if not node.is_mapping:
        return node
    templated = next((key for key in node.entries if is_template(key)), None)
    if templated is None:
        entries = {key: _with_keys(at[key], uses) for key in at.child_keys()}
        return mapping(entries, node)
    try:
        found = expression_of(node.plain())
    except TemplateError as error:
        hint = f"rewrite it: {shorten(templated)}"
        uses.refuse(at.key(templated), error.message, hint)
        return node
    uses.accept(at.key(templated), "a template as a key", "a template of the mapping")
    return Node(f"{{{{ {found} }}}}", node.line, node.column)


_WORDS = ("input", "with")
_CALLED = frozenset({"python", "playbook", "workbook"})
"""Kinds that have arguments: values by the author's own names."""
_REQUEST = frozenset(
    {
        *("url", "endpoint", "method", "headers", "params", "auth"),
        *("json", "data", "body", "payload", "form", "files"),
    }
)


def rewrite_inputs(at: Location, uses: Uses) -> Node:
    """Return the step with all its inputs at its tasks."""
    own, node = _taken(at, (*_WORDS, "args"), uses, "args: … of the task")
    tool = node.entries.get("tool")
    if tool is not None:
        place = Location(tool, at, "tool")
        names = Vocabulary(_named(own, at, uses)) if own is not None else None
        if tool.is_sequence:
            tasks = [_inputs_of(each, own, names, uses) for each in place.children()]
            tool = listed(tasks, tool)
        else:
            tool = _inputs_of(place, own, names, uses)
        node = changed(node, {"tool": tool})
    return _arcs(Location(node, at.parent, at.part), uses)


def _arcs(at: Location, uses: Uses) -> Node:
    router = at.get("next")
    arcs = router.get("arcs") if router is not None else None
    if router is None or arcs is None or not arcs.node.is_sequence:
        return at.node
    fresh = []
    for arc in arcs.children():
        given, node = _taken(arc, _WORDS, uses, "args: …")
        if given is not None:
            args = node.entries.get("args") or made({}, given)
            node = changed(node, {"args": overlay(args, given)})
        fresh.append(node)
    router_node = changed(router.node, {"arcs": listed(fresh, arcs.node)})
    return changed(at.node, {"next": router_node})


def rewrite_template_inputs(at: Location, uses: Uses) -> Node:
    """Return the workbook, each template with its inputs under their names."""
    if at.node.is_sequence:
        found = [_inputs_of(each, None, None, uses) for each in at.children()]
        return listed(found, at.node)
    templates = {
        name: _inputs_of(at[name], None, None, uses)
        if {"kind", "tool"} & body.entries.keys()
        else body
        for name, body in at.node.entries.items()
    }
    return mapping(templates, at.node) if templates else at.node


def _taken(
    at: Location, keys: tuple[str, ...], uses: Uses, canonical: str
) -> tuple[Node | None, Node]:
    """Return the inputs of a scope, and the scope without them."""
    found: Node | None = None
    for key in keys:
        given = at.node.entries.get(key)
        if given is not None and given.is_mapping:
            uses.accept(at.key(key), f"'{key}'", canonical)
            found = given if found is None else overlay(found, given)
    gone = [key for key in keys if key in at and at[key].node.is_mapping]
    return found, changed(at.node, dict.fromkeys(gone))


def _inputs_of(
    at: Location, own: Node | None, names: Vocabulary | None, uses: Uses
) -> Node:
    if "kind" in at:
        return _bound(at, own, names, uses)
    if "tool" in at and "kind" in at["tool"]:
        return changed(at.node, {"tool": _bound(at["tool"], own, names, uses)})
    entries = {
        label: _bound(at[label], own, names, uses) if "kind" in body.entries else body
        for label, body in at.node.entries.items()
    }
    return mapping(entries, at.node) if entries else at.node


def _bound(
    at: Location, own: Node | None, names: Vocabulary | None, uses: Uses
) -> Node:
    if names is not None:
        at = Location(translate(at, names, silent()), at.parent, at.part)
    kind = text_of(at.node.entries.get("kind")) or ""
    canonical = "args: …" if kind in _CALLED else "the inputs of this kind"
    given, node = _taken(at, _WORDS, uses, canonical)
    if kind in _CALLED:
        node = _called(node, own, given)
        if given is not None and node.entries.get("args") is given:
            word = "input" if "input" in at else "with"
            node = renamed(changed(at.node, {}), word, "args")
        if kind != "python":
            return node
        task = Task(Location(node, at.parent, at.part), uses)
        give_names(task)
        return task.node
    if given is None:
        return node
    if kind == "http":
        return _request(node, given)
    inner = Vocabulary(_named(given, at, uses))
    node = translate(Location(node, at.parent, at.part), inner, silent())
    return overlay(node, given)


def _called(node: Node, own: Node | None, given: Node | None) -> Node:
    """Return a task with arguments: its own win over those of the step."""
    args = node.entries.get("args")
    for more in (given, own):
        if more is not None and more.entries and (args is None or args.is_mapping):
            args = more if args is None else _below(args, more)
    return node if args is None else changed(node, {"args": args})


def _below(args: Node, more: Node) -> Node:
    entries = {**more.entries, **args.entries}
    found = mapping(entries, args)
    found.key_marks = {**more.key_marks, **args.key_marks}
    return found


def _request(node: Node, given: Node) -> Node:
    """Return a request: the input is that of the kind, or else its body or query."""
    if given.entries.keys() <= _REQUEST:
        return overlay(node, given)
    if given.entries.keys() & {"url", "endpoint"}:
        rest = {k: v for k, v in given.entries.items() if k not in _REQUEST}
        known = {k: v for k, v in given.entries.items() if k in _REQUEST}
        node = overlay(node, mapping(known, given))
        given = mapping(rest, given)
    if node.entries.keys() & {"payload", "data", "json", "body"}:
        return node
    return changed(node, {"payload": given})


def _named(given: Node, at: Location, uses: Uses) -> Names:
    """Return the expressions of the inputs, by ``input.name`` and by the name."""
    found: dict[tuple[str, ...], str] = {}
    for name, value in given.entries.items():
        if not name.isidentifier():
            continue
        try:
            expression = expression_of(value.plain())
        except TemplateError as error:
            if error.message:
                uses.refuse(
                    at, error.message, f"rewrite it: {shorten(str(value.value))}"
                )
            continue
        found["input", name] = expression
        if expression != name:
            found[name,] = expression
    return found
