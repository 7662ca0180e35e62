"""A tool with the inputs and results of the dialect, around the canonical one."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from noetl.adapters.files import Files
from noetl.adapters.tools.classic.results import shape
from noetl.adapters.tools.classic.scripts import read_script
from noetl.engine.outcome import Outcome
from noetl.ports import Tool, ToolCall
from noetl.types import JSON

SHAPED = ("duckdb", "http", "postgres", "python", "script", "shell")
"""The kinds whose calls may be of the dialect."""

_TEXTS = {"python": "code", "postgres": "command", "duckdb": "command"}
_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE"})
_CREDENTIAL = {
    "db_host": "host",
    "db_port": "port",
    "db_user": "user",
    "db_password": "password",
    "db_name": "database",
}


class Shaped:
    """Passes on what is not of the dialect as it is."""

    def __init__(self, inner: Tool, web: Tool, files: Files) -> None:
        self._inner = inner
        self._files = files
        self._web = web
        self.instant = inner.instant

    def has_effect(self, call: ToolCall) -> bool:
        if isinstance(call.inputs.get("script"), Mapping):
            return True  # nobody has read it yet
        return self._inner.has_effect(call)

    async def run(self, call: ToolCall) -> Outcome:
        if call.spec.get("dialect") != "classic":
            return await self._inner.run(call)
        inputs = dict(call.inputs)
        script = inputs.get("script")
        if isinstance(script, Mapping):
            del inputs["script"]
            roots = self._files.roots(call.folder)
            text = await read_script(script, call, self._web, roots)
            inputs[_TEXTS.get(call.kind, "script")] = text
        if "payload" in inputs:
            place_payload(inputs)
        if isinstance(inputs.get("auth"), Mapping):
            inputs["auth"] = renamed(inputs["auth"])
        spec = {key: value for key, value in call.spec.items() if key != "dialect"}
        outcome = await self._inner.run(replace(call, inputs=inputs, spec=spec))
        return shape(call.kind, outcome)

    async def close(self) -> None:
        await self._inner.close()


def place_payload(inputs: dict[str, JSON]) -> None:
    """A query where the method has no body, else JSON."""
    payload = inputs.pop("payload")
    method = str(inputs.get("method") or "GET").upper()
    if method in _WITHOUT_BODY and isinstance(payload, Mapping):
        inputs["params"] = {**payload, **(inputs.get("params") or {})}
    elif payload is not None and method not in _WITHOUT_BODY:
        inputs["json"] = payload


def renamed(auth: Mapping[str, JSON]) -> dict[str, JSON]:
    return {_CREDENTIAL.get(name, name): value for name, value in auth.items()}
