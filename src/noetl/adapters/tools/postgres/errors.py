"""Translation of errors of the server, the network and the driver to error kinds."""

from __future__ import annotations

import errno
import os
import re
import ssl
from collections.abc import Mapping
from typing import NamedTuple

import asyncpg
import msgspec

from noetl.adapters.network import BlockedAddress
from noetl.adapters.tools.postgres.dsn import Address
from noetl.adapters.tools.postgres.placeholders import Written, keys_of
from noetl.adapters.tools.postgres.script import Statement
from noetl.errors import ToolError
from noetl.types import JSON

# By SQLSTATE, or its class of two characters: kind, and whether it is retryable.
KINDS: Mapping[str, tuple[str, bool]] = {
    "08": ("connection", True),
    "0A": ("pg.unsupported", False),
    "21": ("pg.data", False),
    "22": ("pg.data", False),
    "23": ("pg.constraint", False),
    "23502": ("pg.not_null_violation", False),
    "23503": ("pg.foreign_key_violation", False),
    "23505": ("pg.unique_violation", False),
    "23514": ("pg.check_violation", False),
    "23P01": ("pg.exclusion_violation", False),
    "25": ("pg.transaction", False),
    "25P03": ("timeout", True),
    "25P04": ("timeout", True),
    "28": ("auth", False),
    "2D": ("pg.transaction", False),
    "3D": ("pg.undefined", False),
    "3F": ("pg.undefined", False),
    "40": ("pg.transaction", False),
    "40001": ("pg.serialization", True),
    "40P01": ("pg.deadlock", True),
    "42": ("pg.syntax", False),
    "42501": ("pg.permission", False),
    "42701": ("pg.duplicate", False),
    "42710": ("pg.duplicate", False),
    "42723": ("pg.duplicate", False),
    "42P04": ("pg.duplicate", False),
    "42P06": ("pg.duplicate", False),
    "42P07": ("pg.duplicate", False),
    "42703": ("pg.undefined", False),
    "42704": ("pg.undefined", False),
    "42883": ("pg.undefined", False),
    "42P01": ("pg.undefined", False),
    "53": ("pg.resources", True),
    "53300": ("connection", True),
    "54": ("pg.limit", False),
    "55P03": ("pg.lock", True),
    "57014": ("pg.cancelled", False),
    "57P01": ("connection", True),
    "57P02": ("connection", True),
    "57P03": ("connection", True),
    "P0": ("pg.raised", False),
    "XX": ("pg.internal", False),
}
_MEMBERS = {
    "constraint_name": "constraint",
    "schema_name": "schema",
    "table_name": "table",
    "column_name": "column",
    "data_type_name": "type",
    "detail": "detail",
    "hint": "hint",
    "context": "context",
}
_PARAMETER = re.compile(r'(?:unnamed portal|portal "[^"]*") parameter \$(\d+)')
_WITHOUT_TLS = ("disable", "allow", "prefer")
"""Modes in which a rejected TLS request means that the server is shutting down."""
# Messages of the driver if the server has closed the connection between operations.
_LOST = re.compile("closed|closing|released|another operation")
_SHOWN = 200
_MAX_CHARS = 4096


class Place(msgspec.Struct):
    """Statement that runs, and its text as it was sent."""

    statement: Statement | None = None
    written: Written = Written("")
    of_several: bool = False

    def mark(self, number: int) -> str:
        """Return the author's placeholder for the one sent as ``$number``."""
        keys = [] if self.statement is None else keys_of(self.statement)
        if number > len(keys):
            return f"${number}"
        key = keys[number - 1]
        return f"${key}" if isinstance(key, int) else f":{key}"

    def details(self, position: str | None) -> dict[str, JSON]:
        """Return the line and column in the author's text, and that line."""
        statement = self.statement
        if statement is None:
            return {}
        found: dict[str, JSON] = {}
        if self.of_several:
            found["statement"] = statement.number
        if position is None or not position.isdecimal():
            return {**found, "line": statement.line}
        offset = min(self.written.origin(int(position) - 1), len(statement.text))
        text = statement.text
        start = text.rfind("\n", 0, offset) + 1
        end = text.find("\n", offset)
        line = text[start : end if end >= 0 else len(text)]
        found["line"] = statement.line + text.count("\n", 0, offset)
        found["position"] = offset - start + 1
        found["sql"] = shorten(line, offset - start).strip()
        return found


