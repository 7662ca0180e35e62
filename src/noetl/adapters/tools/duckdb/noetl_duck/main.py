"""One call: a request comes in, and JSON goes out, a result or a fault."""

from __future__ import annotations

from typing import Any

import duckdb
import msgspec

from .faults import Place, describe
from .refusals import Refusal
from .script import Script
from .session import open_session


def answer(request: dict[str, Any]) -> bytes:
    """``{"result": …}``, ``{"refusal": …}`` or ``{"fault": …}``."""
    place = Place(request["command"])
    try:
        connection = open_session(request, place)
        try:
            return b'{"result":' + Script(connection, request, place).run() + b"}"
        finally:
            connection.close()
    except Refusal as refusal:
        return msgspec.json.encode({"refusal": refusal.fault})
    except OSError as error:  # of the file that is put in its place
        failed = Refusal("duckdb.io", f"export: {error.strerror}")
        return msgspec.json.encode({"refusal": failed.fault})
    except duckdb.Error as error:
        return msgspec.json.encode({"fault": describe(error, place)})
