"""``noetl trigger``: webhooks, schedules and completion triggers."""

from __future__ import annotations

import json
import sys

import click

from noetl.client.http import Client
from noetl.commands.files.playbook_files import read_file
from noetl.commands.output import value_text
from noetl.commands.output.diagnostics import print_warnings
from noetl.commands.remote.choose_server import need_server, server_option
from noetl.commands.remote.executions import whole_id
from noetl.commands.settings import label_option, pass_settings
from noetl.config import Settings
from noetl.errors import ConfigError
from noetl.types import JSON

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("trigger")
def command() -> None:
    """Create, list, pause, fire and delete triggers, which start executions.

    A trigger is a webhook, a schedule, or the end of another execution. Each of the
    commands takes --json.

    \b
    Example:
      noetl trigger create nightly --playbook sales/orders --cron "0 2 * * *"
    """


@command.command("create")
@click.argument("name", required=False)
@click.option("-f", "--file", metavar="FILE", help="Read the trigger from YAML.")
@click.option("--playbook", metavar="PATH[@VERSION]", help="The playbook to start.")
@click.option(
    "--set", "sets", multiple=True, metavar="A=V", help="An input, or a template."
)
@click.option("--cron", metavar="LINE", help="A schedule: the five fields of cron.")
@click.option("--zone", metavar="ZONE", help="The time zone of the schedule (UTC).")
@click.option(
    "--catch-up",
    type=click.Choice(["none", "last", "all"]),
    help="The slots of an outage that run (default: the last).",
)
@click.option("--no-overlap", is_flag=True, help="One at a time: the next one waits.")
@click.option("--jitter", metavar="TIME", help="Spread the starts over this time: 5m.")
@click.option("--webhook", is_flag=True, help="Start on deliveries over HTTP.")
@click.option(
    "--verify",
    type=click.Choice(["token", "signature"]),
    help="The proof of a sender's identity (default: token).",
)
@click.option("--header", metavar="NAME", help="The header that carries the proof.")
@click.option("--key", metavar="TEMPLATE", help="Deliveries with one key start once.")
@click.option("--rate", metavar="N/UNIT", help="Maximum deliveries: 10/m (s, m, h).")
@click.option(
    "--secret-file", metavar="FILE", help="The secret of the sender; - for stdin."
)
@click.option("--finished", metavar="PATH", help="Start when these end: sales/*.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(["completed", "failed", "cancelled"]),
    help="The status at the end (completed). May be repeated.",
)
@label_option("Label the executions that it starts.")
@click.option("--replace", is_flag=True, help="Replace the trigger of that name.")
@server_option
@_json
@pass_settings
def create(
    settings: Settings,
    /,
    name: str | None,
    file: str | None,
    sets: tuple[str, ...],
    secret_file: str | None,
    replace: bool,
    server: str | None,
    as_json: bool,
    **options: JSON,
) -> None:
    """Create a trigger from a file or from options.

    The token of a webhook is printed only once and not stored. Creating the same
    trigger again changes nothing.

    \b
    Examples:
      noetl trigger create -f nightly.yaml
      noetl trigger create nightly --playbook sales/orders --cron "0 2 * * *" \\
        --zone Europe/Berlin --set 'day={{ slot.date }}'
      noetl trigger create push --playbook ci/build --webhook \\
        --key '{{ payload.id }}' --set 'ref={{ payload.ref }}'
      noetl trigger create report --playbook sales/report --finished sales/orders
    """
    from noetl.commands.files.trigger_files import (
        make_trigger,
        members_of,
        read_trigger,
    )

    if file is not None:
        given = [n for n, value in options.items() if value not in (None, False, ())]
        if name is not None or sets or given:
            raise ConfigError(
                "--file is complete: give no name and no other options with it"
            )
        trigger = read_trigger(file)
    else:
        trigger = make_trigger(members_of(name, options), sets)
    body: dict[str, JSON] = {"trigger": trigger, "replace": replace}
    if secret_file is not None:
        body["secret"] = read_file(secret_file).content.decode().strip()
    client = need_server(settings, server)
    made = client.post("/api/triggers", body)
    print_warnings(made.get("warnings", ()))
    if as_json:
        click.echo(json.dumps(made, ensure_ascii=False))
        return
    click.echo(f"{_done(made, replace)}: {_words(made)}")
    _tell_sender(client, made)


@command.command("list")
@server_option
@_json
@pass_settings
def list_(settings: Settings, server: str | None, as_json: bool) -> None:
    """List triggers: their playbooks and their times.

    \b
    Example:
      noetl trigger list
    """
    answer = need_server(settings, server).get("/api/triggers")
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
        return
    for line in answer["triggers"]:
        click.echo(_words(line))
    if not answer["triggers"]:
        click.echo("no triggers; create one with: noetl trigger create --help")


