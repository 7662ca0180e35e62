"""``make demo``: a real run on a web service that fails on purpose, to watch.

    scripts/demo.py [--latency SECONDS] [arguments of noetl run]

Starts the demo API on a free port, runs examples/hotels.yaml on it (or what the
arguments say), shows what the log knows about it, and removes all traces: the API and
the NOETL_HOME are its own. The exit code is that of the run.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
INTERRUPTED = 130
INTRODUCTION = """\
The playbook examples/hotels.yaml reads the hotels of all cities from a web service,
three cities at a time, page by page. The service runs on this machine; it is slow, and
it answers every page with 503 twice. It does not know Atlantis, and Pompeii is gone.\
"""
NEXT = """\

Try next:
  .venv/bin/noetl run examples/hello.yaml         the smallest playbook
  .venv/bin/noetl run examples/countdown.yaml     press Ctrl-C, then noetl resume ID
  .venv/bin/noetl graph examples/hotels.yaml -o hotels.svg
  .venv/bin/python examples/api                   this API, for the other examples
  docs/tutorial/first-playbook.md                 write a playbook of your own
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Run an example on the demo API.")
    parser.add_argument("--latency", default="0.25", help="seconds per answer")
    options, run = parser.parse_known_args()
    # Ctrl-C is for `noetl run`, which pauses; this program stays to clean up after it.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.chdir(ROOT)
    with home(), api(options.latency) as url:
        if not run:
            print(INTRODUCTION)
        return show(url, run or ["examples/hotels.yaml"])


@contextmanager
def home() -> Iterator[None]:
    """Create an empty NOETL_HOME, and remove it at the end."""
    folder = tempfile.mkdtemp(prefix="noetl-demo-")
    os.environ["NOETL_HOME"] = folder
    try:
        yield
    finally:
        shutil.rmtree(folder)


@contextmanager
def api(latency: str) -> Iterator[str]:
    """Run the demo API as a process; yield its address."""
    command = [sys.executable, "examples/api", "--port", "0", "--latency", latency]
    # In a session of its own: Ctrl-C must not stop it before the run has paused.
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            sys.exit("demo: the API did not start")
        yield url
    finally:
        process.terminate()
        process.communicate()


def show(url: str, run: list[str]) -> int:
    print(flush=True)
    code = noetl("run", *run, "--set", f"api={url}")
    if code == INTERRUPTED:
        say("The demo removes its log, so this run ends here. To see one resumed:")
        print("  .venv/bin/noetl run examples/countdown.yaml")
    elif code != 0:
        say(f"The run ended with exit code {code}.")
    else:
        look_back(url)
    return code


def look_back(url: str) -> None:
    say("Every step of it is in the log:")
    noetl("list")
    (execution,) = json.loads(capture("list", "--json"))["executions"]
    noetl("show", execution["execution_id"])
    say("The log itself, its beginning and its end:")
    lines = capture("events", execution["execution_id"]).splitlines()
    print(*lines[:8], f"   … {len(lines) - 12} more", *lines[-4:], sep="\n")
    say(summary(url))
    print(NEXT, end="")


def summary(url: str) -> str:
    """Return a sentence with the API's counts of requests and refusals."""
    with urllib.request.urlopen(f"{url}/stats") as response:
        stats = json.load(response)
    refused = sum(path.get("503", 0) for path in stats["calls"].values())
    return f"The service counted {stats['total']} calls; {refused} of them it refused."


def noetl(*arguments: str) -> int:
    """Run noetl on the terminal of the user."""
    print(f"$ noetl {shlex.join(arguments)}", flush=True)
    return subprocess.run([command(), *arguments], check=False).returncode


def capture(*arguments: str) -> str:
    return subprocess.check_output([command(), *arguments], text=True)


def command() -> str:
    return str(Path(sys.executable).with_name("noetl"))


def say(text: str) -> None:
    bold, normal = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}{text}{normal}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
