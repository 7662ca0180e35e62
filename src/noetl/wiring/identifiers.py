"""Identifiers of executions and servers."""

from __future__ import annotations

import secrets
import time


def new_server_id() -> int:
    """Draw the twelve bits that tell a server from others in the ids it makes."""
    return secrets.randbits(12)


def new_audit_id() -> str:
    """Make an identifier whose order is that of time, to a quarter of a microsecond."""
    return new_execution_id((time.time_ns() % 1_000_000 << 12) // 1_000_000)


def new_execution_id(server_id: int | None = None) -> str:
    """Make a UUID of version 7: unique, and in the order of time.

    The first twelve of its random bits are ``server_id``, if one is given.
    """
    milliseconds = time.time_ns() // 1_000_000
    first = new_server_id() if server_id is None else server_id
    bits = milliseconds << 80 | 0x7 << 76 | first << 64 | secrets.randbits(64)
    bits = bits & ~(0x3 << 62) | 0x2 << 62
    text = f"{bits:032x}"
    parts = (text[:8], text[8:12], text[12:16], text[16:20], text[20:])
    return "-".join(parts)
