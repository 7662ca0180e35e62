"""What the tests of a playbook have seen of it: its steps, arcs and rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from noetl.dsl.model import Playbook
from noetl.engine.events import Event
from noetl.testing.observation import Observation
from noetl.types import JSON

GROUPS = ("steps", "arcs", "rules")


class Spot(msgspec.Struct, frozen=True):
    """Something that can be covered: a step that ran, an arc that fired, a rule that
    decided. ``key`` is how the log names it."""

    group: str
    key: tuple[str | int, ...]
    name: str
    line: int


def spots_of(playbook: Playbook) -> Iterator[Spot]:
    """All that there is, in the order of the text."""
    for step in playbook.workflow:
        yield Spot("steps", (step.name,), step.name, step.at.mark[0])
        for number, gate in enumerate(step.admit or ()):
            guard = gate.when.source if gate.when is not None else "else"
            name = f"{step.name}: admission rule {number + 1}: {guard}"
            yield Spot("rules", (step.name, number), name, gate.at.mark[0])
        for task in step.tasks:
            for number, rule in enumerate(task.rules or ()):
                guard = rule.when.source if rule.when is not None else "else"
                name = f"{step.name}.{task.label}: rule {number + 1}: {guard}"
                key = (step.name, task.label, number)
                yield Spot("rules", key, name, rule.at.mark[0])
        for number, arc in enumerate(step.next.arcs if step.next is not None else ()):
            name = f"{step.name} → {arc.step}"
            yield Spot("arcs", (step.name, number), name, arc.at.mark[0])


class Coverage:
    """One playbook, and what of it the runs have seen."""

    def __init__(self, playbook: Playbook) -> None:
        self.spots = tuple(spots_of(playbook))
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

    def missing(self) -> list[Spot]:
        return [spot for spot in self.spots if (spot.group, spot.key) not in self._seen]

    def counts(self) -> dict[str, tuple[int, int]]:
        """Covered, and all, by group."""
        missing = self.missing()
        counts: dict[str, tuple[int, int]] = {}
        for group in GROUPS:
            total = sum(spot.group == group for spot in self.spots)
            lacking = sum(spot.group == group for spot in missing)
            counts[group] = (total - lacking, total)
        return counts

    def as_json(self) -> dict[str, JSON]:
        document: dict[str, JSON] = {
            group: {"covered": covered, "total": total}
            for group, (covered, total) in self.counts().items()
        }
        document["missing"] = [
            {"kind": spot.group[:-1], "name": spot.name, "line": spot.line}
            for spot in self.missing()
        ]
        return document


class Coverages:
    """Of all playbooks that were run, children included, by their paths."""

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
