"""An execution as a value: its document, and access to its events and task logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import msgspec

from noetl.engine.execution_document import StepLine
from noetl.errors import NoetlError
from noetl.types import JSON


class Records(Protocol):
    """The stored events and task logs of an execution, here or on a server."""

    def events(self, execution_id: str) -> Iterator[dict[str, JSON]]:
        """Yield the stored events in log order."""
        ...

    def logs(self, execution_id: str) -> Iterator[dict[str, JSON]]:
        """Yield the stored lines of task logs in their order."""
        ...


class Execution:
    """One execution as it was when it was asked for; ``document`` is all of it.

    The members of ``document`` are those of ``noetl show --json``.
    """

    def __init__(self, document: Mapping[str, JSON], records: Records) -> None:
        self.document = dict(document)
        self._records = records

    @property
    def id(self) -> str:
        """The whole id."""
        return str(self.document["execution_id"])

    @property
    def status(self) -> str:
        """``completed``, ``failed``, ``cancelled``, ``paused``, ``running``, …"""
        return str(self.document["status"])

    @property
    def finished(self) -> bool:
        """Return whether nothing of it will run any more, unless it is retried."""
        return self.status in ("completed", "failed", "cancelled")

    @property
    def result(self) -> JSON:
        """The result; a value that is stored apart is a reference (``ref``)."""
        return self.document.get("result")

    @property
    def error(self) -> dict[str, JSON] | None:
        """The error with its ``kind`` and ``message``, if the execution failed."""
        return self.document.get("error")

    @property
    def ctx(self) -> dict[str, JSON]:
        """The variables that its steps have written."""
        return dict(self.document.get("ctx") or {})

    @property
    def steps(self) -> list[StepLine]:
        """The runs of steps in the order of their start."""
        return msgspec.convert(self.document.get("steps") or [], list[StepLine])

    @property
    def warnings(self) -> list[str]:
        """Warnings of its acceptance, such as unknown inputs."""
        return [str(each) for each in self.document.get("warnings") or ()]

    def events(self) -> Iterator[dict[str, JSON]]:
        """Yield the events that are stored by now, in log order."""
        return self._records.events(self.id)

    def logs(self) -> Iterator[dict[str, JSON]]:
        """Yield the lines that tasks printed and logged, as far as they are stored."""
        return self._records.logs(self.id)

    def raise_for_status(self) -> Execution:
        """Return the execution if it completed. Raises ``ExecutionFailed``."""
        if self.status != "completed":
            raise ExecutionFailed(self)
        return self

    def __repr__(self) -> str:
        name = self.document.get("playbook", {}).get("path") or "a playbook"
        return f"<Execution {self.id} of {name}: {self.status}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: status, steps and the time they took."""
        from noetl.sdk.display import html_of

        return html_of(self.document)


class ExecutionFailed(NoetlError):
    """The execution did not complete; ``execution`` is the whole of it."""

    def __init__(self, execution: Execution) -> None:
        error = execution.error or {}
        reason = f"{error['kind']}: {error.get('message')}" if error else ""
        if not reason and execution.status in ("paused", "quarantined", "running"):
            reason = f"continue it with: noetl resume {execution.id}"
        text = f"execution {execution.id}: {execution.status}"
        super().__init__(f"{text}: {reason}" if reason else text)
        self.execution = execution
        self.kind = error.get("kind")


class PlaybookInvalid(NoetlError):
    """The playbook is not valid; ``diagnostics`` has each mistake with its place."""

    def __init__(self, name: str, diagnostics: list[dict[str, JSON]]) -> None:
        errors = [each for each in diagnostics if each["severity"] == "error"]
        places = [
            f"{name}:{each['line']}:{each['column']}: {each['message']}"
            + (f" ({each['hint']})" if each.get("hint") else "")
            for each in errors
        ]
        super().__init__("\n".join(places) or f"{name} is not valid")
        self.diagnostics = diagnostics
