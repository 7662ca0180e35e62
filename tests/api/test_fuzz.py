"""The API against its own description, briefly; `make fuzz` does it at length."""

from __future__ import annotations

import pytest
from api_fuzz import attack, operations
from servers import ASKS, HELLO, Api, Running

from noetl.api.app import endpoints

COUNT = 8
CALLS = [each.name for each in endpoints() if each.path != "/openapi.json"]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("known", [True, False], ids=["with a token", "without"])
def test_no_request_gets_an_answer_that_is_not_described(
    running: Running, api: Api, name: str, known: bool
) -> None:
    execution_id = api.start(ASKS) if "execution" in name else api.start(HELLO)
    [operation] = [
        each
        for each in operations(running.url)
        if each.definition.raw["operationId"] == name
    ]

    attack(operation, running.token if known else None, execution_id, COUNT)
