"""Wrapper of a canonical tool with the inputs and results of the dialect."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from noetl.adapters.files import Files, Roots
from noetl.engine.tasks.outcome import Outcome
from noetl.errors import ConfigError, ToolError
from noetl.extras import install_command
from noetl.ports import Tool, ToolCall
from noetl.types import JSON


def shape(kind: str, outcome: Outcome) -> Outcome:
    if outcome.status != "ok":
        return outcome
    if kind == "http":
        return replace(outcome, result=answer(outcome))
    if kind in ("postgres", "duckdb") and isinstance(outcome.result, dict):
        return per_command(outcome)
    return outcome


def answer(outcome: Outcome) -> dict[str, JSON]:
    """Return the body in ``data``, and the members of the body beside it."""
    body, seen = outcome.result, outcome.helper
    elapsed = seen.get("elapsed_ms")
    own = dict(body) if isinstance(body, Mapping) else {}
    return {
        "body": body,
        **own,
        "status_code": seen.get("status"),
        "headers": seen.get("headers"),
        "data": body,
        "url": seen.get("url"),
        "elapsed": None if elapsed is None else elapsed / 1000,
    }


def per_command(outcome: Outcome) -> Outcome:
    """Add ``command_0``, ``command_1``, … with the rows of each statement."""
    result = dict(outcome.result)
    stored = dict(outcome.stored)
    for number, (path, part) in enumerate(parts_of(result)):
        name = f"command_{number}"
        rows = part.get("rows")
        result[name] = {"rows": rows, "row_count": part.get("rowcount", 0)}
        if f"{path}rows" in stored:
            stored[f"{name}.rows"] = stored[f"{path}rows"]
    result.pop("before", None)
    result["row_count"] = result.get("rowcount", 0)
    return replace(outcome, result=result, stored=stored)


def parts_of(result: Mapping[str, JSON]) -> list[tuple[str, Mapping[str, JSON]]]:
    """Return the results of the statements, each with its path in the result."""
    for name, last in (("statements", []), ("before", [("", result)])):
        if name in result:
            found: Sequence[JSON] = result[name]
            return [(f"{name}.{at}.", each) for at, each in enumerate(found)] + last
    return [("", result)]


MAX_BYTES = 10 * 1024 * 1024
_BY_SCHEME = {"http": "http", "https": "http", "s3": "s3", "gs": "gcs"}
_TYPES = ("file", "http", "s3", "gcs")
_SCHEMES = {"s3": "s3", "gcs": "gs"}


async def read_script(
    script: Mapping[str, JSON], call: ToolCall, web: Tool, roots: Roots
) -> str:
    """Read the text, which is not rendered. Raises ``ToolError``."""
    uri, source = script.get("uri"), script.get("source") or {}
    if not isinstance(uri, str) or not isinstance(source, Mapping):
        raise ToolError(
            "tool.contract", "script needs 'uri', and 'source' as a mapping"
        )
    kind = source.get("type") or _BY_SCHEME.get(urlsplit(uri).scheme, "file")
    match kind:
        case "file":
            import asyncio

            return await asyncio.to_thread(_read_file, uri, roots)
        case "http":
            return await _fetch(uri, source, call, web)
        case "s3" | "gcs":
            if not roots.own:
                message = "would be read with the cloud credentials of the server"
                hint = "write the text in the playbook, or use http"
                raise ToolError("auth", f"script.uri: {kind} {message}; {hint}")
            return await _get_object(_SCHEMES[kind], uri, source)
        case _:
            names = ", ".join(_TYPES)
            message = f"script.source.type is {kind!r:.40}, not one of {names}"
            raise ToolError("tool.contract", message)


def _read_file(uri: str, roots: Roots) -> str:
    path = unquote(urlsplit(uri).path) if uri.startswith("file://") else uri
    with roots.open_file(_found(path, roots), "script.uri") as file:
        return _decoded(file.read(MAX_BYTES + 1))


def _found(path: str, roots: Roots) -> str:
    """Return a relative path in the first allowed folder that has the file.

    Raises ``ToolError`` with every place that was tried.
    """
    if not path or "\0" in path or os.path.isabs(path):
        return path
    folders = [*([roots.base] if roots.base else []), *roots.folders]
    places = [os.path.join(each, path) for each in dict.fromkeys(folders)]
    found = next((each for each in places if os.path.exists(each)), None)
    if found is None and len(places) > 1:
        tried = ", ".join(os.path.normpath(each) for each in places)
        message = f"script.uri: '{path}' does not exist; looked for {tried}"
        raise ToolError("tool.contract", message)
    return found or path


async def _fetch(
    uri: str, source: Mapping[str, JSON], call: ToolCall, web: Tool
) -> str:
    inputs: dict[str, JSON] = {"url": _address(uri, source)}
    for name in ("headers", "params", "auth"):
        if source.get(name) is not None:
            inputs[name] = source[name]
    if isinstance(inputs.get("auth"), str):
        inputs["auth"] = {"type": "bearer", "token": inputs["auth"]}
    spec = {key: call.spec[key] for key in ("verify",) if key in call.spec}
    outcome = await web.run(replace(call, kind="http", inputs=inputs, spec=spec))
    if not isinstance(outcome.result, str):
        raise ToolError("tool.contract", "script.uri must return text, not JSON")
    return outcome.result


def _address(uri: str, source: Mapping[str, JSON]) -> str:
    """Return the address of the text: ``uri``, or its place below the endpoint."""
    endpoint = source.get("endpoint")
    if not isinstance(endpoint, str) or urlsplit(uri).scheme:
        return uri
    if endpoint.endswith(uri):
        return endpoint
    return f"{endpoint.rstrip('/')}/{uri.lstrip('/')}"


async def _get_object(scheme: str, uri: str, source: Mapping[str, JSON]) -> str:
    found = urlsplit(uri)
    bucket = found.netloc or source.get("bucket")
    key = unquote(found.path if found.scheme else uri).lstrip("/")
    if not isinstance(bucket, str) or not bucket or not key:
        raise ToolError("tool.contract", f"script.uri must be {scheme}://bucket/key")
    try:
        from noetl.adapters.blobs.object_store import open_store
    except ModuleNotFoundError:
        message = "objects of a cloud need the package obstore"
        install = f"run: {install_command('objects')}"
        raise ToolError("tool.contract", f"{message}; {install}") from None
    from obstore.exceptions import BaseError

    try:
        result = await open_store(f"{scheme}://{bucket}").get_async(key)
        return _decoded(bytes(await result.bytes_async()))
    except ConfigError as error:
        raise ToolError("auth", str(error)) from None
    except FileNotFoundError:
        raise ToolError("tool.contract", f"script.uri: {uri} does not exist") from None
    except (BaseError, OSError) as error:
        message = f"script.uri: it cannot be read from {scheme}://{bucket}"
        why = type(error).__name__
        raise ToolError("connection", f"{message} ({why})", retryable=True) from None


def _decoded(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        message = f"script.uri has more than {MAX_BYTES:,} bytes"
        raise ToolError("tool.contract", message)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ToolError("tool.contract", "script.uri is not UTF-8 text") from None


SHAPED = ("duckdb", "http", "postgres", "python", "script", "shell")
"""Kinds whose calls may be of the dialect."""

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
    """Converts calls of the dialect, and passes on other calls unchanged."""

    def __init__(self, inner: Tool, web: Tool, files: Files) -> None:
        self._inner = inner
        self._files = files
        self._web = web
        self.instant = inner.instant

    def has_effect(self, call: ToolCall) -> bool:
        if isinstance(call.inputs.get("script"), Mapping):
            return True  # the script is not read yet
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
    """Move the payload to the query if the method has no body, else to JSON."""
    payload = inputs.pop("payload")
    method = str(inputs.get("method") or "GET").upper()
    if method in _WITHOUT_BODY and isinstance(payload, Mapping):
        inputs["params"] = {**payload, **(inputs.get("params") or {})}
    elif payload is not None and method not in _WITHOUT_BODY:
        inputs["json"] = payload


def renamed(auth: Mapping[str, JSON]) -> dict[str, JSON]:
    return {_CREDENTIAL.get(name, name): value for name, value in auth.items()}
