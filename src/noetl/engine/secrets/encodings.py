"""How a secret may look where it must not be seen, and texts with their escapes undone.

Whoever writes JSON, URLs, shell commands, Python literals or HTML escapes some of the
characters, by rules of his own. So escapes are undone, in the text and in the secret
alike, rather than guessed; encodings that leave nothing as it was are enumerated.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from bisect import bisect_right
from collections.abc import Callable
from html import escape, unescape
from urllib.parse import quote, quote_plus

import msgspec

_CODED = re.compile(
    r"(?:%(?:25){0,8}[0-9a-fA-F]{2})+"
    r"|&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|amp|lt|gt|quot|apos);"
)
_PERCENT = re.compile("%(?:25){0,8}([0-9a-fA-F]{2})")
# JSON inside JSON doubles its backslashes: of a run, the last one counts. Runs are
# bounded, or a text of backslashes alone would be searched from each of them.
_ESCAPED = re.compile(
    r"(?:\\{1,8}u[0-9a-fA-F]{4})+"
    r"|\\U[0-9a-fA-F]{8}"
    r"|(?:\\{1,8}x[0-9a-fA-F]{2})+"
    r"|(?:\\{1,8}[0-3][0-7]{2})+"
    r"|\\[nrtfvb]"
)
_DROPPED = dict.fromkeys([*range(0x21), *map(ord, "\\+'\"")])
"""White space is set anew by shells, headers and encoders that fold their lines, and
``+`` stands for it in a form; quotes are put around quotes by shells."""
_ENOUGH = 8
"""Characters without which a text cannot be known by what is left of it."""
_GAPS = re.compile(r"[\x00-\x20\\+'\"]+")


def disguises(text: str) -> set[str]:
    """The text itself, without escapes, in base64 and in hexadecimal digits.

    Of base64, what was encoded before and after it changes the digits at its ends. The
    names of hosts and headers lose their case.
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
    if len(undo(text)) < _ENOUGH:
        forms |= _written(text)
    return forms


def written(text: str) -> set[str]:
    """The text itself, and without escapes: for parts of a secret that are many."""
    return {text, undo(text)}


def _written(text: str) -> set[str]:
    """As the common encoders write it, one by one."""
    once = [msgspec.json.encode(text).decode()[1:-1], json.dumps(text)[1:-1]]
    twice = [json.dumps(form)[1:-1] for form in once]
    python = [repr(text)[1:-1], ascii(text)[1:-1], repr(text.encode())[2:-1]]
    coded = [quote(text, safe=""), quote(text), quote_plus(text)]
    lower = [_PERCENT.sub(lambda found: found[0].lower(), form) for form in coded]
    return {*once, *twice, *python, *coded, *lower, escape(text), shlex.quote(text)}


def plain_forms(text: str) -> list[str]:
    """The forms of which a torn part is worth looking for."""
    data = text.encode()
    return [
        text,
        msgspec.json.encode(text).decode()[1:-1],
        quote(text, safe=""),
        *(_core(data, offset) for offset in range(3)),
        data.hex(),
    ]


def _core(data: bytes, offset: int) -> str:
    """Base64 of the data after ``offset`` other bytes: the digits it alone decides."""
    text = base64.b64encode(bytes(offset) + data).decode()
    return text[-(-offset * 8 // 6) : (offset + len(data)) * 8 // 6]


def undo(text: str) -> str:
    """The text without escapes, white space and quotes."""
    if "%" in text or "&" in text:
        text = _CODED.sub(lambda found: _decode(found[0]), text)
    if "\\" in text:
        text = _ESCAPED.sub(lambda found: _unescape(found[0]), text)
    return text.translate(_DROPPED)


class Undone:
    """``undo`` once more, for a text that has a secret in it: now its place matters."""

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
        """Where in the source this part of the text stood."""
        for layer in reversed(self._layers):
            start, stop = layer.place(start, stop)
        return start, stop


class _Layer:
    """A text with some parts replaced, and where each part of it stood before."""

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
        """A replaced part is one whole: all of it goes, or nothing."""
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
    return ""  # a line break or the like


def _characters(data: bytes) -> str:
    """UTF-8, or single characters as Python escapes them."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")
