"""``noetl server``: start, stop and inspect the server of this home."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl.adapters.processes.isolation import forbid_tracing
from noetl.commands.remote.choose_server import own_server
from noetl.commands.server_options import Door, read_oidc
from noetl.commands.settings import pass_settings
from noetl.config import (
    ANSWER_LINKS,
    ARCHIVE_URL,
    BEHIND_PROXY,
    DATABASE,
    DATABASE_OWNER,
    EXTENSIONS,
    FAMILY_LIMIT,
    HOST,
    HOSTS,
    LEASE_TTL,
    LIMITS_EXECUTIONS,
    PORT,
    PROXIES,
    RETENTION,
    RETENTION_AUDIT,
    SLOTS,
    START_RATE,
    TLS_CERT,
    TLS_KEY,
    Settings,
    read_plugins,
    read_settings,
)
from noetl.errors import ConfigError, NoetlError
from noetl.local.home import Home
from noetl.local.process_files import Server, find_server, slot_of
from noetl.local.services.nats import find_nats
from noetl.local.services.postgres import Postgres
from noetl.local.services.process import start_role
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl import server as role

TIMEOUT_S = 30.0
"""Maximum seconds for a server to start or to stop."""
POLL_INTERVAL_S = 0.05

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_host = click.option("--host", metavar="ADDRESS", help="Listen here (127.0.0.1).")
_port = click.option("--port", type=click.IntRange(0, 65535), help="The port (8082).")


@click.group("server")
def command() -> None:
    """Start, stop and inspect the server of this home.

    The server executes registered playbooks on request over HTTP, with its own store
    and workers. Each of the commands takes --json.

    \b
    Example:
      noetl server start
    """


@command.command("start")
@_host
@_port
@click.option(
    "--foreground/--background",
    default=False,
    help="Stay in the terminal and print the log (--background: return when ready).",
)
@click.option(
    "--behind-proxy",
    is_flag=True,
    help="A proxy terminates TLS for clients (NOETL_BEHIND_PROXY).",
)
@click.option(
    "--tls-cert",
    metavar="FILE",
    help="Use TLS with this certificate (NOETL_TLS_CERT).",
)
@click.option("--tls-key", metavar="FILE", help="Its private key (NOETL_TLS_KEY).")
@click.option("--personal", hidden=True, help="The folder of a noetl up.")
@_json
def start(
    host: str | None,
    port: int | None,
    foreground: bool,
    behind_proxy: bool,
    tls_cert: str | None,
    tls_key: str | None,
    personal: str | None,
    as_json: bool,
) -> None:
    """Start the server and return when it is ready.

    Its token is in the home's file `token`, readable by its user only. An address that
    other machines can reach needs accounts (noetl user add) and TLS: a certificate, or
    a proxy that has one. Exit code: 0, or 2 if the server cannot start.

    \b
    Examples:
      noetl server start
      noetl server start --port 9000 --foreground
      noetl server start --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
    """
    files = [os.path.abspath(each) if each else None for each in (tls_cert, tls_key)]
    door = Door(host, port, behind_proxy, files[0], files[1], personal)
    if foreground:
        _run(door)
        return
    server = start_server(Home.of(read_settings()), door)
    _report(server, as_json=as_json, word="the server is at")


@command.command("stop")
@_json
@pass_settings
def stop(settings: Settings, as_json: bool) -> None:
    """Stop the server: running tasks finish first, waiting executions are kept.

    \b
    Example:
      noetl server stop
    """
    home = Home.of(settings)
    server = stop_server(home)
    if as_json:
        click.echo(
            json.dumps({"running": False, "pid": server.pid if server else None})
        )
    elif server is None:
        click.echo(f"no server is running under {home.folder}")
    else:
        click.echo(f"stopped: process {server.pid}")


@command.command("restart")
@_json
@pass_settings
def restart(settings: Settings, as_json: bool) -> None:
    """Stop the server and start it again at the same address.

    \b
    Example:
      noetl server restart
    """
    home = Home.of(settings)
    before = stop_server(home)
    server = start_server(home, Door() if before is None else Door.of(before))
    _report(server, as_json=as_json, word="the server is at")


@command.command("status")
@_json
@pass_settings
def status(settings: Settings, as_json: bool) -> None:
    """Show whether the server is running and ready. Exit code: 0, or 3 if not.

    \b
    Example:
      noetl server status
    """
    home = Home.of(settings)
    server, client = find_server(home.server), own_server(settings)
    ready = False
    if client is not None:
        try:
            ready = client.get("/readyz")["status"] == "ready"
        except NoetlError as error:
            click.echo(f"noetl: {error}", err=True)
    if as_json:
        click.echo(json.dumps({**_document(server), "ready": ready}))
    elif server is None:
        click.echo(f"no server is running under {home.folder}")
    else:
        word = "ready" if ready else "not ready"
        click.echo(f"{word}: {server.url} (process {server.pid}, {server.version})")
    sys.exit(0 if ready else 3)


@command.command("migrate")
@_json
@pass_settings
def migrate(settings: Settings, as_json: bool) -> None:
    """Bring the tables of the database up to date, and exit.

    It does what a starting server does with NOETL_DATABASE_OWNER: it makes or changes
    the tables as their owner, and grants rights to the role of NOETL_DATABASE. Servers
    then need no owner. Exit code: 0 done, 2 an address is missing, 3 the database is
    not reached.

    \b
    Example:
      noetl server migrate
    """
    from noetl.wiring.backend import patiently, prepare

    database, owner = settings[DATABASE], settings[DATABASE_OWNER]
    if database is None or owner is None:
        missing = DATABASE if database is None else DATABASE_OWNER
        raise ConfigError(f"{missing.variable} is not set: it takes {missing.words}")
    asyncio.run(patiently(lambda: prepare(owner, database)))
    place = slot_of(database)
    if as_json:
        click.echo(json.dumps({"database": place}))
    else:
        click.echo(f"the tables in {place} are up to date")


def _report(server: Server, *, as_json: bool, word: str) -> None:
    if as_json:
        click.echo(json.dumps(_document(server)))
        return
    click.echo(f"{word} {server.url} (process {server.pid})")


def _document(server: Server | None) -> dict[str, JSON]:
    if server is None:
        return {"running": False, "pid": None, "url": None}
    return {
        "running": True,
        "pid": server.pid,
        "url": server.url,
        "version": server.version,
        "started_at": server.started_at,
    }


def _run(door: Door) -> None:
    """Run the server in this process."""
    from noetl import server as role
    from noetl.local.log_files import open_log
    from noetl.runtime.event_loop import run_long
    from noetl.wiring.server_options import Options

    forbid_tracing()
    settings = read_settings()
    home = Home.of(settings)
    own = Postgres(home)
    database, owner = settings[DATABASE], settings[DATABASE_OWNER]
    if database is None:
        database, owner = own.address(), own.owner_address()
    options = Options(
        host=door.host or settings[HOST],
        port=settings[PORT] if door.port is None else door.port,
        database=database,
        database_owner=owner,
        nats=find_nats(home, settings),
        lease_ttl=settings[LEASE_TTL],
        start_rate=settings[START_RATE],
        family_limit=settings[FAMILY_LIMIT],
        path_limits=settings[LIMITS_EXECUTIONS],
        answer_links=settings[ANSWER_LINKS],
        retention=settings[RETENTION],
        archive=settings[ARCHIVE_URL],
        audit_retention=settings[RETENTION_AUDIT],
        slots=settings[SLOTS] if database is None else 0,
        extensions=settings[EXTENSIONS],
        hosts=settings[HOSTS],
        proxies=settings[PROXIES],
        behind_proxy=door.behind_proxy or settings[BEHIND_PROXY],
        tls_cert=Path(door.tls_cert) if door.tls_cert else settings[TLS_CERT],
        tls_key=Path(door.tls_key) if door.tls_key else settings[TLS_KEY],
        oidc=read_oidc(settings),
        personal=door.personal,
    )
    home.make()
    open_log(home.journal, settings, about={"role": "server"})
    run_long(_serve(role.Server.open(home, options, settings, read_plugins(settings))))


async def _serve(opening: Coroutine[None, None, role.Server]) -> None:
    server = await opening
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    await server.serve(lambda url: None)


def start_server(home: Home, door: Door) -> Server:
    """Start the server in another process and wait until it is ready."""
    running = find_server(home.server)
    if running is not None:
        message = f"a server is already running under {home.folder}: {running.url}"
        raise ConfigError(f"{message} (process {running.pid})")
    home.make()
    command = [sys.executable, "-m", "noetl", "server", "start", "--foreground"]
    command += door.options()
    output = home.journal / "server.out"
    output.unlink(missing_ok=True)

    def find(pid: int) -> Server | None:
        found = find_server(home.server)
        is_ready = found is not None and found.url is not None and found.pid == pid
        return found if is_ready else None

    return start_role("the server", command, output, find, TIMEOUT_S)


def stop_server(home: Home) -> Server | None:
    """Stop the server and return it; None if no server was running."""
    server = find_server(home.server)
    if server is None:
        return None
    os.kill(server.pid, signal.SIGTERM)
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if find_server(home.server) is None:
            return server
        time.sleep(POLL_INTERVAL_S)
    raise ConfigError(f"process {server.pid} does not stop; see its log")
