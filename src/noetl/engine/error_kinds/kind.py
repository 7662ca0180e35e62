"""The declaration of one error kind."""

from __future__ import annotations

import msgspec


class ErrorKind(msgspec.Struct, frozen=True):
    """An error kind; ``retryable`` is None where it depends on the case.

    ``reserved`` names the planned part that will use it; until then no code does.
    """

    doc: str
    remedy: str
    retryable: bool | None = False
    reserved: str | None = None
