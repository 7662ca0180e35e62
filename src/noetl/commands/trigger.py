"""``noetl trigger``: what starts executions by itself."""

from __future__ import annotations

import json
import sys

import click

from noetl.client import Client
from noetl.commands.reading import read_file
from noetl.commands.remote import whole_id
from noetl.commands.targets import need_server, server_option
from noetl.errors import ConfigError
from noetl.types import JSON

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("trigger")
def command() -> None:
    """Make, list, pause, fire and delete what starts executions by itself.

    A webhook, a schedule, or the end of another execution. Each of the commands takes
    --json.

    \b
    Example:
      noetl trigger create nightly --playbook sales/orders --cron "0 2 * * *"
    """


@command.command("create")
@click.argument("name", required=False)
@click.option("-f", "--file", metavar="FILE", help="Read the trigger from YAML.")
@click.option("--playbook", metavar="PATH[@VERSION]", help="What it starts.")
@click.option(
    "--set", "settings", multiple=True, metavar="A=V", help="An input, or a template."
)
@click.option("--cron", metavar="LINE", help="A schedule: five fields of cron.")
@click.option("--zone", metavar="ZONE", help="Its time zone; UTC without.")
@click.option(
    "--catch-up",
    type=click.Choice(["none", "last", "all"]),
    help="Which slots of an outage are run; the last without.",
)
@click.option("--no-overlap", is_flag=True, help="One at a time: the next one waits.")
@click.option("--jitter", metavar="TIME", help="Spread its slots over so long: 5m.")
@click.option("--webhook", is_flag=True, help="Started by deliveries over HTTP.")
@click.option(
    "--verify",
    type=click.Choice(["token", "signature"]),
    help="How a sender proves itself; by a token without.",
)
@click.option("--header", metavar="NAME", help="By which header it does so.")
@click.option("--key", metavar="TEMPLATE", help="What makes deliveries the same.")
@click.option("--rate", metavar="N/UNIT", help="So many deliveries, as 10/m (s, m, h).")
@click.option(
    "--secret-file", metavar="FILE", help="What a sender signs with; - is stdin."
)
@click.option("--finished", metavar="PATH", help="Started by ends of these: sales/*.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(["completed", "failed", "cancelled"]),
    help="Which ends; completed without. May be repeated.",
)
@click.option("--replace", is_flag=True, help="Change the one of that name.")
@server_option
@_json
def create(
    name: str | None,
    file: str | None,
    settings: tuple[str, ...],
    secret_file: str | None,
    replace: bool,
    server: str | None,
    as_json: bool,
    **options: JSON,
) -> None:
    """Make a trigger, from a file or from options.

    The token of a webhook is printed this once, and kept nowhere. The same trigger
    again changes nothing.

    \b
    Examples:
      noetl trigger create -f nightly.yaml
      noetl trigger create nightly --playbook sales/orders --cron "0 2 * * *" \\
        --zone Europe/Berlin --set 'day={{ slot.date }}'
      noetl trigger create push --playbook ci/build --webhook \\
        --key '{{ payload.id }}' --set 'ref={{ payload.ref }}'
      noetl trigger create report --playbook sales/report --finished sales/orders
    """
    from noetl.commands.trigger_files import make_trigger, members_of, read_trigger

    if file is not None:
        given = [n for n, value in options.items() if value not in (None, False, ())]
        if name is not None or settings or given:
            raise ConfigError(
                "--file says it all: no name and no other options go with it"
            )
        trigger = read_trigger(file)
    else:
        trigger = make_trigger(members_of(name, options), settings)
    body: dict[str, JSON] = {"trigger": trigger, "replace": replace}
    if secret_file is not None:
        body["secret"] = read_file(secret_file).content.decode().strip()
    client = need_server(server)
    made = client.post("/api/triggers", body)
    if as_json:
        click.echo(json.dumps(made, ensure_ascii=False))
        return
    click.echo(f"{_done(made, replace)}: {_words(made)}")
    _tell_sender(client, made)


@command.command("list")
@server_option
@_json
def list_(server: str | None, as_json: bool) -> None:
    """List triggers: what they start, and when.

    \b
    Example:
      noetl trigger list
    """
    answer = need_server(server).get("/api/triggers")
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
        return
    for line in answer["triggers"]:
        click.echo(_words(line))
    if not answer["triggers"]:
        click.echo("no triggers; begin with: noetl trigger create --help")


