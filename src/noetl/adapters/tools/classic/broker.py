"""Operations on a NATS server: keys, objects, messages."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.errors import (
    BucketNotFoundError,
    KeyNotFoundError,
    NoKeysError,
    NoStreamResponseError,
    NotFoundError,
)

from noetl.errors import ToolError
from noetl.types import JSON


async def perform(client: Client, inputs: Mapping[str, JSON]) -> dict[str, JSON]:
    operation = inputs.get("operation")
    if operation == "publish":
        return await publish(client, inputs)
    stream = client.jetstream()
    match operation:
        case "kv_get" | "kv_put" | "kv_delete" | "kv_list":
            return await use_keys(stream, str(operation), inputs)
        case "object_put" | "object_get":
            return await use_objects(stream, str(operation), inputs)
        case _:
            message = f"unknown operation {operation!r:.40} of kind nats"
            raise ToolError("tool.contract", message)


async def use_keys(
    stream: JetStreamContext, operation: str, inputs: Mapping[str, JSON]
) -> dict[str, JSON]:
    name = text(inputs, "bucket")
    if operation == "kv_put":
        try:
            bucket = await stream.key_value(name)
        except BucketNotFoundError:
            bucket = await stream.create_key_value(bucket=name)
        given = inputs.get("value", inputs.get("data"))
        revision = await bucket.put(text(inputs, "key"), encoded(given))
        return {"status": "success", "revision": revision}
    bucket = await stream.key_value(name)
    if operation == "kv_list":
        try:
            return {"status": "success", "keys": sorted(await bucket.keys())}
        except NoKeysError:
            return {"status": "success", "keys": []}
    key = text(inputs, "key")
    if operation == "kv_delete":
        await bucket.delete(key)
        return {"status": "success", "key": key}
    try:
        entry = await bucket.get(key)
    except KeyNotFoundError:
        return {"status": "not_found", "key": key, "value": None, "revision": None}
    value = decoded(entry.value or b"")
    return {"status": "success", "key": key, "value": value, "revision": entry.revision}


async def use_objects(
    stream: JetStreamContext, operation: str, inputs: Mapping[str, JSON]
) -> dict[str, JSON]:
    name = text(inputs, "bucket")
    key = text(inputs, "object" if inputs.get("object") is not None else "key")
    if operation == "object_get":
        found = await (await stream.object_store(name)).get(key)
        data = found.data or b""
        return {"status": "success", "data": decoded(data), "size": len(data)}
    try:
        bucket = await stream.object_store(name)
    except NotFoundError:
        bucket = await stream.create_object_store(bucket=name)
    about = await bucket.put(key, encoded(inputs.get("data", inputs.get("value"))))
    return {"status": "success", "size": about.size, "digest": about.digest}


async def publish(client: Client, inputs: Mapping[str, JSON]) -> dict[str, JSON]:
    """Publish by JetStream if a stream stores the subject, else to subscribers."""
    subject = text(inputs, "subject")
    given = inputs.get("payload", inputs.get("data"))
    headers = inputs.get("headers")
    named = {str(k): str(v) for k, v in headers.items()} if headers else None
    body = encoded(given)
    try:
        kept = await client.jetstream().publish(subject, body, headers=named)
    except NoStreamResponseError:
        await client.publish(subject, body, headers=named)
        await client.flush()
        return {"status": "success", "stream": None, "seq": None}
    return {"status": "success", "stream": kept.stream, "seq": kept.seq}


def text(inputs: Mapping[str, JSON], name: str) -> str:
    value = inputs.get(name)
    if not isinstance(value, str) or not value:
        raise ToolError("tool.contract", f"'{name}' is required, and must be text")
    return value


def encoded(value: JSON) -> bytes:
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


def decoded(data: bytes) -> JSON:
    """Decode JSON, or text if it is not JSON."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return data.decode(errors="replace")
