"""``/hooks``: deliveries to webhooks."""

from __future__ import annotations

import time
from math import ceil

from noetl.access.rate_limit import TokenBucket
from noetl.api.http.problems import Problem
from noetl.api.http.request_body import read_bytes, read_json
from noetl.api.http.routes import (
    WEBHOOK,
    Call,
    Nothing,
    Reply,
    Routes,
    counting,
    read_query,
)
from noetl.api.schemas.executions import StartAnswer
from noetl.telemetry.trace_context import HEADER, read_traceparent
from noetl.triggers.parse import read_rate
from noetl.triggers.webhook import MAX_BYTES
from noetl.types import JSON

routes = Routes()


@routes.route(
    "POST",
    "/hooks/{name}",
    permission=WEBHOOK,
    recorded="log",
    answers={201: StartAnswer},
    problems=(
        "trigger.inputs",
        "trigger.paused",
        "playbook.forbidden",
        "playbook.invalid",
        "playbook.not_found",
        "inputs.invalid",
        "keychain.unresolved",
        "concurrency.key",
        "concurrency.taken",
        "request.key_reused",
        "request.rate",
    ),
    largest=MAX_BYTES,
)
async def receive_delivery(call: Call[Nothing, Nothing]) -> Reply:
    """Start an execution by a webhook.

    The sender authenticates with the webhook's token, or with a signature of the body.
    The body is JSON of at most 1 MiB, or empty. Deliveries with the same key, which the
    webhook's template or the header `Idempotency-Key` defines, get the same execution
    and the header `Idempotent-Replayed`. With a header `traceparent` (W3C) the
    execution belongs to that trace.
    """
    receiving, headers = call.site.receiving, call.headers
    trigger = await receiving.find(call.params["name"], headers)
    read_query(call.request, Nothing)
    reserve = counting(call.site, WEBHOOK, call.address, call.request.scope)
    body = await read_bytes(call.request, MAX_BYTES, reserve)
    receiving.check(trigger, headers, body)
    take_turn(call.site.hook_pace, trigger.name)
    webhook = trigger.definition.webhook
    if webhook is not None and webhook.rate is not None:
        who = f"{trigger.name} {webhook.rate}"
        take_turn(call.site.hook_pace, who, read_rate(webhook.rate))
    payload = await read_json(headers, body) if body else None
    caller, ignored = read_traceparent(headers.get(HEADER), f"header {HEADER}")
    started = await receiving.accept(trigger, headers, payload, caller)
    replayed = {"Idempotent-Replayed": "true"} if started.repeated else {}
    answer: dict[str, JSON] = {
        "execution_id": started.execution_id,
        "status": started.status,
    }
    if ignored is not None:
        answer["warnings"] = [ignored]
    return Reply(201, answer, replayed)


def take_turn(
    pace: TokenBucket, who: str, own: tuple[int, float] | None = None
) -> None:
    """Raise ``Problem`` (``request.rate``) if the sender is too fast."""
    wait = pace.take(who, time.monotonic(), own)
    if wait is not None:
        headers = {"Retry-After": str(max(1, ceil(wait)))}
        message = "too many executions were started; slow down"
        if own is not None:
            rate = who.rpartition(" ")[2]
            message = f"this webhook accepts {rate}; send the delivery again later"
        raise Problem("request.rate", message, headers=headers)
