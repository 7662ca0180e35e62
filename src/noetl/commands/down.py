"""``noetl down``: stop the local cluster of this home."""

from __future__ import annotations

import json

import click

from noetl.commands.local.services import changing, parts_of
from noetl.commands.server import stop_server
from noetl.commands.settings import pass_settings
from noetl.commands.worker import stop_workers
from noetl.config import Settings
from noetl.local.home import Home
from noetl.local.process_files import forget_killed, members
from noetl.local.services.nats import NAME as NATS
from noetl.local.services.nats import Nats
from noetl.local.services.postgres import NAME as POSTGRES
from noetl.local.services.postgres import Postgres


@click.command("down")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(settings: Settings, as_json: bool) -> None:
    """Stop the local cluster of this home; its data is kept.

    Workers stop first: they finish their tasks, or `noetl up` repeats those later. A
    PostgreSQL or NATS that the settings name is not stopped.

    \b
    Example:
      noetl down
    """
    home = Home.of(settings)
    stopped = []

    def say(part: str, pid: int) -> None:
        stopped.append(pid)
        if not as_json:
            click.echo(f"{part:<11} stopped: process {pid}")

    with changing(home):
        for member in stop_workers(home, members(home.workers)):
            say("worker", member.pid)
        forget_killed(home.workers)
        server = stop_server(home)
        if server is not None:
            say("server", server.pid)
        for name, own in ((NATS, Nats(home)), (POSTGRES, Postgres(home))):
            part = own.stop()
            if part is not None:
                say(name, part.pid)
    if as_json:
        click.echo(json.dumps(parts_of(home, settings)))
    elif not stopped:
        click.echo(f"no service is running under {home.folder}")
