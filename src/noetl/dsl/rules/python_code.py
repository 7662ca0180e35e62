"""Checks of the Python code of tasks, from what the compiler knows about it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.dsl.diagnostics import nearest
from noetl.dsl.grammar.earlier_forms import accepted, accepts_older_forms
from noetl.dsl.node import shorten
from noetl.dsl.parse import Draft
from noetl.dsl.python_source import CodeBlock
from noetl.dsl.rules.registry import Found, rule

_NAMESPACE_IN_CODE = re.compile(r"\{\{\s*(workload|ctx|args|iter|keychain|_prev)\b")
_BY_NAME = accepted("args by their names, or main(a, b, …)")


@rule("code-syntax", "PIPE-15")
def code_can_be_compiled(draft: Draft) -> Iterator[Found]:
    """Python `code` can be compiled by the interpreter that runs NoETL."""
    for block in draft.codes:
        if block.facts is not None and (error := block.facts.error) is not None:
            at = block.place(error.line, error.column) if error.line else block.at
            where = ""
            if at is block.at and error.line and "\n" in block.text:
                where = f" (line {error.line} of the code)"
            message = f"not valid Python: {error.message}{where}"
            yield at, message, None


@rule("code-unchecked", "PIPE-15", "warning")
def code_is_checked(draft: Draft) -> Iterator[Found]:
    """The compiler needs at most one second and 256 MiB for all `code` of a file."""
    for block in draft.codes:
        if block.inspected and block.facts is None:
            message = "this code was not checked: compiling it exceeds the limits"
            hint = "move a part of it into a module beside the playbook"
            yield block.at, message, hint
            return


@rule("code-main", "PIPE-15")
def args_are_parameters_of_main(draft: Draft) -> Iterator[Found]:
    """`args` has every parameter of `main` that has no default."""
    for block in draft.codes:
        main = block.facts.main if block.facts is not None else None
        given = block.given()
        if main is None or given is None:
            continue
        for name, line, column in main.required:
            if name in given:
                continue
            at = block.place(line, column)
            if name == "input_data":
                yield at, "nothing gives 'input_data'", _BY_NAME
                continue
            message = f"main needs '{shorten(name)}', which is not in args"
            yield at, message, _given(name, given - main.names)


def _given(name: str, given: frozenset[str]) -> str:
    match = nearest(name, given)
    if match is not None:
        return f"args has '{shorten(match)}': use the same name"
    return f"add {shorten(name)} to args, or give the parameter a default"


@rule("code-result", "PIPE-15", "warning")
def code_has_a_result(draft: Draft) -> Iterator[Found]:
    """Python `code` defines `main` or assigns `result`."""
    for block in draft.codes:
        facts = block.facts
        if facts is None or facts.error is not None:
            continue
        if not facts.gives and facts.returns is None:
            message = "the code defines neither main nor result: its result is null"
            hint = "write def main(…): … return …, or result = …"
            yield block.at, message, hint


@rule("code-return", "PIPE-15")
def code_returns_from_functions(draft: Draft) -> Iterator[Found]:
    """Python `code` returns its value by `main(…)` or `result`, not by a bare `return`;
    arguments are separate names, not members of `input_data`."""
    if accepts_older_forms(draft.playbook.extensions):
        return
    for block in draft.codes:
        facts = block.facts
        if facts is None:
            continue
        if facts.returns is not None:
            hint = accepted("def main(…): … return …, or result = …")
            yield block.place(*facts.returns), "'return' is outside a function", hint
        if "input_data" in facts.unbound and not _gives_input_data(block):
            yield block.at, "nothing gives 'input_data'", _BY_NAME


def _gives_input_data(block: CodeBlock) -> bool:
    args = block.args
    return args is not None and (not args.node.is_mapping or "input_data" in args)


@rule("code-template", "S-34", "warning")
def code_is_not_a_template(draft: Draft) -> Iterator[Found]:
    """Python `code` is run as written; values reach it by `args`."""
    for block in draft.codes:
        found = _NAMESPACE_IN_CODE.search(block.text)
        if found is not None:
            before = block.text[: found.start()].split("\n")
            at = block.place(len(before), len(before[-1]) + 1)
            message = "'code' is not rendered: the template stays as it is"
            yield at, message, "pass the value by 'args'"
