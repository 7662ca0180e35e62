"""Task rules and directives: their keys, what they change, an example of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from noetl.dsl.grammar.tasks import BACKOFFS, DIRECTIVES, THEN
from noetl.dsl.model import Directive
from pages.examples import Example, Turn, run_example, waits_of
from pages.markdown import table

INTRODUCTION = """
After each call, the rules of `task.spec.policy` say what happens next. They are read
from top to bottom, and the first rule whose `when` holds decides; `else` is the
fallback wherever it stands.

| policy | outcome ok | outcome error |
|---|---|---|
| none | `continue` | `fail` |
| no rule matches, there is an `else` | the `else` | the `else` |
| no rule matches, there is no `else` | `continue` | `continue` |

A rule sees `outcome`, `_prev`, `_task`, `_attempt`, `iter` in a loop, and what all
templates see. A rule whose template fails ends the pipeline with that error.
""".strip()

PATCHES = """
`set_iter` and `set_ctx` go with every directive, `retry`, `skip` and `fail` included.
Their values are rendered before anything is changed, then applied together. `iter` is
gone when its iteration ends; `ctx` is there for all steps that follow.
[How data moves](../explanation/data-flow.md#patches) says more.
""".strip()

BACKOFF = """
Before rerun `n`, counted from 1, a pipeline waits as `backoff` says. With `delay: 2`:
""".strip()

NAMES = """
`_prev` is null at the first task of a pipeline. `_attempt` counts the calls of one
visit: whoever comes to a task by anything but `retry` finds it at 1, so pages do not
share attempts.
""".strip()


def directives() -> str:
    """Return the page of task rules: keys, effects, and an example of each."""
    effects = [
        (f"[`{name}`](#{name})", form.then, form.prev, form.attempt)
        for name, form in DIRECTIVES.items()
    ]
    parts = [
        INTRODUCTION,
        "## Keys of `then`",
        table("| key | value | default | of | meaning |", keys()),
        PATCHES,
        "## What they change",
        table("| do | goes on with | `_prev` is then | `_attempt` is then |", effects),
        NAMES,
        "## Backoff",
        BACKOFF,
        table("| backoff | wait | rerun 1 | 2 | 3 | 4 |", backoffs()),
    ]
    for name, form in DIRECTIVES.items():
        parts += [f"## {name}", form.doc, *worked(name, run_example(name))]
    return "\n\n".join(parts)


def keys() -> Iterator[tuple[object, ...]]:
    owners = {key: f"`{do}`" for do, form in DIRECTIVES.items() for key in form.keys}
    defaults = {
        field.name: field.default for field in msgspec.structs.fields(Directive)
    }
    for key, field in THEN.fields.items():
        default = defaults[key]
        missing = default is None or default is msgspec.NODEFAULT
        shown = "" if missing else f"`{default or 0}`"
        name = f"`{key}`" + (" (required)" if field.missing else "")
        yield name, field.shape, shown, owners.get(key, "all"), field.doc


def backoffs() -> Iterator[tuple[object, ...]]:
    for name, formula in BACKOFFS.items():
        yield f"`{name}`", f"`{formula}`", *map(seconds, waits_of(name, reruns=4))


def worked(name: str, example: Example) -> Iterator[str]:
    yield f"```yaml\n{example.text.strip()}\n```"
    rows = (row_of(turn) for turn in example.turns)
    yield table("| task | attempt | inputs | outcome | verdict |", rows)
    waits = f" after waits of {seconds(example.seconds)}" if example.seconds else ""
    ctx = f", `ctx` is {code(example.ctx)}" if example.ctx else ""
    yield f"It ends {example.status}{waits}: the result is {code(example.result)}{ctx}."


def row_of(turn: Turn) -> tuple[object, ...]:
    outcome, directive = turn.outcome, turn.directive
    if turn.inputs is None:
        shown, answer = "not called", ""
    else:
        inputs = {key: value for key, value in turn.inputs.items() if key != "url"}
        shown = code(inputs) if inputs else ""
        answer = f"ok: {code(outcome['result'])}"
        if outcome["error"]:
            answer = f"error: `{outcome['error']['kind']}`"
    verdict = f"`{directive['do']}`"
    if directive.get("to"):
        verdict += f" to `{directive['to']}`"
    if directive.get("delay"):
        verdict += f" in {seconds(directive['delay'])}"
    patches = (f"`{name}` {code(patch)}" for name, patch in turn.patch.items())
    return turn.task, turn.attempt, shown, answer, ", ".join([verdict, *patches])


def seconds(number: float) -> str:
    return f"{number:g} s"


def code(value: Any) -> str:
    return f"`{json.dumps(value, ensure_ascii=False)}`"
