"""Python code of tasks: what the compiler says, at its place in the file."""

from __future__ import annotations

import pytest

from noetl import load
from noetl.adapters.processes.noetl_child.compile_only import facts_of
from noetl.dsl.diagnostics import Diagnostic

pytestmark = pytest.mark.spec("PIPE-15")

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: tests/t}
workflow:
  - step: start
    tool:
      kind: python
"""


def findings(task: str) -> list[Diagnostic]:
    return [each for each in load(HEAD + task).diagnostics if each.severity != "hint"]


PLACES = {
    "block": ("      code: |\n        x = 1\n        result = (\n", (10, 18)),
    "blank lines first": ("      code: |\n\n\n        result = (\n", (11, 18)),
    "block without the last line end": ("      code: |-\n        result = (", (9, 18)),
    "double quotes": ('      code: "result = ("\n', (8, 23)),
    "single quotes": ("      code: 'result = ('\n", (8, 23)),
    "plain": ("      code: result = (\n", (8, 22)),
    "letters of several bytes": ("      code: |\n        é = 'ü' (\n", (9, 17)),
    "escapes": ('      code: "result = 1\\nresult = ("\n', (8, 13)),
    "folded": ("      code: >\n        result = 1\n\n        result = (\n", (8, 13)),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_syntax_error_has_its_line_and_column_in_the_file(place: str) -> None:
    task, expected = PLACES[place]
    [found] = findings(task)
    assert (found.rule, found.line, found.column) == ("code-syntax", *expected)


def test_folded_code_has_the_line_of_the_code_in_its_message() -> None:
    [found] = findings('      code: "result = 1\\nresult = ("\n')
    assert found.message.endswith("(line 2 of the code)")


def test_an_anchored_code_is_found_where_it_is_written() -> None:
    text = "workload:\n  shared: &code |\n    result = (\n"
    text = HEAD.replace("workflow:", text + "workflow:") + "      code: *code\n"
    [found] = [each for each in load(text).diagnostics if each.severity == "error"]
    assert (found.rule, found.line) == ("code-syntax", 6)


SIGNATURES = {
    "a parameter": ("def main(a): return a", "", ["a"]),
    "some of them": ("def main(a, b): return a", "{a: 1}", ["b"]),
    "positional only": ("def main(a, /): return a", "{b: 1}", ["a"]),
    "keyword only": ("def main(*, a): return a", "{}", ["a"]),
    "async": ("async def main(a): return a", "{}", ["a"]),
    "with defaults": ("def main(a=1, *, b=2): return a", "", []),
    "all given": ("def main(a, /, b, *, c): return a", "{a: 1, b: 2, c: 3, d: 4}", []),
    "any": ("def main(*rest, **more): return more", "{d: 4}", []),
    "args of a template": ("def main(a): return a", '"{{ workload }}"', []),
    "decorated": ("import m\n@m.wrap\ndef main(a): return a", "", []),
    "bound again": ("def main(a): return a\nmain = print", "", []),
    "one of two": ("if 1:\n  def main(a): return a\ndef main(): return 1", "", []),
    "a method": ("class A:\n  def main(self): pass\nresult = 1", "", []),
}


@pytest.mark.parametrize("case", SIGNATURES)
def test_main_needs_what_args_give(case: str) -> None:
    code, args, missing = SIGNATURES[case]
    lines = "".join(f"        {line}\n" for line in code.splitlines())
    given = f"      args: {args}\n" if args else ""
    found = list(findings(f"{given}      code: |\n{lines}"))
    assert [each.message for each in found] == [
        f"main needs '{name}', which is not in args" for name in missing
    ]


def test_an_argument_of_a_similar_name_is_the_hint() -> None:
    [found] = findings("      args: {nme: 1}\n      code: 'def main(name): return 1'\n")
    assert found.hint == "args has 'nme': use the same name"


RESULTS = {
    "nothing": ("x = 1", False),
    "main": ("def main(): return 1", True),
    "result": ("result: int = 1", True),
    "result of a function": ("def f():\n  global result\n  result = 1\nf()", True),
    "an imported main": ("from shop import main", True),
    "an import of all": ("from shop import *", True),
    "by exec": ("exec(text)", True),
    "main as an attribute": ("import a\na.main()", False),
}


@pytest.mark.parametrize("case", RESULTS)
def test_code_without_main_and_result_is_a_warning(case: str) -> None:
    code, gives = RESULTS[case]
    lines = "".join(f"        {line}\n" for line in code.splitlines())
    found = findings(f"      code: |\n{lines}")
    assert [(each.rule, each.severity) for each in found] == (
        [] if gives else [("code-result", "warning")]
    )


@pytest.mark.parametrize("code", ["a" + ".b" * 20_000, "x\0"], ids=["deep", "null"])
def test_code_that_cannot_be_parsed_is_refused(code: str) -> None:
    assert "message" in facts_of(code)["error"]


def test_a_template_in_code_is_a_warning_at_the_template() -> None:
    [found] = findings("      code: |\n        result = '{{ workload.n }}'\n")
    assert (found.rule, found.severity) == ("code-template", "warning")
    assert (found.line, found.column) == (9, 19)
