"""What task logs cost, what they lose in a kill, and whether they hold a secret.

    .venv/bin/python bench/task_logs.py [lines|kill|canaries …] [--rounds 5]

``lines``: one task prints a million lines, with its log kept and without, in turns; the
best time of the task, and the highest memory (RSS) of ``noetl run``. ``kill``: a task
prints a numbered line every millisecond until ``noetl run`` is killed with SIGKILL; the
age of the last line that is stored. ``canaries``: 200 secrets are printed in ten
encodings; how many are in the stored log, or in what ``noetl logs`` and ``noetl run``
print.
"""

from __future__ import annotations

import argparse
import base64
import html
import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

LINES = 1_000_000
HEAD = (
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: bench, path: bench/x}\n"
)
PRINTS = """
workflow:
  - step: start
    tool:
      kind: python
      code: |
        import os
        def main():
            for number in range(%d):
                print("row", number, "of the source was copied")
"""
TICKS = """
workflow:
  - step: start
    tool:
      kind: python
      args: {file: %s}
      code: |
        import time
        def main(file):
            with open(file, "w") as beside:
                while True:
                    now = time.time()
                    print(now)
                    beside.write(f"{now}\\n")
                    beside.flush()
                    time.sleep(0.001)
"""
TELLS = """
workflow:
  - step: start
    loop: {in: "{{ range(%d) }}", iterator: i, spec: {mode: parallel, max_in_flight: 8}}
    tool:
      kind: python
      args: {secret: "{{ keychain['s' ~ iter.i] }}"}
      code: |
        import base64, html, json, logging, shlex, sys
        from urllib.parse import quote
        def main(secret):
            data = secret.encode()
            print(secret)
            print("a" * 50, base64.b64encode(data).decode(), "b" * 50)
            print(base64.b64encode(b"x" + data).decode())
            print(base64.urlsafe_b64encode(b"xy" + data).decode())
            print(data.hex(), file=sys.stderr)
            sys.stderr.write(data.hex().upper() + "\\n")
            logging.warning("url %%s", quote(secret, safe=""))
            logging.error(json.dumps({"x": secret}))
            print(shlex.quote(secret), html.escape(secret), repr(secret))
            print("x" * 65_530 + secret)
"""
WITHOUT = """
import sys
from noetl.runtime.worker import pipeline_run
pipeline_run.TaskOutput = lambda *_: None
from noetl.clictl import main
main()
"""
"""``noetl`` that keeps no task logs."""


def noetl(
    folder: Path, *args: str, code: str = "", **environ: str
) -> tuple[str, str, int]:
    """Run the command; return what it printed, and its highest memory in KiB."""
    program = code or "from noetl.clictl import main; main()"
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *args],
            cwd=folder,
            env={**os.environ, "NOETL_HOME": str(folder / "home"), **environ},
            stdout=out,
            stderr=err,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return (
            (folder / "out").read_text(),
            (folder / "err").read_text(),
            used.ru_maxrss,
        )


def measure_lines(folder: Path, rounds: int) -> None:
    (folder / "prints.yaml").write_text(HEAD + PRINTS % LINES)
    best: dict[str, tuple[float, int]] = {}
    for _ in range(rounds):
        for name, code in (("kept", ""), ("not kept", WITHOUT)):
            out, _, peak = noetl(folder, "run", "prints.yaml", "--json", code=code)
            [step] = json.loads(out)["steps"]
            time, most = best.get(name, (float("inf"), 0))
            best[name] = min(time, step["duration_ms"] / 1000), max(most, peak)
    (kept, with_logs), (plain, without) = best["kept"], best["not kept"]
    say(f"{LINES:,} lines, log kept: {kept:.2f} s, {with_logs / 1024:.1f} MiB")
    say(f"{LINES:,} lines, not kept: {plain:.2f} s, {without / 1024:.1f} MiB")
    more = (with_logs - without) / 1024
    say(f"costs {100 * (kept / plain - 1):+.1f} % of time and {more:+.1f} MiB")
    noetl(folder, "run", "prints.yaml", "--json")
    out, _, _ = noetl(folder, "logs", "last", "--json")
    say(f"{len(out.splitlines()):,} lines are in the last log")


def measure_kill(folder: Path, rounds: int) -> None:
    worst = 0.0
    for number in range(rounds):
        home, beside = folder / f"home-{number}", folder / f"beside-{number}"
        (folder / "ticks.yaml").write_text(HEAD + TICKS % beside)
        process = subprocess.Popen(
            [sys.executable, "-m", "noetl", "run", "ticks.yaml", "--no-progress"],
            cwd=folder,
            env={**os.environ, "NOETL_HOME": str(home)},
        )
        time.sleep(4 + number * 0.13)
        process.send_signal(signal.SIGKILL)
        process.wait()
        [log] = (home / "task-logs").iterdir()
        chunks = [json.loads(line) for line in log.read_bytes().splitlines()]
        stored = float(chunks[-1]["texts"][-1][3].split("\n")[-1])
        printed = float(beside.read_text().splitlines()[-1])
        worst = max(worst, printed - stored)
    say(f"{rounds} kills lost at most the last {worst:.2f} s of the output")


def search_canaries(folder: Path, count: int = 200) -> None:
    entries = ", ".join(
        f"{{name: s{n}, kind: env, variable: S{n}}}" for n in range(count)
    )
    (folder / "tells.yaml").write_text(HEAD + f"keychain: [{entries}]" + TELLS % count)
    values = {f"S{n}": f"c&n+ry/{secrets.token_urlsafe(18)}=" for n in range(count)}
    out, err, _ = noetl(folder, "run", "tells.yaml", **values)
    logs, _, _ = noetl(folder, "logs", "last")
    raw, _, _ = noetl(folder, "logs", "last", "--json")
    stored = b"".join(f.read_bytes() for f in (folder / "home/task-logs").iterdir())
    places = {"the store": stored, "noetl logs": (logs + raw).encode()}
    places["noetl run"] = (out + err).encode()
    found = [
        (place, value)
        for place, text in places.items()
        for value in values.values()
        if any(form.encode() in text for form in forms(value))
    ]
    lines = len(raw.splitlines())
    say(f"{lines:,} lines with {count} secrets, each in ten encodings")
    say(f"{len(found)} secrets found in {', '.join(places)}")
    assert lines >= 10 * count, err[-2000:]


def forms(value: str) -> set[str]:
    """Return the encodings that ``TELLS`` prints, without what surrounds the secret."""
    data = value.encode()
    return {
        value,
        base64.b64encode(data).decode().rstrip("="),
        base64.b64encode(b"x" + data).decode()[2:].rstrip("="),
        base64.urlsafe_b64encode(b"xy" + data).decode()[3:].rstrip("="),
        data.hex(),
        data.hex().upper(),
        quote(value, safe=""),
        json.dumps(value)[1:-1],
        shlex.quote(value),
        html.escape(value),
        value[:12],
    }


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["lines", "kill", "canaries"])
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    for part in asked.parts:
        with tempfile.TemporaryDirectory() as folder:
            if part == "lines":
                measure_lines(Path(folder), asked.rounds)
            elif part == "kill":
                measure_kill(Path(folder), asked.rounds)
            else:
                search_canaries(Path(folder))


if __name__ == "__main__":
    main()
