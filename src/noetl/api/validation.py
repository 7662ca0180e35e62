"""``/api/validate``: what ``noetl validate`` says about a text."""

from __future__ import annotations

import msgspec

from noetl.api.bodies import LARGEST_PLAYBOOK
from noetl.api.executions import check_size
from noetl.api.routing import Call, Nothing, Reply, Routes
from noetl.api.shapes import ValidateAnswer, ValidateRequest

routes = Routes()


@routes.route(
    "POST",
    "/api/validate",
    permission="playbooks:read",
    body=ValidateRequest,
    answers={200: ValidateAnswer},
    problems=("request.too_large",),
    recorded="never",
    largest=LARGEST_PLAYBOOK,
)
async def validate_playbook(call: Call[ValidateRequest, Nothing]) -> Reply:
    """Judge a playbook. Nothing in it is executed, and nothing is kept."""
    check_size(call.body.playbook)
    loaded = await call.site.playbooks.validate(
        call.body.playbook, strict=call.body.strict
    )
    diagnostics = msgspec.to_builtins(loaded.diagnostics)
    return Reply(200, {"valid": loaded.valid, "diagnostics": diagnostics})
