"""``noetl server``: start, stop and look at the server of this home."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl.adapters.processes.tracing import forbid_tracing
from noetl.cluster.nats import Nats
from noetl.cluster.postgres import Postgres
from noetl.commands.doors import Door, read_oidc
from noetl.commands.targets import own_server
from noetl.config import (
    BEHIND_PROXY,
    DATABASE,
    DATABASE_OWNER,
    HOST,
    HOSTS,
    LEASE_TTL,
    NATS,
    PORT,
    PROXIES,
    SLOTS,
    START_RATE,
    TLS_CERT,
    TLS_KEY,
    read_extensions,
    read_plugins,
    read_settings,
)
from noetl.errors import ConfigError, NoetlError
from noetl.home import Home
from noetl.presence import Server, find_server
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl import server as role

PATIENCE = 30.0
"""Seconds that a server has to start, or to stop."""
LOOK = 0.05

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_host = click.option("--host", metavar="ADDRESS", help="Where to listen (127.0.0.1).")
_port = click.option("--port", type=click.IntRange(0, 65535), help="The port (8082).")


@click.group("server")
def command() -> None:
    """Start, stop and look at the server of this home.

    It executes registered playbooks for whoever asks over HTTP, on a store and with
    workers of its own. Each of the commands takes --json.

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
    help="Stay here and say what happens (--background: return when it is ready).",
)
@click.option(
    "--behind-proxy",
    is_flag=True,
    help="A proxy speaks TLS with clients (NOETL_BEHIND_PROXY).",
)
@click.option(
    "--tls-cert",
    metavar="FILE",
    help="Speak TLS with this certificate (NOETL_TLS_CERT).",
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
    """Start the server; it is ready when this returns.

    Its token is in the home's file `token`, for its user alone. An address that others
    can reach needs accounts (noetl user add), and TLS: a certificate, or a proxy that
    has one. Exit code: 0, or 2 if it cannot start.

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
    server = start_server(door)
    _report(server, as_json=as_json, word="the server is at")


@command.command("stop")
@_json
def stop(as_json: bool) -> None:
    """Stop the server: what runs is finished first, what waits is kept.

    \b
    Example:
      noetl server stop
    """
    server = stop_server()
    if as_json:
        click.echo(
            json.dumps({"running": False, "pid": server.pid if server else None})
        )
    elif server is None:
        click.echo(f"no server runs under {Home.of().folder}")
    else:
        click.echo(f"stopped: process {server.pid}")


@command.command("restart")
@_json
def restart(as_json: bool) -> None:
    """Stop the server and start it again, at the same address.

    \b
    Example:
      noetl server restart
    """
    before = stop_server()
    server = start_server(Door() if before is None else Door.of(before))
    _report(server, as_json=as_json, word="the server is at")


@command.command("status")
@_json
def status(as_json: bool) -> None:
    """Say whether the server runs and is ready. Exit code: 0, or 3 if not.

    \b
    Example:
      noetl server status
    """
    server, client = find_server(Home.of().server), own_server()
    ready = False
    if client is not None:
        try:
            ready = client.get("/readyz")["status"] == "ready"
        except NoetlError as error:
            click.echo(f"noetl: {error}", err=True)
    if as_json:
        click.echo(json.dumps({**_document(server), "ready": ready}))
    elif server is None:
        click.echo(f"no server runs under {Home.of().folder}")
    else:
        word = "ready" if ready else "not ready"
        click.echo(f"{word}: {server.url} (process {server.pid}, {server.version})")
    sys.exit(0 if ready else 3)


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
    """Be the server."""
    from noetl import server as role
    from noetl.journal import open_journal
    from noetl.options import Options
    from noetl.runtime.looping import run_long

    forbid_tracing()
    settings, home = read_settings(), Home.of()
    own = Postgres(home)
    database, owner = settings[DATABASE], settings[DATABASE_OWNER]
    if database is None:
        database, owner = own.address(), own.owner_address()
    options = Options(
        host=door.host or settings[HOST],
        port=settings[PORT] if door.port is None else door.port,
        database=database,
        database_owner=owner,
        nats=settings[NATS] or Nats(home).address(),
        lease_ttl=settings[LEASE_TTL],
        start_rate=settings[START_RATE],
        slots=settings[SLOTS] if database is None else 0,
        extensions=read_extensions(None),
        hosts=settings[HOSTS],
        proxies=settings[PROXIES],
        behind_proxy=door.behind_proxy or settings[BEHIND_PROXY],
        tls_cert=Path(door.tls_cert) if door.tls_cert else settings[TLS_CERT],
        tls_key=Path(door.tls_key) if door.tls_key else settings[TLS_KEY],
        oidc=read_oidc(settings),
        personal=door.personal,
    )
    home.make()
    open_journal(home.journal, foreground=True)
    run_long(_serve(role.Server.open(home, options, read_plugins())))


async def _serve(opening: Coroutine[None, None, role.Server]) -> None:
    server = await opening
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    await server.serve(lambda url: None)


def start_server(door: Door) -> Server:
    """Another process is the server; wait until it says where it is."""
    home = Home.of()
    running = find_server(home.server)
    if running is not None:
        message = f"a server runs under {home.folder} already: {running.url}"
        raise ConfigError(f"{message} (process {running.pid})")
    home.make()
    home.journal.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [sys.executable, "-m", "noetl", "server", "start", "--foreground"]
    command += door.options()
    output = home.journal / "server.out"
    with output.open("wb") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = find_server(home.server)
        if found is not None and found.url is not None and found.pid == process.pid:
            return found
        if process.poll() is not None:
            said = output.read_text("utf-8", "replace").strip().splitlines()
            reason = said[-1].removeprefix("noetl: ") if said else "it says nothing"
            raise ConfigError(f"the server did not start: {reason}")
        time.sleep(LOOK)
    process.terminate()
    raise ConfigError(f"the server was not ready in {PATIENCE:g} s; see {output}")


def stop_server() -> Server | None:
    """The server that was stopped, if there was one."""
    file = Home.of().server
    server = find_server(file)
    if server is None:
        return None
    os.kill(server.pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if find_server(file) is None:
            return server
        time.sleep(LOOK)
    raise ConfigError(f"process {server.pid} does not stop; its log says more")
