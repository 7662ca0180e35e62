"""How programs write a text: encodings in which a secret may turn up."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import msgspec

ENCODINGS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in UTF-8": lambda text: msgspec.json.encode(text).decode()[1:-1],
    "JSON in JSON": lambda text: json.dumps(json.dumps({"a": text})),
    "a path": quote,
    "a query": lambda text: quote(text, safe=""),
    "a form": quote_plus,
    "lower-case escapes": lambda text: _lower(quote(text, safe="")),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 in lines": lambda text: base64.encodebytes(text.encode()).decode(),
    "base64 of more": lambda text: base64.b64encode(f"me:{text}!".encode()).decode(),
    "base64 of even more": lambda text: base64.b64encode(
        f"you:{text}!!".encode()
    ).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
    "HEXADECIMAL": lambda text: text.encode().hex().upper(),
    "Python": repr,
    "Python in ASCII": ascii,
    "Python bytes": lambda text: repr(text.encode()),
    "a shell": shlex.quote,
    "HTML": html.escape,
}


def _lower(text: str) -> str:
    return re.sub("%..", lambda found: found[0].lower(), text)
