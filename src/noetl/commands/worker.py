"""``noetl worker``: processes that do the work of a server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

import click
import msgspec

from noetl.adapters.processes.tracing import forbid_tracing
from noetl.client import Client
from noetl.commands.targets import ca_option, need_server, token_of_home, trust_of
from noetl.config import SLOTS, read_plugins, read_settings
from noetl.crew import Attendance, Member, members
from noetl.engine.times import rfc3339
from noetl.errors import ConfigError
from noetl.home import Home
from noetl.presence import find_server
from noetl.types import JSON

PATIENCE = 40.0
"""Seconds that a worker has to start, or to finish what it does."""
LOOK = 0.05

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_pool = click.option(
    "--pool", default="default", show_default=True, help="Whose work it is."
)
_slots = click.option(
    "--slots", type=click.IntRange(1, 1024), help="Pipelines at once (16)."
)
_server = click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="URL",
    help="A server of the cluster; several are asked in turn (NOETL_SERVER).",
)


@click.group("worker")
def command() -> None:
    """Start, stop and count workers: processes that run tools for a server.

    A worker has no endpoint: it asks a server for work, does it and reports. Large
    results go by way of the server, or straight to its bucket if the worker has the
    same results_url. Each of the commands takes --json.

    \b
    Examples:
      noetl worker start
      noetl worker scale 4 --pool gpu
    """


@command.command("start")
@_pool
@_slots
@_server
@ca_option
@click.option(
    "--foreground/--background", default=False, help="Stay here and do the work."
)
@click.option("--personal", hidden=True, help="The folder of a noetl up.")
@_json
def start(
    pool: str,
    slots: int | None,
    servers: tuple[str, ...],
    foreground: bool,
    personal: str | None,
    as_json: bool,
) -> None:
    """Start one worker process.

    \b
    Example:
      noetl worker start --pool default --slots 8
    """
    urls = _servers(servers)
    slots = slots or read_settings()[SLOTS]
    if foreground:
        _run(pool, slots, urls, personal)
        return
    member = start_worker(pool, slots, urls, personal)
    _print([member], as_json=as_json, word="started")


@command.command("stop")
@click.option("--pool", help="Only workers of this pool.")
@_json
def stop(pool: str | None, as_json: bool) -> None:
    """Stop the workers of this home: what they do is finished first.

    \b
    Example:
      noetl worker stop --pool gpu
    """
    stopped = stop_workers(_found(pool))
    _print(stopped, as_json=as_json, word="stopped")


@command.command("status")
@click.option("--pool", help="Only workers of this pool.")
@click.option(
    "--server", metavar="URL", help="All workers that ask this server, or its cluster."
)
@ca_option
@_json
def status(pool: str | None, server: str | None, as_json: bool) -> None:
    """List the workers of this home, or with --server those of a cluster.

    Exit code: 0, or 3 if there is none.

    \b
    Examples:
      noetl worker status
      noetl worker status --server https://noetl.example.com
    """
    if server is not None:
        sys.exit(_report_workers(need_server(server), pool, as_json=as_json))
    found = _found(pool)
    _print(found, as_json=as_json, word="working")
    sys.exit(0 if found else 3)


@command.command("scale")
@click.argument("count", type=click.IntRange(0, 256))
@_pool
@_slots
@_server
@ca_option
@_json
def scale(
    count: int,
    pool: str,
    slots: int | None,
    servers: tuple[str, ...],
    as_json: bool,
) -> None:
    """Start or stop workers until a pool has COUNT of them.

    \b
    Example:
      noetl worker scale 4 --pool default
    """
    urls = _servers(servers)
    found = _found(pool)
    stop_workers(found[count:])
    for _ in range(count - len(found)):
        start_worker(pool, slots or read_settings()[SLOTS], urls, _personal(urls))
    _print(_found(pool), as_json=as_json, word="working")


def _report_workers(client: Client, pool: str | None, *, as_json: bool) -> int:
    answer = client.get("/api/workers", pool=pool)
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
    for each in [] if as_json else answer["workers"]:
        load = f"{each['running']} of {each['slots']} slots"
        where = f"seen {each['seen_at']}"
        if each["account"] is not None:
            where = f"{each['account']} from {each['address']}, {where}"
        click.echo(f"{each['worker']} (pool {each['pool']}, {load}; {where})")
    if not answer["workers"] and not as_json:
        click.echo(f"no worker asked {client.url} for work within the last hour")
    return 0 if answer["workers"] else 3


def _servers(given: tuple[str, ...]) -> list[str]:
    for url in given:
        if not url.startswith(("http://", "https://")):
            hint = "write it as http://127.0.0.1:8082"
            raise ConfigError(f"--server {url}: no address of a server; {hint}")
    return list(given) or [need_server(None).url]


def _personal(urls: list[str]) -> str | None:
    """The folder of the ``noetl up`` that started the server of this home."""
    server = find_server(Home.of().server)
    return server.personal if server is not None and server.url in urls else None


def _found(pool: str | None) -> list[Member]:
    found = members(Home.of().workers)
    return [each for each in found if pool is None or each.pool == pool]


def _print(found: list[Member], *, as_json: bool, word: str) -> None:
    if as_json:
        workers: list[JSON] = [msgspec.to_builtins(each) for each in found]
        click.echo(json.dumps({"workers": workers}))
        return
    for each in found:
        where = f"pool {each.pool}, {each.slots} slots, process {each.pid}"
        click.echo(f"{word}: {each.name} ({where})")
    if not found:
        click.echo(f"no worker runs under {Home.of().folder}")


def _run(pool: str, slots: int, servers: list[str], personal: str | None) -> None:
    """Be the worker."""
    from noetl import worker as role
    from noetl.journal import open_journal
    from noetl.runtime.looping import run_long

    forbid_tracing()
    home = Home.of()
    home.make()
    open_journal(home.journal, foreground=True, name="worker")
    token = token_of_home()
    if token is None:
        message = "a worker needs a token: set NOETL_TOKEN, or start it under the home "
        raise ConfigError(f"{message}of its server")
    options = role.Options(
        servers=servers, token=token, pool=pool, slots=slots, personal=personal
    )

    async def serve() -> None:
        worker = role.Worker(home, options, read_plugins(), trust_of)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.stop)
        attendance = Attendance(
            home.workers,
            Member(
                pid=os.getpid(),
                name=worker.name,
                pool=pool,
                slots=slots,
                servers=servers,
                started_at=rfc3339(time.time()),
            ),
        )
        try:
            await worker.serve()
        finally:
            attendance.end()

    run_long(serve())


def start_worker(
    pool: str, slots: int, servers: list[str], personal: str | None = None
) -> Member:
    home = Home.of()
    home.journal.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [sys.executable, "-m", "noetl", "worker", "start", "--foreground"]
    command += ["--pool", pool, "--slots", str(slots)]
    for url in servers:
        command += ["--server", url]
    if personal is not None:
        command += ["--personal", personal]
    output = home.journal / "worker.out"
    with output.open("ab") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for member in members(home.workers):
            if member.pid == process.pid:
                return member
        if process.poll() is not None:
            said = output.read_text("utf-8", "replace").strip().splitlines()
            reason = said[-1].removeprefix("noetl: ") if said else "it says nothing"
            raise ConfigError(f"the worker did not start: {reason}")
        time.sleep(LOOK)
    process.terminate()
    raise ConfigError(f"the worker was not ready in {PATIENCE:g} s; see {output}")


def stop_workers(found: list[Member]) -> list[Member]:
    for member in found:
        os.kill(member.pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    left = {member.pid for member in found}
    while left and time.monotonic() < deadline:
        left &= {member.pid for member in members(Home.of().workers)}
        time.sleep(LOOK)
    if left:
        names = ", ".join(map(str, sorted(left)))
        raise ConfigError(f"these processes do not stop: {names}")
    return found
