"""``/api/catalog`` and ``/api/validate``: playbooks, their versions and diagnostics."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from msgspec import UNSET

from noetl.api.executions import check_size, require_code
from noetl.api.http.problems import Problem
from noetl.api.http.quotas import keep
from noetl.api.http.request_body import MAX_PLAYBOOK_BODY_BYTES
from noetl.api.http.routes import Call, Nothing, Reply, Routes
from noetl.api.schemas.executions import (
    CatalogQuery,
    DiffAnswer,
    DiffQuery,
    PlaybookDocument,
    PlaybookList,
    RegisterRequest,
    Registration,
    ValidateAnswer,
    ValidateRequest,
    VersionList,
    VersionQuery,
)
from noetl.ports import Registered
from noetl.service.authoring import Wanted
from noetl.types import JSON

routes = Routes()

READ = "playbooks:read"
WRITE = "playbooks:write"


@routes.route(
    "POST",
    "/api/catalog",
    permission=WRITE,
    body=RegisterRequest,
    answers={201: Registration, 200: Registration},
    problems=("playbook.invalid", "catalog.version_taken", "request.too_large"),
    largest=MAX_PLAYBOOK_BODY_BYTES,
)
async def register_playbook(call: Call[RegisterRequest, Nothing]) -> Reply:
    """Register a playbook under its `metadata.path`.

    Its version is `metadata.version`, or the next whole number. A registered version is
    immutable: the same playbook gets 200, another one with the same version 409.
    """
    text = call.body.playbook
    check_size(text)
    playbooks = call.site.playbooks
    loaded = await playbooks.validate(text)
    if loaded.playbook is not None:
        call.require(WRITE, loaded.playbook.path)
        steps = loaded.playbook.workflow
        kinds = {task.kind for step in steps for task in step.tasks}
        require_code(call, kinds, loaded.playbook.path)
        call.trail.add(path=loaded.playbook.path)
    found, created = await playbooks.register(loaded, text, call.principal.name)
    call.trail.add(path=found.path, version=found.version, sha256=found.sha256)
    diagnostics = msgspec.to_builtins(loaded.diagnostics)
    answer = {**_line(found), "created": created, "diagnostics": diagnostics}
    return Reply(201 if created else 200, answer)


@routes.route(
    "GET",
    "/api/catalog",
    permission=READ,
    query=CatalogQuery,
    answers={200: PlaybookList},
)
async def list_playbooks(call: Call[Nothing, CatalogQuery]) -> Reply:
    """List the latest version of each playbook by path."""
    query = call.query
    prefix = "" if query.prefix is UNSET else query.prefix
    cursor = "" if query.cursor is UNSET else query.cursor
    found, following = await call.site.playbooks.latest(
        prefix, cursor, query.limit, lambda path: call.allows(READ, path)
    )
    lines = [_line(each) for each in found]
    return Reply(200, {"playbooks": lines, "cursor": following})


@routes.route(
    "GET",
    "/api/catalog/{path:path}/-/versions",
    permission=READ,
    answers={200: VersionList},
    problems=("playbook.not_found",),
)
async def list_versions(call: Call[Nothing, Nothing]) -> Reply:
    """List all versions of a playbook, the latest first."""
    found = await call.site.playbooks.versions(_path(call))
    return Reply(200, {"versions": [_line(each) for each in found]})


@routes.route(
    "GET",
    "/api/catalog/{path:path}/-/diff",
    permission=READ,
    query=DiffQuery,
    answers={200: DiffAnswer},
    problems=("playbook.not_found",),
)
async def diff_versions(call: Call[Nothing, DiffQuery]) -> Reply:
    """Show the differences between two versions, as a unified diff.

    `to` defaults to the latest version, `from` to the one before it.
    """
    path, query = _path(call), call.query
    diff = await call.site.playbooks.diff(path, query.before, query.after)
    return Reply(200, {"path": path, "diff": diff})


@routes.route(
    "GET",
    "/api/catalog/{path:path}",
    permission=READ,
    query=VersionQuery,
    answers={200: PlaybookDocument},
    problems=("playbook.not_found",),
)
async def show_playbook(call: Call[Nothing, VersionQuery]) -> Reply:
    """Show a version of a playbook with its source; by default the latest."""
    found = await call.site.playbooks.show(_path(call), call.query.version)
    return Reply(200, {**_line(found.registered), "source": found.source})


def _path(call: Call[Nothing, object]) -> str:
    """Return the path if the caller may see it; refuse a hidden one like an absent
    one."""
    path = call.params["path"]
    # a caller who may see all paths gets the specific error
    if not call.allows(READ, None):
        call.require(READ, path)
    return path


def _line(found: Registered) -> dict[str, JSON]:
    line: dict[str, JSON] = msgspec.to_builtins(found)
    del line["source"]
    return line


@routes.route(
    "POST",
    "/api/validate",
    permission="playbooks:read",
    body=ValidateRequest,
    answers={200: ValidateAnswer},
    problems=("request.too_large", "request.rate", "server.busy"),
    recorded="never",
    largest=MAX_PLAYBOOK_BODY_BYTES,
)
async def validate_playbook(call: Call[ValidateRequest, Nothing]) -> Reply:
    """Validate a playbook. Nothing in it is executed or stored.

    An editor gets all that it shows at once: with `verify` findings about the net and
    their witnesses, with `graph` the net with its layout, with `form` the form of the
    inputs. Of these a caller may ask for four in a second, and for four at a time.
    """
    body = call.body
    check_size(body.playbook)
    wanted = Wanted(body.verify, body.graph, body.form)
    if wanted != Wanted():
        slow_down(call, "reviews")
        keep(call.request.scope, call.site.quotas.drawings.take(call.principal.user_id))
    loaded = await call.site.playbooks.validate(body.playbook, strict=body.strict)
    review = await call.site.authoring.review(loaded, body.playbook, wanted)
    parts: dict[str, JSON] = msgspec.to_builtins(review)
    answer: JSON = {
        "valid": loaded.valid,
        "diagnostics": msgspec.to_builtins(loaded.diagnostics),
        **{name: part for name, part in parts.items() if part is not None},
    }
    return Reply(200, answer)


def slow_down(call: Call[Any, Nothing], what: str) -> None:
    """Raise ``Problem`` (``request.rate``) if the caller asks too often for reviews and
    test runs."""
    wait = call.site.review_pace.take(call.principal.user_id, time.monotonic())
    if wait is not None:
        headers = {"Retry-After": str(max(1, round(wait)))}
        raise Problem("request.rate", f"too many {what}; slow down", headers=headers)
