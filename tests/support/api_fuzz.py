"""Requests made from the API's own description: whatever is sent, answers fit it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
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


def attack(operation: Any, token: str | None, execution_id: str, count: int) -> None:
    """So many requests; every second names an execution that is there.

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
    @given(case=operation.as_strategy(), known=st.booleans())
    def send(case: Any, known: bool) -> None:
        if known and "execution_id" in (case.path_parameters or {}):
            case.path_parameters["execution_id"] = execution_id
        response = case.call(headers=headers, timeout=60)
        case.validate_response(response, checks=CHECKS)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        send()
