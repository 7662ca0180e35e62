"""``noetl up``: a complete local cluster from Python packages."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import time
from collections.abc import Callable

import click

from noetl.commands.local.services import changing, given_place, parts_of, slot_of
from noetl.commands.remote.choose_server import own_server
from noetl.commands.remote.web_page import make_link
from noetl.commands.server import start_server, stop_server
from noetl.commands.server_options import Door
from noetl.commands.settings import pass_settings
from noetl.commands.worker import start_worker, stop_workers
from noetl.config import DATABASE, NATS, NATS_BUCKETS, PORT, SLOTS, Settings
from noetl.errors import ConfigError, NoetlError
from noetl.local.home import Home
from noetl.local.process_files import (
    Member,
    Server,
    find_server,
    forget_killed,
    members,
)
from noetl.local.process_files import slot_of as database_place
from noetl.local.services.nats import NAME as NATS_NAME
from noetl.local.services.nats import Nats
from noetl.local.services.postgres import NAME as POSTGRES
from noetl.local.services.postgres import Postgres
from noetl.local.services.process import TIMEOUT_S

WORKERS = 2
POOL = "default"
HOST = "127.0.0.1"
ANSWER_S = 0.5
"""Seconds in which the program at a taken port must say that it is NoETL."""
ANSWER_BYTES = 1_000
POLL_INTERVAL_S = 0.05

Say = Callable[[str, str], None]


@click.command("up")
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    help=f"The number of workers (default: at least {WORKERS}).",
)
@click.option("--port", type=click.IntRange(0, 65535), help="The server's port (8082).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(
    settings: Settings, workers: int | None, port: int | None, as_json: bool
) -> None:
    """Start a complete cluster on this machine, or its missing services.

    The services are PostgreSQL, NATS, a server and workers. They are ready when the
    command returns, and run in the background until `noetl down`. The data is kept
    under the home. A PostgreSQL or NATS that the settings name is used instead of a
    local one. The cluster is for one user: tools can reach the current folder and the
    local network, as `noetl config` shows. Exit code: 0, or 2 if a service cannot
    start.

    \b
    Example:
      noetl up && noetl catalog register examples/hello.yaml
      noetl exec examples/hello --wait
    """
    home = Home.of(settings)

    def say(part: str, what: str) -> None:
        if not as_json:
            click.echo(f"{part:<11} {what}")

    with changing(home):
        before = find_server(home.server)
        if before is not None and not before.shared:
            message = f"a server without a database is running under {home.folder}"
            raise ConfigError(f"{message}; stop it first: noetl server stop")
        if before is None:  # nothing is started if the server cannot be
            _check_port(port if port is not None else settings[PORT])
        given = given_place(settings, DATABASE)
        database = Postgres(home)
        moved = _raise_part(POSTGRES, given, database, say)
        if given is None:
            moved |= database.divide()
        given, bus = given_place(settings, NATS), Nats(home, settings[NATS_BUCKETS])
        moved |= given is None and bus.renew()
        moved |= _raise_part(NATS_NAME, given, bus, say)
        server = _raise_server(settings, home, port, say, moved=moved)
        _raise_workers(settings, home, server, workers, say)
    if as_json:
        click.echo(json.dumps(parts_of(home, settings)))
        return
    click.echo(f"\nready: {server.url}")
    _print_link(settings)
    click.echo("next:  noetl catalog register FILE, noetl exec PATH --wait")
    click.echo("       noetl status shows what is running, noetl down stops it")


def _print_link(settings: Settings) -> None:
    client = own_server(settings)
    if client is not None:
        with contextlib.suppress(NoetlError):  # noetl ui says why
            click.echo(f"ui:    {make_link(client).url}")
            click.echo("       (signs in once, within a minute; later: noetl ui)")


def _check_port(port: int) -> None:
    """Raise ``ConfigError`` if the port is taken, and name a NoETL that has it."""
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((HOST, port))
        except OSError as error:
            reason, url = error.strerror or str(error), f"http://{HOST}:{port}"
        else:
            return
    message = f"cannot listen at {HOST}:{port}: {reason}"
    hint = "choose another port, for example with --port 8083"
    if _is_noetl(port):
        message += ": a NoETL server of another home has it"
        hint = f"use that one with --server {url}, or {hint}"
    raise ConfigError(f"{message}; {hint}; nothing was started")


def _is_noetl(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER_S)
    try:
        connection.request("GET", "/healthz")
        return "status" in json.loads(connection.getresponse().read(ANSWER_BYTES))
    except (OSError, http.client.HTTPException, ValueError, TypeError):
        return False
    finally:
        connection.close()


def _raise_part(name: str, given: str | None, own: Postgres | Nats, say: Say) -> bool:
    """Start a service if it is missing; return whether its address has changed."""
    if given is not None:
        say(name, f"is given by {given}")
        return False
    before = own.last_port
    part, word = own.find(), "runs"
    if part is None:
        part, word = own.start(), "started"
    say(name, f"{word}: {slot_of(part)}")
    return before is not None and before != part.port


def _raise_server(
    settings: Settings, home: Home, port: int | None, say: Say, *, moved: bool
) -> Server:
    server, word = find_server(home.server), "runs"
    wanted = settings[DATABASE] or Postgres(home).address()
    if server is not None and (moved or server.database != database_place(str(wanted))):
        stop_server(home)
        server = None
    if server is None or server.url is None:
        door, word = Door(port=port, personal=os.getcwd()), "started"
        server = start_server(home, door)
    elif port not in (None, 0, int(str(server.url).rpartition(":")[2])):
        message = f"the server already runs at {server.url}; to move it: noetl down"
        raise ConfigError(f"{message}, then noetl up --port {port}")
    _await_readiness(settings)
    say("server", f"{word}: {server.url} (process {server.pid})")
    return server


def _await_readiness(settings: Settings) -> None:
    """Wait until the server is ready, also one that must reconnect to its database."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        client, reason = own_server(settings), "it has ended"
        try:
            if client is not None and client.get("/readyz")["status"] == "ready":
                return
        except NoetlError as error:
            reason = str(error)
        if time.monotonic() > deadline:
            raise ConfigError(f"the server did not become ready: {reason}")
        time.sleep(POLL_INTERVAL_S)


def _raise_workers(
    settings: Settings, home: Home, server: Server, wanted: int | None, say: Say
) -> None:
    url = str(server.url)
    forget_killed(home.workers)
    found = [each for each in members(home.workers) if each.pool == POOL]
    lost = [each for each in found if url not in each.servers]
    found = [each for each in found if url in each.servers]
    count = wanted or max(WORKERS, len(found))
    stop_workers(home, [*lost, *found[count:]])
    kept = found[:count]
    started = [
        start_worker(home, POOL, settings[SLOTS], [url], server.personal)
        for _ in range(count - len(kept))
    ]
    for word, group in (("runs", kept), ("started", started)):
        for each in group:
            say("worker", f"{word}: {_describe(each)}")


def _describe(member: Member) -> str:
    return f"pool {member.pool}, {member.slots} slots (process {member.pid})"
