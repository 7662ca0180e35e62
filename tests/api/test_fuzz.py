"""The API against its own description, briefly; `make fuzz` does it at length."""

from __future__ import annotations

from typing import Any

import pytest
from api_fuzz import attack, make_known, operations
from servers import Api, Running

from noetl.api.app import endpoints

COUNT = 8
CALLS = [each.name for each in endpoints() if each.path != "/openapi.json"]


@pytest.fixture(scope="session")
def described(running: Running) -> dict[str, Any]:
    """The operations of the description, by their ids."""
    found = operations(running.url)
    return {each.definition.raw["operationId"]: each for each in found}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("known", [True, False], ids=["with a token", "without"])
def test_no_request_gets_an_answer_that_is_not_described(
    running: Running, described: dict[str, Any], api: Api, name: str, known: bool
) -> None:
    operation = described[name]
    things = make_known(api, operation.path)

    attack(operation, running.token if known else None, things, COUNT)


def test_every_route_is_attacked(described: dict[str, Any]) -> None:
    assert {*described} == {*CALLS}


@pytest.mark.parametrize("noun", ["executions", "catalog", "triggers", "users"])
def test_half_of_the_requests_name_things_that_are_there(
    described: dict[str, Any], api: Api, noun: str
) -> None:
    path = next(
        each.path
        for each in described.values()
        if each.path.startswith(f"/api/{noun}/{{") and each.path.endswith("}")
    )
    shown = path
    for name, value in make_known(api, path).items():
        shown = shown.replace(f"{{{name}}}", value)

    assert api.get(shown).status == 200