@command.command("show")
@click.argument("name")
@server_option
@_json
def show(name: str, server: str | None, as_json: bool) -> None:
    """Show a trigger as it could be in a file, and its next and last slot.

    \b
    Example:
      noetl trigger show nightly > nightly.yaml
    """
    import yaml

    client = need_server(server)
    line = client.get(f"/api/triggers/{name}")
    if as_json:
        click.echo(json.dumps(line, ensure_ascii=False))
        return
    text = yaml.safe_dump(line["definition"], sort_keys=False, allow_unicode=True)
    click.echo(text, nl=False)
    click.echo(_words(line), err=True)
    if line["last"] is not None:
        last = line["last"]
        click.echo(f"last slot: {last['slot']}, {last['execution_id']}", err=True)


@command.command("pause")
@click.argument("name")
@server_option
@_json
def pause(name: str, server: str | None, as_json: bool) -> None:
    """Start nothing by it until it is resumed; deliveries are refused.

    \b
    Example:
      noetl trigger pause nightly
    """
    line = need_server(server).post(f"/api/triggers/{name}/pause")
    _report(line, "paused", as_json=as_json)


@command.command("resume")
@click.argument("name")
@server_option
@_json
def resume(name: str, server: str | None, as_json: bool) -> None:
    """From now on it starts executions again; see noetl backfill for what it missed.

    \b
    Example:
      noetl trigger resume nightly
    """
    line = need_server(server).post(f"/api/triggers/{name}/resume")
    _report(line, "resumed", as_json=as_json)


@command.command("delete")
@click.argument("name")
@server_option
@_json
def delete(name: str, server: str | None, as_json: bool) -> None:
    """Delete a trigger and its backfills; executions stay.

    \b
    Example:
      noetl trigger delete nightly
    """
    need_server(server).call("DELETE", f"/api/triggers/{name}")
    click.echo(json.dumps({"name": name}) if as_json else f"deleted: {name}")


@command.command("fire")
@click.argument("name")
@click.option("--slot", metavar="TIME", help="Of a schedule: this slot, once for all.")
@click.option("--payload", metavar="FILE", help="Of a webhook: a delivery, as JSON.")
@click.option("--execution", metavar="ID", help="Of ends: as if this one had ended.")
@click.option("--key", metavar="KEY", help="The same key, once.")
@server_option
@_json
def fire(
    name: str,
    slot: str | None,
    payload: str | None,
    execution: str | None,
    key: str | None,
    server: str | None,
    as_json: bool,
) -> None:
    """Start what a trigger starts, now, also while it is paused.

    \b
    Examples:
      noetl trigger fire nightly --slot 2026-01-31T02:00
      noetl trigger fire push --payload delivery.json
    """
    client = need_server(server)
    body: dict[str, JSON] = {"slot": slot, "key": key}
    if execution is not None:
        body["execution_id"] = whole_id(client, execution)
    if payload is not None:
        try:
            body["payload"] = json.loads(read_file(payload).content)
        except ValueError as error:
            raise ConfigError(f"{payload}: no JSON: {error}") from None
    started = client.post(f"/api/triggers/{name}/fire", body)
    if as_json:
        click.echo(json.dumps(started))
        return
    click.echo(f"{started['status']}: {started['execution_id']}")


def _done(made: dict[str, JSON], replace: bool) -> str:
    if made["created"]:
        return "created"
    return "replaced" if replace else "is there already"


def _tell_sender(client: Client, made: dict[str, JSON]) -> None:
    if made["hook"] is None:
        return
    click.echo(f"  deliveries go to: {client.url}{made['hook']}")
    if made["token"] is not None:
        proof = made["definition"]["webhook"]["verify"]
        what = "the token" if proof == "token" else "the secret to sign with"
        click.echo(f"  {what}, shown this once: {made['token']}")
    sys.stdout.flush()


def _report(line: dict[str, JSON], word: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(line, ensure_ascii=False))
    else:
        click.echo(f"{word}: {_words(line)}")


def _words(line: dict[str, JSON]) -> str:
    definition = line["definition"]
    match line["kind"]:
        case "schedule":
            schedule = definition["schedule"]
            when = f"{schedule['cron']} {schedule['zone']}"
            if line["next_at"] is not None:
                when += f", next {line['next_at']}"
        case "webhook":
            when = f"webhook, by {definition['webhook']['verify']}"
        case _:
            finished = definition["finished"]
            when = f"when {finished['path']} is {' or '.join(finished['status'])}"
    state = ", paused" if line["paused"] else ""
    return f"{line['name']} → {line['playbook']} ({when}{state})"
