"""Command lines that pages and deployments name."""

from __future__ import annotations

import os

import click
import pytest

from noetl.clictl import noetl


def parse(words: list[str]) -> None:
    """As the command line does, without doing it. Raises ``click.UsageError``.

    Options such as ``--ca`` are put into the environment, but not in that of the tests.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "environ", dict(os.environ))
        _parse(words)


def _parse(words: list[str]) -> None:
    command: click.Command = noetl
    context = click.Context(command, info_name="noetl", **noetl.context_settings)
    while isinstance(command, click.Group):
        name, *words = words
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name}"
        command = found
    command.make_context(command.name, list(words), parent=context)
