"""``noetl backup``: an archive of the home, also while it is used."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

import noetl
from noetl.commands.local.backups import write_backup
from noetl.commands.output.diagnostics import bytes_of, count_of
from noetl.commands.settings import pass_settings
from noetl.config import DATABASE, RESULTS_URL, Settings
from noetl.local.home import Home
from noetl.local.process_files import slot_of


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.tar[.gz]")
@click.option(
    "--with-keys",
    is_flag=True,
    help="Include the keys: the archive then opens the secrets in it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(settings: Settings, file: Path, with_keys: bool, as_json: bool) -> None:
    """Write an archive of NOETL_HOME, also while runs and a server use it.

    It has the logs, the catalog, triggers, accounts, results, what tasks printed, the
    configuration file and sealed secrets, with the hash of each file. The key of the
    secrets and the token of the local account are left out unless you ask for them.
    Not in the archive: PostgreSQL, NATS, results in other stores, and logs of services.
    Exit code: 0 written, 2 not.

    \b
    Examples:
      noetl backup /srv/backups/noetl-2026-11-20.tar.gz
      noetl backup --with-keys home.tar && noetl restore home.tar
    """
    home = Home.of(settings)
    database = settings[DATABASE]
    place = slot_of(database) if database is not None else None
    if place is None and home.has_cluster:
        place = str(home.folder / "postgres")
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    about = (noetl.__version__, moment, place)
    manifest = write_backup(home, file.absolute(), keys=with_keys, about=about)
    results = settings[RESULTS_URL]
    if as_json:
        document = {
            "file": str(file.absolute()),
            "bytes": file.stat().st_size,
            "files": len(manifest.files),
            "keys": with_keys,
            "not_included": [each for each in (place, results) if each is not None],
        }
        click.echo(json.dumps(document))
        return
    size = bytes_of(file.stat().st_size)
    click.echo(f"{file}: {count_of(len(manifest.files), 'file')}, {size}")
    if not with_keys:
        click.echo(f"without the key of its secrets: keep {home.key} apart", err=True)
    if place is not None:
        hint = "back it up with pg_dump"
        click.echo(f"not included: PostgreSQL ({place}); {hint}", err=True)
    if results is not None:
        click.echo(f"not included: results in {results}", err=True)
