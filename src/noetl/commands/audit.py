"""``noetl audit``: the audit log of a server."""

from __future__ import annotations

import json

import click

from noetl.commands.remote.choose_server import need_server, server_option
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.types import JSON


@click.command("audit")
@click.option("--user", metavar="NAME", help="Only actions of this account.")
@click.option("--action", metavar="NAME", help="Only this action, such as add_user.")
@click.option(
    "--since", metavar="TIME", help="Only from this time on: 2026-01-31T00:00:00Z."
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="The maximum number of entries.",
)
@click.option("--cursor", metavar="ID", help="Continue after this entry.")
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(
    settings: Settings,
    user: str | None,
    action: str | None,
    since: str | None,
    limit: int,
    cursor: str | None,
    server: str | None,
    as_json: bool,
) -> None:
    """List the audit log of a server, the newest entries first.

    It covers accounts, tokens, sessions, playbooks, commands to executions, and refused
    requests: the account, its address, the action and the response. The account that
    started or signalled an execution is in that execution's log (noetl events). The
    command needs the role auditor or admin.

    \b
    Examples:
      noetl audit --user ann
      noetl audit --action sign_in --since 2026-01-31T00:00:00Z
    """
    answer = need_server(settings, server).get(
        "/api/audit",
        user=user,
        action=action,
        since=since,
        limit=limit,
        cursor=cursor,
    )
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
        return
    for line in answer["entries"]:
        click.echo(_words(line))
    if not answer["entries"]:
        click.echo("no audit entries match these filters")
    if answer["cursor"] is not None:
        click.echo(f"more: noetl audit --cursor {answer['cursor']}", err=True)


def _words(line: JSON) -> str:
    who = line["principal"] or "an unknown caller"
    where = f" from {line['address']}" if line["address"] else ""
    target = " ".join(
        f"{name}={_word(value)}" for name, value in line["target"].items()
    )
    end = "response unknown" if line["status"] is None else str(line["status"])
    if line["problem"] is not None:
        end += f" {line['problem']}"
    what = f"{line['action']} {target}".rstrip()
    return f"{line['at']}  {who}{where}: {what} ({end})"


def _word(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
