"""The page about events: the declarations of `noetl.engine.events`, as tables."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any

from noetl.engine.events import (
    EVENTS,
    EventType,
    Payload,
    envelope,
    execution,
    parts,
    steps,
    tasks,
)
from pages.markdown import table

GROUPS = (envelope, execution, steps, tasks)


def events() -> str:
    """Return the page of the envelope, of all event names, and of each payload."""
    rows = [
        (
            f"[`{name}`](#{name.replace('.', '')})",
            kind.entity,
            ", ".join(kind.sources or (kind.source,)),
            ", ".join(kind.statuses or (kind.status,)),
            kind.sentence,
        )
        for name, kind in EVENTS.items()
    ]
    parts = [
        "What the log holds, in the order of `seq`. All events have one envelope; the "
        "ids are null where they do not apply.",
        "## The envelope",
        table("| member | meaning |", ((f"`{n}`", d) for n, d in ENVELOPE.items())),
        "## All events",
        "A worker reports what it did; a run that needs no worker (a step that only "
        "routes, a loop as a whole) is started and ended by the server.",
        table("| name | entity | source | status | when |", rows),
        "A payload is at most 64 KiB. Values that would make it larger are stored "
        "elsewhere and replaced by references, the largest first; which ones is said "
        "in the member `spilled`, that any payload may have.",
    ]
    for name, kind in EVENTS.items():
        parts += [f"### {name}", f"{kind.sentence} {members_of(kind)}"]
    return "\n\n".join(parts)


def members_of(kind: EventType[Any]) -> str:
    rows = (
        (f"`{name}`" + ("" if always else " (not always)"), meaning)
        for name, always, meaning in members(kind)
    )
    return "Its payload:\n\n" + table("| member | meaning |", rows)


def members(kind: EventType[Any]) -> Iterator[tuple[str, bool, str]]:
    """Return rows of the members of one payload: name, presence and meaning."""
    payload = kind.payload
    meanings = MEANINGS[payload.__name__]
    required: frozenset[str] = payload.__required_keys__
    for name in payload.__annotations__:
        if name not in Payload.__annotations__:
            yield name, name in required, meanings[name]


def documented(module: ModuleType) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """Return each type of the module: its name, its bases, and its members' meanings.

    The text under a member is its meaning. A type that is made by a call has one
    member, and the text under it.
    """
    body = ast.parse(inspect.getsource(module)).body
    for node, below in pairwise(body):
        match node:
            case ast.ClassDef():
                found = {
                    member.target.id: text_of(under)
                    for member, under in pairwise(node.body)
                    if isinstance(member, ast.AnnAssign)
                    and isinstance(member.target, ast.Name)
                }
                yield node.name, [ast.unparse(base) for base in node.bases], found
            case ast.Assign(
                targets=[ast.Name(name)],
                value=ast.Call(args=[_, ast.Dict(keys=[ast.Constant(member)])]),
            ):
                yield name, [], {str(member): text_of(below)}
            case _:
                pass


def text_of(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return " ".join(str(node.value.value).split())
    return ""


def all_meanings() -> dict[str, dict[str, str]]:
    """Return the meanings by type, with those of its bases first."""
    meanings: dict[str, dict[str, str]] = {}
    for module in (parts, *GROUPS):
        for name, bases, own in documented(module):
            meanings[name] = {}
            for base in bases:
                meanings[name] |= meanings.get(base, {})
            meanings[name] |= own
    return meanings


MEANINGS = all_meanings()
ENVELOPE = MEANINGS["Event"]
