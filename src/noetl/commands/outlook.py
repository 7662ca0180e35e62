"""What a fork would keep, and what it would do: ``--dry-run``."""

from __future__ import annotations

import click

from noetl.commands.printing import count_of, origin_words
from noetl.types import JSON


def print_outlook(outlook: dict[str, JSON]) -> None:
    click.echo(f"a fork of {origin_words(outlook['forked_from'])} would")
    for each in outlook["kept"]:
        times = f", {count_of(each['runs'], 'run')}" if each["runs"] > 1 else ""
        click.echo(f"  keep   {each['step']}: {each['status']}{times}")
    for each in outlook["again"]:
        click.echo(f"  go on  {each['step']}: {_activity(each)}")
    for each in outlook["next"]:
        click.echo(f"  begin  {each['step']}")
    for where, edits in (("workload", "workload"), ("ctx", "set_ctx")):
        if outlook[edits]:
            click.echo(f"  with other values in {where}: {', '.join(outlook[edits])}")
    if outlook["playbook"] is not None:
        about = outlook["playbook"]
        version = f" {about['version']}" if about["version"] else ""
        click.echo(f"  with the playbook {about['path']}{version}")
    click.echo("nothing was started")


def _activity(each: dict[str, JSON]) -> str:
    counts = each["iterations"]
    if counts is None:
        if each["task"] is None:
            return "it has ended, its arcs are judged again"
        return f"task '{each['task']}' begins again"
    text = f"{counts['kept']:,} of {count_of(counts['total'], 'iteration')} are kept"
    if counts["again"]:
        text += f", {counts['again']:,} begin again"
    return text
