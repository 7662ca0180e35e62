"""Parser of ``tool``: tasks with their inputs, effective specs and rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.grammar.earlier_forms import CONDITIONS, KINDS, NEVER, Retired, accepted
from noetl.dsl.grammar.steps import ADMIT, ADMIT_ELSE, ADMIT_RULE, ADMIT_THEN
from noetl.dsl.grammar.tasks import (
    ELSE,
    MAX_DELAY_DAYS,
    RULE,
    TASK_POLICY,
    TASK_SPEC,
    THEN,
)
from noetl.dsl.model import AdmitRule, Directive, Rule, Task
from noetl.dsl.node import Location, describe, overlay
from noetl.dsl.normalize import Entry, deep_merge, effective_spec, pipeline_entries
from noetl.dsl.parse.context import Context, TemplateSite
from noetl.dsl.parse.inputs import check_inputs, check_knobs
from noetl.dsl.python_source import CodeBlock
from noetl.dsl.tool_kinds import Kind
from noetl.templates import Template
from noetl.types import JSON

RETIRED: Mapping[str, Retired] = {
    "retry": Retired("VAL-17", "use a policy rule: then: {do: retry, attempts: 3}"),
    "poll": Retired("VAL-17", "use a policy rule: then: {do: retry, delay: 5}"),
    "case": Retired("VAL-17", "use spec.policy.rules", dialect=None),
    "sink": Retired("VAL-17", "make it a task of its own, after this one"),
    "vars": Retired("VAL-19", "write with set_ctx (or set_iter in a loop)"),
    "set_vars": Retired("VAL-19", "write with set_ctx (or set_iter in a loop)"),
    **NEVER,
    **CONDITIONS,
}
_NO_KIND = {
    "sink": "storage is a task: use postgres, duckdb, http, … and return a reference",
    "loop": "'loop' is a key of the step, not a kind",
    "agent": "call another playbook: kind: playbook with path: …",
    "snowflake": "a python task with the driver, or a plug-in of your own",
    "gcs": "a python task, or kind: http with an entry of keychain",
    "artifact": "return the value: large ones are stored by themselves",
}
_WEEK = MAX_DELAY_DAYS * 86400.0


def parse_pipeline(
    context: Context,
    tool: Location,
    step: str,
    outer: Sequence[Mapping[str, JSON]],
    depth: int,
) -> tuple[Task, ...]:
    """Return the tasks in order; ``outer`` are the specs of the outer scopes."""
    tasks: list[Task] = []
    for entry in pipeline_entries(tool, context.report):
        task = _task(context, entry, step, outer, depth)
        if task is not None:
            tasks.append(task)
    return tuple(tasks)


def _task(
    context: Context,
    entry: Entry,
    step: str,
    outer: Iterable[Mapping[str, JSON]],
    depth: int,
) -> Task | None:
    body = entry.body
    kind = _kind(context, entry)
    layers = [body]
    if kind is not None and kind.name == "workbook":
        kind, layers = _template(context, body, kind)
    if kind is None:  # its inputs are unknown, but its policy can still be parsed
        _rules(context, layers, TemplateSite(step, "policy", depth), None)
        return None
    where = TemplateSite(step, "input", depth, recorded=kind.recorded)
    found = _inputs(context, layers, entry, kind)
    asked = {key for key in found if key in kind.inputs and kind.inputs[key].guards}
    guards = _guards(
        context, [found[key] for key in asked], TemplateSite(step, "guard", depth)
    )
    literal = {key for key in found if _is_literal(kind, key)}
    code = found.get("code")
    if kind.name == "python" and code is not None and isinstance(code.node.value, str):
        context.codes.append(CodeBlock(code, found.get("args")))
    rules = _rules(context, layers, TemplateSite(step, "policy", depth), kind)
    own: dict[str, JSON] = {}
    for layer in reversed(layers):
        spec = layer.get("spec")
        if spec is not None and spec.node.is_mapping:
            own = deep_merge(own, spec.node.plain())
    spec_now = effective_spec(kind.name, kind.defaults, outer, own, context.kinds)
    spec_now.pop("policy", None)
    plain = body.node.plain()
    if entry.named_inside:
        del plain["name"]
    return Task(
        entry.label,
        kind.name,
        {
            key: context.value(at, where)
            for key, at in found.items()
            if key not in literal | asked
        },
        {key: found[key].node.plain() for key in literal},
        spec_now,
        rules,
        plain,
        label_at=entry.label_at,
        guards=guards,
        at=body,
    )


def _guards(
    context: Context, places: Iterable[Location], where: TemplateSite
) -> dict[str, Template]:
    return {
        name: context.guard(at[name], where)
        for at in places
        for name in at.child_keys()
    }


def _kind(context: Context, entry: Entry) -> Kind | None:
    at = entry.body.get("kind")
    if at is None:
        message = f"task '{entry.label}' has no 'kind'"
        known = ", ".join(sorted(context.kinds))
        hint: str | None = f"add kind: with one of {known}"
        if "tool" in entry.body:
            hint = accepted("the fields of 'tool' one level up")
        context.report.error("VAL-04", "tool-kind", entry.body, message, hint)
        return None
    name = at.node.value
    if not isinstance(name, str):
        message = f"'kind' must be text, found {describe(at.node)}"
        context.report.error("VAL-04", "tool-kind", at, message)
        return None
    kind = context.kinds.get(name)
    if kind is None:
        hint = _NO_KIND.get(name) or context.kinds.elsewhere("tools", name)
        if hint is None and name in KINDS:
            hint = accepted(KINDS[name])
        hint = hint or did_you_mean(name, context.kinds)
        message = f"unknown tool kind '{name}'"
        context.report.error("VAL-04", "tool-kind", at, message, hint)
    return kind


def _template(
    context: Context, body: Location, kind: Kind
) -> tuple[Kind | None, list[Location]]:
    """Return the kind and the layers of a workbook task: its own fields, then the
    template."""
    at = body.get("name")
    if at is None or not isinstance(at.node.value, str):
        message = "a workbook task needs 'name', the template's name"
        hint = did_you_mean("", context.workbook)
        if "task" in body:
            hint = accepted("name: …")
        context.report.error("S-53", "workbook-name", at or body, message, hint)
        return None, [body]
    template = context.workbook.get(at.node.value)
    if template is None:
        message = f"the workbook has no template '{at.node.value}'"
        hint = (
            did_you_mean(at.node.value, context.workbook) or "define it in 'workbook'"
        )
        context.report.error("S-53", "workbook-name", at, message, hint)
        return None, [body]
    named = template.node.entries.get("kind")
    known = named is not None and isinstance(named.value, str)
    inner = context.kinds.get(named.value) if known else None  # type: ignore[union-attr]
    return (None if inner is kind else inner), [body, template]


def check_template(context: Context, name: str, at: Location) -> None:
    """Check that a workbook template is a task of any kind but ``workbook``."""
    kind = _kind(context, Entry(name, at, at))
    if kind is not None and kind.name == "workbook":
        message = f"the template '{name}' is itself of kind workbook"
        hint = "give it a kind that runs, or name the other template in the task"
        context.report.error("S-53", "workbook", at["kind"], message, hint)


def _inputs(
    context: Context, layers: list[Location], entry: Entry, kind: Kind
) -> dict[str, Location]:
    """Return the inputs of all layers, the task's own merged over the template's
    (S-53)."""
    found: dict[str, Location] = {}
    for layer in layers:
        hidden = {"kind", "spec"}
        if layer is layers[0] and (entry.named_inside or len(layers) > 1):
            hidden.add("name")  # the label, or the name of the template
        for key in layer.child_keys():
            retired = RETIRED.get(key)
            if retired is not None and key not in kind.inputs:
                context.reader.refuse(layer.key(key), key, retired)
            elif key in found:
                own = found[key]
                found[key] = Location(
                    overlay(own.node, layer[key].node), own.parent, own.part
                )
            elif key not in hidden:
                found[key] = layer[key]
    check_inputs(context, found, layers[0], kind)
    return found


def _is_literal(kind: Kind, key: str) -> bool:
    return key in kind.inputs and kind.inputs[key].literal


def _rules(
    context: Context, layers: list[Location], where: TemplateSite, kind: Kind | None
) -> tuple[Rule, ...] | None:
    """Return the task's own policy, or else that of the workbook template."""
    rules: tuple[Rule, ...] | None = None
    for layer in layers:
        at = layer.get("spec")
        if at is None:
            continue
        if not at.node.is_mapping:
            message = f"'spec' must be a mapping, found {describe(at.node)}"
            context.report.error("PIPE-10", "type", at, message)
            continue
        knobs = kind.knobs if kind is not None else at.node.entries
        spec = context.reader.read(at, TASK_SPEC, extra={*knobs, *context.kinds})
        check_knobs(context, at, kind, TemplateSite(where.step, "input", where.depth))
        if "policy" in spec and rules is None:
            rules = parse_rules(context, spec["policy"], where)
    return rules


