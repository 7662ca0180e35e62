"""The command line: a parser that loads a command when it is called."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from noetl import __version__
from noetl.errors import NoetlError, Unreachable

# Short helps stand here so that `noetl --help` imports no command.
COMMANDS = {
    "audit": "List who changed what on a server.",
    "backfill": "Run the missing slots of a schedule; stop, resume, look.",
    "bench": "Measure how fast NoETL is on this machine.",
    "cancel": "Cancel an execution: its tools are stopped.",
    "catalog": "Register playbooks; list and compare their versions.",
    "clean": "Remove results that nobody needs, and old executions.",
    "config": "Print the settings that hold, and where they come from.",
    "down": "Stop the cluster of this home; its data is kept.",
    "doctor": "Check this machine and this home; say what to mend.",
    "events": "Print the log of an execution.",
    "exec": "Execute a registered playbook on a server.",
    "fork": "Go on from any event of an execution, with other inputs.",
    "graph": "Draw a playbook's net as Mermaid, DOT, SVG or JSON.",
    "keychain": "Store secrets for playbooks, sealed.",
    "list": "List executions, the newest first.",
    "migrate": "Rewrite a playbook of an older dialect into the language.",
    "pause": "Pause an execution: nothing new starts.",
    "replay": "Rebuild the state of an execution from its log.",
    "result": "List and fetch the results of an execution.",
    "resume": "Go on with an execution that was paused or killed.",
    "retry": "Run again what failed, or from a step on.",
    "run": "Run a playbook to its end, durably.",
    "server": "Start, stop and look at the server of this home.",
    "session": "List and end sessions: who is signed in.",
    "schema": "Print the JSON Schema of playbooks, for editors.",
    "signal": "Tell a waiting execution something.",
    "sql": "Ask the log in SQL: executions, events, results.",
    "show": "Show an execution: its steps, its result, its error.",
    "status": "Say which parts of the cluster of this home run.",
    "test": "Test playbooks with scripted tools, in virtual time.",
    "token": "Make, list and revoke API tokens.",
    "trigger": "Make, list, pause and fire what starts executions by itself.",
    "up": "Start a whole cluster on this machine, or what is missing of it.",
    "user": "Make and change accounts: who may do what.",
    "validate": "Check playbooks; show what is wrong and how to mend it.",
    "verify": "Analyse a playbook's Petri net before anything runs.",
    "worker": "Start, stop and count workers of a server.",
}


class Verbs(click.Group):
    """A group whose commands live in ``noetl.commands.<verb>``."""

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
            ctx.fail(f"no command '{args[0]}'. {hint.capitalize()}")
        return super().resolve_command(ctx, args)

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
    """Runs declarative playbooks as event-sourced Petri nets.

    \b
    Example:
      noetl validate playbook.yaml
    """
    if "NO_COLOR" in os.environ:
        context.color = False
    if config is not None:
        # In the environment, so that a process which this one starts agrees with it.
        os.environ["NOETL_CONFIG"] = config


def main() -> NoReturn:
    """The entry point: every error that NoETL means to say is one line, exit 2, or 3
    if something cannot be reached."""
    gc.disable()  # most lives are short: collecting would cost more than it frees
    try:
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
    """End the process without freeing a large playbook piece by piece.

    That takes a tenth of `noetl validate`, and the system does it at once.
    """
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # whoever read our output has left
        code = code or 1
    os._exit(code)
