"""Errors of DuckDB for playbooks: a stable kind, and no values of the data."""

from __future__ import annotations

import re

import msgspec

from noetl.adapters.files import OUTSIDE
from noetl.adapters.tools.duckdb.temp_dirs import NO_NETWORK
from noetl.errors import ToolError
from noetl.types import JSON

# Types of errors that map to one kind.
KINDS = {
    "Binder": "duckdb.binder",
    "Catalog": "duckdb.catalog",
    "Conversion": "duckdb.data",
    "OutOfRange": "duckdb.data",
    "InvalidInput": "duckdb.data",
    "InvalidType": "duckdb.data",
    "TypeMismatch": "duckdb.data",
    "Sequence": "duckdb.data",
    "IO": "duckdb.io",
    "HTTP": "duckdb.io",
    "Permission": "duckdb.forbidden",
    "Transaction": "duckdb.transaction",
    "NotImplemented": "duckdb.unsupported",
    "Dependency": "duckdb.catalog",
    "Internal": "duckdb.internal",
    "Fatal": "duckdb.internal",
}
_UNDEFINED = frozenset({"MISSING_ENTRY", "COLUMN_NOT_FOUND"})
_PLACE = ("statement", "line", "position")
_MAX_CHARS = 1000
_PATH = re.compile(r'\A.{0,200}?Cannot access (?:file|directory) "(.*)" - ', re.DOTALL)
_OPTION = re.compile(r'configuration option "{0,2}([^"]{1,200})"')
# Up to the last quote: a text may contain quotes.
_TEXTS = re.compile(r"""['"](?:.*['"]|.*)""")
_KEY = re.compile(r'\bkey "([^":]+: )?.*"', re.DOTALL)
_NUMBERS = re.compile(r"\(-?\d[^()]*\)|(?<=\bvalue )-?\d\S*")
_NEAR_TEXT = re.compile(r"near \"'.*\"", re.DOTALL)


class Fault(msgspec.Struct):
    """Error as DuckDB's process reports it."""

    type: str
    said: str
    subtype: str | None = None
    label: str = ""
    verb: str = ""
    details: dict[str, JSON] = {}


def explain(fault: Fault, memory: str) -> ToolError:
    """Translate an error; ``memory`` describes the limit of memory and a remedy."""
    said = fault.said
    match fault.type:
        case "Permission" if fault.verb == "LOAD" or said.startswith("Loading"):
            what = "extensions are loaded by the input extensions, and never installed"
            return named_error("duckdb.forbidden", what, fault)
        case "Permission" if found := _PATH.search(said):
            what = f"'{found[1]}' {NO_NETWORK if '://' in found[1] else OUTSIDE}"
            return named_error("duckdb.external_access", what, fault)
        case "InvalidInput" if "has been locked" in said:
            option = _OPTION.search(said)
            what = f"settings are locked ({option[1] if option else ''})"
            return named_error("duckdb.forbidden", what, fault)
        case "OutOfMemory":
            what = f"DuckDB needs more than {memory}"
            return named_error("duckdb.out_of_memory", what, fault)
        case "IO" if "Could not set lock" in said:
            what = "another process has the database open: try again"
            return named_error("duckdb.locked", what, fault, retryable=True)
        case "Transaction" if "conflict" in said.lower():
            return named_error("duckdb.conflict", said, fault, retryable=True)
        case "Catalog" | "Binder" if fault.subtype in _UNDEFINED:
            return named_error("duckdb.undefined", said, fault)
        case "Catalog" if fault.subtype == "ENTRY_ALREADY_EXISTS":
            return named_error("duckdb.duplicate", said, fault)
        case "Parser" | "Syntax":
            return named_error(
                "duckdb.syntax", _NEAR_TEXT.sub("near a text", said), fault
            )
        case "Constraint":
            return named_error("duckdb.constraint", _KEY.sub(r'key "\1…"', said), fault)
        case _:
            kind = KINDS.get(fault.type, "duckdb.error")
            return named_error(
                kind, veiled(said) if kind == "duckdb.data" else said, fault
            )


def veiled(said: str) -> str:
    """Return the first line without values of the data, which may be secret."""
    line = said.strip().partition("\n")[0]
    return _NUMBERS.sub("…", _TEXTS.sub("'…'", line))


def named_error(
    kind: str, message: str, fault: Fault, *, retryable: bool = False
) -> ToolError:
    label = f"{fault.label}: " if fault.label else ""
    return ToolError(
        kind,
        label + message.strip()[:_MAX_CHARS] + where(fault.details),
        retryable=retryable,
        details=fault.details,
    )


def where(details: dict[str, JSON]) -> str:
    """Return `` (statement 2, line 3, position 8)``."""
    found = [f"{n} {details[n]}" for n in details if n in _PLACE]
    return f" ({', '.join(found)})" if found else ""
