"""``noetl restore``: a home from an archive of ``noetl backup``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from noetl.commands.local.backups import restore_backup
from noetl.commands.output.diagnostics import count_of
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.local.home import Home


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(settings: Settings, file: Path, as_json: bool) -> None:
    """Make NOETL_HOME from an archive of noetl backup.

    The home must be missing or empty. It appears when every file of the archive has
    the hash that was backed up and every database is whole; otherwise nothing changes.
    Executions that were open continue with noetl resume, or when the server starts:
    tasks that ran after the backup run again. Exit code: 0 restored, 2 not.

    \b
    Examples:
      noetl restore /srv/backups/noetl-2026-11-20.tar.gz
      NOETL_HOME=/tmp/trial noetl restore home.tar
    """
    home = Home.of(settings)
    manifest = restore_backup(file, home)
    if as_json:
        document = {
            "home": str(home.folder),
            "made_at": manifest.made_at,
            "noetl": manifest.noetl,
            "files": len(manifest.files),
            "keys": manifest.keys,
        }
        click.echo(json.dumps(document))
        return
    many = count_of(len(manifest.files), "file")
    click.echo(f"{home.folder}: {many}, as of {manifest.made_at}")
    if not manifest.keys and not home.key.exists():
        hint = "put the old home's there before anything is stored"
        click.echo(f"{home.key} is missing, and opens the secrets: {hint}", err=True)
