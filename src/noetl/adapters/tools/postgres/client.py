"""One call: a connection, a transaction, the work, and the outcome."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import asyncpg

from noetl.adapters.files import Files, Roots
from noetl.adapters.network import Network
from noetl.adapters.tools.pg.address import Address
from noetl.adapters.tools.pg.copying import load, unload
from noetl.adapters.tools.pg.faults import Place, explain
from noetl.adapters.tools.pg.literals import quote_text
from noetl.adapters.tools.pg.marker import Missing, claim, make_table, store
from noetl.adapters.tools.pg.pools import Pools
from noetl.adapters.tools.pg.request import Request, read_request
from noetl.adapters.tools.pg.rows import Budget, run_statement
from noetl.adapters.tools.pg.script import Statement
from noetl.engine.outcome import Outcome, Stored
from noetl.errors import ToolError
from noetl.ports import ToolCall
from noetl.types import JSON

_LARGE = 16 * 1024  # characters of SQL that are better read aside
_GRACE = 1000  # milliseconds by which the server waits longer than we do
_LONGEST = 2**31 - 1
_IN_DOUBT = frozenset({"connection", "timeout"})
_UNKNOWN = "whether it was committed is not known (spec.idempotency: key would tell)"
_ADVICE = "its SQL may read files and start programs; give the task a role of its own"
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
            # The stack is outer: giving back is not a matter of the limit.
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
        """Once for each credential."""
        role = getattr(connection.get_settings(), "is_superuser", "off")
        if role == "on" and address not in self._seen:
            run.warn(f"'{address.user}' is a superuser: {_ADVICE}")
        self._seen.add(address)


def outcome_of(result: dict[str, JSON], helper: dict[str, JSON]) -> Outcome:
    """With what was stored by itself said apart from what was not."""
    stored: dict[str, Stored] = {}
    parts = {"": result}
    for number, each in enumerate(result.get("statements", ())):
        parts[f"statements.{number}."] = each
    for path, part in parts.items():
        if isinstance(part["rows"], Stored):
            stored[f"{path}rows"], part["rows"] = part["rows"], None
    return Outcome.ok(result, stored=stored, **helper)


class Run:
    """A call under way: where it is, what the server said, what is in doubt."""

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
            message = "the SQL began a transaction and did not end it; it is undone"
            raise ToolError("pg.transaction", message)
        return result

    def _settings(self, scope: str) -> str:
        """What the server should know: whose work it is, and when it is too late."""
        name = self._request.address.application_name
        name = name or f"noetl {self._call.action_id}"
        settings = [f"SET {scope}application_name = {quote_text(name)}"]
        if self._deadline is not None:
            left = self._deadline - asyncio.get_running_loop().time()
            limit = min(max(int(left * 1000), 0) + _GRACE, _LONGEST)
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
        """Add what is known of the run. What may have happened is not tried again."""
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
        """``RAISE NOTICE`` and the server's own warnings."""
        if len(self._notices) < _NOTICES:
            message = str(said.message)[:_SHOWN]
            self._notices.append({"severity": said.severity_en, "message": message})
