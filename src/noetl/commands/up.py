"""``noetl up``: a whole cluster on this machine, from packages alone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

import click

from noetl.cluster.nats import NAME as NATS_NAME
from noetl.cluster.nats import Nats
from noetl.cluster.parts import PATIENCE
from noetl.cluster.postgres import NAME as POSTGRES
from noetl.cluster.postgres import Postgres
from noetl.commands.doors import Door
from noetl.commands.parts import changing, given_place, parts_of, place_of
from noetl.commands.server import start_server, stop_server
from noetl.commands.targets import own_server
from noetl.commands.worker import start_worker, stop_workers
from noetl.config import DATABASE, NATS, SLOTS, read_settings
from noetl.crew import Member, members
from noetl.errors import ConfigError, NoetlError
from noetl.home import Home
from noetl.presence import Server, find_server
from noetl.presence import place_of as database_place

WORKERS = 2
POOL = "default"
LOOK = 0.05

Say = Callable[[str, str], None]


@click.command("up")
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    help=f"So many workers (without it: at least {WORKERS}).",
)
@click.option("--port", type=click.IntRange(0, 65535), help="The server's port (8082).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(workers: int | None, port: int | None, as_json: bool) -> None:
    """Start a whole cluster on this machine, or what is missing of it.

    PostgreSQL, NATS, a server and workers. All is ready when this returns, and goes on
    in the background until `noetl down`. The data is kept under the home. A PostgreSQL
    or NATS that the settings name is used instead of an own one. It is a cluster for
    one user: tools see the current folder and the local network, as `noetl config`
    shows. Exit code: 0, or 2 if a part cannot start.

    \b
    Example:
      noetl up && noetl catalog register examples/hello.yaml
      noetl exec examples/hello --wait
    """
    home = Home.of()

    def say(part: str, what: str) -> None:
        if not as_json:
            click.echo(f"{part:<11} {what}")

    with changing(home):
        before = find_server(home.server)
        if before is not None and not before.shared:
            message = f"a server without a database runs under {home.folder}"
            raise ConfigError(f"{message}; stop it first: noetl server stop")
        given = given_place(DATABASE)
        database = Postgres(home)
        moved = _raise_part(POSTGRES, given, database, say)
        if given is None:
            moved |= database.divide()
        moved |= _raise_part(NATS_NAME, given_place(NATS), Nats(home), say)
        server = _raise_server(home, port, say, moved=moved)
        _raise_workers(home, server, workers, say)
    if as_json:
        click.echo(json.dumps(parts_of(home)))
        return
    click.echo(f"\nready: {server.url}")
    click.echo("next:  noetl catalog register FILE, noetl exec PATH --wait")
    click.echo("       noetl status says what runs, noetl down stops it")


def _raise_part(name: str, given: str | None, own: Postgres | Nats, say: Say) -> bool:
    """Whether it is at another place than before."""
    if given is not None:
        say(name, f"is given by {given}")
        return False
    before = own.last_port
    part, word = own.find(), "runs"
    if part is None:
        part, word = own.start(), "started"
    say(name, f"{word}: {place_of(part)}")
    return before is not None and before != part.port


def _raise_server(home: Home, port: int | None, say: Say, *, moved: bool) -> Server:
    server, word = find_server(home.server), "runs"
    wanted = read_settings()[DATABASE] or Postgres(home).address()
    if server is not None and (moved or server.database != database_place(str(wanted))):
        stop_server()
        server = None
    if server is None or server.url is None:
        server, word = start_server(Door(port=port, personal=os.getcwd())), "started"
    elif port not in (None, 0, int(str(server.url).rpartition(":")[2])):
        message = f"the server runs at {server.url} already; to move it: noetl down"
        raise ConfigError(f"{message}, then noetl up --port {port}")
    _await_readiness()
    say("server", f"{word}: {server.url} (process {server.pid})")
    return server


def _await_readiness() -> None:
    """A server that outlived its database finds it again."""
    deadline = time.monotonic() + PATIENCE
    while True:
        client, reason = own_server(), "it has ended"
        try:
            if client is not None and client.get("/readyz")["status"] == "ready":
                return
        except NoetlError as error:
            reason = str(error)
        if time.monotonic() > deadline:
            raise ConfigError(f"the server does not become ready: {reason}")
        time.sleep(LOOK)


def _raise_workers(home: Home, server: Server, wanted: int | None, say: Say) -> None:
    url = str(server.url)
    found = [each for each in members(home.workers) if each.pool == POOL]
    lost = [each for each in found if url not in each.servers]
    found = [each for each in found if url in each.servers]
    count = wanted or max(WORKERS, len(found))
    stop_workers([*lost, *found[count:]])
    kept = found[:count]
    started = [
        start_worker(POOL, read_settings()[SLOTS], [url], server.personal)
        for _ in range(count - len(kept))
    ]
    for word, group in (("runs", kept), ("started", started)):
        for each in group:
            say("worker", f"{word}: {_describe(each)}")


def _describe(member: Member) -> str:
    return f"pool {member.pool}, {member.slots} slots (process {member.pid})"
