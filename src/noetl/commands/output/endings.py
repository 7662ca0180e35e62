"""What a completed execution passed over, as text and as an exit code."""

from __future__ import annotations

from collections.abc import Collection

import click
import msgspec

from noetl.commands.output.live.rows import one_line
from noetl.engine.endings import (
    NoArcFired,
    UndefinedName,
    ignored_words,
    not_reached_words,
)
from noetl.types import JSON

FAIL_ON = {"ignored": "ignored_errors", "unreached": "not_reached"}
"""Names that ``--fail-on`` takes, and the counts of the document that they mean."""
SHOWN = 3
SHOWN_NAMES = 10


def _read_fail_on(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> frozenset[str]:
    names = frozenset(filter(None, (text or "").replace(" ", "").split(",")))
    if unknown := sorted(names - FAIL_ON.keys()):
        raise click.BadParameter(f"unknown '{unknown[0]}'; known: {', '.join(FAIL_ON)}")
    return names


fail_on_option = click.option(
    "--fail-on",
    metavar="NAMES",
    callback=_read_fail_on,
    help=f"Exit with 1 if the execution completed with one of: {', '.join(FAIL_ON)}.",
)


def is_unwanted(document: dict[str, JSON], fail_on: Collection[str]) -> bool:
    """Return whether the execution passed over something that ``fail_on`` names."""
    counts = document.get("counts") or {}
    return any(counts.get(FAIL_ON[name]) for name in fail_on)


def has_endings(document: dict[str, JSON]) -> bool:
    """Return whether the execution passed over anything."""
    return is_unwanted(document, FAIL_ON)


def print_endings(document: dict[str, JSON]) -> None:
    """Print the ignored errors and the steps that no token reached."""
    counts = document.get("counts") or {}
    if number := counts.get("ignored_errors"):
        errors = document["ignored_errors"]
        _print_list(ignored_words(number), [_error_words(each) for each in errors])
    if number := counts.get("not_reached"):
        names = document["not_reached"]
        more = ", …" if number > SHOWN_NAMES else ""
        title = f"{not_reached_words(number)}: {', '.join(names[:SHOWN_NAMES])}{more}"
        lost = msgspec.convert(document["no_arc_fired"], list[NoArcFired])
        told = [each for each in lost if any(a["step"] in names for a in each.arcs)]
        _print_list(title, [f"{each.step}: {each.words()}" for each in told])

    if likely := _likely_mistakes(document):
        title = "a condition read a name that nothing gave"
        _print_list(title, [f"{_place(each)}: {each.words()}" for each in likely])


def _likely_mistakes(document: dict[str, JSON]) -> list[UndefinedName]:
    """Return the undefined names that are similar to existing ones, except those that
    are told with the arcs that did not fire.

    Other names may be optional, such as a key that an API leaves out.
    """
    found = msgspec.convert(document.get("undefined_names") or [], list[UndefinedName])
    told = {each["step_run_id"] for each in document.get("no_arc_fired") or ()}
    return [
        each
        for each in found
        if each.nearest and (each.task or each.step_run_id not in told)
    ]


def _place(name: UndefinedName) -> str:
    return f"{name.step}.{name.task}" if name.task else name.step


def next_commands(document: dict[str, JSON], *, refused: bool) -> list[str]:
    """Return the commands that continue, inspect or repeat an execution; none if the
    request was ``refused``."""
    execution_id, status = document["execution_id"], document["status"]
    if status in ("paused", "quarantined"):
        return [f"continue with: noetl resume {execution_id}"]
    if gone := document.get("interrupted"):
        return [f"continue with: {gone['resume']}"]
    if status != "failed" or refused:
        return []
    look = f"look: noetl show {execution_id} --html"
    return [look, f"again: noetl retry {execution_id}"]


def _error_words(error: dict[str, JSON]) -> str:
    path = "".join(f"[{index}]" for index in error["iteration"])
    place = f"{error['step']}{path}.{error['task']}"
    return f"{place}: {error['kind']}: {error['message']}"


def _print_list(title: str, lines: list[str]) -> None:
    click.echo(f"  {click.style(title, fg='yellow')}")
    for line in lines[:SHOWN]:
        click.echo(f"    {one_line(line)}")
    if len(lines) > SHOWN:
        click.echo("    … more with --json")
