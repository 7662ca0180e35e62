"""Whose rights an execution has, and what these are at a moment."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.access.accounts import Account
from noetl.access.initiator import Initiator, initiator_of, may, read_initiator
from noetl.access.permissions import Principal, read_grants

RUN = "executions:run"


def account(*roles: str, disabled: bool = False) -> Account:
    return Account(
        user_id="1",
        name="ann",
        grants=read_grants(roles),
        created_at=0.0,
        disabled=disabled,
    )


@pytest.mark.parametrize(
    ("roles", "scopes", "path", "answer"),
    [
        (["operator:finance/*"], None, "finance/x", True),
        (["operator:finance/*"], None, "hr/x", False),
        (["operator:finance/*"], None, "finance2/x", False),
        (["operator:finance/*"], None, "finance/../hr/x", False),
        (["operator:finance/*"], None, "", False),
        (["viewer"], None, "finance/x", False),
        (["admin"], None, "finance/x", True),
        (["admin"], None, "of no form!", True),
        (["admin"], ("operator:finance/*",), "hr/x", False),
        (["admin"], ("operator:finance/*",), "finance/x", True),
        (["admin"], (), "finance/x", False),
        (["admin"], ("role of another version",), "finance/x", False),
        ([], ("admin",), "finance/x", False),
    ],
)
def test_an_initiator_may_what_account_and_token_both_may(
    roles: list[str], scopes: tuple[str, ...] | None, path: str, answer: bool
) -> None:
    initiator = Initiator("ann", "1", scopes)

    assert may(initiator, account(*roles), RUN, path) is answer


def test_an_account_that_is_gone_or_disabled_may_nothing() -> None:
    initiator = Initiator("ann", "1")

    assert not may(initiator, None, RUN, "finance/x")
    assert not may(initiator, account("admin", disabled=True), RUN, "finance/x")


def test_a_record_of_an_initiator_is_read_as_it_was_written() -> None:
    principal = Principal(
        user_id="1",
        name="ann",
        grants=read_grants(["admin"]),
        means="token",
        limits=read_grants(["author:finance/*", "viewer"]),
    )
    initiator = initiator_of(principal)

    assert initiator.scopes == ("author:finance/*", "viewer")
    assert read_initiator({"initiator": initiator.as_json()}) == initiator


@pytest.mark.parametrize(
    ("payload", "initiator"),
    [
        ({}, None),
        ({"caller": {"principal": "ann"}}, Initiator("ann")),
        ({"caller": {"principal": "trigger:nightly"}}, None),
    ],
)
def test_an_older_record_names_the_caller(
    payload: dict[str, Any], initiator: Initiator | None
) -> None:
    assert read_initiator(payload) == initiator
