"""Encodings of a secret in other texts, and texts with their escapes removed.

Writers of JSON, URLs, shell commands, Python literals and HTML each escape some
characters by their own rules. Escapes are therefore removed, in the text and in the
secret alike; encodings that change every character are enumerated.
"""

from __future__ import annotations

import base64
import codecs
import json
import re
import shlex
from bisect import bisect_right
from collections.abc import Callable, Iterator
from html import escape, unescape
from urllib.parse import quote, quote_plus, unquote

import msgspec

from noetl.types import JSON

_CODED = re.compile(
    r"(?:%(?:25){0,8}[0-9a-fA-F]{2})+"
    r"|&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|amp|lt|gt|quot|apos);"
)
_PERCENT = re.compile("%(?:25){0,8}([0-9a-fA-F]{2})")
# JSON inside JSON doubles its backslashes: the last one of a run counts. Runs are
# bounded, or a text of backslashes alone would be searched from each of them.
_ESCAPED = re.compile(
    r"(?:\\{1,8}u[0-9a-fA-F]{4})+"
    r"|\\U[0-9a-fA-F]{8}"
    r"|(?:\\{1,8}x[0-9a-fA-F]{2})+"
    r"|(?:\\{1,8}[0-3][0-7]{2})+"
    r"|\\[nrtfvb]"
)
_DROPPED = dict.fromkeys([*range(0x21), *map(ord, "\\+'\"")])
"""White space and quotes are ignored: shells, headers and encoders that fold lines
change white space, forms write it as ``+``, and shells put quotes around quotes."""
_ENOUGH = 8
"""Characters without which the rest of a text cannot be recognized."""
_GAPS = re.compile(r"[\x00-\x20\\+'\"]+")


def disguises(text: str) -> set[str]:
    """Return the text itself, without escapes, in base64 and in hexadecimal digits.

    In base64 the neighbouring bytes change the digits at both ends. Names of hosts and
    headers lose their case.
    """
    data = text.encode()
    cores = [_core(data, offset) for offset in range(3)]
    cores.append(base64.b64encode(data).decode())
    forms = {text, undo(text), text.lower(), text.upper()}
    forms |= {data.hex(), data.hex().upper(), *cores}
    for core in cores:
        forms |= {core.replace("+", ""), core.replace("+", "-").replace("/", "_")}
    if not text.isascii():
        forms.add(ascii(text)[1:-1])  # \xc3\xa9 is one character, or it is two
    has_escapes = _CODED.search(text) or _ESCAPED.search(text)
    if len(undo(text)) < _ENOUGH or has_escapes:
        forms |= _written(text)
    if has_escapes:  # an encoder's escapes may join with those of the secret
        forms |= {undo(form) for form in _written(text)}
    return forms


def written(text: str) -> set[str]:
    """Return the text itself and without escapes: for the many parts of a secret."""
    return {text, undo(text)}


def _written(text: str) -> set[str]:
    """Return the text as the common encoders write it."""
    once = [msgspec.json.encode(text).decode()[1:-1], json.dumps(text)[1:-1]]
    twice = [json.dumps(form)[1:-1] for form in once]
    python = [repr(text)[1:-1], ascii(text)[1:-1], repr(text.encode())[2:-1]]
    coded = [quote(text, safe=""), quote(text), quote_plus(text)]
    lower = [_PERCENT.sub(lambda found: found[0].lower(), form) for form in coded]
    return {*once, *twice, *python, *coded, *lower, escape(text), shlex.quote(text)}


def plain_forms(text: str) -> list[str]:
    """Return the forms whose parts are searched for where a text was cut."""
    data = text.encode()
    return [
        text,
        msgspec.json.encode(text).decode()[1:-1],
        quote(text, safe=""),
        *(_core(data, offset) for offset in range(3)),
        data.hex(),
    ]


