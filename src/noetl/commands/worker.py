"""``noetl worker``: worker processes of a server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time

import click
import msgspec

from noetl.adapters.processes.isolation import forbid_tracing
from noetl.client.http import Client
from noetl.commands.remote.choose_server import (
    ca_option,
    need_server,
    token_of_home,
    trust_of,
)
from noetl.commands.settings import pass_settings
from noetl.config import SLOTS, Settings, read_plugins, read_settings
from noetl.engine.times import rfc3339
from noetl.errors import ConfigError
from noetl.local.home import Home
from noetl.local.process_files import Attendance, Member, find_server, members
from noetl.local.services.nats import without_credential
from noetl.local.services.process import start_role
from noetl.types import JSON

TIMEOUT_S = 40.0
"""Maximum seconds for a worker to start, or to finish its tasks."""
POLL_INTERVAL_S = 0.05

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_pool = click.option(
    "--pool", default="default", show_default=True, help="The worker pool."
)
_slots = click.option(
    "--slots", type=click.IntRange(1, 1024), help="Parallel pipelines (16)."
)
_server = click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="URL",
    help="A server of the cluster; several are used in turn (NOETL_SERVER).",
)


@click.group("worker")
def command() -> None:
    """Start, stop and count workers: processes that run tools for a server.

    A worker has no endpoint: it polls a server for work, runs it and reports. Large
    results go through the server, or directly to its bucket if the worker has the same
    results_url. Each of the commands takes --json.

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
@click.option("--foreground/--background", default=False, help="Stay in the terminal.")
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
    if foreground:
        _run(pool, slots, servers, personal)
        return
    settings = read_settings()
    urls = _servers(settings, servers)
    home, slots = Home.of(settings), slots or settings[SLOTS]
    member = start_worker(home, pool, slots, urls, personal)
    _print(home, [member], as_json=as_json, word="started")


@command.command("stop")
@click.option("--pool", help="Only workers of this pool.")
@_json
@pass_settings
def stop(settings: Settings, pool: str | None, as_json: bool) -> None:
    """Stop the workers of this home; they finish their tasks first.

    \b
    Example:
      noetl worker stop --pool gpu
    """
    home = Home.of(settings)
    stopped = stop_workers(home, _found(home, pool))
    _print(home, stopped, as_json=as_json, word="stopped")


@command.command("status")
@click.option("--pool", help="Only workers of this pool.")
@click.option(
    "--server", metavar="URL", help="All workers of this server or its cluster."
)
@ca_option
@_json
@pass_settings
def status(
    settings: Settings, pool: str | None, server: str | None, as_json: bool
) -> None:
    """List the workers of this home, or with --server those of a cluster.

    Exit code: 0, or 3 if there is none.

    \b
    Examples:
      noetl worker status
      noetl worker status --server https://noetl.example.com
    """
    if server is not None:
        client = need_server(settings, server)
        sys.exit(_report_workers(client, pool, as_json=as_json))
    home = Home.of(settings)
    found = _found(home, pool)
    _print(home, found, as_json=as_json, word="working")
    sys.exit(0 if found else 3)


