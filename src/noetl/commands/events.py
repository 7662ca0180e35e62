"""``noetl events``: the log of an execution, as it is."""

from __future__ import annotations

import asyncio
import json

import click
import msgspec

from noetl.commands.logs import find_execution
from noetl.home import Home


@click.command("events")
@click.argument("execution", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="One JSON document per line.")
def command(execution: str, as_json: bool) -> None:
    """Print the events of an execution in log order. A prefix of ID will do.

    \b
    Example:
      noetl events 019a8f --json
    """
    _, events = asyncio.run(find_execution(Home.of(), execution))
    for event in events:
        if as_json:
            click.echo(json.dumps(msgspec.to_builtins(event), ensure_ascii=False))
            continue
        where = event.iteration_id or event.step or ""
        task = f" {event.task_label}" if event.task_label else ""
        attempt = f" #{event.attempt}" if event.attempt else ""
        text = f"{event.name} {where}{task}{attempt}"
        click.echo(f"{event.seq:>6} {event.timestamp} {text}")
