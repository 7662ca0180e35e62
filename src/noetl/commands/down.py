"""``noetl down``: stop the cluster of this home."""

from __future__ import annotations

import json

import click

from noetl.cluster.nats import NAME as NATS
from noetl.cluster.nats import Nats
from noetl.cluster.postgres import NAME as POSTGRES
from noetl.cluster.postgres import Postgres
from noetl.commands.parts import changing, parts_of
from noetl.commands.server import stop_server
from noetl.commands.worker import stop_workers
from noetl.crew import members
from noetl.home import Home


@click.command("down")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> None:
    """Stop the cluster of this home; its data is kept.

    Workers first: what they do is finished, or done again after `noetl up`. What the
    settings name is left alone.

    \b
    Example:
      noetl down
    """
    home = Home.of()
    stopped = []

    def say(part: str, pid: int) -> None:
        stopped.append(pid)
        if not as_json:
            click.echo(f"{part:<11} stopped: process {pid}")

    with changing(home):
        for member in stop_workers(members(home.workers)):
            say("worker", member.pid)
        server = stop_server()
        if server is not None:
            say("server", server.pid)
        for name, own in ((NATS, Nats(home)), (POSTGRES, Postgres(home))):
            part = own.stop()
            if part is not None:
                say(name, part.pid)
    if as_json:
        click.echo(json.dumps(parts_of(home)))
    elif not stopped:
        click.echo(f"nothing runs under {home.folder}")