@command.command("scale")
@click.argument("count", type=click.IntRange(0, 256))
@_pool
@_slots
@_server
@ca_option
@_json
@pass_settings
def scale(
    settings: Settings,
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
    home, urls = Home.of(settings), _servers(settings, servers)
    found = _found(home, pool)
    stop_workers(home, found[count:])
    for _ in range(count - len(found)):
        personal = _personal(home, urls)
        start_worker(home, pool, slots or settings[SLOTS], urls, personal)
    _print(home, _found(home, pool), as_json=as_json, word="working")


def _report_workers(client: Client, pool: str | None, *, as_json: bool) -> int:
    answer = client.get("/api/workers", pool=pool)
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
    for each in [] if as_json else answer["workers"]:
        load = f"{each['running']} of {each['slots']} slots"
        where = f"seen {each['seen_at']}"
        if each["account"] is not None:
            where = f"{each['account']} from {each['address']}, {where}"
        code = "" if each.get("code", True) else "; runs no code"
        click.echo(f"{each['worker']} (pool {each['pool']}, {load}; {where}{code})")
    if not answer["workers"] and not as_json:
        click.echo(f"no worker asked {client.url} for work within the last hour")
    return 0 if answer["workers"] else 3


def _servers(settings: Settings, given: tuple[str, ...]) -> list[str]:
    for url in given:
        if not url.startswith(("http://", "https://")):
            hint = "write it as http://127.0.0.1:8082"
            raise ConfigError(f"--server {url}: not a valid server address; {hint}")
    return list(given) or [need_server(settings, None).url]


def _personal(home: Home, urls: list[str]) -> str | None:
    """Return the folder of the ``noetl up`` that started the server of this home."""
    server = find_server(home.server)
    return server.personal if server is not None and server.url in urls else None


def _found(home: Home, pool: str | None) -> list[Member]:
    found = members(home.workers)
    return [each for each in found if pool is None or each.pool == pool]


def _print(home: Home, found: list[Member], *, as_json: bool, word: str) -> None:
    if as_json:
        workers: list[JSON] = [msgspec.to_builtins(each) for each in found]
        click.echo(json.dumps({"workers": workers}))
        return
    for each in found:
        where = f"pool {each.pool}, {each.slots} slots, process {each.pid}"
        code = "" if each.code else ", runs no code"
        click.echo(f"{word}: {each.name} ({where}{code})")
    if not found:
        click.echo(f"no worker is running under {home.folder}")


def _run(
    pool: str, slots: int | None, given: tuple[str, ...], personal: str | None
) -> None:
    """Run the worker in this process."""
    from noetl import worker as role
    from noetl.local.log_files import open_log
    from noetl.runtime.event_loop import run_long

    forbid_tracing()
    settings = read_settings()
    servers = _servers(settings, given)
    slots = slots or settings[SLOTS]
    home = Home.of(settings)
    home.make()
    name, token = role.new_name(), token_of_home(settings)
    about = {"role": "worker", "worker": name, "pool": pool}
    secrets = [] if token is None else [token]
    open_log(home.journal, settings, name="worker", secrets=secrets, about=about)
    if token is None:
        message = "a worker needs a token: set NOETL_TOKEN, or start it under the home "
        raise ConfigError(f"{message}of its server")
    options = role.Options(
        servers=servers,
        token=token,
        pool=pool,
        slots=slots,
        personal=personal,
        name=name,
    )

    async def serve() -> None:
        worker = role.Worker(
            home, options, settings, read_plugins(settings), trust_of(settings)
        )
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
                code=worker.runs_code,
            ),
        )
        try:
            await worker.serve()
        finally:
            attendance.end()

    run_long(serve())


def start_worker(
    home: Home, pool: str, slots: int, servers: list[str], personal: str | None = None
) -> Member:
    command = [sys.executable, "-m", "noetl", "worker", "start", "--foreground"]
    command += ["--pool", pool, "--slots", str(slots)]
    for url in servers:
        command += ["--server", url]
    if personal is not None:
        command += ["--personal", personal]

    def find(pid: int) -> Member | None:
        found = (each for each in members(home.workers) if each.pid == pid)
        return next(found, None)

    output = home.journal / "worker.out"
    environment = without_credential(os.environ)
    return start_role("the worker", command, output, find, TIMEOUT_S, environment)


def stop_workers(home: Home, found: list[Member]) -> list[Member]:
    for member in found:
        os.kill(member.pid, signal.SIGTERM)
    deadline = time.monotonic() + TIMEOUT_S
    left = {member.pid for member in found}
    while left and time.monotonic() < deadline:
        left &= {member.pid for member in members(home.workers)}
        time.sleep(POLL_INTERVAL_S)
    if left:
        names = ", ".join(map(str, sorted(left)))
        raise ConfigError(f"these processes do not stop: {names}")
    return found
