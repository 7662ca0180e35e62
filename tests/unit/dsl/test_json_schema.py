"""Schemas for what people send: flaws of a schema, problems of data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.dsl.json_schema import (
    FORMATS,
    MAX_PROBLEMS,
    _compile,
    find_flaws,
    find_problems,
)

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
        ({"pattern": "^a+$"}, "aaa", None),
        ({"pattern": "^a+$"}, "ab", "must match the pattern '^a+$'"),
        ({"format": "email"}, "ada@example.org", None),
        ({"format": "email"}, "ada", "must have the format 'email'"),
        ({"format": "textarea"}, "ada", None),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}, 1, "must be null"),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}, None, None),
        ({"additionalProperties": False}, {"a": 1}, "must be an empty mapping"),
        ({"properties": {"a": False}}, {"a": 1}, "'a' is not expected"),
        ({"uniqueItems": True}, [1, 1.0], "must not have equal elements"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "has a member whose name"),
        ({"minProperties": 1}, {}, "must have 1 members or more, found 0"),
        ({"not": {"type": "null"}}, None, "does not fit 'not'"),
        ({"if": {"const": 1}, "then": {"const": 2}}, 1, "must be 2"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "'b' is missing"),
        ({"multipleOf": 2}, 3, "must be a multiple of 2"),
        ({"type": "string"}, "\ud800", "is not valid JSON"),
    ],
)
def test_each_word(schema: Any, data: Any, problem: str | None) -> None:
    assert find_flaws(schema) == []
    found = find_problems(schema, data)

    assert (problem in found[0]) if problem is not None else not found


def test_there_is_an_end_to_it() -> None:
    data = [0] * 1000

    found = find_problems({"items": {"type": "string"}}, data)

    assert len(found) == MAX_PROBLEMS


def test_no_value_is_shown() -> None:
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
        ({"pattern": "(?=a)"}, "'pattern' must be a short regular expression"),
        ({"pattern": r"(a)\1"}, "'pattern' must be a short regular expression"),
        ({"pattern": "(a{999}){999}"}, "'pattern' must be a short regular expression"),
        ({"items": {"pattern": "("}}, "in 'items', 'pattern' must be a short regular"),
        ({"patternProperties": {"(?!a)": {}}}, "'patternProperties' must be a mapping"),
        ({"$id": "a"}, "'$id' is not understood; known: $defs, $ref, additional"),
        ({"$dynamicRef": "#a"}, "'$dynamicRef' is not understood"),
        ({"unevaluatedItems": False}, "'unevaluatedItems' is not understood"),
        ({"requred": ["a"]}, "'requred' is not understood; did you mean 'required'?"),
        ({"$ref": "#"}, "'$ref' leads back to itself"),
        ({"$ref": "#/$defs/a"}, "'$ref' must be a reference within the schema"),
        ({"$ref": 1}, "'$ref' must be a reference within the schema"),
        (
            {"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
            "in '$defs.a.items', '$ref' leads back to itself",
        ),
        (
            {"examples": [{"type": 1}], "$ref": "#/examples/0"},
            "'examples[0].type' must be as JSON Schema 2020-12 has it",
        ),
        ({"required": "a"}, "'required' must be a list of different names"),
        ({"enum": []}, "'enum' must be a list of values"),
        ({"minimum": True}, "'minimum' must be a number"),
        ({"maxItems": -1}, "'maxItems' must be a whole number from 0 on"),
        ({"items": 1}, "'items' must be true, false or a schema"),
        ({"additionalProperties": 1}, "must be true, false or a schema"),
        ({"anyOf": [{"type": 1}]}, "in 'anyOf[0]', 'type' must be"),
        ({"properties": {"type": 1}}, "'properties' must be a mapping of schemas"),
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


def test_references_count_as_often_as_they_are_followed() -> None:
    """Otherwise twenty small parts would be looked at a million times."""
    doubled = {
        f"d{number}": {"allOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2}
        for number in range(20)
    }

    assert "too large" in find_flaws({"$defs": {**doubled, "d20": {}}})[0]


def test_a_schema_has_few_bytes() -> None:
    assert find_flaws({"title": "a" * 16_000}) == []
    assert "too large" in find_flaws({"title": "a" * 16_400})[0]


def test_many_problems_of_large_data_are_not_collected() -> None:
    schema = {"allOf": [{"items": {"type": "string"}}] * 200}

    [found] = find_problems(schema, [0] * 100_000)

    assert "too large to name the part" in found


def test_a_schema_that_was_accepted_before_is_refused_in_words() -> None:
    [found] = find_problems({"required": ["a", "a"]}, {})

    assert found == "'required' must be a list of different names"


def test_the_library_refuses_to_read_a_file(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"type": "null"}')

    with pytest.raises(jsonschema_rs.ValidationError, match="Retrieval is disabled"):
        _compile(msgspec.json.encode({"$ref": file.as_uri()}))


@pytest.mark.parametrize("name", FORMATS)
def test_the_formats_that_are_listed_are_checked(name: str) -> None:
    assert find_flaws({"format": name}) == []
    assert find_problems({"format": name}, "(\\ {")


SECRET = "hunter2"
values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", SECRET]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=6,
)
types = st.sampled_from(["string", "integer", "number", "boolean", "object", "array"])


def schemas_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=2)
    members = st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": types | st.lists(types, min_size=1, max_size=2, unique=True),
            "enum": st.lists(st.integers(-3, 3), min_size=1, max_size=3, unique=True),
            "const": st.integers(-3, 3),
            "properties": members,
            "patternProperties": members,
            "dependentSchemas": members,
            "dependentRequired": st.just({"a": ["b"]}),
            "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "propertyNames": inner,
            "items": st.booleans() | inner,
            "prefixItems": some,
            "contains": inner,
            "minContains": st.integers(0, 2),
            "maxContains": st.integers(0, 2),
            "uniqueItems": st.booleans(),
            "minimum": st.integers(-2, 2),
            "exclusiveMaximum": st.integers(-2, 2),
            "multipleOf": st.integers(1, 3),
            "minLength": st.integers(0, 2),
            "maxItems": st.integers(0, 2),
            "maxProperties": st.integers(0, 2),
            "pattern": st.sampled_from(["^a", "b$"]),
            "format": st.sampled_from(FORMATS),
            "anyOf": some,
            "oneOf": some,
            "allOf": some,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "$ref": st.just("#/$defs/a"),
        },
    )


schemas = st.recursive(st.just({}), schemas_of, max_leaves=4)


@pytest.mark.spec("S-54")
@settings(deadline=None)  # the first example imports the library
@given(schemas, values)
def test_whatever_does_not_fit_is_said_without_a_value(schema: Any, data: Any) -> None:
    schema["$defs"] = {"a": {"type": ["string", "object"], "minLength": 1}}
    assert find_flaws(schema) == []

    found = find_problems(schema, data)

    assert bool(found) != jsonschema_rs.Draft202012Validator(
        schema, validate_formats=True
    ).is_valid(data)
    assert all(SECRET not in each for each in found)
