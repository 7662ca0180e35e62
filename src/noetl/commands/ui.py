"""``noetl ui``: open the web UI of this home."""

from __future__ import annotations

import json
from pathlib import Path

import click

from noetl.client.http import Client
from noetl.commands.remote import executions
from noetl.commands.remote.choose_server import named_server, server_option
from noetl.commands.remote.web_page import find_or_start, make_link, open_browser
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.errors import ConfigError


@click.command("ui")
@click.argument("execution", metavar="[EXECUTION]", required=False)
@click.option("--port", type=click.IntRange(0, 65535), help="The server's port (8082).")
@click.option("--no-open", is_flag=True, help="Print the link, and open no browser.")
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(
    settings: Settings,
    execution: str | None,
    port: int | None,
    no_open: bool,
    server: str | None,
    as_json: bool,
) -> None:
    """Open the web UI: all executions of this home, those of noetl run too.

    The server of this home is used; without one, one is started in the background for
    you alone, and noetl server stop ends it. The printed link signs in once, within a
    minute. EXECUTION is the id of an execution to open, its beginning or its end, or
    last. Exit code: 0, or 2 if the server cannot start or has no such execution.

    \b
    Examples:
      noetl ui
      noetl ui --no-open
      noetl ui last
      noetl ui 66a4d7c1
    """
    client, started = named_server(settings, server), False
    if client is None:
        client, started = find_or_start(settings, port)
    page = "/" if execution is None else _page_of(client, execution)
    link = make_link(client, page)
    opened = not no_open and not as_json and open_browser(link)
    if as_json:
        document = {"url": link.url, "expires_at": link.expires_at, "started": started}
        click.echo(json.dumps(document))
        return
    click.echo(link.url)
    if opened:
        click.echo("opened in your browser", err=True)
    else:
        click.echo("open this link within a minute; it works once", err=True)
    if started:
        click.echo("a server was started: noetl server stop ends it", err=True)


def _page_of(client: Client, wanted: str) -> str:
    """Return the address of an execution's page. Raises ``ConfigError``."""
    if Path(wanted).suffix in (".yaml", ".yml"):
        message = f"{wanted} is a file, and EXECUTION is the id of an execution"
        raise ConfigError(f"{message}; to run it: noetl run {wanted} --ui")
    document = executions.show(client, wanted)
    return f"/executions/{document['execution_id']}"
