"""YAML to nodes: values, positions, limits, and errors that do not stop the reader."""

from __future__ import annotations

import pytest

from noetl.dsl.composer import MAX_DEPTH, MAX_EXPANSION, MAX_NODES
from noetl.dsl.diagnostics import Diagnostic, Report
from noetl.dsl.node import Node
from noetl.dsl.source import MAX_BYTES, read_source
from noetl.types import JSON


def read(text: str | bytes) -> Node:
    report = Report()
    root = read_source(text, report)
    assert root is not None, list(report)
    return root


def complaints(text: str | bytes) -> list[Diagnostic]:
    report = Report()
    read_source(text, report)
    return list(report)


def rules_of(text: str | bytes) -> list[str]:
    return [each.rule for each in complaints(text)]


@pytest.mark.spec("S-50", "ROOT-01")
@pytest.mark.parametrize(
    ("written", "value"),
    [
        pytest.param("", None, id="nothing is null"),
        pytest.param("~", None, id="tilde is null"),
        pytest.param("null", None, id="null"),
        pytest.param("Null", None, id="null with a capital"),
        pytest.param("NULL", None, id="null in capitals"),
        pytest.param("nULL", "nULL", id="null in mixed case is text"),
        pytest.param("true", True, id="true"),
        pytest.param("False", False, id="false with a capital"),
        pytest.param("TRUE", True, id="true in capitals"),
        pytest.param("tRUE", "tRUE", id="true in mixed case is text"),
        pytest.param("on", "on", id="on stays text"),
        pytest.param("off", "off", id="off stays text"),
        pytest.param("yes", "yes", id="yes stays text"),
        pytest.param("no", "no", id="no stays text"),
        pytest.param("y", "y", id="y stays text"),
        pytest.param("1", 1, id="an integer"),
        pytest.param("-17", -17, id="a negative integer"),
        pytest.param("+3", 3, id="an integer with a plus"),
        pytest.param("0o17", 15, id="octal"),
        pytest.param("0x1F", 31, id="hexadecimal"),
        pytest.param("0b11", "0b11", id="binary is not YAML 1.2"),
        pytest.param("-0x1F", "-0x1F", id="a signed hexadecimal is text"),
        pytest.param("0o8", "0o8", id="a wrong octal digit makes text"),
        pytest.param("1_000", "1_000", id="underscores make text"),
        pytest.param("12:30:45", "12:30:45", id="no sexagesimal numbers"),
        pytest.param("2026-01-31", "2026-01-31", id="a date stays text"),
        pytest.param("1.10", 1.1, id="a float"),
        pytest.param(".5", 0.5, id="a float without a leading zero"),
        pytest.param("5.", 5.0, id="a float without decimals"),
        pytest.param("1e3", 1000.0, id="an exponent makes a float"),
        pytest.param("-1.5E-3", -0.0015, id="a negative exponent"),
        pytest.param("1.2.3", "1.2.3", id="a version stays text"),
        pytest.param(".", ".", id="a dot stays text"),
        pytest.param("-x", "-x", id="a word with a dash stays text"),
        pytest.param("<<", "<<", id="the merge sign as a value is text"),
        pytest.param("'1'", "1", id="single quotes keep text"),
        pytest.param('"true"', "true", id="double quotes keep text"),
        pytest.param("''", "", id="empty quotes are empty text"),
        pytest.param('"\\x41\\u00e9\\n"', "Aé\n", id="escapes in double quotes"),
        pytest.param("a # b", "a", id="a comment ends the scalar"),
        pytest.param("a#b", "a#b", id="a hash inside a word is text"),
    ],
)
def test_plain_scalars_follow_the_core_schema(written: str, value: JSON) -> None:
    node = read(f"key: {written}\n").entries["key"]
    assert node.value == value
    assert type(node.value) is type(value)


@pytest.mark.spec("ROOT-01")
def test_a_leading_zero_is_decimal_and_warned_about() -> None:
    assert read("mode: 0777\n").plain() == {"mode": 777}
    [warning] = complaints("mode: 0777\n")
    assert (warning.severity, warning.line, warning.column) == ("warning", 1, 7)
    assert "0o777" in (warning.hint or "")


