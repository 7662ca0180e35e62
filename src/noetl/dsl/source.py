"""Reader of YAML text into nodes; every limit is checked before anything is built."""

from __future__ import annotations

import re

from noetl.dsl.composer import LINE_END, Composer, Unreadable
from noetl.dsl.diagnostics import Diagnostic, Report
from noetl.dsl.node import Node

MAX_BYTES = 1024 * 1024

# Characters that YAML forbids: C0 and C1 controls but tab, newline, return, NEL.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]"
)


def read_source(
    text: str | bytes,
    report: Report,
    what: str = "playbook",
    opening: str = "apiVersion: noetl.io/v2",
) -> Node | None:
    """Read one YAML document; report the problem and return None if it is unreadable.

    ``what`` names the kind of document and ``opening`` its first line, for messages.
    """
    decoded = _decode(text, report)
    if decoded is None:
        return None
    try:
        root = Composer(report).compose(decoded)
    except Unreadable:
        return None
    if root is None or root.text == "":
        message, hint = f"the {what} is empty", f"start with: {opening}"
        _refuse(report, "ROOT-01", "yaml-empty", (1, 1), message, hint)
        return None
    return root


def _decode(text: str | bytes, report: Report) -> str | None:
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if len(raw) > MAX_BYTES:
        message = (
            f"the file has {len(raw):,} bytes; a playbook has at most {MAX_BYTES:,}"
        )
        hint = "move data into files or tables that tasks read"
        _refuse(report, "S-70", "yaml-too-large", (1, 1), message, hint)
        return None
    try:
        decoded = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8-sig", "replace")
        message = f"byte {raw[error.start]:#04x} at offset {error.start} is not UTF-8"
        hint = "save the file as UTF-8"
        mark = _position(before)
        _refuse(report, "ROOT-01", "yaml-encoding", mark, message, hint)
        return None
    if found := _UNPRINTABLE.search(decoded):
        point, offset = ord(found.group()), found.start()
        message = f"character U+{point:04X} at offset {offset} is not allowed in YAML"
        hint = "remove it, or write it as an escape in double quotes"
        mark = _position(decoded[:offset])
        _refuse(report, "ROOT-01", "yaml-encoding", mark, message, hint)
        return None
    return decoded


def _position(before: str) -> tuple[int, int]:
    lines = LINE_END.split(before)
    return len(lines), len(lines[-1]) + 1


def _refuse(
    report: Report, code: str, rule: str, mark: tuple[int, int], message: str, hint: str
) -> None:
    report.add(Diagnostic(code, rule, "error", message, "", *mark, hint))
