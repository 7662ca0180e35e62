"""The demo API: a small web service for the examples, on this machine alone.

    python examples/api               on port 8765, where the examples look for it
    python examples/api --port 0      on a free port; its address is the first line

It answers the same on every machine and needs no network. It fails, too, by a plan that
is written down (faults.py), so that an example can show what happens then. ``GET /``
lists all it can do. Stop it with Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys

from aiohttp import web

from application import make_application


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python examples/api", description="Serve the demo API on 127.0.0.1."
    )
    parser.add_argument("--port", type=int, default=8765, help="0 takes a free one")
    parser.add_argument(
        "--latency", type=float, default=0.0, help="seconds that each answer takes"
    )
    return parser.parse_args()


async def serve(port: int, latency: float) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runner = web.AppRunner(make_application(latency), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
    except OSError as error:
        await runner.cleanup()
        sys.exit(f"port {port}: {os.strerror(error.errno or 0)}; try --port 0")
    sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await stop.wait()
    await runner.cleanup()


if __name__ == "__main__":
    arguments = read_arguments()
    asyncio.run(serve(arguments.port, arguments.latency))
