"""Kind ``secrets``: looks a secret up while the workflow runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.dsl.grammar.records import TEXT
from noetl.dsl.tool_kinds import Input, Kind
from noetl.engine.tasks.outcome import Outcome
from noetl.errors import ToolError

if TYPE_CHECKING:
    from noetl.ports import Keys, ToolCall

SECRETS = Kind(
    name="secrets",
    doc="Looks up a secret.",
    inputs={
        "name": Input(TEXT, "An entry of `keychain`, or a stored secret's name."),
        "provider": Input(TEXT, "The provider (`stored`)."),
        "path": Input(TEXT, "The path at the provider."),
    },
    row="PIPE-16",
    result="A sealed handle `{secret: …}`: templates that touch it see the secret.",
    defaults={"timeout": 60},
    one_of=(("name", "path"),),
)


class SecretsTool:
    """Reads the secret on each call, so that a changed secret is found."""

    instant = False

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def has_effect(self, call: ToolCall) -> bool:
        return False

    async def run(self, call: ToolCall) -> Outcome:
        given: dict[str, str | None] = {}
        for key in ("name", "provider", "path"):
            value = call.inputs.get(key)
            if value is not None and not isinstance(value, str):
                raise ToolError("tool.contract", f"secrets: '{key}' must be text")
            given[key] = value
        return Outcome.ok(await self._keys.fetch(call.at, **given))

    async def close(self) -> None:
        pass
