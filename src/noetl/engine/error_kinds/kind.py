"""What is said about one kind of error."""

from __future__ import annotations

import msgspec


class ErrorKind(msgspec.Struct, frozen=True):
    """``retryable`` is what ``outcome.error`` says; None where it depends on the case.

    ``reserved`` names the part that will make it; until then nothing does.
    """

    doc: str
    remedy: str
    retryable: bool | None = False
    reserved: str | None = None
