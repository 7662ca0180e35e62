"""``noetl exec``: execute a registered playbook on a server."""

from __future__ import annotations

from typing import get_args

import click
import msgspec

from noetl.client.http import Client, Refused
from noetl.commands.files.playbook_files import read_inputs
from noetl.commands.output.diagnostics import (
    hints_option,
    print_findings,
    print_warnings,
)
from noetl.commands.output.endings import fail_on_option
from noetl.commands.output.progress import choose_progress
from noetl.commands.remote.choose_server import need_server, server_option
from noetl.commands.remote.executions import ask, end, whole_id
from noetl.commands.settings import label_option, pass_settings, read_caller
from noetl.config import Settings
from noetl.dsl.diagnostics import Diagnostic
from noetl.dsl.labels import read_labels
from noetl.engine.steps.concurrency import MAX_LIMIT, OnLimit
from noetl.telemetry.trace_context import HEADER
from noetl.types import JSON


@click.command("exec")
@click.argument("playbook", metavar="PATH[@VERSION]")
@click.option("--set", "sets", multiple=True, metavar="A.B=V", help="Set an input.")
@click.option("--workload", metavar="FILE", help="Inputs, as YAML or JSON.")
@click.option(
    "--key", metavar="KEY", help="Idempotency key: a repeated call starts nothing."
)
@click.option(
    "--again", metavar="ID", help="Run KEY again: ID is its latest run, which failed."
)
@click.option(
    "--concurrency",
    metavar="KEY[=N]",
    help="At most N (1) executions with this key run at the same time.",
)
@click.option(
    "--on-limit",
    type=click.Choice(get_args(OnLimit)),
    help="The action for an execution above the limit.  [default: queue]",
)
@label_option("Label the execution.")
@click.option("--wait", is_flag=True, help="Wait until the execution has finished.")
@fail_on_option
@hints_option
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--no-progress", is_flag=True, help="Print no progress.")
@click.option("--no-logs", is_flag=True, help="Do not print what tasks print.")
@pass_settings
def command(
    settings: Settings,
    playbook: str,
    sets: tuple[str, ...],
    workload: str | None,
    key: str | None,
    again: str | None,
    concurrency: str | None,
    on_limit: OnLimit | None,
    labels: tuple[str, ...],
    wait: bool,
    fail_on: frozenset[str],
    hints: bool,
    server: str | None,
    as_json: bool,
    no_progress: bool,
    no_logs: bool,
) -> None:
    """Execute a registered playbook on a server (default: its latest version).

    Exit code: 0 accepted (with --wait: completed), 1 failed or cancelled, 2 the call is
    wrong, 3 no server can be reached, 130 interrupted, or quarantined by the server.

    \b
    Examples:
      noetl exec sales/orders --set region=eu
      noetl exec sales/orders@1.2 --wait
      noetl exec sales/orders --key 2026-01-31 --again 019a8f
      noetl exec sales/orders --concurrency eu=2 --on-limit reject

    With the variable TRACEPARENT (W3C) the execution belongs to that trace.
    """
    if fail_on and not wait:
        raise click.UsageError("--fail-on needs --wait")
    client = need_server(settings, server)
    path, at, version = playbook.partition("@")
    body: dict[str, JSON] = {"path": path, "workload": read_inputs(workload, sets)}
    if at:
        body["version"] = version
    if key is not None:
        body["idempotency_key"] = key
    if again is not None:
        body["again"] = whole_id(client, again)
    if concurrency is not None or on_limit is not None:
        body["concurrency"] = _places(concurrency, on_limit)
    if labels:
        body["labels"] = read_labels(labels)
    caller = read_caller()
    headers = {} if caller is None else {HEADER: str(caller)}
    started = ask(client, "", body, as_json=as_json, headers=headers)
    print_warnings(started.get("warnings", ()))
    if not as_json:
        _warn(client, path, version or None, hints=hints)
    progress = choose_progress(quiet=no_progress, as_json=as_json, logs=not no_logs)
    end(client, started, progress, wait=wait, as_json=as_json, fail_on=fail_on)


def _warn(client: Client, path: str, version: str | None, *, hints: bool) -> None:
    """Print the warnings about a registered playbook, if the caller may read it."""
    try:
        source = client.get(f"/api/catalog/{path}", version=version)["source"]
        answer = client.post("/api/validate", {"playbook": source})
    except Refused:
        return
    found = msgspec.convert(answer["diagnostics"], list[Diagnostic])
    print_findings(found, path, source.splitlines(), hints=hints)


def _places(text: str | None, on_limit: OnLimit | None) -> dict[str, JSON]:
    """Parse ``KEY`` or ``KEY=N``; ``KEY`` may contain ``=`` if ``=N`` follows."""
    if text is None:
        raise click.UsageError("--on-limit needs --concurrency KEY")
    key, equals, number = text.rpartition("=")
    if not equals:
        key, number = text, "1"
    if not (
        key and number.isascii() and number.isdigit() and 1 <= int(number) <= MAX_LIMIT
    ):
        message = (
            f"expected KEY or KEY=N with N from 1 to {MAX_LIMIT:,}, found '{text}'"
        )
        raise click.BadParameter(message, param_hint="--concurrency")
    places: dict[str, JSON] = {"key": key, "limit": int(number)}
    return places if on_limit is None else {**places, "on_limit": on_limit}
