"""Text of a task that is kept elsewhere: a file, an address, an object store."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from noetl.adapters.files import Roots
from noetl.errors import ConfigError, ToolError
from noetl.ports import Tool, ToolCall
from noetl.types import JSON

LARGEST = 10 * 1024 * 1024
_BY_SCHEME = {"http": "http", "https": "http", "s3": "s3", "gs": "gcs"}
_TYPES = ("file", "http", "s3", "gcs")
_SCHEMES = {"s3": "s3", "gcs": "gs"}


async def read_script(
    script: Mapping[str, JSON], call: ToolCall, web: Tool, roots: Roots
) -> str:
    """Raises ``ToolError``. What comes is not rendered: it is code, or SQL."""
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
                message = "is read with the cloud credentials of the server"
                hint = "give the text in the playbook, or by http"
                raise ToolError("auth", f"script.uri: {kind} {message}; {hint}")
            return await _get_object(_SCHEMES[kind], uri, source)
        case _:
            names = ", ".join(_TYPES)
            message = f"script.source.type is {kind!r:.40}, none of {names}"
            raise ToolError("tool.contract", message)


def _read_file(uri: str, roots: Roots) -> str:
    path = unquote(urlsplit(uri).path) if uri.startswith("file://") else uri
    with roots.open_file(path, "script.uri") as file:
        return _decoded(file.read(LARGEST + 1))


async def _fetch(
    uri: str, source: Mapping[str, JSON], call: ToolCall, web: Tool
) -> str:
    inputs: dict[str, JSON] = {"url": uri}
    for name in ("headers", "params", "auth"):
        if source.get(name) is not None:
            inputs[name] = source[name]
    if isinstance(inputs.get("auth"), str):
        inputs["auth"] = {"type": "bearer", "token": inputs["auth"]}
    spec = {key: call.spec[key] for key in ("verify",) if key in call.spec}
    outcome = await web.run(replace(call, kind="http", inputs=inputs, spec=spec))
    if not isinstance(outcome.result, str):
        raise ToolError("tool.contract", "script.uri gave JSON, and no text")
    return outcome.result


async def _get_object(scheme: str, uri: str, source: Mapping[str, JSON]) -> str:
    found = urlsplit(uri)
    bucket = found.netloc or source.get("bucket")
    key = unquote(found.path if found.scheme else uri).lstrip("/")
    if not isinstance(bucket, str) or not bucket or not key:
        raise ToolError("tool.contract", f"script.uri must be {scheme}://bucket/key")
    try:
        from noetl.adapters.blobs.clouds import open_store
    except ModuleNotFoundError:
        message = "objects of a cloud need the package obstore"
        install = "run: pip install '.[objects]' in a checkout of NoETL"
        raise ToolError("tool.contract", f"{message}; {install}") from None
    from obstore.exceptions import BaseError

    try:
        result = await open_store(f"{scheme}://{bucket}").get_async(key)
        return _decoded(bytes(await result.bytes_async()))
    except ConfigError as error:
        raise ToolError("auth", str(error)) from None
    except FileNotFoundError:
        raise ToolError("tool.contract", f"script.uri: there is no {uri}") from None
    except (BaseError, OSError) as error:
        message = f"script.uri: {scheme}://{bucket} does not give it"
        why = type(error).__name__
        raise ToolError("connection", f"{message} ({why})", retryable=True) from None


def _decoded(data: bytes) -> str:
    if len(data) > LARGEST:
        message = f"script.uri holds more than {LARGEST:,} bytes"
        raise ToolError("tool.contract", message)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ToolError("tool.contract", "script.uri holds no UTF-8 text") from None
