"""``noetl completion``: the script that completes commands in a shell."""

from __future__ import annotations

import json

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_NOETL_COMPLETE"
"""The variable by which the shell's script asks for completions."""


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def command(context: click.Context, shell: str, as_json: bool) -> None:
    """Print the script that completes commands, options and files of noetl in a SHELL.

    Evaluate it where the shell starts. Exit code: 0 printed, 2 another shell.

    \b
    Examples:
      echo 'eval "$(noetl completion bash)"' >> ~/.bashrc
      echo 'eval "$(noetl completion zsh)"' >> ~/.zshrc
      noetl completion fish > ~/.config/fish/completions/noetl.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = context.find_root().command
    made = kind(root, {}, "noetl", VARIABLE)
    # ``source`` asks bash for its version first, which may be missing here.
    script = made.source_template % made.source_vars()
    click.echo(json.dumps({"shell": shell, "script": script}) if as_json else script)
