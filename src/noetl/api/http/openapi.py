"""The OpenAPI document, generated from the routes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from noetl import __version__
from noetl.access.credentials import COOKIE
from noetl.access.permissions import PERMISSIONS
from noetl.api.http.problems import MEDIA_TYPE, STATUSES, ProblemDocument
from noetl.api.http.request_body import required_fields
from noetl.api.http.routes import PUBLIC, WEBHOOK, Endpoint, Nothing
from noetl.runtime.worker_protocol import messages
from noetl.types import JSON

ALWAYS = ("host.not_allowed", "query.invalid", "store.unavailable", "internal")
OPEN = ("request.rate",)
GUARDED = ("auth.required", "auth.role", "session.store_down")
WITH_BODY = (
    "json.invalid",
    "request.aborted",
    "request.content_type",
    "request.invalid",
    "request.rate",
    "request.timeout",
    "request.too_large",
    "request.unknown_field",
    "server.busy",
)
_TEMPLATE = "#/components/schemas/{name}"


def document(endpoints: Sequence[Endpoint]) -> dict[str, JSON]:
    schemas, components = _schemas(endpoints)
    paths: defaultdict[str, dict[str, JSON]] = defaultdict(dict)
    for endpoint in endpoints:
        operation = _operation(endpoint, schemas)
        paths[endpoint.plain_path][endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "NoETL",
            "version": __version__,
            "description": "Start, watch and steer executions of playbooks.",
        },
        "paths": dict(paths),
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
                "webhook": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def problems_of(endpoint: Endpoint) -> list[str]:
    """Return every kind of problem that the route may answer, its own first."""
    kinds = [*endpoint.problems, *ALWAYS]
    if endpoint.permission in (PUBLIC, WEBHOOK):
        kinds += OPEN
    if endpoint.permission != PUBLIC:
        kinds += GUARDED
    if endpoint.method == "POST":
        kinds += WITH_BODY
        if not issubclass(endpoint.body, messages.Message):
            kinds.append("ref.not_owner")
    return list(dict.fromkeys(kinds))


def _schemas(
    endpoints: Sequence[Endpoint],
) -> tuple[dict[Any, JSON], dict[str, JSON]]:
    shapes: dict[Any, None] = {ProblemDocument: None}
    for endpoint in endpoints:
        kinds = [endpoint.body, endpoint.query, *endpoint.answers.values()]
        shapes |= dict.fromkeys(kind for kind in kinds if kind is not None)
    found, components = msgspec.json.schema_components(shapes, ref_template=_TEMPLATE)
    return dict(zip(shapes, found, strict=True)), components


def _operation(endpoint: Endpoint, schemas: dict[Any, JSON]) -> dict[str, JSON]:
    first, _, _ = endpoint.doc.partition(". ")
    operation: dict[str, JSON] = {
        "operationId": endpoint.name,
        "summary": first.rstrip("."),
        "description": endpoint.doc,
        "tags": [endpoint.path.removeprefix("/api/").strip("/").split("/")[0]],
        "parameters": [*_places(endpoint), *_parameters(endpoint)],
        "responses": _responses(endpoint, schemas),
        "security": _security(endpoint.permission),
        "x-permission": endpoint.permission,
    }
    if endpoint.permission == WEBHOOK:
        content: JSON = {"application/json": {"schema": {}}}
        operation["requestBody"] = {"required": False, "content": content}
    elif endpoint.body is not Nothing:
        operation["requestBody"] = {
            "required": required_fields(endpoint.body),
            "content": {"application/json": {"schema": schemas[endpoint.body]}},
        }
    if endpoint.takes is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {endpoint.takes: {"schema": {}}},
        }
    return operation


def _security(permission: str) -> list[JSON]:
    if permission == PUBLIC:
        return []
    if permission == WEBHOOK:
        return [{"webhook": []}]
    known = PERMISSIONS.get(permission)
    bearer = known is not None and known.bearer
    return [{"token": []}] if bearer else [{"token": []}, {"session": []}]


def _places(endpoint: Endpoint) -> list[JSON]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }
        for name in endpoint.params
    ]


def _parameters(endpoint: Endpoint) -> list[JSON]:
    _, components = msgspec.json.schema_components([endpoint.query])
    shape = components[endpoint.query.__name__]
    required = shape.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in shape["properties"].items()
    ]


def _responses(endpoint: Endpoint, schemas: dict[Any, JSON]) -> dict[str, JSON]:
    responses: dict[str, JSON] = {}
    for status, shape in endpoint.answers.items():
        content: dict[str, JSON] = {name: {} for name in endpoint.media}
        if shape is not None:
            content["application/json"] = {"schema": schemas[shape]}
        answer: dict[str, JSON] = {"description": HTTPStatus(status).phrase}
        if content and status != HTTPStatus.NO_CONTENT:
            answer["content"] = content
        responses[str(status)] = answer
    kinds: defaultdict[int, list[str]] = defaultdict(list)
    for kind in problems_of(endpoint):
        kinds[_status_of(endpoint, kind)].append(f"`{kind}`")
    for status, names in sorted(kinds.items()):
        if str(status) not in responses:
            responses[str(status)] = {
                "description": ", ".join(names),
                "content": {MEDIA_TYPE: {"schema": schemas[ProblemDocument]}},
            }
    return responses


def _status_of(endpoint: Endpoint, kind: str) -> int:
    """Return the status; workers and other callers get different ones for some
    kinds."""
    if kind == "ref.not_owner" and issubclass(endpoint.body, messages.Message):
        return HTTPStatus.FORBIDDEN
    return STATUSES[kind]