def parse_rules(
    context: Context, policy: Location, where: TemplateSite
) -> tuple[Rule, ...]:
    """Parse ``task.spec.policy``: rules with an optional fallback at any position."""
    fields = context.reader.read(policy, TASK_POLICY)
    rules: list[Rule] = []
    for at in _entries(context, fields.get("rules"), "POL-02", "a rule"):
        parts = context.reader.read(at, RULE)
        when, then = _condition(context, at, parts, where)
        if "else" in parts:
            then = context.reader.read(parts["else"], ELSE).get("then")
        elif "then" not in at and "when" in at:
            _lacks_directive(context, at)
        if then is not None:
            directive = _directive(context, then, where)
            if directive is not None:
                rules.append(Rule(when, directive, at=at))
    _one_fallback(context, fields.get("rules"))
    return tuple(rules)


def parse_admission(
    context: Context, admit: Location, step: str
) -> tuple[AdmitRule, ...] | None:
    """Parse ``step.spec.policy.admit``: the rules that let tokens enter."""
    fields = context.reader.read(admit, ADMIT)
    if "rules" not in fields:
        return None
    where = TemplateSite(step, "admit")
    rules: list[AdmitRule] = []
    for at in _entries(context, fields["rules"], "ADM-02", "an admission rule"):
        parts = context.reader.read(at, ADMIT_RULE)
        when, then = _condition(context, at, parts, where)
        if "else" in parts:
            then = context.reader.read(parts["else"], ADMIT_ELSE).get("then")
        elif "then" not in at and "when" in at:
            message = "an admission rule needs 'then'"
            hint = "then: {allow: true}"
            context.report.error("ADM-02", "missing-key", at, message, hint)
        if then is not None and "do" not in then:
            allow = context.reader.read(then, ADMIT_THEN).get("allow")
            if allow is not None:
                rules.append(AdmitRule(when, allow.node.value, at=at))
    _one_fallback(context, fields["rules"])
    return tuple(rules)