@pytest.mark.spec("ROOT-01")
@pytest.mark.parametrize(
    ("written", "rule"),
    [
        pytest.param(".nan", "yaml-number", id="not a number"),
        pytest.param(".NaN", "yaml-number", id="not a number, mixed case"),
        pytest.param("-.inf", "yaml-number", id="minus infinity"),
        pytest.param("+.INF", "yaml-number", id="plus infinity"),
        pytest.param("1e400", "yaml-number", id="a float that overflows"),
        pytest.param("9" * 65, "yaml-scalar-too-long", id="65 digits"),
        pytest.param("0x" + "f" * 63, "yaml-scalar-too-long", id="65 hex characters"),
        pytest.param("0x" + "f" * 60, "yaml-scalar-too-long", id="72 decimal digits"),
        pytest.param("0." + "1" * 63, "yaml-scalar-too-long", id="65 of a float"),
        pytest.param("!!str 1", "yaml-tag", id="a tag, even a harmless one"),
        pytest.param("!own 1", "yaml-tag", id="a tag of one's own"),
        pytest.param("!!python/name:os.system x", "yaml-tag", id="a Python tag"),
    ],
)
def test_scalars_that_a_playbook_refuses(written: str, rule: str) -> None:
    [found] = complaints(f"key: {written}\n")
    assert (found.rule, found.code, found.severity) == (rule, "ROOT-01", "error")
    assert (found.line, found.column) == (1, 6)
    assert found.path == "key"


@pytest.mark.spec("ROOT-01")
def test_a_number_of_64_characters_is_read() -> None:
    assert read("key: " + "9" * 64).plain() == {"key": int("9" * 64)}


def mark(node: Node) -> tuple[int, int]:
    return node.line, node.column


POSITIONS = """\
a: plain
b: 'quoted'
c: "double"
d:
  - 1
  - [x, {y: z}]
e: |
  literal
f: >-
  folded
g: &anchor {h: 1}
i:
  ? j
  : k
"""


@pytest.mark.spec("ROOT-01")
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param([], (1, 1), id="the root"),
        pytest.param(["a"], (1, 4), id="a plain scalar"),
        pytest.param(["b"], (2, 4), id="single quotes"),
        pytest.param(["c"], (3, 4), id="double quotes"),
        pytest.param(["d"], (5, 3), id="a block sequence"),
        pytest.param(["d", 0], (5, 5), id="an item"),
        pytest.param(["d", 1], (6, 5), id="a flow sequence"),
        pytest.param(["d", 1, 0], (6, 6), id="an item of a flow sequence"),
        pytest.param(["d", 1, 1], (6, 9), id="a flow mapping"),
        pytest.param(["d", 1, 1, "y"], (6, 13), id="a value of a flow mapping"),
        pytest.param(["e"], (7, 4), id="a literal block"),
        pytest.param(["f"], (9, 4), id="a folded block"),
        pytest.param(["g"], (11, 4), id="an anchored mapping"),
        pytest.param(["g", "h"], (11, 16), id="a value inside it"),
        pytest.param(["i"], (13, 3), id="a mapping with explicit keys"),
        pytest.param(["i", "j"], (14, 5), id="the value of an explicit key"),
    ],
)
def test_every_node_knows_where_it_stands(
    path: list[str | int], expected: tuple[int, int]
) -> None:
    node = read(POSITIONS)
    for part in path:
        node = node.value[part]
    assert mark(node) == expected


@pytest.mark.spec("ROOT-01")
def test_keys_know_where_they_stand() -> None:
    root = read(POSITIONS)
    assert root.key_marks["d"] == (4, 1)
    assert root.key_marks["i"] == (12, 1)
    assert root.entries["i"].key_marks["j"] == (13, 5)
    assert root.entries["d"].items[1].items[1].key_marks["y"] == (6, 10)


@pytest.mark.spec("ROOT-01")
@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        pytest.param(
            "{é: 1, 🦀: {x: 2}}", ["🦀", "x"], (1, 15), id="characters, not bytes"
        ),
        pytest.param("a: 日本\nb: [日本, c]", ["b", 1], (2, 9), id="wide characters"),
        pytest.param("a: 1\r\nb: 2\r\n", ["b"], (2, 4), id="Windows line ends"),
        pytest.param("a: 1\rb: 2\r", ["b"], (2, 4), id="old Mac line ends"),
        pytest.param("\ufeffa: 1\nb: 2", ["a"], (1, 4), id="a byte order mark"),
        pytest.param("\n\n# c\n---\na: 1", ["a"], (5, 4), id="after a comment"),
    ],
)
def test_positions_in_unusual_texts(
    text: str, path: list[str | int], expected: tuple[int, int]
) -> None:
    node = read(text.encode())
    for part in path:
        node = node.value[part]
    assert mark(node) == expected


