"""Request of a call, checked before a connection is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from noetl.adapters.files import Roots
from noetl.adapters.processes.limits import read_size, read_timeout
from noetl.adapters.tools.postgres.copy import (
    CopyIn,
    CopyOut,
    read_copy_in,
    read_copy_out,
)
from noetl.adapters.tools.postgres.dsn import Address, read_address
from noetl.adapters.tools.postgres.placeholders import check
from noetl.adapters.tools.postgres.script import Statement, only_reads, split
from noetl.errors import ToolError
from noetl.ports import Drafts, ToolCall
from noetl.types import JSON

CONNECTIONS = 10
MAX_BYTES = 64 * 1024 * 1024
STORED = 16 * 1024**3
_WORK = ("command", "query", "sql", "copy_from", "copy_to")
_STARTING = frozenset({"BEGIN", "START"})
_ENDING = frozenset({"COMMIT", "END"})
_CONTROL = _STARTING | _ENDING | {"ROLLBACK", "ABORT"}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """``begin`` starts the one transaction; None means one for each statement."""

    address: Address
    statements: Sequence[Statement] = ()
    copy_in: CopyIn | None = None
    copy_out: CopyOut | None = None
    params: JSON = None
    begin: Statement | None
    keyed: bool
    connections: int
    timeout: float | None
    most_rows: int | None
    most_bytes: int
    drafts: Drafts | None

    def only_reads(self) -> bool:
        if self.copy_in is not None:
            return False
        if self.copy_out is not None and self.copy_out.query is not None:
            return only_reads([self.copy_out.query])
        return only_reads(self.statements)


BEGIN = Statement(0, "BEGIN", 1, ("BEGIN",))


def read_request(call: ToolCall, roots: Roots) -> Request:
    """Read a call. Raises ``ToolError`` for invalid inputs."""
    inputs, spec = call.inputs, call.spec
    given = [name for name in _WORK if inputs.get(name) is not None]
    if len(given) != 1:
        raise ToolError("tool.contract", f"give one of {', '.join(_WORK)}")
    transaction = read_flag(spec, "transaction", default=True)
    keyed = read_idempotency(spec)
    if keyed and not transaction:
        message = "spec.idempotency: key needs spec.transaction: true"
        raise ToolError("tool.contract", message)
    begin: Statement | None = BEGIN if transaction else None
    work = inputs[given[0]]
    statements: Sequence[Statement] = ()
    copy_in = copy_out = None
    params = inputs.get("params")
    if given[0] == "copy_from":
        copy_in = read_copy_in(work)
    elif given[0] == "copy_to":
        copy_out = read_copy_out(work)
        if copy_out.as_rows:
            statements, copy_out = [copy_out.select()], None
    else:
        statements = read_script(given[0], work)
        if transaction:
            begin, statements = frame(statements)
    if statements:
        if params is not None and not isinstance(params, list | Mapping):
            message = "params must be a list ($1…) or a mapping (:name)"
            raise ToolError("tool.contract", message)
        check(statements, params)
    elif params is not None:
        message = "COPY takes no values: use params with 'command' only"
        raise ToolError("tool.contract", message)
    # The result of a keyed action is stored in the target's table, and CSV is one text:
    # both are part of the answer.
    drafts = None if keyed or copy_out is not None else call.drafts
    return Request(
        address=read_address(inputs, roots),
        statements=statements,
        copy_in=copy_in,
        copy_out=copy_out,
        params=params,
        begin=begin,
        keyed=keyed,
        connections=read_number(spec, "connections", 1000) or CONNECTIONS,
        timeout=read_timeout(spec),
        most_rows=read_number(spec, "max_rows", 2**53),
        most_bytes=read_size(spec, "max_bytes") or (STORED if drafts else MAX_BYTES),
        drafts=drafts,
    )


def read_script(name: str, text: JSON) -> Sequence[Statement]:
    if not isinstance(text, str):
        raise ToolError("tool.contract", f"{name} must be text")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        message = f"{name} has a NUL character in line {line}"
        raise ToolError("pg.data", message, code="22021", sqlstate="22021")
    statements = split(text)
    for each in statements:
        if each.verb == "COPY" and {"STDIN", "STDOUT"} & set(each.words):
            message = "COPY with STDIN or STDOUT: give copy_from or copy_to instead"
            raise ToolError("tool.contract", f"line {each.line}: {message}")
    if not statements:
        message = f"{name} is empty: write an SQL statement"
        raise ToolError("tool.contract", message)
    return statements


def frame(statements: Sequence[Statement]) -> tuple[Statement, Sequence[Statement]]:
    """Return the statement that begins the transaction, and those inside it.

    ``BEGIN … COMMIT`` around the whole script is removed. Raises ``ToolError`` for any
    other control of transactions, which would break all-or-nothing.
    """
    begin = BEGIN
    inner = statements
    framed = statements[0].verb in _STARTING and statements[-1].verb in _ENDING
    if framed and len(statements) > 2:
        begin, inner = statements[0], statements[1:-1]
    for each in inner:
        if is_control(each):
            message = (
                f"line {each.line}: {each.verb} inside the task's transaction: leave "
                "it out, or set spec.transaction: false"
            )
            raise ToolError("pg.transaction", message)
    return begin, inner


def is_control(statement: Statement) -> bool:
    words = statement.words
    if words[:2] == ("PREPARE", "TRANSACTION"):
        return True
    return statement.verb in _CONTROL and "TO" not in words[:3]  # TO SAVEPOINT


def read_flag(spec: Mapping[str, JSON], name: str, *, default: bool) -> bool:
    value = spec.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ToolError("tool.contract", f"spec.{name} must be true or false")
    return value


def read_idempotency(spec: Mapping[str, JSON]) -> bool:
    value = spec.get("idempotency")
    if value not in (None, "key"):
        message = f"spec.idempotency must be key, found {value!r:.40}"
        raise ToolError("tool.contract", message)
    return value is not None


def read_number(spec: Mapping[str, JSON], name: str, most: int) -> int | None:
    value = spec.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
        message = f"spec.{name} must be a whole number of 1 to {most}"
        raise ToolError("tool.contract", message)
    return value
