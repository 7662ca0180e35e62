"""Declared inputs of a playbook: defaults, the check, and warnings."""

from __future__ import annotations

from typing import Any

import pytest

from noetl import Playbook, load
from noetl.dsl.playbook_inputs import check_inputs, merge_inputs, warnings_of

DECLARED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: t
  path: tests/t
  inputs:
    type: object
    required: [region]
    properties:
      region: {enum: [eu, us]}
      day: {type: string, format: date, default: "2026-01-01"}
      limit: {type: integer, default: 5}
workload: {limit: 10}
workflow:
  - {step: start, tool: {kind: noop, result: "{{ workload.region }}"}}
"""


def read(text: str = DECLARED) -> Playbook:
    loaded = load(text)
    assert loaded.playbook is not None, loaded.diagnostics
    return loaded.playbook


@pytest.mark.spec("S-72", "WRK-01")
def test_a_default_of_the_schema_holds_only_where_workload_has_no_such_key() -> None:
    playbook = read()

    assert merge_inputs(playbook, {}) == {"day": "2026-01-01", "limit": 10}
    given = {"day": None, "limit": 1}
    assert merge_inputs(playbook, given) == given


@pytest.mark.spec("S-72", "S-40")
@pytest.mark.parametrize(
    ("workload", "problems"),
    [
        pytest.param({"region": "eu", "day": "2026-02-28"}, None, id="fits"),
        pytest.param({}, ["'region' is missing"], id="missing"),
        pytest.param(
            {"region": "asia"}, ["'region' must be one of 'eu', 'us'"], id="enum"
        ),
        pytest.param(
            {"region": "eu", "limit": "12345"},
            ["'limit' must be a whole number, found text"],
            id="a number as text is not converted",
        ),
        pytest.param(
            {"region": "eu", "day": None},
            ["'day' must be text, found null"],
            id="null is a value",
        ),
    ],
)
def test_the_workload_is_checked_and_no_message_has_a_value(
    workload: dict[str, Any], problems: list[str] | None
) -> None:
    error = check_inputs(read(), workload)

    assert (error and error["problems"]) == problems
    if error is not None:
        assert error["kind"] == "inputs.invalid"
        assert "12345" not in error["message"]


@pytest.mark.spec("S-72")
def test_an_unknown_input_is_warned_about_or_refused_by_the_schema() -> None:
    unknown = {"region": "eu", "regoin": "us", "zzz": 1}
    closed = DECLARED.replace("type: object", "additionalProperties: false", 1)
    open_ = DECLARED.replace("type: object", "additionalProperties: true", 1)

    assert warnings_of(read(), unknown) == (
        "the playbook declares no input 'regoin'; did you mean 'region'?",
        "the playbook declares no input 'zzz'; known: day, limit, region",
    )
    assert check_inputs(read(), unknown) is None
    refused = check_inputs(read(closed), unknown)
    assert refused is not None
    assert len(refused["problems"]) == 2
    assert warnings_of(read(open_), unknown) == ()


@pytest.mark.spec("S-72", "S-40")
def test_without_a_schema_only_a_resembling_name_is_warned_about() -> None:
    plain = DECLARED[: DECLARED.index("  inputs:")] + "workload: {region: eu}\n"
    plain += 'workflow: [{step: start, tool: {kind: noop, result: "{{ region }}"}}]'

    given = {"regoin": "us", "entirely_new": 1}
    assert warnings_of(read(plain), given) == (
        "workload has no 'regoin', but it has 'region'",
    )


@pytest.mark.spec("S-72", "ROOT-08")
def test_templates_may_name_a_declared_input_that_has_no_default() -> None:
    wrong = load(DECLARED.replace("workload.region", "regoin"))

    assert load(DECLARED).diagnostics[1:] == ()  # the default of limit has no effect
    [_, found] = wrong.diagnostics
    assert (found.rule, found.hint) == ("unknown-name", "did you mean 'region'?")


PLAIN = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: tests/t}
workload: {n: 1, rate: 0.5, on: true, name: a, tags: [], db: {port: 1}, any: null}
workflow: [{step: start, tool: {kind: noop}}]
"""


@pytest.mark.spec("S-72", "S-40")
@pytest.mark.parametrize(
    ("given", "warnings"),
    [
        pytest.param({"n": "zero"}, ["'n' is a whole number by default, found text"]),
        pytest.param(
            {"on": 1}, ["'on' is true or false by default, found a whole num"]
        ),
        pytest.param({"name": 1.5}, ["'name' is text by default, found a number"]),
        pytest.param({"tags": "a"}, ["'tags' is a list by default, found text"]),
        pytest.param(
            {"db": {"port": "x"}},
            ["'db.port' is a whole number by default, found text"],
            id="inside a mapping",
        ),
        pytest.param({"db": 1}, ["'db' is a mapping by default, found a whole number"]),
        pytest.param({"n": 1.5, "rate": 2}, [], id="numbers are one type"),
        pytest.param({"n": None, "any": "x"}, [], id="null has any type"),
        pytest.param({"name": {"secret": "0" * 16}}, [], id="a secret has any type"),
        pytest.param({"n": "{{ slot.n }}"}, [], id="a template has no type yet"),
    ],
)
def test_without_a_schema_a_type_other_than_the_defaults_is_a_warning(
    given: dict[str, Any], warnings: list[str]
) -> None:
    playbook = read(PLAIN)
    workload = merge_inputs(playbook, given)
    found = warnings_of(playbook, workload)

    assert check_inputs(playbook, workload) is None
    assert len(found) == len(warnings)
    assert all(map(str.startswith, found, warnings))


@pytest.mark.spec("S-72")
def test_a_schema_replaces_the_types_of_the_defaults() -> None:
    schema = "metadata: {inputs: {properties: {n: {type: [integer, string]}, name: {},"
    schema += " rate: {}, on: {}, tags: {}, db: {}, any: {}}}, "

    assert warnings_of(read(PLAIN.replace("metadata: {", schema)), {"n": "x"}) == ()
