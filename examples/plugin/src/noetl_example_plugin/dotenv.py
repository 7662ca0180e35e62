"""Keychain kind ``dotenv``: a variable of a file of variables."""

from __future__ import annotations

import asyncio
from pathlib import Path

from noetl.plugins import (
    JSON,
    KeychainKind,
    SecretError,
    SecretPlugin,
    Wanted,
)

KIND = KeychainKind(
    doc="A variable of a file with lines such as `NAME=value`.",
    fields={
        "path": "The file, seen from the playbook's folder (`.env`).",
        "variable": "The variable (the entry's name).",
    },
)


class DotenvProvider:
    async def get(self, wanted: Wanted) -> JSON:
        name = wanted.fields.get("variable") or wanted.name
        file = Path(wanted.folder or ".", str(wanted.fields.get("path") or ".env"))
        try:
            text = await asyncio.to_thread(file.read_text, encoding="utf-8")
        except OSError as error:
            message = f"{file} cannot be read: {error.strerror}"
            raise SecretError("secret.missing", message) from None
        for line in text.splitlines():
            key, equals, value = line.partition("=")
            if equals and key.strip() == name:
                return value.strip().strip("\"'")
        raise SecretError("secret.missing", f"{file} has no variable {name}")


PLUGIN = SecretPlugin(api=1, kind=KIND, make=DotenvProvider)
