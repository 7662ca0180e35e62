"""Keychains for commands: of this home, or of a server."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

import click
import msgspec

from noetl.access.secrets import EVERYWHERE, check_declaration, read_bindings
from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.home_keychain import StoredKeychain
from noetl.client.http import Client, Refused
from noetl.commands.remote.choose_server import need_server
from noetl.config import DATABASE, Settings
from noetl.engine.times import rfc3339
from noetl.local.home import Home
from noetl.ports.keychain import Change, Record, keep_bindings
from noetl.types import JSON

for_option = click.option(
    "--for",
    "bound",
    multiple=True,
    metavar="PATH",
    help="Playbooks that may use it: a path, or 'finance/*' (repeatable). Default: "
    "as before for a replaced secret, else all for which you may store secrets.",
)


class Kept(Protocol):
    """A keychain. Without ``bound`` paths an entry keeps its present ones."""

    def set(
        self, name: str, value: JSON, kind: str, bound: Sequence[str]
    ) -> Change: ...

    def declare(
        self, name: str, kind: str, fields: Mapping[str, str], bound: Sequence[str]
    ) -> Change: ...

    def list(self) -> dict[str, Record]: ...

    def delete(self, name: str) -> bool: ...


def open_kept(settings: Settings, server: str | None) -> Kept:
    """Open the keychain of a server, or of this home. Raises ``ConfigError``.

    A server on a database has its keychain there; ``noetl run`` and a server without
    one use the file of the home.
    """
    if server is None and settings[DATABASE] is None:
        return OfHome(settings)
    return OfServer(need_server(settings, server))


class OfHome:
    """The keychain of a home, in its file."""

    def __init__(self, settings: Settings) -> None:
        home = Home.of(settings)
        self._settings = settings
        self._stored = StoredKeychain(home.keychain, Cipher(home.key))
        self.list = self._stored.list
        self.delete = self._stored.delete

    def set(self, name: str, value: JSON, kind: str, bound: Sequence[str]) -> Change:
        places = read_bindings(bound) if bound else None
        return self._stored.set(
            name, value, kind, _now(), lambda old: places or keep_bindings(old)
        )

    def declare(
        self, name: str, kind: str, fields: Mapping[str, str], bound: Sequence[str]
    ) -> Change:
        from noetl.config import read_plugins

        check_declaration(kind, fields, read_plugins(self._settings).kinds.keychain)
        places = read_bindings(bound) if bound else None
        return self._stored.declare(
            name, kind, fields, _now(), lambda old: places or keep_bindings(old)
        )


class OfServer:
    """The keychain of a server, through its API."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def set(self, name: str, value: JSON, kind: str, bound: Sequence[str]) -> Change:
        body = {"value": value, "kind": kind}
        return self._put(f"/api/keychain/{name}", name, body, bound)

    def declare(
        self, name: str, kind: str, fields: Mapping[str, str], bound: Sequence[str]
    ) -> Change:
        body = {"kind": kind, "fields": dict(fields)}
        return self._put(f"/api/keychain/{name}/declaration", name, body, bound)

    def list(self) -> dict[str, Record]:
        found = self._client.get("/api/keychain")["keychain"]
        return {each["name"]: _record(each) for each in found}

    def delete(self, name: str) -> bool:
        try:
            self._client.call("DELETE", f"/api/keychain/{name}")
        except Refused as refused:
            if refused.kind == "keychain.unknown":
                return False
            raise
        return True

    def _put(
        self, url: str, name: str, body: dict[str, JSON], bound: Sequence[str]
    ) -> Change:
        replaced = name in self.list()
        if bound:
            body["for"] = list(bound)
        return Change(_record(self._client.post(url, body)), replaced)


def _record(line: Mapping[str, JSON]) -> Record:
    return msgspec.convert({**line, "sealed": ""}, Record)


def _now() -> str:
    return rfc3339(time.time())


def line_of(name: str, record: Record) -> dict[str, JSON]:
    return {
        "name": name,
        "kind": record.kind,
        "fields": record.fields,
        "updated_at": record.updated_at,
        "for": list(record.bound),
        "declared": record.declared,
        "key": record.key,
    }


def words_of(name: str, record: Record) -> str:
    fields = f" ({', '.join(record.fields)})" if record.fields is not None else ""
    if record.declared is not None:
        said = ", ".join(f"{key}={value}" for key, value in record.declared.items())
        fields = f", declared ({said})"
    places = "" if EVERYWHERE in record.bound else f", for {', '.join(record.bound)}"
    return f"{name}: {record.kind}{fields}{places}"
