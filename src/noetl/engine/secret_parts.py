"""Parts of a secret that are secret by themselves: a message may quote one alone.

A service account is a JSON text, a webhook is an address, and a connection string has
a password in it. Whoever uses such a secret takes it apart first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

import msgspec

from noetl.types import JSON

_PASSWORD = re.compile(r"://[^\s/:@]*:([^\s/@]+)@")
_WEB = re.compile(r"https?://[^\s/?#]+([/?][^\s]+)", re.IGNORECASE)
_NAMED = re.compile(
    r"(?:^|[\s;&?,])[\w.-]*"
    r"(?:password|passwd|passphrase|pwd|secret|token|key|sig|signature)"
    r"\s*=\s*[\"']?([^\s;&,\"']+)",
    re.IGNORECASE,
)
_SEPARATORS = re.compile(r"[/?&=#;]+")
_CREDENTIAL = 32 * 1024
"""Characters of the longest text that is taken apart: each part is looked for in all
that is recorded, and a longer text is a document rather than a credential."""
_TELLING = 16
"""Characters from which a piece of an address is hardly a word of everyday use."""


def parts(text: str) -> Iterator[str]:
    """Passwords in addresses and connection strings, and what makes a webhook."""
    for found in _PASSWORD.finditer(text):
        yield from _written(found[1])
    if len(text) > _CREDENTIAL:
        return
    for found in _NAMED.finditer(text):
        yield from _written(found[1])
    for found in _WEB.finditer(text):
        tail = found[1]
        for piece in (tail, tail.partition("?")[0], *_SEPARATORS.split(tail)):
            if len(piece) >= _TELLING:
                yield from _written(piece)


def _written(part: str) -> tuple[str, str]:
    """As it stands there, and what it means where it stands in an address."""
    return part, unquote(part)


def as_data(text: str) -> JSON:
    """The mapping or list that the text is, as JSON; None if it is neither."""
    if len(text) > _CREDENTIAL or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
