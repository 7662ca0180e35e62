"""Dialect of published v2 playbooks: shapes, names and kinds of earlier releases."""

from __future__ import annotations

from msgspec.structs import replace

from noetl.dialects.classic.assignments import Assignments
from noetl.dialects.classic.keychain import rewrite_keychain, undeclared
from noetl.dialects.classic.shapes import (
    rewrite_inputs,
    rewrite_template_inputs,
    shape_metadata,
    shape_step,
    shape_workbook,
)
from noetl.dialects.classic.task import Uses, changed, listed, made, text_of
from noetl.dialects.classic.texts import templates_in, translate
from noetl.dialects.classic.workflow import (
    find_meanings,
    rewrite_workbook_root,
    rewrite_workflow,
    without_rules,
)
from noetl.dsl.diagnostics import Report
from noetl.dsl.grammar.records import ANY, MAPPING, TEXT, Field, Shape, integer, one_of
from noetl.dsl.node import Location, Node
from noetl.dsl.tool_kinds import Input, Kind, Kinds

__all__ = ["extend", "rewrite"]
_AUTH = Shape(("text", "mapping"), words="a keychain name, or a credential")
_SCRIPT = Input(Shape(("text", "mapping")), "The source of the text: `{uri, source}`.")
_PAYLOAD = Input(ANY, "The query of a method without a body, else JSON.")
_DIALECT = Field(one_of("classic"), "S-01", "Results in the shapes of the dialect.")

OPERATIONS = (
    *("kv_get", "kv_put", "kv_delete", "kv_list"),
    *("object_put", "object_get", "publish"),
)

NATS = Kind(
    name="nats",
    doc="Key/value buckets, object stores and subjects of NATS.",
    inputs={
        "operation": Input(one_of(*OPERATIONS), "The operation.", required=True),
        "url": Input(TEXT, "The server, e.g. `nats://host:4222`."),
        "auth": Input(_AUTH, "A credential with `url`, `user` and `password`."),
        "bucket": Input(TEXT, "The bucket, made if it is written and is not there."),
        "key": Input(TEXT, "The key, or the object's name."),
        "object": Input(TEXT, "Another name of `key`, for objects."),
        "value": Input(ANY, "The value to write; other values than text as JSON."),
        "data": Input(ANY, "Another name of `value`."),
        "subject": Input(TEXT, "The subject of the message."),
        "payload": Input(ANY, "The message; anything but text as JSON."),
        "headers": Input(MAPPING, "Headers of the message."),
    },
    result="`{value, revision}` of a key, `{keys}` of a list, `{status, …}` else.",
    defaults={"timeout": 30},
)

TRANSFER = Kind(
    name="transfer",
    doc="Rows from one place to another, in chunks.",
    inputs={
        "source": Input(MAPPING, "`{type: http|postgres|duckdb|file, …}`.", True),
        "target": Input(MAPPING, "`{type: postgres|duckdb|file|http, …}`.", True),
        "chunk_size": Input(integer(1, 1_000_000), "Rows at once (1000)."),
        "mode": Input(one_of("append", "replace"), "The treatment of existing rows."),
        "mapping": Input(MAPPING, "Columns of the target by those of the source."),
    },
    result="`{status, rows_transferred, chunks}`.",
    defaults={"timeout": 3600},
)


def rewrite(root: Node, report: Report, extensions: frozenset[str]) -> Node:
    """Return the document in canonical shapes; the grammar reports the rest."""
    at, uses = Location(root), Uses(report)
    changes: dict[str, Node | None] = {}
    if "metadata" in at and at["metadata"].node.is_mapping:
        changes["metadata"] = shape_metadata(at["metadata"], uses)
    if "keychain" in at and at["keychain"].node.is_sequence:
        changes["keychain"] = rewrite_keychain(at["keychain"], uses)
    if "workload" in at:
        _note_templates(at["workload"], uses)
    if "executor" in at:
        changes["executor"] = without_rules(at["executor"], uses)
    workbook, workflow = at.get("workbook"), at.get("workflow")
    relays: list[Node] = []
    if workflow is not None and workflow.node.is_sequence:
        shaped, relays = shape_workflow(
            workflow, uses, lists="legacy" not in extensions
        )
        workflow = Location(shaped, at, "workflow")
    if workbook is not None:
        shaped = shape_workbook(workbook, uses)
        workbook = Location(shaped, at, "workbook")
        shaped = rewrite_template_inputs(workbook, uses)
        workbook = Location(shaped, at, "workbook")
    if workflow is not None and workflow.node.is_sequence:
        meanings = find_meanings(workflow, workbook, relays)
        found = rewrite_workflow(workflow, meanings, uses)
        changes["workflow"] = listed([*found.items, *relays], found)
        if workbook is not None:
            spoken = translate(workbook, meanings.words, uses)
            workbook = Location(spoken, at, "workbook")
            changes["workbook"] = rewrite_workbook_root(workbook, uses)
    return _declared(changed(root, changes), root)


def _note_templates(at: Location, uses: Uses) -> None:
    """Warn of templates in the workload: the original renders them."""
    what = "a template in 'workload', which stays text,"
    for leaf in templates_in(at):
        uses.accept(leaf, what, "the template where the input is read")


def shape_workflow(
    workflow: Location, uses: Uses, *, lists: bool
) -> tuple[Node, list[Node]]:
    """Return the steps in the shapes of this dialect, and the steps that they add."""
    taken = {text_of(each.entries.get("step")) or "" for each in workflow.node.items}
    steps: list[Node] = []
    relays: list[Node] = []
    for at in workflow.children():
        if not at.node.is_mapping:
            steps.append(at.node)
            continue
        name = text_of(at.node.entries.get("step")) or ""
        step = Location(shape_step(at, uses, lists=lists), at.parent, at.part)
        step = Location(rewrite_inputs(step, uses), at.parent, at.part)
        assignments = Assignments(uses, name, taken)
        steps.append(assignments.rewrite(step))
        relays += assignments.relays
    return listed(steps, workflow.node), relays


def _declared(found: Node, root: Node) -> Node:
    tasks = [
        found.entries[key] for key in ("workbook", "workflow") if key in found.entries
    ]
    missing = list(undeclared(Location(found), listed(tasks, root)))
    if not missing:
        return found
    keychain = found.entries.get("keychain") or made([], root)
    return changed(found, {"keychain": listed([*keychain.items, *missing], keychain)})


def extend(kinds: Kinds) -> Kinds:
    """Return the given kinds with the inputs of the dialect."""
    found = dict(kinds)
    for name in ("python", "postgres", "duckdb", "script", "shell", "http"):
        if name in found:
            found[name] = _extended(found[name])
    for own in (NATS, TRANSFER):
        found.setdefault(own.name, own)
    return Kinds(found.values(), kinds.keychain, kinds.elsewhere)


def _extended(kind: Kind) -> Kind:
    inputs, one_of_ = dict(kind.inputs), kind.one_of
    knobs = {**kind.knobs, "dialect": _DIALECT}
    if kind.name == "http":
        inputs["payload"] = _PAYLOAD
    else:
        inputs["script"] = _SCRIPT
        if "script" not in kind.inputs:
            one_of_ = tuple((*group, "script") for group in one_of_)
    return replace(kind, inputs=inputs, knobs=knobs, one_of=one_of_)
