"""Exactly-once actions: a marker row in the same transaction as the effects.

A second run of the action waits for the first, and then reads its stored result. Rows
of finished executions may be deleted at any time.
"""

from __future__ import annotations

from typing import Any

import asyncpg
import msgspec

from noetl.errors import ToolError
from noetl.ports import ToolCall
from noetl.types import JSON

# Not jsonb: it would change the order of columns and the spelling of numbers.
CREATE = """
CREATE TABLE IF NOT EXISTS noetl_action (
    action_id text PRIMARY KEY,
    execution_id text NOT NULL,
    step text NOT NULL,
    task text NOT NULL,
    attempt integer NOT NULL,
    outcome json,
    created_at timestamptz NOT NULL DEFAULT now()
)
"""
_CLAIM = """
INSERT INTO noetl_action (action_id, execution_id, step, task, attempt)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (action_id) DO NOTHING
RETURNING true
"""
_READ = "SELECT outcome FROM noetl_action WHERE action_id = $1"
_STORE = "UPDATE noetl_action SET outcome = $2 WHERE action_id = $1"
# IF NOT EXISTS is not atomic: another worker may create the table first.
_MADE_BY_ANOTHER = (
    asyncpg.DuplicateObjectError,
    asyncpg.DuplicateTableError,
    asyncpg.UniqueViolationError,
)


class Missing(Exception):
    """The table does not exist: create it outside the transaction, and retry."""


async def claim(connection: Any, call: ToolCall) -> dict[str, JSON] | None:
    """Claim the action; returns the result of an earlier run, or None."""
    row = (call.action_id, call.execution_id, call.step, call.task, call.attempt)
    try:
        if await connection.fetchval(_CLAIM, *row):
            return None
    except asyncpg.UndefinedTableError:
        raise Missing from None
    found = await connection.fetchrow(_READ, call.action_id)
    if found is None or found["outcome"] is None:
        message = "the marker of this action was deleted while it was read"
        raise ToolError("pg.transaction", message, retryable=True)
    stored: dict[str, JSON] = found["outcome"]
    return stored


async def store(connection: Any, call: ToolCall, result: dict[str, JSON]) -> None:
    text = msgspec.json.encode(result).decode()
    await connection.execute(_STORE, call.action_id, text)


async def make_table(connection: Any) -> None:
    try:
        await connection.execute(CREATE)
    except _MADE_BY_ANOTHER:
        pass
    except asyncpg.InsufficientPrivilegeError as error:
        message = (
            "spec.idempotency: key needs the table noetl_action, which this role "
            f"may not create ({error.args[0]}); create it once as another role"
        )
        details = {"sqlstate": "42501", "sql": " ".join(CREATE.split())}
        raise ToolError(
            "pg.permission", message, details=details, code="42501", sqlstate="42501"
        ) from None
