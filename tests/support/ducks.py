"""DuckDB's tool on a loop of its own: calls from tests that are not async."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from noetl.adapters.blobs.files import FileBlobs
from noetl.adapters.host import HostPolicy
from noetl.adapters.tools.duckdb.tool import DuckdbTool
from noetl.engine.secrets.handles import Secrets
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.values.references import holds_reference
from noetl.errors import ToolError
from noetl.ports import ToolCall
from noetl.runtime.worker.result_writer import CallDrafts


class Duck:
    """A tool with a home; ``folder`` is the playbook's, fresh for every test."""

    def __init__(self, home: Path, host: HostPolicy | None = None) -> None:
        self.home = home
        self.folder: Path | None = home
        self.blobs = FileBlobs(home / "results")
        self.tool = DuckdbTool(2, home=str(home), host=host)
        self._runner = asyncio.Runner()

    def call(self, command: str | None, spec: dict[str, Any], inputs: Any) -> ToolCall:
        by_reference = holds_reference(inputs.get("tables"))
        return ToolCall(
            kind="duckdb",
            inputs=inputs if command is None else {"command": command, **inputs},
            spec={"timeout": 60, **spec},
            execution_id="e1",
            step="s",
            task="t",
            action_id="a1",
            attempt=1,
            folder=None if self.folder is None else str(self.folder),
            drafts=CallDrafts(self.blobs, Secrets()) if by_reference else None,
        )

    async def go(
        self, command: str | None, spec: dict[str, Any] | None = None, **inputs: Any
    ) -> Outcome:
        return await outcome_of(self.tool.run(self.call(command, spec or {}, inputs)))

    def run(
        self, command: str | None, spec: dict[str, Any] | None = None, **inputs: Any
    ) -> Outcome:
        return self._runner.run(self.go(command, spec, **inputs))

    def rows(self, command: str | None, **inputs: Any) -> list[list[Any]]:
        """The values of a result that must be one."""
        outcome = self.run(command, **inputs)
        assert outcome.error is None, outcome.error
        return [list(row.values()) for row in outcome.result["rows"]]

    def together(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Run an async function on the tool's own loop."""

        async def main() -> Any:
            return await work()

        return self._runner.run(main())

    def close(self) -> None:
        self._runner.run(self.tool.close())
        self._runner.close()


async def outcome_of(running: Awaitable[Outcome]) -> Outcome:
    try:
        return await running
    except ToolError as error:
        return Outcome.failed(
            error.kind, error.message, retryable=error.retryable, details=error.details
        )
