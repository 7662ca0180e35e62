"""Script of SQL: binds its parameters, runs its statements in one transaction."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import duckdb
from duckdb import StatementType

from .errors import Place, Refusal, name
from .files import Export, check_attachment
from .rows import HANDED_OVER, Limits, Rows, count_only
from .values import Shape, shape_of

Statement = duckdb.Statement


class Params:
    """``?`` takes the next of a list, ``$1`` the first, ``$name`` from a mapping.

    A list goes on from one statement to the next; a mapping serves them all.
    """

    def __init__(self, given: Any) -> None:
        self._given = given
        self._next = 0
        self._used: set[int | str] = set()

    def take(self, statement: Statement) -> Any:
        """Return the values of this statement for the driver."""
        wanted = statement.named_parameters
        if not wanted:
            return None
        numbers = sorted(int(name) for name in wanted if name.isdecimal())
        if numbers and not isinstance(self._given, list):
            raise self._misfit("the SQL has ? or $1, so it must be a list")
        if numbers:
            return self._take_list(numbers, has_dollars(statement.query))
        if not isinstance(self._given, dict):
            raise self._misfit(f"the SQL has ${min(wanted)}, so it must be a mapping")
        missing = wanted - self._given.keys()
        if missing:
            raise self._misfit(f"the SQL needs ${min(missing)}, which is missing")
        self._used |= wanted
        return {name: self._given[name] for name in wanted}

    def check_all_used(self) -> None:
        """Raise ``Refusal`` for an unused value, which is often a misspelt name."""
        given = self._given
        if isinstance(given, list) and self._used != set(range(len(given))):
            raise self._misfit(
                f"{len(given)} values are given, but the SQL takes {len(self._used)}"
            )
        if isinstance(given, dict) and self._used != given.keys():
            name = min(given.keys() - self._used)
            raise self._misfit(f"no statement has ${name}")

    def _take_list(self, numbers: list[int], by_number: bool) -> dict[str, Any]:
        start = 0 if by_number else self._next
        end = start + numbers[-1]
        if end > len(self._given):
            given = f"{len(self._given)} values are given"
            raise self._misfit(f"{given}, but the SQL needs at least {end}")
        if not by_number:
            self._next = end
        self._used.update(start + number - 1 for number in numbers)
        return {str(number): self._given[start + number - 1] for number in numbers}

    def _misfit(self, what: str) -> Refusal:
        return Refusal("tool.contract", f"params: {what}")


def has_dollars(sql: str) -> bool:
    """Return whether its parameters are numbered: ``$1``, not ``?``."""
    text = sql.encode()
    tokens = duckdb.tokenize(sql)
    return any(
        text[start : start + 1] == b"$" and following == start + 1
        for (start, _), (following, _) in pairwise(tokens)
    )


Connection = duckdb.DuckDBPyConnection

_QUERIES = frozenset({StatementType.SELECT, StatementType.MULTI})  # MULTI is a PIVOT
_CHANGES = frozenset(
    {
        StatementType.INSERT,
        StatementType.UPDATE,
        StatementType.DELETE,
        StatementType.MERGE_INTO,
    }
)
_ANSWERS = frozenset(
    {
        *_QUERIES,
        *_CHANGES,  # with RETURNING
        StatementType.CALL,
        StatementType.EXECUTE,
        StatementType.EXPLAIN,
        StatementType.PRAGMA,
    }
)
# Binding such a query to learn its types would run a part of it.
_CHANGING = re.compile(rb"\b(?:insert|update|delete|merge|nextval)\b", re.IGNORECASE)


class Script:
    """Runs a script; ``place`` is updated for errors."""

    def __init__(
        self, connection: Connection, request: dict[str, Any], place: Place
    ) -> None:
        self._connection = connection
        self._sql: str = request["command"]
        self._roots: list[str] = request["roots"]
        self._params = Params(request["params"])
        self._limits = Limits(
            request["max_rows"], request["max_bytes"], request["rows_file"]
        )
        self._each: bool = request["each"]
        self._export = Export.of(request["export"])
        self._place = place

    def run(self) -> bytes:
        """Run the script and return the result as JSON; an error rolls it back."""
        statements = self._split()
        bound = [self._params.take(statement) for statement in statements]
        self._params.check_all_used()
        kinds = [statement.type for statement in statements]
        is_framed = StatementType.TRANSACTION in kinds  # by the author
        begins = not is_framed and (len(kinds) > 1 or kinds[0] in _CHANGES)
        if begins:
            self._connection.execute("BEGIN")
        result = b""
        before: list[bytes] = []
        for number, statement in enumerate(statements, 1):
            self._place.enter(number, len(statements), kinds[number - 1].name)
            if kinds[number - 1] is StatementType.ATTACH:
                check_attachment(statement.query, self._roots)
            if number < len(statements) and self._each:
                before.append(self._between(statement, bound[number - 1]))
            elif number < len(statements):
                self._connection.execute(statement, bound[number - 1])
            else:
                result = self._finish(statement, bound[number - 1])
        if begins:
            self._connection.execute("COMMIT")
        elif is_framed:
            self._refuse_open_transaction()
        if self._export is not None:
            return self._export.publish()
        if not self._each:
            return result
        return b'%b,"before":[%b]}' % (result[:-1], b",".join(before))

    def _between(self, statement: Statement, params: Any) -> bytes:
        """Return the result of a statement before the last one, limited in size."""
        whole, export = self._limits, self._export
        self._limits, self._export = Limits(whole.max_rows, HANDED_OVER), None
        try:
            return self._finish(statement, params)
        finally:
            self._limits, self._export = whole, export

    def _split(self) -> list[Statement]:
        try:
            statements = list(self._connection.extract_statements(self._sql))
            kinds = [statement.type for statement in statements]
        except ValueError:  # a type of statement that the driver does not know
            message = "a statement such as UPDATE EXTENSIONS is not allowed"
            raise Refusal("duckdb.forbidden", message) from None
        if not kinds:
            raise Refusal("tool.contract", "command is empty: write an SQL statement")
        return statements

    def _finish(self, statement: Statement, params: Any) -> bytes:
        """Run a statement and return its result."""
        text = text_of(statement)
        is_query = statement.type in _QUERIES and not _CHANGING.search(text)
        if self._export is not None:
            if not is_query:
                message = "export needs a query as the last statement"
                raise Refusal("tool.contract", message)
            columns = self._bind(statement, params).columns
            self._place.is_exact = False
            self._export.write(self._connection, text.decode(), params, columns)
            return b""
        if is_query:
            return self._query(statement, text.decode(), params)
        return self._execute(statement, params)

    def _query(self, statement: Statement, text: str, params: Any) -> bytes:
        relation = self._bind(statement, params)
        shapes = [shape_of(kind) for kind in relation.types]
        if any(shape.is_cast for shape in shapes):
            self._place.is_exact = False
            casting = casting_query(text, shapes)
            cursor = self._connection.execute(casting, params)
        else:
            cursor = self._connection.execute(statement, params)
        rows = Rows(relation.columns, shapes, self._limits)
        rows.read(cursor)
        return rows.as_json()

    def _bind(self, statement: Statement, params: Any) -> duckdb.DuckDBPyRelation:
        """Bind a query without running it; raises its errors."""
        try:
            return self._connection.sql(statement, params=params)
        except duckdb.Error:
            self._connection.execute(statement, params)  # for the position
            raise

    def _execute(self, statement: Statement, params: Any) -> bytes:
        cursor = self._connection.execute(statement, params)
        if cursor.rowcount >= 0 or statement.type not in _ANSWERS:
            return count_only(max(cursor.rowcount, 0))
        names = [column[0] for column in cursor.description]
        if names == ["Success"]:
            return count_only(0)
        shapes = [shape_of(column[1]) for column in cursor.description]
        for column, shape in zip(cursor.description, shapes, strict=True):
            if shape.is_lost:
                raise Refusal(
                    "duckdb.unsupported",
                    f"column '{column[0]}' of type {column[1]} cannot be returned by "
                    f"{statement.type.name}: cast it, {name(column[0])}::VARCHAR",
                )
        rows = Rows(names, shapes, self._limits)
        rows.read(cursor)
        return rows.as_json()

    def _refuse_open_transaction(self) -> None:
        try:
            self._connection.execute("ROLLBACK")
        except duckdb.TransactionException:
            return  # none is open
        message = "a transaction was begun, but not committed: it was rolled back"
        raise Refusal("duckdb.transaction", message)


def text_of(statement: Statement) -> bytes:
    """Return the text without the semicolon and the comments after it."""
    text = statement.query.encode()
    end = len(text)
    for start, kind in reversed(duckdb.tokenize(statement.query)):
        if kind != duckdb.token_type.comment and text[start : start + 1] != b";":
            break
        end = start
    return text[:end]


def casting_query(text: str, shapes: list[Shape]) -> str:
    """Wrap a query to cast columns that the driver cannot read.

    Columns are addressed by position, since two may have the same name.
    """
    aliases = [f"c{at}" for at in range(len(shapes))]
    columns = ", ".join(
        f"CAST({alias} AS {shape.type})" if shape.is_cast else alias
        for alias, shape in zip(aliases, shapes, strict=True)
    )
    return f"SELECT {columns} FROM (\n{text}\n) AS result({', '.join(aliases)})"