@command.command("show")
@click.argument("name")
@server_option
@_json
@pass_settings
def show(settings: Settings, name: str, server: str | None, as_json: bool) -> None:
    """Show a trigger in the format of a file, and its next and last slot.

    \b
    Example:
      noetl trigger show nightly > nightly.yaml
    """

    client = need_server(settings, server)
    line = client.get(f"/api/triggers/{name}")
    if as_json:
        click.echo(json.dumps(line, ensure_ascii=False))
        return
    text = value_text(line["definition"])
    click.echo(text, nl=False)
    click.echo(_words(line), err=True)
    if line["last"] is not None:
        last = line["last"]
        click.echo(f"last slot: {last['slot']}, {last['execution_id']}", err=True)


@command.command("pause")
@click.argument("name")
@server_option
@_json
@pass_settings
def pause(settings: Settings, name: str, server: str | None, as_json: bool) -> None:
    """Pause a trigger: it starts nothing, and deliveries are refused.

    \b
    Example:
      noetl trigger pause nightly
    """
    line = need_server(settings, server).post(f"/api/triggers/{name}/pause")
    _report(line, "paused", as_json=as_json)


@command.command("resume")
@click.argument("name")
@server_option
@_json
@pass_settings
def resume(settings: Settings, name: str, server: str | None, as_json: bool) -> None:
    """Resume a trigger; noetl backfill runs the slots that it missed.

    \b
    Example:
      noetl trigger resume nightly
    """
    line = need_server(settings, server).post(f"/api/triggers/{name}/resume")
    _report(line, "resumed", as_json=as_json)


@command.command("delete")
@click.argument("name")
@server_option
@_json
@pass_settings
def delete(settings: Settings, name: str, server: str | None, as_json: bool) -> None:
    """Delete a trigger and its backfills; executions stay.

    \b
    Example:
      noetl trigger delete nightly
    """
    need_server(settings, server).call("DELETE", f"/api/triggers/{name}")
    click.echo(json.dumps({"name": name}) if as_json else f"deleted: {name}")


@command.command("fire")
@click.argument("name")
@click.option("--slot", metavar="TIME", help="Schedule: this slot, at most once.")
@click.option("--payload", metavar="FILE", help="Webhook: the delivery, as JSON.")
@click.option("--execution", metavar="ID", help="Completion: this execution ended.")
@click.option(
    "--key", metavar="KEY", help="Idempotency key: a repeated call starts nothing."
)
@click.option("--again", is_flag=True, help="Run the slot or key again if it failed.")
@server_option
@_json
@pass_settings
def fire(
    settings: Settings,
    name: str,
    slot: str | None,
    payload: str | None,
    execution: str | None,
    key: str | None,
    again: bool,
    server: str | None,
    as_json: bool,
) -> None:
    """Start the playbook of a trigger now, also while the trigger is paused.

    A slot, a key or the end of an execution has one execution; with --again it gets a
    new one, if the latest one failed or was cancelled.

    \b
    Examples:
      noetl trigger fire nightly --slot 2026-01-31T02:00
      noetl trigger fire nightly --slot 2026-01-31T02:00 --again
      noetl trigger fire push --payload delivery.json
    """
    client = need_server(settings, server)
    body: dict[str, JSON] = {"slot": slot, "key": key}
    if execution is not None:
        body["execution_id"] = whole_id(client, execution)
    if payload is not None:
        try:
            body["payload"] = json.loads(read_file(payload).content)
        except ValueError as error:
            raise ConfigError(f"{payload}: not JSON: {error}") from None
    started = client.post(f"/api/triggers/{name}/fire", body)
    if again and started.get("repeated"):
        latest = started.get("superseded_by") or started["execution_id"]
        body["again"] = latest
        started = client.post(f"/api/triggers/{name}/fire", body)
    print_warnings(started.get("warnings", ()))
    if as_json:
        click.echo(json.dumps(started))
        return
    click.echo(f"{started['status']}: {started['execution_id']}")
    if started.get("repeated"):
        _explain_repetition(started, again=again)


def _explain_repetition(started: dict[str, JSON], *, again: bool) -> None:
    """Say that nothing was started, and how to run what failed again."""
    latest = started.get("superseded_by")
    click.echo("  it was run before: nothing was started", err=True)
    if latest is not None:
        click.echo(f"  it was run again since: noetl show {latest}", err=True)
    if not again:
        click.echo("  if the latest run failed, repeat it with --again", err=True)


def _done(made: dict[str, JSON], replace: bool) -> str:
    if made["created"]:
        return "created"
    return "replaced" if replace else "already exists"


def _tell_sender(client: Client, made: dict[str, JSON]) -> None:
    if made["hook"] is None:
        return
    click.echo(f"  deliveries go to: {client.url}{made['hook']}")
    if made["token"] is not None:
        proof = made["definition"]["webhook"]["verify"]
        what = "the token" if proof == "token" else "the secret to sign with"
        click.echo(f"  {what}, shown only once: {made['token']}")
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
