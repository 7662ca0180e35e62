"""Ways to break a playbook: each rule and each arc, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

NEVER, ALWAYS = "{{ false }}", "{{ true }}"


class Mutant(NamedTuple):
    """A playbook with one thing changed, and in words which one."""

    name: str
    document: dict[str, Any]


def mutants(document: dict[str, Any]) -> Iterator[Mutant]:
    """Guards that never hold, always do, or say the opposite; other fallbacks."""
    for name, path, change in changes(document):
        copy = deepcopy(document)
        target = at(copy, path)
        target.update(change)
        if target.get("when") is None:
            target.pop("when", None)
        yield Mutant(name, copy)


Change = tuple[str, list[str | int], dict[str, Any]]


def changes(document: dict[str, Any]) -> Iterator[Change]:
    for name, path in rules(document):
        entry = at(document, path)
        if "else" in entry:
            then = entry["else"]["then"]
            swap = {key: opposite(then[key]) for key in ("do", "allow") if key in then}
            yield f"{name} (else): {swap}", [*path, "else", "then"], swap
        else:
            yield from guards(name, path, entry["when"])
            yield f"{name}: always", path, {"when": ALWAYS}
    for index, step in enumerate(document["workflow"]):
        for number, arc in enumerate(step.get("next", {}).get("arcs", ())):
            path = ["workflow", index, "next", "arcs", number]
            name = f"arc {step['step']} → {arc['step']} ({number + 1})"
            if "when" in arc:
                yield from guards(name, path, arc["when"])
                yield f"{name}: unguarded", path, {"when": None}
            else:
                yield f"{name}: never", path, {"when": NEVER}


def guards(name: str, path: list[str | int], when: str) -> Iterator[Change]:
    """A rule or an arc that never holds is as good as removed."""
    inside = when.strip().removeprefix("{{").removesuffix("}}").strip()
    yield f"{name}: never", path, {"when": NEVER}
    yield f"{name}: inverted", path, {"when": f"{{{{ not ({inside}) }}}}"}


def opposite(verdict: str | bool) -> str | bool:
    if isinstance(verdict, bool):
        return not verdict
    return "continue" if verdict == "fail" else "fail"


def rules(document: dict[str, Any]) -> Iterator[tuple[str, list[str | int]]]:
    for index, step in enumerate(document["workflow"]):
        here: list[str | int] = ["workflow", index]
        gate = step.get("spec", {}).get("policy", {}).get("admit", {})
        for number, _ in enumerate(gate.get("rules", ())):
            path = [*here, "spec", "policy", "admit", "rules", number]
            yield f"{step['step']} admission rule {number + 1}", path
        for label, way, task in tasks(step.get("tool", [])):
            yield from rules_of(f"{step['step']}.{label}", [*here, "tool", *way], task)
    for name, task in document.get("workbook", {}).items():
        yield from rules_of(f"workbook {name}", ["workbook", name], task)


def tasks(tool: Any) -> Iterator[tuple[str, list[str | int], dict[str, Any]]]:
    if isinstance(tool, dict):
        yield "task_1", [], tool
        return
    for number, entry in enumerate(tool):
        ((label, task),) = entry.items()
        yield label, [number, label], task


def rules_of(
    name: str, path: list[str | int], task: dict[str, Any]
) -> Iterator[tuple[str, list[str | int]]]:
    policy = task.get("spec", {}).get("policy", {})
    for number, _ in enumerate(policy.get("rules", ())):
        yield f"{name} rule {number + 1}", [*path, "spec", "policy", "rules", number]


def at(document: Any, path: list[str | int]) -> Any:
    for part in path:
        document = document[part]
    return document
