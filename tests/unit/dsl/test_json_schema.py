"""Schemas for what people send: flaws of a schema, problems of data."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.dsl.fitting import find_problems
from noetl.dsl.schemas import MOST_PROBLEMS, find_flaws

FORM = {
    "type": "object",
    "title": "Pay?",
    "required": ["approved", "by"],
    "properties": {
        "approved": {"type": "boolean"},
        "by": {"type": "string", "minLength": 2, "maxLength": 5},
        "amount": {"type": ["number", "null"], "minimum": 1, "exclusiveMaximum": 9},
        "way": {"enum": ["cash", 1, None]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
    },
    "additionalProperties": False,
}
OK = {"approved": True, "by": "ada"}


@pytest.mark.spec("S-54")
@pytest.mark.parametrize(
    ("data", "problems"),
    [
        (OK, []),
        ({**OK, "amount": 1.5, "way": None, "tags": ["a"]}, []),
        (None, ["the data must be a mapping, found null"]),
        ({"by": "ada"}, ["'approved' is missing"]),
        (
            {"approved": "yes", "by": 3},
            [
                "'approved' must be true or false, found text",
                "'by' must be text, found a whole number",
            ],
        ),
        ({**OK, "by": "a"}, ["'by' must have 2 characters or more, found 1"]),
        ({**OK, "by": "a" * 6}, ["'by' must have 5 characters or fewer, found 6"]),
        ({**OK, "amount": 0}, ["'amount' must be 1 or more"]),
        ({**OK, "amount": 9}, ["'amount' must be less than 9"]),
        ({**OK, "amount": True}, None),
        ({**OK, "way": True}, ["'way' must be one of 'cash', 1, null"]),
        ({**OK, "tags": ["a", 1]}, ["'tags[1]' must be text, found a whole number"]),
        ({**OK, "tags": [*"abc"]}, ["'tags' must have 2 elements or fewer, found 3"]),
        ({**OK, "aproved": 1}, ["'aproved' is not expected; did you mean 'approved'?"]),
    ],
)
def test_what_does_not_fit_is_said(data: Any, problems: list[str] | None) -> None:
    found = find_problems(FORM, data)

    assert (found == problems) if problems is not None else found


@pytest.mark.parametrize(
    ("schema", "data", "problem"),
    [
        ({"const": 1}, 1.0, None),
        ({"const": {"a": [1]}}, {"a": [True]}, "must be {'a': [1]}"),
        ({"type": "integer"}, 10**400, None),
        ({"type": "integer"}, 1.5, "must be a whole number, found a number"),
        ({"maximum": 1}, 2, "must be 1 or less"),
        ({"exclusiveMinimum": 1}, 1, "must be more than 1"),
        ({"minItems": 1}, [], "must have 1 elements or more"),
        ({"allOf": [{"type": "number"}, {"minimum": 2}]}, 1, "must be 2 or more"),
        ({"anyOf": [{"type": "null"}, {"const": 2}]}, 2, None),
        ({"anyOf": [{"type": "null"}, {"const": 2}]}, 1, "fits none of 2 schemas"),
        ({"oneOf": [{"type": "number"}, {"const": 2}]}, 2, "fits 2 schemas of which"),
        ({"additionalProperties": {"type": "number"}}, {"a": ""}, "'a' must be"),
        ({}, object, None),
    ],
)
def test_each_word(schema: Any, data: Any, problem: str | None) -> None:
    assert find_flaws(schema) == []
    found = find_problems(schema, data)

    assert (problem in found[0]) if problem is not None else not found


def test_there_is_an_end_to_it() -> None:
    data = [0] * 1000

    found = find_problems({"items": {"type": "string"}}, data)

    assert len(found) == MOST_PROBLEMS


def test_no_value_is_told() -> None:
    found = find_problems({"type": "number", "enum": [1]}, "hunter2hunter2")
    found += find_problems({"enum": ["a"]}, "hunter2hunter2")

    assert found
    assert "hunter2" not in "".join(found)


@pytest.mark.spec("S-54")
@pytest.mark.parametrize(
    ("schema", "flaw"),
    [
        ([], "the schema must be a mapping, found a list"),
        ({"type": "text"}, "'type' must be one or several of string, integer"),
        ({"type": []}, "'type' must be one or several"),
        ({"pattern": "a+"}, "'pattern' is not understood; known: additionalProperties"),
        ({"requred": ["a"]}, "'requred' is not understood; did you mean 'required'?"),
        ({"$ref": "#"}, "'$ref' is not understood"),
        ({"required": "a"}, "'required' must be a list of names"),
        ({"enum": []}, "'enum' must be a list of values"),
        ({"minimum": True}, "'minimum' must be a number"),
        ({"maxItems": -1}, "'maxItems' must be a whole number from 0 on"),
        ({"items": 1}, "'items' must be a mapping, found a whole number"),
        ({"additionalProperties": 1}, "must be true, false or a schema"),
        ({"anyOf": [{"type": 1}]}, "in 'anyOf[0]', 'type' must be"),
        ({"properties": []}, "'properties' must be a mapping of schemas"),
    ],
)
def test_flaws_of_a_schema(schema: Any, flaw: str) -> None:
    [found] = find_flaws(schema)

    assert flaw in found


def test_a_schema_has_bounds() -> None:
    deep: Any = {}
    for _ in range(100):
        deep = {"items": deep}
    wide = {"properties": {str(number): {} for number in range(2_000)}}

    assert "too large" in find_flaws(deep)[0]
    assert "too large" in find_flaws(wide)[0]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "ab"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=6,
)
types = st.sampled_from(["string", "integer", "number", "boolean", "object", "array"])


def schemas_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": types | st.lists(types, min_size=1, max_size=2, unique=True),
            "enum": st.lists(values, min_size=1, max_size=3),
            "const": values,
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "items": inner,
            "minimum": st.integers(-2, 2),
            "exclusiveMaximum": st.integers(-2, 2),
            "minLength": st.integers(0, 2),
            "maxItems": st.integers(0, 2),
            "anyOf": some,
            "oneOf": some,
            "allOf": some,
        },
    )


schemas = st.recursive(st.just({}), schemas_of, max_leaves=4)


@pytest.mark.spec("S-54")
@given(schemas, values)
def test_it_is_json_schema(schema: Any, data: Any) -> None:
    assert find_flaws(schema) == []
    theirs = jsonschema_rs.Draft202012Validator(schema).is_valid(data)

    assert (not find_problems(schema, data)) == theirs
