"""Expected values and matchers, against values that fit and values that do not."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.dsl.diagnostics import Report
from noetl.dsl.node import Location
from noetl.dsl.source import read_source
from noetl.testing.diff import Difference, compare
from noetl.testing.matchers import MATCHERS


def differences(expected: str, found: Any) -> list[Difference]:
    node = read_source(expected, Report())
    assert node is not None
    return list(compare(Location(node), found, "it"))


PAIRS = [
    ("$any", "{$any: true}", [None, 0, "x"], []),
    ("$type", "{$type: number}", [1, 1.5], ["1", True, None, [], {}]),
    ("$type", "{$type: boolean}", [True, False], [0, "true"]),
    ("$type", "{$type: 'null'}", [None], [0, "", False]),
    ("$type", "{$type: text}", ["", "x"], [1, None]),
    ("$type", "{$type: list}", [[]], [{}, "ab"]),
    ("$type", "{$type: mapping}", [{}], [[], None]),
    ("$contains", "{$contains: found}", ["not found"], ["lost", 1, None]),
    ("$contains", "{$contains: 2}", [[1, 2]], [[1, 3], [], "12", {"2": 2}]),
    ("$contains", "{$contains: {$type: text}}", [[1, "a"]], [[1, 2]]),
    ("$regex", "{$regex: '^a+$'}", ["a", "aaa"], ["ab", "", 1]),
    ("$length", "{$length: 2}", ["ab", [1, 2], {"a": 1, "b": 2}], ["a", [], 2]),
    ("$length", "{$length: {$at_least: 1}}", ["a", [0]], ["", [], {}]),
    ("$subset", "{$subset: {a: 1}}", [{"a": 1}, {"a": 1, "b": 2}], [{}, {"a": 2}, 1]),
    (
        "$subset",
        "{$subset: {a: {b: [{c: 1}]}}}",
        [{"a": {"b": [{"c": 1, "d": 2}], "e": 3}}],
        [{"a": {"b": [{"c": 2}]}}, {"a": {"b": []}}, {"a": 1}],
    ),
    ("$unordered", "{$unordered: [1, 2]}", [[1, 2], [2, 1]], [[1], [1, 2, 2], [1, 3]]),
    (
        "$unordered",
        "{$unordered: [{$type: number}, 1]}",
        [[1, 2], [2, 1]],
        [[2, 3], ["1", 1, 2], 1],
    ),
    ("$at_least", "{$at_least: 2}", [2, 2.5], [1, "2", None, True]),
    ("$at_most", "{$at_most: 2}", [2, -1], [2.1, "1", None, False]),
    ("$at_most", "{$at_least: 1, $at_most: 2}", [1, 2], [0, 3]),
    ("$not", "{$not: null}", [0, "", False], [None]),
    ("$not", "{$not: {$contains: x}}", ["a", ["y"]], ["ax", ["x"]]),
    ("$when", '{$when: "{{ value > 3 and value is odd }}"}', [5], [4, 3, None]),
    ("$when", '{$when: "{{ value.a == 1 }}"}', [{"a": 1}], [{}, 1, "a"]),
    ("$equals", "{$equals: {$any: 1}}", [{"$any": 1}], [1, {"$any": 2}, {}]),
    ("", "{a: [1, {b: null}]}", [{"a": [1, {"b": None}]}], [{"a": [1, {}]}]),
    ("", "1", [1, 1.0], [True, "1", 2]),
    ("", "true", [True], [1, "true"]),
    ("", "[]", [[]], [{}, None, ""]),
]


@pytest.mark.parametrize(
    ("expected", "good", "bad"),
    [pytest.param(*pair[1:], id=pair[1]) for pair in PAIRS],
)
def test_fits_or_does_not(expected: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert differences(expected, value) == [], value
    for value in bad:
        assert differences(expected, value) != [], value


def test_every_matcher_has_been_tried() -> None:
    assert {pair[0] for pair in PAIRS} - {""} == MATCHERS.keys()


@pytest.mark.parametrize("name", MATCHERS)
def test_the_example_of_a_matcher_is_one(name: str) -> None:
    node = read_source(MATCHERS[name].example, Report())

    assert node is not None
    assert list(node.entries) == [name]


@pytest.mark.parametrize(
    ("expected", "found", "message"),
    [
        ("{a: {b: 1}}", {"a": {"b": 2}}, "it.a.b: expected 1, found 2"),
        ("[1, [2]]", [1, [3]], "it[1][0]: expected 2, found 3"),
        ("[1]", [1, 2], "it[1]: expected the list's end, found 2"),
        ("[1, 2]", [1], "it[1]: expected 2, found the list's end"),
        ("{a: 1}", {"a": 1, "b": 2}, "it.b: expected no such key, found 2"),
        ("{a: 1, b: {c: 2}}", {"a": 1}, 'it.b: expected {"c":2}, found no such key'),
        ("{a: {$type: text}}", {}, 'it.a: expected $type "text", found no such key'),
        ("{$length: 3}", "ab", "the length of it: expected 3, found 2"),
        ("{$length: 3}", 5, "it: expected something with a length, found 5"),
        ("{$subset: {a: {b: 1}}}", {"a": {}}, "it.a.b: expected 1, found no such key"),
        ("{$unordered: [1]}", 7, "it: expected a list of 1, found 7"),
        ("{$unordered: [1]}", [2, 1], "it[0]: expected no such item, found 2"),
        ("{$unordered: [1, 2]}", [1], "it: expected an item 2, found [1]"),
        ("{$contains: x}", None, 'it: expected $contains "x", found null'),
    ],
)
def test_the_difference_says_where(expected: str, found: Any, message: str) -> None:
    assert [each.message for each in differences(expected, found)] == [message]


def test_of_long_texts_the_part_that_differs_is_shown() -> None:
    before = "the same words over and over, " * 20
    (different,) = differences(f'"{before}good"', f"{before}bad")

    assert different.expected.endswith('over and over, good"')
    assert different.found.endswith('over and over, bad"')
    assert len(different.message) < 150


def test_the_difference_points_at_the_expected_value() -> None:
    (different,) = differences(
        "a: 1\nb:\n  - 2\n  - c: 3\n", {"a": 1, "b": [2, {"c": 4}]}
    )

    assert different.at.mark == (4, 8)
