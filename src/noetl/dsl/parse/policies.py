"""Parser of task rules and admission rules."""

from __future__ import annotations

from noetl.dsl.grammar.steps import ADMIT, ADMIT_ELSE, ADMIT_RULE, ADMIT_THEN
from noetl.dsl.grammar.tasks import ELSE, MAX_DELAY_DAYS, RULE, TASK_POLICY, THEN
from noetl.dsl.model import AdmitRule, Directive, Rule
from noetl.dsl.node import Location, describe
from noetl.dsl.parse.context import Context, TemplateSite
from noetl.templates import Template
from noetl.types import JSON

_WEEK = MAX_DELAY_DAYS * 86400.0


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
