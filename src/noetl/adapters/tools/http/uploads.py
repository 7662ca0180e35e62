"""Multipart bodies: texts, bytes and files of the host."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import os
import secrets
from collections.abc import Mapping

from noetl.adapters.files import Roots
from noetl.errors import ToolError
from noetl.types import JSON

MAX_BYTES = 64 * 1024 * 1024
_OCTETS = "application/octet-stream"


def read_files(files: JSON, roots: Roots) -> tuple[bytes, str]:
    """Return the body and its content type.

    A part is its text, or ``{content | base64 | path, filename, content_type}``.
    """
    if not isinstance(files, Mapping):
        raise ToolError("tool.contract", "files must be a mapping")
    boundary = f"noetl-{secrets.token_hex(16)}"
    lines: list[bytes] = []
    size = 0
    for name, part in files.items():
        content, filename, kind = read_part(str(name), part, roots)
        size += len(content)
        if size > MAX_BYTES:
            raise ToolError(
                "http.too_large", f"files are larger than {MAX_BYTES} bytes"
            )
        about = f'form-data; name="{quote(str(name))}"; filename="{quote(filename)}"'
        head = f"--{boundary}\r\nContent-Disposition: {about}\r\nContent-Type: {kind}"
        lines += [f"{head}\r\n\r\n".encode(), content, b"\r\n"]
    lines.append(f"--{boundary}--\r\n".encode())
    return b"".join(lines), f"multipart/form-data; boundary={boundary}"


def read_part(name: str, part: JSON, roots: Roots) -> tuple[bytes, str, str]:
    if isinstance(part, str):
        return part.encode(), name, "text/plain; charset=utf-8"
    if not isinstance(part, Mapping):
        raise ToolError("tool.contract", f"files.{name} must be text or a mapping")
    given = [key for key in ("content", "base64", "path") if part.get(key) is not None]
    if len(given) != 1 or not isinstance(part[given[0]], str):
        message = f"files.{name} needs one text: content, base64 or path"
        raise ToolError("tool.contract", message)
    text = part[given[0]]
    if given[0] == "path":
        content, filename = read_file(name, text, roots), os.path.basename(text)
    else:
        content, filename = decode(name, text, given[0]), name
    filename = str(part.get("filename") or filename)
    kind = part.get("content_type") or mimetypes.guess_type(filename)[0] or _OCTETS
    if "\r" in str(kind) or "\n" in str(kind):
        raise ToolError("http.header", f"files.{name}.content_type has a line break")
    return content, filename, str(kind)


def decode(name: str, text: str, how: str) -> bytes:
    if how == "content":
        return text.encode()
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ToolError("tool.contract", f"files.{name}.base64: {error}") from None


def read_file(name: str, path: str, roots: Roots) -> bytes:
    """Read a file below the folders that tools may use."""
    where = f"files.{name}.path"
    with roots.open_file(path, where) as opened:
        try:
            return opened.read(MAX_BYTES + 1)
        except OSError as error:
            raise ToolError("tool.contract", f"{where}: {error.strerror}") from None


def quote(text: str) -> str:
    """Escape characters that could end the quoted name, as browsers do."""
    for character, escape in (('"', "%22"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(character, escape)
    return text
