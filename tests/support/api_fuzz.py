"""Requests made from the API's own description: whatever is sent, answers fit it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from servers import ASKS, Api

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def operations(url: str) -> Iterator[Any]:
    """One for each call of the API."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        for found in schema.get_all_operations():
            yield found.ok()


def make_known(api: Api, path: str) -> dict[str, str]:
    """Make what the parameters of a path name; return their values."""
    noun = path.removeprefix("/api").split("/")[1]
    if noun in ("executions", "catalog", "triggers"):
        assert api.post("/api/catalog", {"playbook": ASKS}).status in (200, 201)
    match noun:
        case "executions":
            execution_id = api.start(ASKS)
            return {"execution_id": execution_id, "run": f"{execution_id}-1"}
        case "catalog":
            return {"path": "tests/asks"}
        case "users" | "tokens":
            api.post("/api/users", {"name": NAME, "roles": ["viewer"]})
            made = api.post("/api/tokens", {"user": NAME, "label": "fuzz"}).body
            return {"name": NAME, "token_id": made["token_id"]}
        case "triggers":
            trigger = {"name": NAME, "playbook": "tests/asks", "schedule": NIGHTLY}
            assert api.post("/api/triggers", {"trigger": trigger}).status < 300
            return {"name": NAME}
    return {}


NAME = "fuzzed"
NIGHTLY = {"cron": "0 2 * * *"}


def attack(
    operation: Any, token: str | None, known: Mapping[str, str], count: int
) -> None:
    """Send so many requests; every second one names things that are there.

    Raises what schemathesis has to say about an answer that does not fit.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=count < 100,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), is_known=st.booleans())
    def send(case: Any, is_known: bool) -> None:
        for name in (case.path_parameters or {}) if is_known else ():
            if name in known:
                case.path_parameters[name] = known[name]
        response = case.call(headers=headers, timeout=60)
        case.validate_response(response, checks=CHECKS)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        send()
