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
_TELLING = 16
"""Characters from which a piece of an address is hardly a word of everyday use."""


def parts(text: str) -> Iterator[str]:
    """Passwords in addresses and connection strings, and what makes a webhook."""
    for found in (*_PASSWORD.finditer(text), *_NAMED.finditer(text)):
        yield found[1]
        yield unquote(found[1])
    for found in _WEB.finditer(text):
        tail = found[1]
        for piece in (tail, tail.partition("?")[0], *_SEPARATORS.split(tail)):
            if len(piece) >= _TELLING:
                yield piece
                yield unquote(piece)


def as_data(text: str) -> JSON:
    """The mapping or list that the text is, as JSON; None if it is neither."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