@pytest.mark.spec("ROOT-01")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(
            "a: &d {x: 1, y: 2}\nb: {<<: *d, y: 3}",
            {"x": 1, "y": 3},
            id="own keys win",
        ),
        pytest.param(
            "a: &d {x: 1, y: 2}\nb: {y: 3, <<: *d}",
            {"x": 1, "y": 3},
            id="own keys win wherever the merge stands",
        ),
        pytest.param(
            "a: [&p {x: 1}, &q {x: 2, y: 2}]\nb: {<<: [*p, *q]}",
            {"x": 1, "y": 2},
            id="of several sources the earlier wins",
        ),
        pytest.param(
            "a: &d {x: {k: 1}}\nb: {<<: *d, x: {l: 2}}",
            {"x": {"l": 2}},
            id="a merge key is shallow",
        ),
        pytest.param(
            "a: &p {x: 1}\nc: &q {<<: *p, y: 2}\nb: {<<: *q}",
            {"x": 1, "y": 2},
            id="a merged mapping merges on",
        ),
        pytest.param("a: 1\nb: {<<: {x: 1}}", {"x": 1}, id="a mapping in place"),
        pytest.param("a: 1\nb: {'<<': 1}", {"<<": 1}, id="a quoted sign is a key"),
        pytest.param("a: &x [1, 2]\nb: {k: *x}", {"k": [1, 2]}, id="an alias"),
        pytest.param(
            "a: &x k\nb: {*x : 1, l: *x}", {"k": 1, "l": "k"}, id="an alias as a key"
        ),
        pytest.param(
            "a: [&x 1, &x 2]\nb: {k: *x}", {"k": 2}, id="the last anchor counts"
        ),
    ],
)
def test_anchors_aliases_and_merge_keys(text: str, value: JSON) -> None:
    assert complaints(text) == []
    assert read(text).plain()["b"] == value


@pytest.mark.spec("ROOT-01")
def test_a_merged_key_stands_where_it_was_written() -> None:
    merged = read("a: &d\n  x: 1\nb:\n  <<: *d\n").entries["b"]
    assert mark(merged.entries["x"]) == (2, 6)
    assert merged.key_marks["x"] == (2, 3)


def nested(depth: int) -> str:
    """A root mapping and sequences inside it, so many collections in all."""
    return "a: " + "[" * (depth - 1) + "]" * (depth - 1)


def chain(levels: int, width: int) -> str:
    """Anchors that each repeat the one before."""
    lines = ["a0: &a0 [x]"]
    for level in range(1, levels + 1):
        aliases = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} [{aliases}]")
    return "\n".join(lines)


@pytest.mark.spec("ROOT-01", "S-70")
@pytest.mark.parametrize(
    ("within", "beyond", "rule"),
    [
        pytest.param(
            nested(MAX_DEPTH), nested(MAX_DEPTH + 1), "yaml-too-deep", id="depth"
        ),
        pytest.param(
            "a: [" + "1," * (MAX_NODES - 2) + "]",  # and the two collections
            "a: [" + "1," * (MAX_NODES - 1) + "]",
            "yaml-too-large",
            id="values",
        ),
        pytest.param(
            "a: &x 1\nb: [" + "*x," * MAX_EXPANSION + "]",
            "a: &x 1\nb: [" + "*x," * (MAX_EXPANSION + 1) + "]",
            "yaml-alias-limit",
            id="expanded aliases",
        ),
        pytest.param(
            "# " + "x" * (MAX_BYTES - 7) + "\na: 1",
            "# " + "x" * (MAX_BYTES - 6) + "\na: 1",
            "yaml-too-large",
            id="bytes",
        ),
        pytest.param(
            "# " + "é" * ((MAX_BYTES - 8) // 2) + " \na: 1",
            "# " + "é" * ((MAX_BYTES - 8) // 2) + "  \na: 1",
            "yaml-too-large",
            id="bytes, not characters",
        ),
    ],
)
def test_limits_at_their_edge(within: str, beyond: str, rule: str) -> None:
    assert complaints(within) == []
    assert rules_of(beyond) == [rule]


@pytest.mark.spec("ROOT-01")
def test_keys_do_not_count_as_values() -> None:
    keys = ",".join(f"k{i}: 1" for i in range(MAX_NODES // 2))
    assert complaints("{" + keys + "}") == []


@pytest.mark.spec("ROOT-01")
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        pytest.param(chain(9, 10), "yaml-alias-limit", id="a bomb of aliases"),
        pytest.param(
            "a: &a {" + ",".join(f"k{i}: 1" for i in range(400)) + "}\n"
            "b: {<<: [" + ",".join(["*a"] * 300) + "]}",
            "yaml-merge-limit",
            id="a bomb of merge keys",
        ),
        pytest.param("a: &x [1, *x]", "yaml-cycle", id="an anchor inside itself"),
        pytest.param("a: &x {b: {c: *x}}", "yaml-cycle", id="deep inside itself"),
        pytest.param("a: *x\nb: &x 1", "yaml-alias", id="an alias before its anchor"),
    ],
)
def test_aliases_cannot_be_abused(text: str, rule: str) -> None:
    assert rules_of(text) == [rule]


@pytest.mark.spec("ROOT-01")
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("é: 1".encode(), None, id="UTF-8"),
        pytest.param(b"\xef\xbb\xbfa: 1", None, id="UTF-8 with a mark"),
        pytest.param(b"a: 1\nb: \xff", (2, 4), id="a byte that is no UTF-8"),
        pytest.param("a: é".encode("latin-1"), (1, 4), id="Latin-1"),
        pytest.param("a: 1".encode("utf-16"), (1, 1), id="UTF-16 with a mark"),
        pytest.param("a: 1".encode("utf-16-le"), (1, 2), id="UTF-16 without one"),
        pytest.param(b"a: 1\x00", (1, 5), id="a NUL"),
        pytest.param(b"a: \x1b[0m", (1, 4), id="an escape character"),
        pytest.param(b"a: \xed\xa0\x80", (1, 4), id="an encoded surrogate"),
        pytest.param("a: é\n\nbé: \x07".encode(), (3, 5), id="a bell on line 3"),
        pytest.param("a: \x9b".encode(), (1, 4), id="a C1 control"),
        pytest.param("a: \ufffe".encode(), (1, 4), id="a noncharacter"),
    ],
)
def test_encodings(content: bytes, expected: tuple[int, int] | None) -> None:
    found = complaints(content)
    if expected is None:
        assert found == []
    else:
        assert [(each.rule, each.code) for each in found] == [
            ("yaml-encoding", "ROOT-01")
        ]
        assert (found[0].line, found[0].column) == expected


