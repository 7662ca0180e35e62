"""Coverage of a playbook by its tests: steps, arcs and rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from noetl.dsl.model import Playbook
from noetl.engine.events import Event
from noetl.testing.run_case import Observation
from noetl.types import JSON

GROUPS = ("steps", "arcs", "rules")


class Target(msgspec.Struct, frozen=True):
    """Item that can be covered: a step that ran, an arc that fired, a rule that
    decided. ``key`` is its key in the log."""

    group: str
    key: tuple[str | int, ...]
    name: str
    line: int


def targets_of(playbook: Playbook) -> Iterator[Target]:
    """Yield all targets of a playbook, in the order of the text."""
    for step in playbook.workflow:
        yield Target("steps", (step.name,), step.name, step.at.mark[0])
        for number, gate in enumerate(step.admit or ()):
            guard = gate.when.source if gate.when is not None else "else"
            name = f"{step.name}: admission rule {number + 1}: {guard}"
            yield Target("rules", (step.name, number), name, gate.at.mark[0])
        for task in step.tasks:
            for number, rule in enumerate(task.rules or ()):
                guard = rule.when.source if rule.when is not None else "else"
                name = f"{step.name}.{task.label}: rule {number + 1}: {guard}"
                key = (step.name, task.label, number)
                yield Target("rules", key, name, rule.at.mark[0])
        for number, arc in enumerate(step.next.arcs if step.next is not None else ()):
            name = f"{step.name} → {arc.step}"
            yield Target("arcs", (step.name, number), name, arc.at.mark[0])


class Coverage:
    """Coverage of one playbook."""

    def __init__(self, playbook: Playbook) -> None:
        self.targets = tuple(targets_of(playbook))
        self._seen: set[tuple[str, tuple[str | int, ...]]] = set()

    def note(self, log: Iterable[Event]) -> None:
        for event in log:
            step, payload = event.step or "", event.payload
            match event.name:
                case "step.scheduled" | "step.skipped":
                    if event.name == "step.scheduled":
                        self._seen.add(("steps", (step,)))
                    if payload["admit"]["rule"] is not None:
                        self._seen.add(("rules", (step, payload["admit"]["rule"])))
                case "task.done":
                    rule = payload["directive"]["rule"]
                    if rule is not None:
                        key = (step, event.task_label or "", rule)
                        self._seen.add(("rules", key))
                case "next.evaluated":
                    for number, answer in enumerate(payload["arcs"]):
                        if answer["fired"]:
                            self._seen.add(("arcs", (step, number)))
                case _:
                    pass

    def missing(self) -> list[Target]:
        return [
            target
            for target in self.targets
            if (target.group, target.key) not in self._seen
        ]

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return the covered and the total count, by group."""
        missing = self.missing()
        counts: dict[str, tuple[int, int]] = {}
        for group in GROUPS:
            total = sum(target.group == group for target in self.targets)
            lacking = sum(target.group == group for target in missing)
            counts[group] = (total - lacking, total)
        return counts

    def as_json(self) -> dict[str, JSON]:
        document: dict[str, JSON] = {
            group: {"covered": covered, "total": total}
            for group, (covered, total) in self.counts().items()
        }
        document["missing"] = [
            {"kind": target.group[:-1], "name": target.name, "line": target.line}
            for target in self.missing()
        ]
        return document


class Coverages:
    """Coverage of all playbooks that were run, children included, by their paths."""

    def __init__(self) -> None:
        self.by_path: dict[str, Coverage] = {}

    def note(self, seen: Observation) -> None:
        self._of(seen.playbook).note(seen.log)
        for playbook, log in seen.others:
            self._of(playbook).note(log)

    def _of(self, playbook: Playbook) -> Coverage:
        if playbook.path not in self.by_path:
            self.by_path[playbook.path] = Coverage(playbook)
        return self.by_path[playbook.path]
