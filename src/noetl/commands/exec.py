"""``noetl exec``: a server executes a registered playbook."""

from __future__ import annotations

import asyncio
import json
from typing import get_args

import click

from noetl.commands.progress import choose_progress
from noetl.commands.remote import ask, watch
from noetl.commands.run import finish, read_inputs
from noetl.commands.targets import need_server, server_option
from noetl.engine.concurrency import MOST, OnLimit
from noetl.types import JSON


@click.command("exec")
@click.argument("playbook", metavar="PATH[@VERSION]")
@click.option("--set", "settings", multiple=True, metavar="A.B=V", help="Set an input.")
@click.option("--workload", metavar="FILE", help="Inputs, as YAML or JSON.")
@click.option("--key", metavar="KEY", help="Idempotency key: the same, once.")
@click.option(
    "--concurrency",
    metavar="KEY[=N]",
    help="At most N (1) with this key are under way.",
)
@click.option(
    "--on-limit",
    type=click.Choice(get_args(OnLimit)),
    help="What becomes of one more.  [default: queue]",
)
@click.option("--wait", is_flag=True, help="Follow it to its end.")
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--no-progress", is_flag=True, help="Say nothing while it runs.")
def command(
    playbook: str,
    settings: tuple[str, ...],
    workload: str | None,
    key: str | None,
    concurrency: str | None,
    on_limit: OnLimit | None,
    wait: bool,
    server: str | None,
    as_json: bool,
    no_progress: bool,
) -> None:
    """Execute a registered playbook on a server; the latest version, if none is named.

    Exit code: 0 accepted (with --wait: completed), 1 failed or cancelled, 2 the call is
    wrong, 3 no server can be reached, 130 interrupted, or set aside by the server.

    \b
    Examples:
      noetl exec sales/orders --set region=eu
      noetl exec sales/orders@1.2 --wait
      noetl exec sales/orders --concurrency eu=2 --on-limit reject
    """
    client = need_server(server)
    path, at, version = playbook.partition("@")
    body: dict[str, JSON] = {"path": path, "workload": read_inputs(workload, settings)}
    if at:
        body["version"] = version
    if key is not None:
        body["idempotency_key"] = key
    if concurrency is not None or on_limit is not None:
        body["concurrency"] = _places(concurrency, on_limit)
    started = ask(client, "", body, as_json=as_json)
    if wait:
        progress = choose_progress(quiet=no_progress, as_json=as_json)
        document = asyncio.run(watch(client, started["execution_id"], progress))
        finish(document, as_json=as_json)
    if as_json:
        click.echo(json.dumps(started))
        return
    click.echo(f"{started['status']}: {started['execution_id']}")
    if started["status"] == "waiting":
        click.echo(f"  what it waits for: noetl show {started['execution_id']}")
    click.echo(f"  follow it with: noetl events {started['execution_id']} --follow")


def _places(text: str | None, on_limit: OnLimit | None) -> dict[str, JSON]:
    """``KEY`` or ``KEY=N``; a key may hold a ``=`` itself, if a number follows."""
    if text is None:
        raise click.UsageError("--on-limit goes with --concurrency KEY")
    key, equals, number = text.rpartition("=")
    if not equals:
        key, number = text, "1"
    if not (key and number.isascii() and number.isdigit() and 1 <= int(number) <= MOST):
        message = f"expected KEY or KEY=N with N from 1 to {MOST:,}, found '{text}'"
        raise click.BadParameter(message, param_hint="--concurrency")
    places: dict[str, JSON] = {"key": key, "limit": int(number)}
    return places if on_limit is None else {**places, "on_limit": on_limit}
