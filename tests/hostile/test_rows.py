"""Hostile playbooks, row by row of the reliability programme, through the real CLI.

Each is answered with the code that the contract maps it to, at its place, within the
limits of ``conftest.py``: no traceback, no signal, no silence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

Validate = Callable[..., Any]

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
STEP = "workflow:\n  - step: start\n    tool: {kind: noop}\n"
AKIA = "AKIA" + "IOSFODNN7EXAMPLE"


def root(keys: str) -> str:
    return HEAD + keys + "\n" + STEP


def steps(text: str) -> str:
    return HEAD + "workflow:\n" + text + "\n"


def step(keys: str) -> str:
    return steps(f"  - step: start\n    {keys}")


def task(fields: str) -> str:
    return step(f"tool: [{{a: {{kind: noop, {fields}}}}}]")


def rules(text: str) -> str:
    return task(f"spec: {{policy: {{rules: {text}}}}}")


def then(directive: str) -> str:
    return rules(f"[{{else: {{then: {{{directive}}}}}}}]")


def loop(fields: str) -> str:
    return step(f"tool: {{kind: noop}}\n    loop: {{{fields}}}")


def template(source: str) -> str:
    return task(f"result: {source}")


def guard(source: str) -> str:
    return step(f"next: {{arcs: [{{step: start, when: {source}}}]}}")


def aliases(levels: int, width: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        repeated = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} [{repeated}]")
    return "\n".join(lines)


class Case(NamedTuple):
    """What is fed, and what must be said about it.

    ``at`` is a line and column, or what stands at the reported place.
    """

    row: str
    name: str
    content: Callable[[], str | bytes]
    code: str
    at: tuple[int, int] | str
    words: str = ""


def case(
    row: str,
    name: str,
    content: str | bytes | Callable[[], str | bytes],
    code: str,
    at: tuple[int, int] | str,
    words: str = "",
) -> Case:
    build = content if callable(content) else lambda: content
    return Case(row, name, build, code, at, words)


DEEP = 200_000

ERRORS = [
    case("1", "an empty file", "", "ROOT-01", (1, 1), "is empty"),
    case("1", "only comments", "# a\n# b\n", "ROOT-01", (1, 1), "is empty"),
    case("2", "a list", "- a\n", "ROOT-01", (1, 1), "found a list"),
    case("2", "a text", "hello\n", "ROOT-01", (1, 1), "found the text"),
    case("3", "open brackets", lambda: "[" * DEEP, "ROOT-01", (1, 65), "deeper"),
    case("3", "closed ones", lambda: "[" * DEEP + "]" * DEEP, "ROOT-01", (1, 65)),
    case("3", "open braces", lambda: "{" * DEEP, "ROOT-01", (1, 65), "deeper"),
    case("3", "pairs", lambda: "[{a: " * (DEEP // 2), "ROOT-01", (1, 161), "deeper"),
    case("3", "dashes", lambda: "- " * DEEP + "a", "ROOT-01", (1, 129), "deeper"),
    case("3", "keys", lambda: "? " * DEEP + "a", "ROOT-01", (1, 129), "deeper"),
    case(
        "3",
        "indentation",
        lambda: "".join(f"{' ' * i}a:\n" for i in range(1_000)),
        "ROOT-01",
        (65, 65),
        "deeper",
    ),
    case("4", "aliases", lambda: aliases(9, 10), "ROOT-01", "*a", "100,000"),
    case(
        "5",
        "merge keys",
        lambda: (
            "a: &a {" + ", ".join(f"k{i}: 1" for i in range(1_000)) + "}\n"
            "b: {<<: [" + ", ".join(["*a"] * 5_000) + "]}\n"
        ),
        "ROOT-01",
        "*a",
        "merge keys",
    ),
    case("6", "a cycle", "a: &x [*x]\n", "ROOT-01", (1, 8), "its own anchor"),
    case("7", "12 MB", lambda: root("#" * 12_000_000), "S-70", (1, 1), "1,048,576"),
    case("7", "17 MB", lambda: b"x" * 17_000_000, "S-70", (1, 1), "1,048,576"),
    case(
        "8",
        "a tag that calls",
        root('workload: {a: !!python/object/apply:os.system ["id"]}'),
        "ROOT-01",
        "!!python",
        "is not allowed",
    ),
    case("8", "a binary tag", root("workload: {a: !!binary aGk=}"), "ROOT-01", "!!bin"),
    case(
        "9",
        "a key twice",
        steps("  - step: a\n    tool: {kind: noop}\n    step: b"),
        "S-50",
        "step: b",
        "lines 5 and 7",
    ),
    case("10", "two documents", root("") + "---\na: 1\n", "ROOT-01", "---"),
    case("11", "not UTF-8", b"a: \xff\n", "ROOT-01", (1, 4), "offset 3"),
    case("11", "UTF-16", "a: 1".encode("utf-16"), "ROOT-01", (1, 1), "UTF-8"),
    case("11", "UTF-32", "a: 1".encode("utf-32"), "ROOT-01", (1, 1), "UTF-8"),
    case("11", "a NUL", b"a: b\x00", "ROOT-01", (1, 5), "U+0000"),
    case("11", "a surrogate", b"a: \xed\xa0\x80", "ROOT-01", (1, 4), "offset 3"),
    case("11", "an escaped surrogate", 'a: "\\ud800"\n', "ROOT-01", (1, 7)),
    case(
        "12",
        "a version that is a number",
        HEAD.replace("}", ", version: 1.10}") + STEP,
        "ROOT-05",
        "1.10",
        "found the number 1.10",
    ),
    case(
        "13",
        "200,000 digits",
        lambda: root("workload: {n: " + "9" * 200_000 + "}"),
        "ROOT-01",
        "999",
        "200,000 characters",
    ),
    case(
        "13",
        "a megabyte of hex",
        lambda: root("workload: {n: 0x" + "f" * 1_000_000 + "}"),
        "ROOT-01",
        "0xfff",
        "1,000,002 characters",
    ),
    case(
        "13",
        "an exponent",
        lambda: root("workload: {n: 1e" + "9" * 60 + "}"),
        "ROOT-01",
        "1e999",
        "not a JSON number",
    ),
    case("14", "not a number", root("workload: {n: .nan}"), "ROOT-01", ".nan"),
    case("14", "infinity", root("workload: {n: [-.inf]}"), "ROOT-01", "-.inf"),
    case("15", "a number as key", root("workload: {1: x}"), "ROOT-01", "1: x"),
    case("15", "a list as key", root("workload: {[a]: b}"), "ROOT-01", "[a]"),
    case("15", "null as key", root("workload: {~: b}"), "ROOT-01", "~: b"),
    case("16", "v1", root("").replace("v2", "v1"), "VAL-07", "noetl.io/v1"),
    case("16", "no version", root("").partition("\n")[2], "VAL-07", (1, 1)),
    case("17", "root vars", root("vars: {a: 1}"), "VAL-05", "vars"),
    case(
        "18",
        "a misspelt root key",
        root("").replace("workflow", "workfow"),
        "VAL-06",
        "workfow",
        "did you mean 'workflow'?",
    ),
    case(
        "19",
        "a step twice",
        steps("  - step: a\n    tool: {kind: noop}\n  - step: a\n    next: {}"),
        "VAL-01",
        "a\n",
        "lines 5 and 7",
    ),
    case(
        "20",
        "an arc to nowhere",
        step("next: {arcs: [{step: strat}]}"),
        "VAL-02",
        "strat",
        "did you mean 'start'?",
    ),
    case("22", "when", step("tool: {kind: noop}\n    when: x"), "VAL-08", "when"),
    case("22", "case", step("case: []"), "VAL-17", "case"),
    case("22", "retry", step("tool: {kind: noop}\n    retry: 3"), "VAL-17", "retry"),
    case("22", "sink", step("tool: {kind: noop}\n    sink: {}"), "VAL-17", "sink"),
    case("22", "eval", task("eval: []"), "VAL-15", "eval"),
    case("22", "expr", task("expr: x"), "VAL-14", "expr"),
    case(
        "22",
        "next_mode",
        step("tool: {kind: noop}\n    spec: {next_mode: inclusive}"),
        "VAL-18",
        "next_mode",
    ),
    case("23", "a policy as a list", task("spec: {policy: []}"), "VAL-09", "[]"),
    case("24", "no directive", rules("[{else: {then: {}}}]"), "VAL-10", "{}"),
    case("24", "another directive", then("do: explode"), "VAL-21", "explode"),
    case("25", "a jump to nowhere", then("do: jump"), "VAL-11", "{do: jump}"),
    case("25", "a jump astray", then("do: jump, to: b"), "VAL-11", "b}"),
    case(
        "25",
        "a jump into another step",
        then("do: jump, to: other")
        + "  - step: next\n    tool: [{other: {kind: noop}}]\n",
        "VAL-11",
        "other}",
    ),
    case(
        "26",
        "a label twice",
        step("tool: [{a: {kind: noop}}, {a: {kind: noop}}]"),
        "VAL-12",
        "a: {kind: noop}}]",
    ),
    case(
        "26",
        "a dunder label",
        step("tool: [{__class__: {kind: noop}}]"),
        "S-51",
        "__class__",
    ),
    case(
        "26",
        "a label of 10 kB",
        lambda: step(f"tool: [{{? {'a' * 10_000} : {{kind: noop}}}}]"),
        "S-51",
        "aaa",
    ),
    case(
        "26",
        "a name of 10 kB",
        lambda: step(f"tool: {{name: {'a' * 10_000}, kind: noop}}"),
        "S-51",
        "aaa",
    ),
    case("27", "no in", loop("iterator: x"), "VAL-03", "{iterator"),
    case("27", "no iterator", loop("in: [1]"), "VAL-03", "{in"),
    case("27", "index", loop("in: [1], iterator: index"), "S-22", "index"),
    case("27", "parent", loop("in: [1], iterator: parent"), "S-22", "parent"),
    *[
        case(
            "28",
            f"max_in_flight {written}",
            loop(f"in: [1], iterator: x, spec: {{max_in_flight: {written}}}"),
            "S-27",
            written,
        )
        for written in ("0", "-1", "1e9", '"many"', "10001")
    ],
    *[
        case(
            "29", f"attempts {written}", then(f"do: retry, attempts: {written}"),
            "POL-08", written,
        )
        for written in ("0", "-5", "1000000000", '"3"')
    ],
    *[
        case(
            "29", f"delay {written}", then(f"do: retry, delay: {written}"),
            "POL-08", written,
        )
        for written in ("-1", "1e308", "8d", "never")
    ],
    case(
        "30",
        "two fallbacks",
        rules("[{else: {then: {do: fail}}}, {else: {then: {do: break}}}]"),
        "S-18",
        "else: {then: {do: break",
        "line 6",
    ),
    case(
        "31",
        "a misspelt kind",
        step("tool: {kind: pithon}"),
        "VAL-04",
        "pithon",
        "did you mean 'python'?",
    ),
    *[
        case("32", f"a step named {shown}", build, "S-51", at)
        for shown, build, at in (
            ("like a path", steps("  - step: ../../etc/passwd"), "../../etc"),
            ("with spaces", steps("  - step: a b"), "a b"),
            ("in 5 kB", lambda: steps("  - step: " + "a" * 5_000), "aaa"),
            ("with an emoji", steps("  - step: a🦀"), "a🦀"),
            ("backwards", steps('  - step: "a\\u202eb"'), '"a'),
            ("with a digit first", steps("  - step: 1a"), "1a"),
        )
    ],
    *[
        case("33", f"path {shown}", root("").replace("tests/t", path), "ROOT-04", path)
        for shown, path in (
            ("that climbs", "../../x"),
            ("from the root", "/etc/passwd"),
            ("with a NUL", '"a\\0b"'),
            ("with a backslash", "a\\b"),
            ("without an end", "a/"),
        )
    ],
    case(
        "35",
        "100,000 steps",
        lambda: steps("".join(f"- step: s{i}\n" for i in range(100_000))),
        "S-70",
        (1, 1),
        "1,048,576",
    ),
    case(
        "35",
        "60,000 short steps",
        lambda: steps("- step: a\n" * 60_000),
        "S-70",
        "a\n",
        "100,000 values",
    ),
    case(
        "35",
        "5,001 steps",
        lambda: steps(
            "".join(
                f"- {{step: s{i}, next: {{arcs: [{{step: s{i + 1}}}]}}}}\n"
                for i in range(5_000)
            )
            + "- {step: s5000, tool: {kind: noop}}"
        ),
        "S-70",
        "- {step: s0",
        "5,001 steps",
    ),
    case(
        "35",
        "201 tasks",
        lambda: step("tool: [" + "{kind: noop}, " * 201 + "]"),
        "S-70",
        "[{kind",
        "201 tasks",
    ),
    case("37", "a power", template('"{{ 10**10000000 }}"'), "VAL-22", '"{{'),
    *[
        case("40", name, template(f"\"{{{{ {source} }}}}\""), "VAL-22", '"{{', name)
        for name, source in (
            ("center", "'a' | center(1000000000)"),
            ("ljust", "'a'.ljust(1000000000)"),
            ("zfill", "'1'.zfill(1000000000)"),
            ("wordwrap", "'a' | wordwrap(1)"),
        )
    ],
    *[
        case("43", source, template(f"\"{{{{ {source} }}}}\""), "VAL-22", '"{{')
        for source in (
            "''.__class__.__mro__",
            "'' | attr('__class__')",
            "[] | map(attribute='__class__') | list",
        )
    ],
    *[
        case("45", f"{{% {source}", template(f'"{{% {source}"'), "VAL-22", '"{%')
        for source in (
            "include '/etc/passwd' %}",
            "import 'os' as os %}",
            "extends 'x' %}",
            "macro f() %}{% endmacro %}",
            "call f() %}{% endcall %}",
            "for a in [1] recursive %}{{ loop([2]) }}{% endfor %}",
            "block a %}{% endblock %}",
            "filter upper %}a{% endfilter %}",
        )
    ],
    case("46", "outcome in an arc", guard('"{{ outcome.status }}"'), "C-38", '"{{'),
    case(
        "48",
        "a template of 1 MB",
        lambda: template('"{{ 1 }}' + "x" * 1_000_000 + '"'),
        "S-70",
        '"{{',
    ),
    case(
        "48",
        "5,000 parentheses",
        lambda: template('"{{ ' + "(" * 5_000 + "1" + ")" * 5_000 + ' }}"'),
        "VAL-22",
        '"{{',
        "deep",
    ),
    case(
        "48",
        "open parentheses",
        lambda: template('"{{ ' + "(" * 16_000 + ' }}"'),
        "VAL-22",
        '"{{',
    ),
    case(
        "48",
        "not, not, not",
        lambda: template('"{{ ' + "not " * 4_000 + '1 }}"'),
        "VAL-22",
        '"{{',
    ),
    case(
        "48",
        "50,000 and",
        lambda: guard('"{{ ' + "a and " * 50_000 + 'a }}"'),
        "S-70",
        '"{{',
    ),
    case(
        "48",
        "2,700 and",
        lambda: guard('"{{ ' + "a and " * 2_700 + 'a }}"'),
        "VAL-22",
        '"{{',
    ),
    *[
        case("51", f"keychain in {place}", text, "S-67", '"{{')
        for place, text in (
            (
                "args",
                root("keychain: [{name: k, kind: env}]").replace(
                    "tool: {kind: noop}",
                    'next: {arcs: [{step: start, args: {a: "{{ keychain.k }}"}}]}',
                ),
            ),
            (
                "set_ctx",
                then('do: continue, set_ctx: {a: "{{ keychain.k }}"}'),
            ),
            ("loop.in", loop('iterator: x, in: "{{ keychain.k }}"')),
        )
    ],
]  # fmt: skip


def matches(place: tuple[int, int] | str, text: str, line: int, column: int) -> bool:
    if isinstance(place, tuple):
        return place == (line, column)
    lines = text.splitlines(keepends=True)
    return line >= 1 and lines[line - 1][column - 1 :].startswith(place)


def as_bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


@pytest.mark.spec("SRV-06", "ROOT-01", "S-70")
@pytest.mark.parametrize(
    "hostile", [pytest.param(each, id=f"{each.row} {each.name}") for each in ERRORS]
)
def test_it_is_refused_with_its_code_at_its_place(
    hostile: Case, validate: Validate
) -> None:
    content = as_bytes(hostile.content())
    answer = validate(content, "--json")
    assert (answer.code, answer.err) == (1, "")
    found = [
        each
        for each in answer.findings
        if each["code"] == hostile.code and each["severity"] == "error"
    ]
    assert found, answer.findings[:5]
    text = content.decode("utf-8", "replace")
    first = found[0]
    assert matches(hostile.at, text, first["line"], first["column"]), first
    assert hostile.words in f"{first['message']} {first['hint']}"


WARNINGS = [
    case(
        "12",
        "a leading zero",
        root("workload: {mode: 0777}"),
        "ROOT-01",
        "0777",
        "decimal",
    ),
    case(
        "19",
        "steps that differ by case",
        steps(
            "  - {step: start, next: {arcs: [{step: Start}]}}\n"
            "  - {step: Start, tool: {kind: noop}}"
        ),
        "VAL-01",
        "Start",
    ),
    case("21", "an empty step", steps("  - step: start"), "WARN-01", "step"),
    case("36", "an access key", root(f"workload: {{k: {AKIA}}}"), "WARN-05", "AKIA"),
    case(
        "36",
        "a private key",
        root("workload:\n  k: |\n    -----BEGIN PRIVATE KEY-----\n    abc"),
        "WARN-05",
        "|",
    ),
    case(
        "38",
        "a repetition in a guard",
        guard("\"{{ 'a' * 1000000000 }}\""),
        "S-29",
        '"{{',
        "always fails",
    ),
    case("38", "a division by zero", guard('"{{ 1 / 0 }}"'), "S-29", '"{{'),
    case("46", "a name of nobody", guard('"{{ itr.x }}"'), "C-34", '"{{', "'iter'?"),
    case("47", "a guard that is text", guard("\"{{ 'no' }}\""), "S-29", '"{{', "false"),
    case("52", "a clock", guard('"{{ now() > 5 }}"'), "C-34", '"{{', "started_at"),
]


@pytest.mark.spec("WARN-01", "WARN-05", "S-29", "C-34")
@pytest.mark.parametrize(
    "hostile", [pytest.param(each, id=f"{each.row} {each.name}") for each in WARNINGS]
)
def test_it_is_accepted_with_a_warning(hostile: Case, validate: Validate) -> None:
    text = as_bytes(hostile.content()).decode()
    answer = validate(text.encode(), "--json")
    assert (answer.code, answer.err) == (0, "")
    found = [each for each in answer.findings if each["code"] == hostile.code]
    assert [each["severity"] for each in found] == ["warning"]
    assert matches(hostile.at, text, found[0]["line"], found[0]["column"]), found
    assert hostile.words in f"{found[0]['message']} {found[0]['hint']}"
    assert AKIA not in answer.out
    assert validate(text.encode(), "--json", "--strict").code == 1


ACCEPTED = [
    case("12", "words", root("workload: [no, on, 12:30:45, 1_000]")
         .replace("[", "{a: [").replace("]", "]}"), "", ""),
    case("13", "600 kB of colons",
         lambda: root("workload: {t: 1" + ":1" * 300_000 + "}"), "", ""),
    case("34", "a playbook that calls itself",
         step("tool: {kind: playbook, path: tests/t}"), "", ""),
    case("38", "a repetition", template("\"{{ 'a' * 1000000000 }}\""), "", ""),
    case("39", "nested loops", template('"'
        + "{% for a in range(9999) %}" * 3 + "x" + "{% endfor %}" * 3 + '"'), "", ""),
    case("41", "doubling", lambda: template(
        "\"{% set x = 'a' %}" + "{% set x = x ~ x %}" * 40 + '{{ x }}"'), "", ""),
    case("50", "data like a template",
         template('"{{ workload.x }}"').replace(
             "workflow:", 'workload: {x: "{{ ctx }}"}\nworkflow:'), "", ""),
]  # fmt: skip


@pytest.mark.spec("S-37", "S-34", "S-50")
@pytest.mark.parametrize(
    "hostile", [pytest.param(each, id=f"{each.row} {each.name}") for each in ACCEPTED]
)
def test_it_is_valid(hostile: Case, validate: Validate) -> None:
    answer = validate(as_bytes(hostile.content()), "--json")
    assert (answer.code, answer.err) == (0, "")
    assert [each for each in answer.findings if each["severity"] != "hint"] == []


def jumps(count: int) -> str:
    rule = "{policy: {rules: [{else: {then: {do: jump, to: zz}}}]}}"
    tasks = "".join(
        f"      - a{i}: {{kind: noop, spec: {rule}}}\n" for i in range(count)
    )
    return steps("  - step: start\n    tool:\n" + tasks)


FLOODS = {
    "9,000 jumps astray": lambda: jumps(9_000),
    "5,000 arcs astray, all names alike": lambda: steps(
        "".join(
            f"- {{step: {'a' * 50}{i}, next: {{arcs: [{{step: {'a' * 49}b{i}}}]}}}}\n"
            for i in range(5_000)
        )
    ),
    "90,000 old octals on one line": lambda: root(
        "workload: {a: [" + "007, " * 90_000 + "]}"
    ),
    "60,000 unknown knobs": lambda: root(
        "executor: {spec: {" + ", ".join(f"timeuot{i}: 1" for i in range(60_000)) + "}}"
    ),
    "20,000 unknown keys of a step": lambda: step(
        "tool: {kind: noop}\n"
        + "".join(f"    nxt{i}: 1\n" for i in range(20_000)).rstrip()
    ),
    "a key of 900 kB above many findings": lambda: root(
        "workload: {? " + "k" * 900_000 + " : [" + "007, " * 1_000 + "]}"
    ),
    "10,000 unknown names": lambda: step(
        "tool:\n"
        + "".join(f'    - {{kind: noop, result: "{{{{ naem{i} }}}}"}}\n'
                  for i in range(10_000)).rstrip()
    ),
    "20,000 steps that are text": lambda: steps("- nothing\n" * 20_000),
    "30,000 duplicate keys": lambda: root("workload:\n" + "  a: 1\n" * 30_000),
    "secrets by the thousand": lambda: root(
        "workload:\n" + "".join(f"  k{i}: {AKIA}\n" for i in range(10_000))
    ),
}  # fmt: skip


@pytest.mark.spec("SRV-06", "S-70")
@pytest.mark.parametrize("flags", [["--json"], []], ids=["json", "people"])
@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_findings_is_answered_in_time(
    name: str, flags: list[str], validate: Validate
) -> None:
    answer = validate(FLOODS[name]().encode(), *flags)
    assert answer.code in (0, 1)
    assert answer.err == ""
    assert "are not shown" in answer.out
    assert len(answer.out) < 2_000_000
    assert AKIA not in answer.out