@pytest.mark.spec("ROOT-01")
def test_a_lone_surrogate_in_a_python_text_is_refused() -> None:
    [found] = complaints("a: x\ud800")
    assert (found.rule, found.line, found.column) == ("yaml-encoding", 1, 5)


@pytest.mark.spec("ROOT-01", "S-50")
def test_one_pass_reports_every_problem() -> None:
    text = (
        "a: .nan\n"
        "a: 2\n"
        "1: x\n"
        "b: !t 3\n"
        "c: {d: 1, d: 2}\n"
        "e: {{ workload.x }}\n"
        "f: 0123\n"
        "[g]: h\n"
    )
    assert [(each.rule, each.line, each.column) for each in complaints(text)] == [
        ("yaml-number", 1, 4),
        ("duplicate-key", 2, 1),
        ("yaml-key-type", 3, 1),
        ("yaml-tag", 4, 4),
        ("duplicate-key", 5, 11),
        ("yaml-unquoted-template", 6, 5),
        ("yaml-octal", 7, 4),
        ("yaml-key-type", 8, 1),
    ]


@pytest.mark.spec("S-50")
def test_a_duplicate_key_names_both_lines_and_keeps_the_first() -> None:
    text = "a: 1\nb: 2\na: 3\n"
    [found] = complaints(text)
    assert found.code == "S-50"
    assert "lines 1 and 3" in found.message
    assert read(text).plain() == {"a": 1, "b": 2}


@pytest.mark.spec("ROOT-01")
@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        pytest.param("", "yaml-empty", 1, id="an empty file"),
        pytest.param("# only\n# comments\n", "yaml-empty", 1, id="only comments"),
        pytest.param("---\n...\n", "yaml-empty", 1, id="an empty document"),
        pytest.param("a: 1\n---\nb: 2\n", "yaml-multi-document", 2, id="two documents"),
        pytest.param("a: [1\nb: 2\n", "yaml-syntax", 2, id="an open bracket"),
        pytest.param("a: 'x\n", "yaml-syntax", 2, id="an open quote"),
        pytest.param("a:\n\t- 1\n", "yaml-syntax", 2, id="a tab as indentation"),
        pytest.param("a: b: c\n", "yaml-syntax", 1, id="two colons"),
        pytest.param("a: @x\n", "yaml-syntax", 1, id="a reserved character"),
    ],
)
def test_texts_that_do_not_form_a_document(text: str, rule: str, line: int) -> None:
    [found] = complaints(text)
    assert (found.rule, found.code, found.line) == (rule, "ROOT-01", line)


@pytest.mark.spec("ROOT-01")
@pytest.mark.parametrize("text", ["a: [1", "a: {b", "a: 'x", "a:\n- [é"])
def test_what_the_end_lacks_is_reported_inside_the_file(text: str) -> None:
    [found] = complaints(text)
    lines = text.splitlines()
    assert (found.line, found.column) == (len(lines), len(lines[-1]) + 1)


@pytest.mark.spec("ROOT-01")
def test_the_path_leads_to_the_problem() -> None:
    [found] = complaints("workflow:\n  - step: a\n  - step: b\n    x: [1, {y: .inf}]\n")
    assert found.path == "workflow[1].x[1].y"
