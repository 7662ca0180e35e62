"""``noetl schema``: what an editor needs to know about playbooks."""

from __future__ import annotations

import json

import click

from noetl.config import read_plugins
from noetl.dsl.grammar.schema import playbook_schema


@click.command("schema")
@click.option("--json", "as_json", is_flag=True, help="One line instead of indented.")
def command(as_json: bool) -> None:
    """Print the JSON Schema of playbooks, for editors.

    It knows the tool kinds that are built in, and those of enabled plug-ins.

    \b
    Example (then, as the first line of a playbook,
    # yaml-language-server: $schema=playbook.schema.json):
      noetl schema > playbook.schema.json
    """
    schema = playbook_schema(read_plugins().kinds)
    click.echo(json.dumps(schema, indent=None if as_json else 2, ensure_ascii=False))
