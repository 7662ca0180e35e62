"""Client of PostgreSQL: runs one call in a transaction and returns the outcome."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import asyncpg
import msgspec

from noetl.adapters.files import Files, Roots
from noetl.adapters.network import Network
from noetl.adapters.tools.postgres.connections import Pools
from noetl.adapters.tools.postgres.copy import load, unload
from noetl.adapters.tools.postgres.dsn import Address
from noetl.adapters.tools.postgres.errors import Place, explain
from noetl.adapters.tools.postgres.request import Request, read_request
from noetl.adapters.tools.postgres.rows import Budget, run_statement
from noetl.adapters.tools.postgres.script import Statement, quote_text
from noetl.engine.tasks.outcome import Outcome, Stored
from noetl.errors import ToolError
from noetl.ports import ToolCall
from noetl.ports.task_logs import Level
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


_LARGE = 16 * 1024  # characters of SQL above which it is parsed on a thread
_GRACE_MS = 1000  # the server's timeout is longer than ours by this
_MAX_TIMEOUT_MS = 2**31 - 1
_IN_DOUBT = frozenset({"connection", "timeout"})
_UNKNOWN = "it may have been committed (set spec.idempotency: key to find out)"
_ADVICE = "its SQL may read files and start programs; use another role for the task"
_LEVELS: dict[str, Level] = {"WARNING": "warning", "DEBUG": "debug"}
_NOTICES = 20
_SHOWN = 500


class Client:
    def __init__(self, network: Network, files: Files) -> None:
        self._files = files
        self._pools = Pools(network)
        self._seen: set[Address] = set()

    async def call(self, call: ToolCall) -> Outcome:
        roots = self._files.roots(call.folder)
        texts = (len(each) for each in call.inputs.values() if isinstance(each, str))
        if max(texts, default=0) > _LARGE or "copy_to" in call.inputs:
            request = await asyncio.to_thread(read_request, call, roots)
        else:
            request = read_request(call, roots)
        run = Run(call, request, roots)
        limit = asyncio.timeout(request.timeout)
        try:
            # The stack is outermost: the limit must not cancel the release.
            async with contextlib.AsyncExitStack() as stack, limit:
                borrowed = self._pools.borrow(request.address, request.connections)
                connection = await stack.enter_async_context(borrowed)
                self._look_at_role(connection, request.address, run)
                result = await run.perform(connection)
        except Exception as error:
            late = isinstance(error, TimeoutError) and limit.expired()
            told = (
                run.too_late() if late else explain(error, request.address, run.place)
            )
            raise run.judge(told) from None
        return outcome_of(result, run.helper())

    async def close(self) -> None:
        await self._pools.close()

    def _look_at_role(self, connection: Any, address: Address, run: Run) -> None:
        """Warn about a superuser, once for each credential."""
        role = getattr(connection.get_settings(), "is_superuser", "off")
        if role == "on" and address not in self._seen:
            run.warn(f"'{address.user}' is a superuser: {_ADVICE}")
        self._seen.add(address)


def outcome_of(result: dict[str, JSON], helper: dict[str, JSON]) -> Outcome:
    """Make the outcome, with rows in the result store listed separately."""
    stored: dict[str, Stored] = {}
    parts = {"": result}
    for number, each in enumerate(result.get("statements", ())):
        parts[f"statements.{number}."] = each
    for path, part in parts.items():
        if isinstance(part["rows"], Stored):
            stored[f"{path}rows"], part["rows"] = part["rows"], None
    return Outcome.ok(result, stored=stored, **helper)


class Run:
    """Running call: its statement, notices of the server, and whether it committed."""

    def __init__(self, call: ToolCall, request: Request, roots: Roots) -> None:
        self._call = call
        self._request = request
        self._roots = roots
        self._notices: list[JSON] = []
        self._begun = False
        self._committing = False
        self._deadline: float | None = None
        if request.timeout is not None:
            self._deadline = asyncio.get_running_loop().time() + request.timeout
        self.place = Place(of_several=len(request.statements) > 1)

    async def perform(self, connection: Any) -> dict[str, JSON]:
        self._begun = True
        connection.add_log_listener(self._note)
        try:
            if self._request.begin is None:
                return await self._one_by_one(connection)
            return await self._together(connection, self._request.begin.text)
        except asyncpg.OutdatedSchemaCacheError:
            await connection.reload_schema_state()
            message = "a type has changed since this connection first saw it"
            raise ToolError("pg.serialization", message, retryable=True) from None
        finally:
            with contextlib.suppress(asyncpg.InterfaceError):  # it was lost
                connection.remove_log_listener(self._note)

    async def _together(self, connection: Any, begin: str) -> dict[str, JSON]:
        self.place.statement = self._request.begin
        await connection.execute(f"{begin}; {self._settings('LOCAL ')}")
        self.place.statement = None
        if self._request.keyed:
            try:
                stored = await claim(connection, self._call)
            except Missing:
                await connection.execute("ROLLBACK")
                await make_table(connection)
                return await self._together(connection, begin)
            if stored is not None:
                await connection.execute("ROLLBACK")
                return stored
        result = await self._work(connection)
        if self._request.keyed:
            await store(connection, self._call, result)
        await self._commit(connection)
        return result

    async def _one_by_one(self, connection: Any) -> dict[str, JSON]:
        await connection.execute(self._settings(""))
        result = await self._work(connection)
        if connection.is_in_transaction():
            message = "the SQL began a transaction without COMMIT: it was rolled back"
            raise ToolError("pg.transaction", message)
        return result

    def _settings(self, scope: str) -> str:
        """Return the statements that set the application's name and the timeout."""
        name = self._request.address.application_name
        name = name or f"noetl {self._call.action_id}"
        settings = [f"SET {scope}application_name = {quote_text(name)}"]
        if self._deadline is not None:
            left = self._deadline - asyncio.get_running_loop().time()
            limit = min(max(int(left * 1000), 0) + _GRACE_MS, _MAX_TIMEOUT_MS)
            settings.append(f"SET {scope}statement_timeout = {limit}")
        return "; ".join(settings)

    async def _work(self, connection: Any) -> dict[str, JSON]:
        request = self._request
        budget = Budget(request.most_rows, request.most_bytes, request.drafts)
        if request.copy_in is not None:
            self._committing = request.begin is None
            return await load(connection, request.copy_in, self._roots)
        if request.copy_out is not None:
            return await unload(connection, request.copy_out, budget)
        results = [
            await self._statement(connection, each, budget)
            for each in request.statements
        ]
        if len(results) == 1:
            return results[0]
        return {**results[-1], "statements": results}

    async def _statement(
        self, connection: Any, statement: Statement, budget: Budget
    ) -> dict[str, JSON]:
        self._committing = self._request.begin is None
        params = self._request.params
        result = await run_statement(connection, statement, params, budget, self.place)
        self._committing = False
        return result

    async def _commit(self, connection: Any) -> None:
        self.place.statement = None
        self._committing = True
        await connection.execute("COMMIT")
        self._committing = False

    def too_late(self) -> ToolError:
        request = self._request
        if self._begun:
            message = f"not done after {request.timeout:g} s (spec.timeout): stopped"
        else:
            message = (
                f"no connection to {request.address} after {request.timeout:g} s "
                f"(at most {request.connections} at a time: spec.connections)"
            )
        return ToolError("timeout", message, retryable=True)

    def judge(self, error: ToolError) -> ToolError:
        """Add notices to an error; if the call may have committed, forbid a retry."""
        request = self._request
        if (
            self._committing
            and error.kind in _IN_DOUBT
            and not request.keyed
            and not request.only_reads()
        ):
            error.retryable = False
            error.details["in_doubt"] = True
            error.message = f"{error.message}; {_UNKNOWN}"
        error.helper.update(self.helper())
        return error

    def helper(self) -> dict[str, JSON]:
        return {"notices": self._notices} if self._notices else {}

    def warn(self, message: str) -> None:
        self._notices.append({"severity": "WARNING", "message": message})

    def _note(self, connection: Any, said: Any) -> None:
        """Collect ``RAISE NOTICE`` and warnings of the server; log all of them."""
        if self._call.output is not None:
            level = _LEVELS.get(said.severity_en, "info")
            self._call.output.log(level, str(said.message))
        if len(self._notices) < _NOTICES:
            message = str(said.message)[:_SHOWN]
            self._notices.append({"severity": said.severity_en, "message": message})
