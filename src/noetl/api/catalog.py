"""``/api/catalog``: register playbooks, list, show and compare their versions."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from noetl.api.bodies import LARGEST_PLAYBOOK
from noetl.api.executions import check_size, require_code
from noetl.api.routing import Call, Nothing, Reply, Routes
from noetl.api.shapes import (
    CatalogQuery,
    DiffAnswer,
    DiffQuery,
    PlaybookDocument,
    PlaybookList,
    RegisterRequest,
    Registration,
    VersionList,
    VersionQuery,
)
from noetl.ports import Registered
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
    largest=LARGEST_PLAYBOOK,
)
async def register_playbook(call: Call[RegisterRequest, Nothing]) -> Reply:
    """Register a playbook under its `metadata.path`.

    Its version is `metadata.version`, or the next whole number. What is registered
    stays: the same again is answered with 200, another playbook of the same version
    with 409.
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
    """The latest version of each playbook, in the order of their paths."""
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
    """All versions of a playbook, the latest first."""
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
    """What differs between two versions, as a unified diff.

    Without `to` it is the latest version, without `from` the one before that.
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
    """A version of a playbook with its text; the latest, if none is named."""
    found = await call.site.playbooks.show(_path(call), call.query.version)
    return Reply(200, {**_line(found.registered), "source": found.source})


def _path(call: Call[Nothing, object]) -> str:
    """The path, if it is theirs to see: a path is no secret, what it holds is."""
    path = call.params["path"]
    if not call.allows(READ, None):  # who may see all is told what is not there
        call.require(READ, path)
    return path


def _line(found: Registered) -> dict[str, JSON]:
    line: dict[str, JSON] = msgspec.to_builtins(found)
    del line["source"]
    return line
