"""What validation costs, beside what it is built on.

    python bench/validate.py

A playbook of 300 steps, some twenty lines and five templates each. Times are CPU
seconds; everything that is compared is measured in this run, on this machine.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jinja2
import yaml

from noetl import load
from noetl.templates import template as templates

STEPS = 300
ROUNDS = 5

STEP = """\
  - step: step_{n}
    desc: Fetch page {n}, keep its rows, go on.
    spec:
      policy:
        admit:
          rules:
            - when: "{{{{ args.page | default({n}) > 0 }}}}"
              then: {{ allow: true }}
            - else: {{ then: {{ allow: false }} }}
    tool:
      - fetch:
          kind: http
          url: "{{{{ workload.api }}}}/items/{n}?page={{{{ args.page | default({n}) }}}}"
          spec:
            policy:
              rules:
                - when: "{{{{ outcome.status == 'error' and _attempt < {n} + 3 }}}}"
                  then: {{ do: retry, attempts: 5, backoff: exponential, delay: 1s }}
                - else: {{ then: {{ do: continue, set_ctx: {{ rows_{n}: "{{{{ outcome.result.rows }}}}" }} }} }}
    next:
      arcs:
        - step: step_{next}
          when: "{{{{ event.name == 'step.done' and ctx.rows_{n} | length > 0 }}}}"
"""  # noqa: E501
HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: bench, path: bench/validate }
workload: { api: https://example.com }
workflow:
"""


def playbook(count: int) -> str:
    steps = [STEP.format(n=n, next=n + 1) for n in range(count)]
    last = f"  - step: step_{count}\n    tool: {{ kind: noop }}\n"
    return HEAD + "".join(steps) + last


def cpu_of_child(args: list[str]) -> float:
    """CPU seconds of a whole process."""
    with open(os.devnull, "wb") as nowhere:
        child = subprocess.Popen(args, stdout=nowhere)
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{args} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime


def cpu_of(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def median(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(ROUNDS))


def cold_load(text: str) -> object:
    """As the first playbook of a process: no template is in the cache."""
    templates._compile.cache_clear()
    templates._compile_long.cache_clear()
    return load(text)


def main() -> None:
    text = playbook(STEPS)
    sources = re.findall(r'"([^"]*\{\{[^"]*)"', text)
    stock = jinja2.Environment(autoescape=False)
    loaded = load(text)
    if loaded.playbook is None or loaded.diagnostics:
        raise SystemExit(f"the playbook is not clean: {loaded.diagnostics[:3]}")

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "playbook.yaml"
        file.write_text(text)
        command = [sys.executable, "-m", "noetl"]
        whole = median(lambda: cpu_of_child([*command, "validate", str(file)]))
        bare = median(lambda: cpu_of_child([sys.executable, "-c", "pass"]))
        front = median(lambda: cpu_of_child([*command, "--help"]))
    cold = median(lambda: cpu_of(lambda: cold_load(text)))
    warm = median(lambda: cpu_of(lambda: load(text)))
    plain = median(lambda: cpu_of(lambda: yaml.load(text, yaml.CSafeLoader)))
    parsed = median(lambda: cpu_of(lambda: [stock.parse(each) for each in sources]))

    lines = text.count("\n")
    both = plain + parsed
    print(f"playbook            {STEPS} steps, {lines:,} lines, {len(text):,} bytes")
    print(f"templates           {len(sources):,}, {len(set(sources)):,} different")
    print(f"noetl validate      {whole:.3f} s CPU, the whole process")
    print(f"load(), cold        {cold:.3f} s, no template cached")
    print(f"load(), warm        {warm:.3f} s, templates cached")
    print(
        f"yaml.CSafeLoader    {plain:.3f} s; cold load takes {cold / plain:.1f} times"
    )
    print(
        f"jinja2 parse        {parsed:.3f} s; cold load takes {cold / parsed:.1f} times"
    )
    print(f"both of them        {both:.3f} s; cold load takes {cold / both:.2f} times")
    print(f"noetl --help        {front:.3f} s CPU; Python itself {bare:.3f} s")


if __name__ == "__main__":
    main()
