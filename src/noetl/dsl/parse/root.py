"""Parser of the document: root keys, metadata, keychain, executor, workbook."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.dsl.diagnostics import Report
from noetl.dsl.grammar.document import (
    CONCURRENCY,
    EXECUTOR,
    EXECUTOR_SPEC,
    KEYCHAIN_ENTRY,
    LIMITS,
    METADATA,
    RESULT,
    RESULT_STORE,
    ROOT,
)
from noetl.dsl.grammar.reader import Reader
from noetl.dsl.grammar.tasks import TASK_SPEC
from noetl.dsl.model import KeychainEntry, Playbook
from noetl.dsl.node import Location, Node, describe
from noetl.dsl.parse.context import Context, TemplateSite, TemplateUse
from noetl.dsl.parse.inputs import check_knobs
from noetl.dsl.parse.steps import parse_steps
from noetl.dsl.parse.tasks import check_template
from noetl.dsl.python_source import CodeBlock
from noetl.dsl.times import parse_retention
from noetl.dsl.tool_kinds import Kinds
from noetl.types import JSON

_YEAR = 366 * 86400.0


class Draft(msgspec.Struct, frozen=True):
    """Parsed playbook before the validation rules have run."""

    playbook: Playbook
    uses: tuple[TemplateUse, ...]
    kinds: Kinds
    codes: tuple[CodeBlock, ...] = ()


def parse_playbook(
    root: Node, kinds: Kinds, extensions: frozenset[str], report: Report
) -> Draft | None:
    """Return the model of a document; None if it is not a mapping."""
    at = Location(root)
    if not root.is_mapping:
        message = f"a playbook is a mapping, found {describe(root)}"
        hint = "start with: apiVersion: noetl.io/v2"
        report.error("ROOT-01", "root-type", at, message, hint)
        return None
    context = Context(Reader(report), kinds)
    fields = context.reader.read(at, ROOT, extra=extensions)
    knobs = {name for kind in kinds.values() for name in kind.knobs}
    knobs |= {*kinds, *TASK_SPEC.fields} - {"policy"}
    executor = _executor(context, fields.get("executor"), knobs)
    context.executor_spec = executor.get("spec") or {}
    workbook = fields.get("workbook")
    context.workbook = _templates(context, workbook)
    metadata = _metadata(context, fields.get("metadata"))
    workflow = fields.get("workflow")
    if workflow is not None and not workflow.node.items:
        message = "'workflow' is empty: there is nothing to run"
        report.error("VAL-07", "workflow", workflow, message, "add - step: start")
    playbook = Playbook(
        name=metadata.get("name", ""),
        path=metadata.get("path", ""),
        version=metadata.get("version"),
        description=metadata.get("description"),
        metadata=_plain(fields.get("metadata")),
        keychain=_keychain(context, fields.get("keychain")),
        executor=executor,
        workload=_plain(fields.get("workload")),
        workflow=parse_steps(context, workflow, knobs) if workflow else (),
        workbook=_plain(workbook),
        extras={key: at[key].node.plain() for key in extensions if key in at},
        extensions=extensions,
        at=at,
    )
    return Draft(playbook, tuple(context.uses), kinds, tuple(context.codes))


def _plain(at: Location | None) -> dict[str, JSON]:
    return {} if at is None else at.node.plain()


def declared_extensions(root: Node) -> frozenset[str]:
    """Return ``executor.spec.extensions``, which must be known before parsing."""
    node: Node | None = root
    for key in ("executor", "spec", "extensions"):
        node = node.entries.get(key) if node is not None else None
    names = [item.value for item in node.items] if node is not None else []
    return frozenset(name for name in names if isinstance(name, str))


def _metadata(context: Context, at: Location | None) -> Mapping[str, JSON]:
    if at is None:
        return {}
    fields = context.reader.read(at, METADATA)
    return {key: place.node.value for key, place in fields.items()}


def _keychain(context: Context, at: Location | None) -> tuple[KeychainEntry, ...]:
    entries: list[KeychainEntry] = []
    for entry in at.children() if at is not None else ():
        if not entry.node.is_mapping:
            message = (
                f"a keychain entry must be a mapping, found {describe(entry.node)}"
            )
            hint = "write - name: …, with kind: below it"
            context.report.error("VAL-23", "keychain", entry, message, hint)
            continue
        fields = context.reader.read(entry, KEYCHAIN_ENTRY)
        if "name" in fields and "kind" in fields:
            name, kind = fields["name"].node.value, fields["kind"].node.value
            value = context.value(entry, TemplateSite("", "keychain", statements=False))
            entries.append(
                KeychainEntry(name, kind, entry.node.plain(), value, at=entry)
            )
    return tuple(entries)


def _executor(
    context: Context, at: Location | None, knobs: set[str]
) -> dict[str, JSON]:
    if at is None:
        return {}
    fields = context.reader.read(at, EXECUTOR)
    sound = {key: place.node.plain() for key, place in fields.items()}
    if "spec" in fields:
        spec = context.reader.read(fields["spec"], EXECUTOR_SPEC, extra=knobs)
        check_knobs(context, fields["spec"])
        if "limits" in spec:
            context.reader.read(spec["limits"], LIMITS)
        if "result" in spec:
            result = context.reader.read(spec["result"], RESULT)
            if "store" in result:
                context.reader.read(result["store"], RESULT_STORE)
        if "concurrency" in spec:
            places = context.reader.read(spec["concurrency"], CONCURRENCY)
            if "key" in places:
                context.value(
                    places["key"], TemplateSite("", "place", statements=False)
                )
        if "deadline" in spec:
            context.duration(spec["deadline"], "S-36", TemplateSite("", "admit"), _YEAR)
        if "retention" in spec:
            _check_retention(context, spec["retention"])
    return sound


def _check_retention(context: Context, at: Location) -> None:
    try:
        parse_retention(at.node.value)
    except ValueError as error:
        hint = "write 30d, 12h or 90m"
        context.report.error("EXE-04", "duration", at, str(error), hint)


def _templates(context: Context, workbook: Location | None) -> dict[str, Location]:
    templates: dict[str, Location] = {}
    for name in workbook.child_keys() if workbook is not None else ():
        at = workbook[name]  # type: ignore[index]
        if at.node.is_mapping:
            templates[name] = at
            check_template(context, name, at)
        else:
            message = f"a workbook template must be a task, found {describe(at.node)}"
            context.report.error("S-53", "workbook", at, message, "write kind: …")
    return templates
