"""``noetl exec``: a server executes a registered playbook."""

from __future__ import annotations

import asyncio
import json

import click

from noetl.commands.progress import choose_progress
from noetl.commands.remote import ask, watch
from noetl.commands.run import finish, read_inputs
from noetl.commands.targets import need_server, server_option
from noetl.types import JSON


@click.command("exec")
@click.argument("playbook", metavar="PATH[@VERSION]")
@click.option("--set", "settings", multiple=True, metavar="A.B=V", help="Set an input.")
@click.option("--workload", metavar="FILE", help="Inputs, as YAML or JSON.")
@click.option("--key", metavar="KEY", help="Idempotency key: the same, once.")
@click.option("--wait", is_flag=True, help="Follow it to its end.")
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--no-progress", is_flag=True, help="Say nothing while it runs.")
def command(
    playbook: str,
    settings: tuple[str, ...],
    workload: str | None,
    key: str | None,
    wait: bool,
    server: str | None,
    as_json: bool,
    no_progress: bool,
) -> None:
    """Execute a registered playbook on a server; the latest version, if none is named.

    Exit code: 0 accepted (with --wait: completed), 1 failed or cancelled, 2 the call is
    wrong, 3 no server can be reached.

    \b
    Examples:
      noetl exec sales/orders --set region=eu
      noetl exec sales/orders@1.2 --wait
    """
    client = need_server(server)
    path, at, version = playbook.partition("@")
    body: dict[str, JSON] = {"path": path, "workload": read_inputs(workload, settings)}
    if at:
        body["version"] = version
    if key is not None:
        body["idempotency_key"] = key
    started = ask(client, "", body, as_json=as_json)
    if wait:
        progress = choose_progress(quiet=no_progress, as_json=as_json)
        document = asyncio.run(watch(client, started["execution_id"], progress))
        finish(document, as_json=as_json)
    if as_json:
        click.echo(json.dumps(started))
        return
    click.echo(f"{started['status']}: {started['execution_id']}")
    click.echo(f"  follow it with: noetl events {started['execution_id']} --follow")
