"""``noetl audit``: who changed what on a server."""

from __future__ import annotations

import json

import click

from noetl.commands.targets import need_server, server_option
from noetl.types import JSON


@click.command("audit")
@click.option("--user", metavar="NAME", help="Only what this account did.")
@click.option("--action", metavar="NAME", help="Only this, such as add_user.")
@click.option("--since", metavar="TIME", help="Only since then: 2026-01-31T00:00:00Z.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="So many at most.",
)
@click.option("--cursor", metavar="ID", help="Go on after this entry.")
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    user: str | None,
    action: str | None,
    since: str | None,
    limit: int,
    cursor: str | None,
    server: str | None,
    as_json: bool,
) -> None:
    """List who changed what on a server, the newest first.

    Accounts, tokens, sessions, playbooks, orders to executions, and what was refused:
    who, from where, and what came of it. Who started or signalled an execution is in
    its own log (noetl events). It needs the role auditor or admin.

    \b
    Examples:
      noetl audit --user ann
      noetl audit --action sign_in --since 2026-01-31T00:00:00Z
    """
    answer = need_server(server).get(
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
        click.echo("nothing was changed, as far as these filters go")
    if answer["cursor"] is not None:
        click.echo(f"more: noetl audit --cursor {answer['cursor']}", err=True)


def _words(line: JSON) -> str:
    who = line["principal"] or "somebody unknown"
    where = f" from {line['address']}" if line["address"] else ""
    target = " ".join(
        f"{name}={_word(value)}" for name, value in line["target"].items()
    )
    end = "of unknown end" if line["status"] is None else str(line["status"])
    if line["problem"] is not None:
        end += f" {line['problem']}"
    what = f"{line['action']} {target}".rstrip()
    return f"{line['at']}  {who}{where}: {what} ({end})"


def _word(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
