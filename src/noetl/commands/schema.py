"""``noetl schema``: the JSON Schema of playbooks."""

from __future__ import annotations

import json

import click

from noetl.commands.settings import pass_settings
from noetl.config import Settings, read_plugins
from noetl.dsl.grammar.schema import playbook_schema


@click.command("schema")
@click.option("--json", "as_json", is_flag=True, help="Print it on one line.")
@pass_settings
def command(settings: Settings, as_json: bool) -> None:
    """Print the JSON Schema of playbooks, for editors.

    The schema includes the built-in tool kinds and those of enabled plug-ins.

    \b
    Example (then, as the first line of a playbook,
    # yaml-language-server: $schema=playbook.schema.json):
      noetl schema > playbook.schema.json
    """
    schema = playbook_schema(read_plugins(settings).kinds)
    click.echo(json.dumps(schema, indent=None if as_json else 2, ensure_ascii=False))
