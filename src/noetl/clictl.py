"""The command line, which imports the module of a command when it is called."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from noetl import __version__
from noetl.errors import ConfigError, NoetlError, Unreachable

# The short helps are here so that `noetl --help` imports no command.
COMMANDS = {
    "archive": "List what a server has archived, and restore it.",
    "audit": "List the audit log of a server.",
    "backup": "Write an archive of this home, also while it is used.",
    "backfill": "Run the missing slots of a schedule; stop, resume and show backfills.",
    "bench": "Measure the throughput of NoETL on this machine.",
    "cancel": "Cancel an execution and stop its tools.",
    "catalog": "Register playbooks; list and compare their versions.",
    "clean": "Remove unreferenced results and old executions.",
    "completion": "Print the script that completes noetl in your shell.",
    "config": "Print the effective settings and where each value comes from.",
    "down": "Stop the local cluster of this home; its data is kept.",
    "doctor": "Check this machine and this home, and show how to fix problems.",
    "events": "Print the log of an execution.",
    "exec": "Execute a registered playbook on a server.",
    "export": "Send executions to OpenTelemetry or ClickHouse.",
    "fork": "Continue from any event of an execution, with other inputs.",
    "graph": "Draw a playbook's net as Mermaid, DOT, SVG or JSON.",
    "keychain": "Store secrets for playbooks, sealed.",
    "list": "List executions, the newest first.",
    "login": "Sign in to a server as yourself, through its provider.",
    "logout": "End the login at a server.",
    "logs": "Print what tasks printed and logged; follow it live.",
    "migrate": "Rewrite a playbook of an older dialect into the current language.",
    "pause": "Pause an execution: running tasks finish, no new ones start.",
    "replay": "Rebuild the state of an execution from its log.",
    "restore": "Make this home from an archive of noetl backup.",
    "result": "List and fetch the results of an execution.",
    "resume": "Continue an execution that was paused or killed.",
    "retry": "Run failed steps again, or all steps from a given one.",
    "run": "Run a playbook to its end, durably.",
    "server": "Start, stop and inspect the server of this home.",
    "session": "List and end browser sessions of a server.",
    "schema": "Print the JSON Schema of playbooks, for editors.",
    "signal": "Send a signal to a waiting execution.",
    "sql": "Query the log in SQL: executions, events, results.",
    "show": "Show an execution: its steps, its result, its error.",
    "status": "Show which services of the local cluster are running.",
    "test": "Test playbooks with scripted tools, in virtual time.",
    "token": "Create, list and revoke API tokens.",
    "trigger": "Create, list, pause and fire triggers, which start executions.",
    "ui": "Open the web UI of this home in a browser.",
    "up": "Start a complete cluster on this machine, or its missing services.",
    "user": "Create and change accounts and their roles.",
    "validate": "Check playbooks; show what is wrong and how to fix it.",
    "verify": "Analyse a playbook's Petri net before anything runs.",
    "watch": "Show an execution live, until its end or Ctrl-C.",
    "worker": "Start, stop and count workers of a server.",
}


class Verbs(click.Group):
    """A group whose commands are the modules ``noetl.commands.<verb>``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = import_module(f"noetl.commands.{name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from noetl.dsl.diagnostics import did_you_mean

            hint = did_you_mean(args[0], COMMANDS) or ""
            ctx.fail(f"unknown command '{args[0]}'. {hint.capitalize()}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; exit with 130 at Ctrl-C."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(130)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="noetl %(version)s")
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="Read settings from this TOML file.",
)
@click.pass_context
def noetl(context: click.Context, config: str | None) -> None:
    """Run declarative playbooks as event-sourced Petri nets.

    \b
    Example:
      noetl validate playbook.yaml
    """
    if "NO_COLOR" in os.environ:
        context.color = False
    if config is not None:
        # In the environment, so that child processes use the same file.
        os.environ["NOETL_CONFIG"] = config


_HOSTS = frozenset({"run", "resume", "retry", "server", "worker", "up", "bench"})
"""Commands that start processes for tasks."""


def _check_system(verb: list[str]) -> None:
    """Raise ``ConfigError`` for a command that needs Linux elsewhere."""
    if sys.platform == "linux" or not _HOSTS & {*verb}:
        return
    message = f"noetl {verb[0]} needs Linux, and this is {sys.platform}"
    hint = "use a Linux machine or a container; noetl validate and test work here"
    raise ConfigError(f"{message}; {hint}")


def main() -> NoReturn:
    """Run the command line; print a ``NoetlError`` on one line.

    The exit code of an error is 2, or 3 if a server or store cannot be reached.
    """
    gc.disable()  # most commands are short: a collection costs more than it frees
    try:
        _check_system(sys.argv[1:2])
        noetl(prog_name="noetl")
        code = 0
    except NoetlError as error:
        click.echo(f"noetl: {error}", err=True)
        away = getattr(error, "kind", "") == "store.unreachable"
        code = 3 if away or isinstance(error, Unreachable) else 2
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    _leave(code)


def _leave(code: int) -> NoReturn:
    """Exit without freeing memory: that takes a tenth of `noetl validate`."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # the reader of the output has closed the pipe
        code = code or 1
    os._exit(code)
