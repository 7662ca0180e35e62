"""``/api/schema``, ``…/form`` and ``/api/tests``: what an editor needs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from noetl.api.catalog import slow_down
from noetl.api.http.quotas import keep
from noetl.api.http.request_body import MAX_PLAYBOOK_BODY_BYTES
from noetl.api.http.responses import answer_tagged, tag_of
from noetl.api.http.routes import Call, Nothing, Reply, Routes
from noetl.api.schemas.executions import Name, Strict, Text, VersionQuery
from noetl.dsl.input_form import InputForm
from noetl.service.authoring import Tested
from noetl.types import JSON

routes = Routes()

READ = "playbooks:read"
WRITE = "playbooks:write"


class RunTests(Strict):
    """A playbook and its tests, as in `x.test.yaml`; ``only`` is a part of the names of
    the cases to run."""

    playbook: Text
    suite: Annotated[str, Meta(min_length=1, max_length=262_144)]
    only: Name | None = None


@routes.route(
    "GET", "/api/schema", permission=READ, answers={200: dict[str, JSON], 304: None}
)
async def show_schema(call: Call[Nothing, Nothing]) -> Response:
    """Return the JSON Schema of playbooks, with the tool kinds of this server.

    The header `If-None-Match` with the tag of an earlier answer gets 304 if it has not
    changed.
    """
    body = call.site.authoring.schema()
    return answer_tagged(call, tag_of("schema", body), body)


@routes.route(
    "GET",
    "/api/catalog/{path:path}/-/form",
    permission=READ,
    query=VersionQuery,
    answers={200: InputForm},
    problems=("playbook.not_found", "playbook.invalid"),
)
async def show_form(call: Call[Nothing, VersionQuery]) -> Reply:
    """Return the form of a version's inputs; by default of the latest.

    `fields` is a JSON Schema: `metadata.inputs` if the playbook has it, otherwise
    inferred from the defaults of `workload`. `comments` are those at inputs of
    `workload`.
    """
    path = call.params["path"]
    if not call.allows(READ, None):
        call.require(READ, path)
    form = await call.site.authoring.form(path, call.query.version)
    return Reply(200, msgspec.to_builtins(form))


@routes.route(
    "POST",
    "/api/tests",
    permission=WRITE,
    body=RunTests,
    answers={200: Tested},
    problems=("request.rate", "request.too_large", "server.busy"),
    recorded="never",
    largest=MAX_PLAYBOOK_BODY_BYTES,
)
async def run_tests(call: Call[RunTests, Nothing]) -> Reply:
    """Run the tests of a playbook: tools are scripted, time is virtual.

    Nothing is called, and no Python code is run. The tests run in a process of their
    own and may use 5 s of CPU. A caller may have two runs at a time.
    """
    slow_down(call, "tests")
    keep(call.request.scope, call.site.quotas.tests.take(call.principal.user_id))
    body = call.body
    tested = await call.site.suites.run(body.playbook, body.suite, body.only)
    return Reply(200, msgspec.to_builtins(tested))
