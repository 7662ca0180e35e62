"""``noetl list``: the executions of this home, newest first."""

from __future__ import annotations

import asyncio
import json

import click
import msgspec

from noetl.commands.logs import list_executions
from noetl.engine.document import elapsed_ms
from noetl.home import Home
from noetl.ports import Summary
from noetl.types import JSON

_COLOURS = {"completed": "green", "failed": "red", "cancelled": "red"}


@click.command("list")
@click.option("--limit", default=20, show_default=True, help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(limit: int, as_json: bool) -> None:
    """List executions, the newest first.

    \b
    Example:
      noetl list --limit 5
    """
    found = asyncio.run(list_executions(Home.of(), limit))
    if as_json:
        executions = [_line(each) for each in found]
        click.echo(json.dumps({"executions": executions, "cursor": None}))
        return
    if not found:
        click.echo("no executions yet; start one with: noetl run playbook.yaml")
    for each in found:
        status = click.style(f"{each.status:<11}", fg=_COLOURS.get(each.status))
        name = each.playbook.get("path") or each.playbook.get("name")
        problem = f"  {each.error['message']}" if each.error else ""
        click.echo(f"{each.execution_id}  {status} {each.started_at}  {name}{problem}")


def _line(each: Summary) -> dict[str, JSON]:
    line: dict[str, JSON] = msgspec.to_builtins(each)
    line["duration_ms"] = elapsed_ms(each.started_at, each.finished_at or "")
    return line
