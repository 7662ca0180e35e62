"""Secrets of this machine: environment variables and files."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from noetl.adapters.secrets.fields import chosen, text_field
from noetl.errors import SecretError
from noetl.ports import Wanted
from noetl.types import JSON

LARGEST = 1024 * 1024
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe is not waited for


class EnvProvider:
    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ

    async def get(self, wanted: Wanted) -> JSON:
        name = text_field(wanted, "variable", wanted.fields.get("path") or wanted.name)
        if not self._environ.get(name):
            state = "empty" if name in self._environ else "not set"
            message = f"the environment variable {name} is {state}; export it"
            raise SecretError("secret.missing", message)
        return chosen(wanted, self._environ[name], f"the variable {name}")


class FileProvider:
    async def get(self, wanted: Wanted) -> JSON:
        path, folder = text_field(wanted, "path"), wanted.folder or "."
        text = await asyncio.to_thread(_read, path, folder)
        return chosen(wanted, text, path)


def _read(name: str, folder: str) -> str:
    path = Path(folder, os.path.expanduser(name))
    try:
        file = os.open(path, _READ)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise SecretError("secret.wrong", f"{path} is not a file")
            data = os.read(file, LARGEST + 1)
        finally:
            os.close(file)
    except OSError as error:
        denied = isinstance(error, PermissionError)
        kind = "secret.denied" if denied else "secret.missing"
        raise SecretError(kind, f"{path} cannot be read: {error.strerror}") from None
    if len(data) > LARGEST:
        raise SecretError("secret.wrong", f"{path} is larger than {LARGEST:,} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise SecretError("secret.wrong", f"{path} is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r")
