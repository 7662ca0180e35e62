"""Entry point of a call: answers a request with JSON, a result or a fault."""

from __future__ import annotations

from typing import Any

import duckdb
import msgspec

from .errors import Place, Refusal, describe
from .script import Script
from .session import open_session


def answer(request: dict[str, Any]) -> bytes:
    """Return ``{"result": …}``, ``{"refusal": …}`` or ``{"fault": …}``."""
    place = Place(request["command"])
    try:
        connection = open_session(request, place)
        try:
            return b'{"result":' + Script(connection, request, place).run() + b"}"
        finally:
            connection.close()
    except Refusal as refusal:
        return msgspec.json.encode({"refusal": refusal.fault})
    except OSError as error:  # from renaming the exported file
        failed = Refusal("duckdb.io", f"export: {error.strerror}")
        return msgspec.json.encode({"refusal": failed.fault})
    except duckdb.Error as error:
        return msgspec.json.encode({"fault": describe(error, place)})