def _core(data: bytes, offset: int) -> str:
    """Return the base64 digits that ``data`` alone decides after ``offset`` other
    bytes."""
    text = base64.b64encode(bytes(offset) + data).decode()
    return text[-(-offset * 8 // 6) : (offset + len(data)) * 8 // 6]


def undo(text: str) -> str:
    """Return the text without escapes, white space and quotes."""
    if "%" in text or "&" in text:
        text = _CODED.sub(lambda found: _decode(found[0]), text)
    if "\\" in text:
        text = _ESCAPED.sub(lambda found: _unescape(found[0]), text)
    return text.translate(_DROPPED)


class UnescapedText:
    """A text without escapes (see ``undo``) that maps positions back to the source."""

    def __init__(self, text: str) -> None:
        self._layers: list[_Layer] = []
        for pattern, meaning in (
            (_CODED, _decode),
            (_ESCAPED, _unescape),
            (_GAPS, lambda gap: ""),
        ):
            layer = _Layer(text, pattern, meaning)
            self._layers.append(layer)
            text = layer.text
        self.text = text

    def place(self, start: int, stop: int) -> tuple[int, int]:
        """Return the range of the source that this range of the text came from."""
        for layer in reversed(self._layers):
            start, stop = layer.place(start, stop)
        return start, stop


class _Layer:
    """A text with some parts replaced, and the original position of each part."""

    def __init__(
        self, source: str, pattern: re.Pattern[str], meaning: Callable[[str], str]
    ) -> None:
        parts: list[str] = []
        self._parts: list[tuple[int, int, int, bool]] = []
        end = length = 0
        for found in pattern.finditer(source):
            start, stop = found.span()
            self._parts.append((length, end, start, False))
            length += start - end
            meant = meaning(found[0])
            self._parts.append((length, start, stop, True))
            length += len(meant)
            parts += (source[end:start], meant)
            end = stop
        self._parts.append((length, end, len(source), False))
        self.text = "".join(parts) + source[end:]

    def place(self, start: int, stop: int) -> tuple[int, int]:
        return self._map(start, last=False), self._map(stop - 1, last=True)

    def _map(self, position: int, *, last: bool) -> int:
        """Map one position; a replaced part is mapped as a whole."""
        index = bisect_right(self._parts, position, key=lambda part: part[0]) - 1
        length, start, stop, replaced = self._parts[index]
        if replaced:
            return stop if last else start
        return start + position - length + last


def _decode(text: str) -> str:
    if text.startswith("&"):
        return unescape(text)
    return _characters(bytes.fromhex("".join(_PERCENT.findall(text))))


def _unescape(text: str) -> str:
    kind = text.lstrip("\\")[0]
    codes = [code for code in text.split("\\") if code]
    if kind == "u":
        units = bytes.fromhex("".join(code[1:] for code in codes))
        return units.decode("utf-16-be", errors="replace")
    if kind == "U":
        number = int(codes[0][1:], 16)
        return chr(number) if number < 0x110000 else ""
    if kind == "x":
        return _characters(bytes.fromhex("".join(code[1:] for code in codes)))
    if kind.isdigit():
        return _characters(bytes(int(code, 8) for code in codes))
    return ""  # an escaped line break


def _characters(data: bytes) -> str:
    """Decode as UTF-8, and bytes that are none as single characters, as Python escapes
    them: what stands beside a secret must not change how the secret is read."""
    return data.decode("utf-8", _SINGLE)


def _as_latin_1(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("latin-1"), error.end


_SINGLE = "noetl.single"
codecs.register_error(_SINGLE, _as_latin_1)


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
"""Maximum length of a text that is taken apart: each part is searched for in everything
that is recorded, and a longer text is a document rather than a credential."""
_TELLING = 16
"""Minimum length of a piece of an address that is unlikely to be a common word."""


def parts(text: str) -> Iterator[str]:
    """Yield passwords in addresses and connection strings, and the secret of a
    webhook."""
    for found in _PASSWORD.finditer(text):
        yield from _written_part(found[1])
    if len(text) > _CREDENTIAL:
        return
    for found in _NAMED.finditer(text):
        yield from _written_part(found[1])
    for found in _WEB.finditer(text):
        tail = found[1]
        for piece in (tail, tail.partition("?")[0], *_SEPARATORS.split(tail)):
            if len(piece) >= _TELLING:
                yield from _written_part(piece)


def _written_part(part: str) -> tuple[str, str]:
    """Return the part as written, and with the escapes of an address decoded."""
    return part, unquote(part)


def as_data(text: str) -> JSON:
    """Return the mapping or list that the text encodes as JSON; None if it is
    neither."""
    if len(text) > _CREDENTIAL or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
