"""The API against its own description, briefly; `make fuzz` does it at length."""

from __future__ import annotations

from typing import Any

import pytest
from api_fuzz import attack, operations
from servers import ASKS, HELLO, Api, Running

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
    execution_id = api.start(ASKS) if "execution" in name else api.start(HELLO)
    token = running.token if known else None

    attack(described[name], token, execution_id, COUNT)