def shorten(line: str, around: int) -> str:
    if len(line) <= _SHOWN:
        return line
    start = max(0, around - _SHOWN // 2)
    return line[start : start + _SHOWN]


class Class(NamedTuple):
    """Error kind of an SQLSTATE."""

    kind: str
    retryable: bool


def kind_of(sqlstate: str) -> Class:
    found = KINDS.get(sqlstate) or KINDS.get(sqlstate[:2]) or ("pg.error", False)
    return Class(*found)


def explain(error: Exception, address: Address, place: Place) -> ToolError:
    """Translate an error; the message never quotes the credential."""
    match error:
        case ToolError():
            return error
        case asyncpg.DataError() if error.severity is None:
            # Raised by the driver; its message quotes the value, which may be secret.
            why = str(error.__cause__ or "")[:_SHOWN]
            return ToolError("pg.data", f"a value of params cannot be sent: {why}")
        case asyncpg.PostgresError():
            return server_error(error, place)
        case BlockedAddress():
            return ToolError("pg.blocked_address", str(error))
        case OSError():
            return network_error(error, address)
        case UnicodeDecodeError():
            message = "a text of the database is not UTF-8: convert it, or select bytea"
            return ToolError("pg.decode", f"{message} ({error.reason})")
        case UnicodeEncodeError():
            message = "a text is not UTF-8: it has half a surrogate pair"
            return ToolError("pg.data", message)
        case asyncpg.UnsupportedClientFeatureError():
            message = f"{error.args[0]}; select such a column as text (column::text)"
            return ToolError("pg.unsupported", message)
        case asyncpg.TargetServerAttributeNotMatched():
            message = f"no server of {address} matches target_session_attrs"
            return ToolError("connection", message, retryable=True)
        case _:
            why = str(error)[:_SHOWN] or type(error).__name__
            if _LOST.search(why):
                message = f"the connection to {address} was lost"
                return ToolError("connection", message, retryable=True)
            return ToolError("pg.internal", why)


def network_error(error: OSError, address: Address) -> ToolError:
    if isinstance(error, ssl.SSLError):
        why = getattr(error, "verify_message", "") or error.reason or "TLS failed"
        return ToolError("pg.tls", f"TLS to {address} failed: {why}")
    if "rejected SSL" in str(error) and address.sslmode not in _WITHOUT_TLS:
        message = f"{address} offers no TLS, but sslmode requires it"
        return ToolError("pg.tls", message)
    why = error.strerror or str(error) or type(error).__name__
    if error.errno is not None and error.errno in errno.errorcode:
        why = os.strerror(error.errno)
    message = f"no connection to {address}: {why[:_SHOWN]}"
    return ToolError("connection", message, retryable=True)


def server_error(error: asyncpg.PostgresError, place: Place) -> ToolError:
    sqlstate = error.sqlstate or "XX000"
    found = kind_of(sqlstate)
    said = str(error.args[0])
    if found.kind == "pg.cancelled" and "timeout" in said:  # set by the SQL itself
        found = Class("timeout", True)
    details: dict[str, JSON] = {"sqlstate": sqlstate}
    for name, member in _MEMBERS.items():
        value = getattr(error, name, None)
        if value:
            details[member] = str(value)[:_MAX_CHARS]
    if found.kind not in ("connection", "auth"):
        details.update(place.details(error.position))
    parameter = _PARAMETER.match(details.get("context", ""))
    if parameter is not None:  # names made up by the driver
        del details["context"]
        details["parameter"] = place.mark(int(parameter[1]))
    return ToolError(
        found.kind,
        said[:_MAX_CHARS] + where(details),
        retryable=found.retryable,
        details=details,
        code=sqlstate,
        sqlstate=sqlstate,
    )


def where(details: Mapping[str, JSON]) -> str:
    if "sql" not in details:
        number = details.get("statement")
        return f" (statement {number})" if number else ""
    return f" (line {details['line']}: {details['sql']})"