def _entries(
    context: Context, rules: Location | None, code: str, what: str
) -> list[Location]:
    sound: list[Location] = []
    for at in rules.children() if rules is not None else ():
        if at.node.is_mapping:
            sound.append(at)
        else:
            message = f"{what} must be a mapping, found {describe(at.node)}"
            hint = 'write - when: "{{ … }}" with a then: below it'
            context.report.error(code, "type", at, message, hint)
    return sound


def _condition(
    context: Context, at: Location, parts: dict[str, Location], where: TemplateSite
) -> tuple[Template | None, Location | None]:
    """Return the guard and the decision of a ``when`` rule; (None, None) for a
    fallback."""
    if "when" in at and "else" in at:
        message = "a rule has 'when' or 'else', not both"
        context.report.error("S-18", "rule-else", at.key("else"), message)
    elif "else" in at and "then" in at:
        message = "a rule with 'else' must not have a 'then' beside it"
        hint = "write - else: {then: …}"
        context.report.error("S-18", "rule-else", at.key("then"), message, hint)
    elif "when" not in at and "else" not in at:
        message = "a rule needs 'when' or 'else'"
        hint = "for a fallback write - else: {then: …}"
        context.report.error("S-18", "rule-when", at, message, hint)
    when = context.guard(parts["when"], where) if "when" in parts else None
    return when, parts.get("then")


def _lacks_directive(context: Context, at: Location) -> None:
    message = "the rule has no 'then.do', so it has no effect"
    context.report.error("VAL-10", "directive", at, message, "then: {do: continue}")


def _one_fallback(context: Context, rules: Location | None) -> None:
    """Report a second ``else``: it is the fallback at any position."""
    found = [at for at in rules.children() if "else" in at] if rules is not None else []
    for at in found[1:]:
        line = found[0].mark[0]
        message = f"a second 'else'; the first one is at line {line}"
        context.report.error("S-18", "rule-else", at.key("else"), message, "keep one")


def _directive(context: Context, at: Location, where: TemplateSite) -> Directive | None:
    parts = context.reader.read(at, THEN)
    recorded = TemplateSite(
        where.step, where.site, where.depth, recorded=True, statements=False
    )
    settings: dict[str, JSON] = {
        key: parts[key].node.value
        for key in ("do", "attempts", "backoff", "to")
        if key in parts
    }
    for key in ("set_iter", "set_ctx"):
        if key in parts:
            settings[key] = context.value(parts[key], recorded)
    if "error" in parts:
        settings["error"] = context.value(parts["error"], recorded)
    if "delay" in parts:
        settings["delay"] = context.duration(parts["delay"], "POL-08", where, _WEEK)
    return Directive(**settings, at=at) if "do" in settings else None
