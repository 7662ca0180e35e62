"""``noetl backfill``: the missing slots of a schedule."""

from __future__ import annotations

import json
import sys
import time

import click

from noetl.client.http import Client
from noetl.commands.remote.choose_server import need_server, server_option
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.types import JSON

POLL_INTERVAL_S = 0.5
"""Seconds between two polls of ``--wait``."""

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("backfill")
def command() -> None:
    """Run the slots of a schedule that have no execution yet.

    Each of the commands takes --json.

    \b
    Example:
      noetl backfill start nightly --since 2026-01-01 --until 2026-02-01
    """


@command.command("start")
@click.argument("trigger")
@click.option("--since", required=True, metavar="TIME", help="The first day or time.")
@click.option("--until", metavar="TIME", help="The end, excluded (default: now).")
@click.option(
    "--at-once",
    type=click.IntRange(1, 50),
    default=4,
    show_default=True,
    help="The maximum number of executions that run at the same time.",
)
@click.option(
    "--failed", is_flag=True, help="Also run slots again whose latest run failed."
)
@click.option("--wait", is_flag=True, help="Wait until the backfill has finished.")
@server_option
@_json
@pass_settings
def start(
    settings: Settings,
    trigger: str,
    since: str,
    until: str | None,
    at_once: int,
    failed: bool,
    wait: bool,
    server: str | None,
    as_json: bool,
) -> None:
    """Run the missing slots of a schedule. Days and times are in its time zone.

    Exit code with --wait: 0 all completed, 1 some failed.

    \b
    Examples:
      noetl backfill start nightly --since 2026-01-01 --until 2026-02-01
      noetl backfill start nightly --since 2026-01-01 --at-once 1 --wait
      noetl backfill start nightly --since 2026-01-01 --failed
    """
    client = need_server(settings, server)
    body: dict[str, JSON] = {
        "trigger": trigger,
        "since": since,
        "until": until,
        "at_once": at_once,
        "failed": failed,
    }
    line = client.post("/api/backfills", body)
    if wait:
        line = _wait(client, line)
    _report(line, as_json=as_json)
    sys.exit(1 if wait and line["failed"] else 0)


@command.command("list")
@click.option("--trigger", metavar="NAME", help="Only backfills of this trigger.")
@server_option
@_json
@pass_settings
def list_(
    settings: Settings, trigger: str | None, server: str | None, as_json: bool
) -> None:
    """List backfills, the newest first.

    \b
    Example:
      noetl backfill list --trigger nightly
    """
    answer = need_server(settings, server).get("/api/backfills", trigger=trigger)
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
        return
    for line in answer["backfills"]:
        click.echo(_words(line))
    if not answer["backfills"]:
        click.echo("no backfills; start one with: noetl backfill start --help")


@command.command("status")
@click.argument("backfill_id", metavar="ID")
@server_option
@_json
@pass_settings
def status(
    settings: Settings, backfill_id: str, server: str | None, as_json: bool
) -> None:
    """Show the progress of a backfill.

    \b
    Example:
      noetl backfill status ID
    """
    line = need_server(settings, server).get(f"/api/backfills/{backfill_id}")
    _report(line, as_json=as_json)


@command.command("stop")
@click.argument("backfill_id", metavar="ID")
@server_option
@_json
@pass_settings
def stop(
    settings: Settings, backfill_id: str, server: str | None, as_json: bool
) -> None:
    """Start no further slots of a backfill; executions that are running continue.

    \b
    Example:
      noetl backfill stop ID
    """
    line = need_server(settings, server).post(f"/api/backfills/{backfill_id}/stop")
    _report(line, as_json=as_json)


@command.command("resume")
@click.argument("backfill_id", metavar="ID")
@click.option("--wait", is_flag=True, help="Wait until the backfill has finished.")
@server_option
@_json
@pass_settings
def resume(
    settings: Settings, backfill_id: str, wait: bool, server: str | None, as_json: bool
) -> None:
    """Continue a stopped backfill with its remaining slots.

    \b
    Example:
      noetl backfill resume ID --wait
    """
    client = need_server(settings, server)
    line = client.post(f"/api/backfills/{backfill_id}/resume")
    if wait:
        line = _wait(client, line)
    _report(line, as_json=as_json)
    sys.exit(1 if wait and line["failed"] else 0)


def _wait(client: Client, line: dict[str, JSON]) -> dict[str, JSON]:
    """Poll the backfill until it is no longer running; return its document."""
    backfill_id, option = line["backfill_id"], client.option
    try:
        while line["state"] == "running":
            time.sleep(POLL_INTERVAL_S)
            line = client.get(f"/api/backfills/{backfill_id}")
    except KeyboardInterrupt:
        look = f"noetl backfill status {backfill_id}{option}"
        halt = f"noetl backfill stop {backfill_id}{option}"
        click.echo(f"left: the backfill goes on at {client.url}", err=True)
        click.echo(f"  look: {look}, stop: {halt}", err=True)
        sys.exit(130)
    return line


def _report(line: dict[str, JSON], *, as_json: bool) -> None:
    click.echo(json.dumps(line, ensure_ascii=False) if as_json else _words(line))


def _words(line: dict[str, JSON]) -> str:
    counts = [f"{line['total']} slots: {line['present']} already ran"]
    counts += [
        f"{line[name]} {name}"
        for name in ("completed", "failed", "running", "left")
        if line[name] or name == "completed"
    ]
    return (
        f"{line['state']}: {line['trigger']} from {line['since']} to {line['until']} "
        f"({', '.join(counts)}) {line['backfill_id']}"
    )
