"""Feed ``noetl.load`` mutated and generated playbooks; only clean answers count.

    python tests/security/fuzz/yaml_source.py --count 200000 --seed 1

Inputs are made from the corpus (all playbooks of the tests and examples, and snippets
of every construct) by changing bytes, lines, tokens or the document's tree. Whatever
comes in: nothing is raised, every finding has a known code, a place inside the file and
printable words, a valid playbook is valid again in its canonical form and fits the
editors' schema, and one load takes less than a second. A failing input is saved.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import re
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs

from noetl import Loaded, load
from noetl.adapters.tools import BUILTIN
from noetl.commands.output.diagnostics import format_diagnostic
from noetl.dsl.canonical import canonical, digest, to_yaml
from noetl.dsl.diagnostics import Report
from noetl.dsl.grammar.schema import RECORDS, playbook_schema
from noetl.dsl.source import read_source

ROOT = Path(__file__).parents[3]
SLOW = 1.0  # seconds of CPU
BATCH = 500
BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
SECRET = "AKIA" + "IOSFODNN7EXAMPLE"
SEVERITIES = {"error", "warning", "hint"}
EXTENSIONS = (
    frozenset[str](),
    frozenset({"legacy"}),
    frozenset({"legacy", "classic"}),
    frozenset({"x_team", "workload"}),
)

SNIPPETS = [
    "loop: {in: [1], iterator: a, loop: {in: '{{ iter.a }}', iterator: b}}",
    "spec: {join: {mode: 2, from: [a, b]}, deadline: 5m, timers: {t: 1s}}",
    "spec: {policy: {failure: best_effort, admit: {rules: [{else: {then: {allow: no}}}]}}}",  # noqa: E501
    "next: {spec: {mode: inclusive}, arcs: [{step: start, when: true, args: {a: 1}}]}",
    "tool: [{kind: noop}, {name: b, kind: noop}, {c: {kind: noop}}]",
    "tool: {kind: workbook, name: w, args: {a: {b: 1}}}",
    "workbook: {w: {kind: python, code: 'x', args: {a: {c: 2}}}}",
    "then: {do: retry, attempts: 5, backoff: linear, delay: '{{ 2 }}', set_ctx: {a.b: 1}}",  # noqa: E501
    "case: [{when: '{{ x }}', then: [{a: {tool: {kind: noop}}}, {next: {to: [{step: b}]}}]}]",  # noqa: E501
    "executor: {spec: {extensions: [legacy], limits: {step_runs: 5}, http: {verify: no}}}",  # noqa: E501
    "keychain: [{name: k, kind: env, variable: K}]",
    "<<: *a\nb: &a {x: 1}\nc: *a",
    "a: |\n  text\n  more\nb: >-\n  folded\n",
    "? complex\n: value\n",
    "%YAML 1.2\n---\na: 1\n...\n",
]
SCALARS: list[Any] = [
    *(None, True, False, 0, 1, -1, 3, 10**20, 0.5, 1e300, "", "a", "start", "end"),
    *("{{ workload.x }}", "{{ iter.a.b }}", "{{ outcome.status == 'ok' }}", "{{ }}"),
    *("{{ event.name }}", "{{ keychain.k }}", "{{ keychain[0] }}", "{{ workload[1] }}"),
    *(
        "{% if a %}b{% endif %}",
        "{{ 1/0 }}",
        "{{ [1,2][5] }}",
        "{# c #}",
        "{{ _prev }}",
    ),
    *("{{ a.b.c | default(1) }}", "{{ range(3) }}", "{{ 'x' * 10 }}", "{{ '", "}}"),
    *("5s", "1d", "soon", "on", "retry", "jump", "all", "parallel", "legacy", "noop"),
    *("http", "python", "workbook", "../x", "a b", "é", "🦀", "\u202e", "\x1b[0m"),
    *(SECRET, "x" * 100, "__class__", "task_1", "index", "parent"),
    [],
    {},
    [[]],
    [{}],
    {"kind": "noop"},
    {"a": {"kind": "noop"}},
    {"do": "fail"},
    {"then": {"do": "fail"}},
    [1, "a", None],
]
TOKENS = [
    *(
        b": ",
        b"- ",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b"#",
        b"&a ",
        b"*a",
        b"!!str ",
        b"|\n",
    ),
    *(b">\n", b"'", b'"', b"---\n", b"...\n", b"? ", b"<<: ", b"\t", b"\r\n", b"\r"),
    *(b"~", b"null", b"true", b".nan", b".inf", b"0777", b"1e999", b"{{ ", b" }}"),
    *(b"{% ", b" %}", b"\xef\xbb\xbf", b"\xff", b"\x00", b"\xc2\x85", b"\xe2\x80\xa8"),
    *("é🦀".encode(), b"\\", b"%", b"@", b"`", b"\n\n", b"  "),
]


class Failure(NamedTuple):
    """An input that was not answered cleanly."""

    content: bytes
    extensions: frozenset[str]
    strict: bool
    problem: str


class Tally(NamedTuple):
    """What one batch saw."""

    done: int
    valid: int
    findings: int
    seconds: float
    slowest: float
    megabytes: float
    failures: list[Failure]


# -- inputs ---------------------------------------------------------------------------


@cache
def corpus() -> list[bytes]:
    files = [*(ROOT / "tests/playbooks").rglob("*.yaml")]
    files += (ROOT / "examples").rglob("*.yaml")
    texts = [path.read_bytes() for path in sorted(files)]
    return [text for text in texts if len(text) < 20_000] + [
        snippet.encode() for snippet in SNIPPETS
    ]


@cache
def trees() -> list[Any]:
    """The documents of the valid playbooks: one change may leave them valid."""
    valid = [text for text in corpus() if load(text).valid]
    found = [read_source(text, Report()) for text in valid]
    return [root.plain() for root in found if root is not None]


@cache
def words() -> list[str]:
    names = {key for record in RECORDS for key in (*record.fields, *record.retired)}
    for kind in BUILTIN.values():
        names |= {kind.name, *kind.inputs, *kind.knobs}
    return sorted(names)


@cache
def codes() -> frozenset[str]:
    page = (ROOT / "docs/reference/conformance.md").read_text()
    return frozenset(re.findall(r"^(?:- \*\*|\| )([A-Z]+(?:-[A-Z]+)*-\d+)", page, re.M))


@cache
def schema() -> Any:
    return jsonschema_rs.Draft202012Validator(playbook_schema(BUILTIN))


def anything(pick: random.Random) -> Any:
    """A value of any kind; a copy, because it may be changed where it is put."""
    return copy.deepcopy(pick.choice(SCALARS))


def change_bytes(pick: random.Random, content: bytes) -> bytes:
    text = bytearray(content)
    for _ in range(pick.randint(1, 4)):
        at = pick.randrange(len(text) + 1)
        match pick.randrange(5):
            case 0:
                text[at : at + 1] = bytes([pick.randrange(256)])
            case 1:
                del text[at : at + pick.randint(1, 20)]
            case 2:
                text[at:at] = pick.choice(TOKENS)
            case 3:
                text[at:at] = text[at : at + pick.randint(1, 40)]
            case _:
                text[at:at] = pick.choice(TOKENS) * pick.choice([2, 70, 500])
    return bytes(text)


def change_lines(pick: random.Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    for _ in range(pick.randint(1, 4)):
        at = pick.randrange(len(lines))
        match pick.randrange(6):
            case 0:
                lines.insert(at, pick.choice(lines))
            case 1:
                lines[at] = b"  " * pick.randint(0, 4) + lines[at].lstrip()
            case 2:
                lines.pop(at)
                lines = lines or [b""]
            case 3:
                other = pick.choice(corpus()).splitlines(keepends=True) or [b""]
                start = pick.randrange(len(other))
                lines[at:at] = other[start : start + pick.randint(1, 8)]
            case 4:
                lines[at] = lines[at].rstrip(b"\n") + b" # note\n"
            case _:
                other_at = pick.randrange(len(lines))
                lines[at], lines[other_at] = lines[other_at], lines[at]
    return b"".join(lines)


def change_tokens(pick: random.Random, content: bytes) -> bytes:
    parts = re.split(rb"([A-Za-z_][\w.-]*|\d+|[^\w\s])", content)
    for _ in range(pick.randint(1, 3)):
        at = pick.randrange(len(parts))
        choice = pick.randrange(3)
        if choice == 0:
            parts[at] = pick.choice(words()).encode()
        elif choice == 1:
            parts[at] = pick.choice(TOKENS)
        else:
            parts[at] = json.dumps(pick.choice(SCALARS)).encode()
    return b"".join(parts)


def change_tree(pick: random.Random, _: bytes) -> bytes:
    """A valid document's tree with other values, keys and shapes, as JSON."""
    tree = copy.deepcopy(pick.choice(trees()))
    for _ in range(pick.choice([1, 1, 1, 2, 5])):
        _change_node(pick, tree)
    text = json.dumps(tree, ensure_ascii=pick.random() < 0.5)
    return text.encode("utf-8", "surrogatepass")


def _change_node(pick: random.Random, tree: Any) -> None:
    """Walk down at random, then do something to what is found there."""
    here = tree
    while True:
        keys: list[Any] = list(here) if isinstance(here, dict) else [*range(len(here))]
        if not keys:
            break
        key = pick.choice(keys)
        if isinstance(here[key], dict | list) and pick.random() < 0.75:
            here = here[key]
            continue
        match pick.randrange(5):
            case 0 | 1:
                here[key] = pick.choice([anything(pick), pick.choice(words())])
            case 2:
                del here[key]
            case 3:
                here[key] = [here[key]] if pick.random() < 0.5 else {"a": here[key]}
            case _:
                here[key] = copy.deepcopy(pick.choice(trees()))
        return
    if isinstance(here, dict):
        here[pick.choice(words())] = anything(pick)
    else:
        here.append(anything(pick))


def generate(pick: random.Random, _: bytes) -> bytes:
    """A document from the grammar: known keys, values of any kind."""
    document: dict[str, Any] = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "f", "path": "fuzz/f"},
        "workflow": [_step(pick, i) for i in range(pick.randint(1, 4))],
    }
    for key in ("workload", "workbook", "executor", "keychain"):
        if pick.random() < 0.3:
            document[key] = _value(pick, 3)
    return json.dumps(document).encode()


def _step(pick: random.Random, index: int) -> dict[str, Any]:
    step: dict[str, Any] = {"step": "start" if index == 0 else f"s{index}"}
    if pick.random() < 0.8:
        step["tool"] = [_task(pick) for _ in range(pick.randint(1, 3))]
    if pick.random() < 0.4:
        step["loop"] = {"in": pick.choice(SCALARS), "iterator": pick.choice("ab_")}
    if pick.random() < 0.5:
        target = pick.choice(["start", "s1", "s2", "s9"])
        step["next"] = {"arcs": [{"step": target, "when": pick.choice(SCALARS)}]}
    if pick.random() < 0.3:
        step[pick.choice(words())] = _value(pick, 2)
    return step


def _task(pick: random.Random) -> dict[str, Any]:
    kind = pick.choice(list(BUILTIN.values()))
    body: dict[str, Any] = {"kind": kind.name}
    for name in pick.sample(list(kind.inputs), min(len(kind.inputs), 2)):
        body[name] = _value(pick, 1)
    if pick.random() < 0.5:
        then = {"do": pick.choice(["continue", "retry", "jump", "break", "x"])}
        then[pick.choice(words())] = _value(pick, 1)
        rule = {"when": pick.choice(SCALARS), "then": then}
        body["spec"] = {"policy": {"rules": [rule, _value(pick, 2)]}}
    return {pick.choice(["a", "b", "c", "task_1"]): body}


def _value(pick: random.Random, depth: int) -> Any:
    if depth == 0 or pick.random() < 0.4:
        return pick.choice(SCALARS)
    if pick.random() < 0.3:
        return [_value(pick, depth - 1) for _ in range(pick.randint(0, 3))]
    return {
        pick.choice(words()): _value(pick, depth - 1) for _ in range(pick.randint(0, 3))
    }


MAKERS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    change_bytes,
    change_lines,
    change_tokens,
    change_tree,
    generate,
)


# -- the answer -----------------------------------------------------------------------


def complaints(content: bytes, loaded: Loaded) -> Iterator[str]:
    """What is unclean in an answer."""
    failed = any(each.severity == "error" for each in loaded.diagnostics)
    if failed == loaded.valid:
        yield f"valid is {loaded.valid}, and an error was found: {failed}"
    lines = BREAK.split(content.decode("utf-8-sig", "replace"))
    for each in loaded.diagnostics:
        if each.code not in codes():
            yield f"unknown code {each.code}"
        if each.severity not in SEVERITIES:
            yield f"unknown severity {each.severity}"
        if not each.message or not f"{each.message}{each.hint}".isprintable():
            yield f"words that cannot be printed: {each!r}"
        if not 1 <= each.line <= len(lines):
            yield f"line {each.line} of {len(lines)}: {each!r}"
        elif not 1 <= each.column <= len(lines[each.line - 1]) + 1:
            yield f"column {each.column} of {len(lines[each.line - 1])}: {each!r}"
        if SECRET in f"{each.message}{each.hint}{each.path}":
            yield f"a secret is told: {each!r}"
    for each in loaded.diagnostics[:3]:
        if SECRET in format_diagnostic(each, "f", lines):
            yield f"a secret is shown: {each!r}"


def differences(content: bytes, loaded: Loaded, extensions: frozenset[str]) -> str:
    """Why a valid playbook is not the same in its canonical form, or empty."""
    assert loaded.playbook is not None
    again = load(to_yaml(canonical(loaded.playbook)), extensions=extensions).playbook
    if again is None or digest(again) != digest(loaded.playbook):
        return "the canonical form is another playbook"
    if loaded.playbook.extensions:
        return ""
    root = read_source(content, Report())
    assert root is not None
    errors = [error.message for error in schema().iter_errors(root.plain())]
    return f"valid, but not by the schema: {errors[:2]}" if errors else ""


def judge(content: bytes, extensions: frozenset[str], strict: bool) -> tuple[Any, ...]:
    """The problem (or empty), the result and the CPU seconds of one input."""
    start = time.process_time()
    try:
        loaded = load(content, extensions=extensions, strict=strict)
        seconds = time.process_time() - start
        problem = next(complaints(content, loaded), "")
        if not problem and loaded.valid and "legacy" not in loaded.playbook.extensions:
            problem = differences(content, loaded, extensions)
    except Exception:
        return traceback.format_exc(), None, time.process_time() - start
    if not problem and seconds > SLOW:
        problem = f"{seconds:.1f} s of CPU"
    return problem, loaded, seconds


def run_batch(seed: int, first: int, count: int) -> Tally:
    valid = findings = 0
    total = slowest = 0.0
    failures = []
    for index in range(first, first + count):
        pick = random.Random(f"{seed}:{index}")
        content = pick.choice(MAKERS)(pick, pick.choice(corpus()))
        extensions, strict = pick.choice(EXTENSIONS), pick.random() < 0.2
        problem, loaded, seconds = judge(content, extensions, strict)
        total += seconds
        slowest = max(slowest, seconds)
        if problem:
            failures.append(Failure(content, extensions, strict, problem))
        else:
            valid += loaded.valid
            findings += len(loaded.diagnostics)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Tally(count, valid, findings, total, slowest, peak, failures)


# -- the program ----------------------------------------------------------------------


def kind_of(failure: Failure) -> str:
    """Failures with the same last line have the same cause, most of the time."""
    lines = failure.problem.strip().splitlines()
    place = next((line for line in reversed(lines) if "File " in line), "")
    return re.sub(r"\d+|'[^']*'", "#", place + lines[-1])[:200]


def save(failure: Failure, number: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"yaml_source-{number}.yaml"
    path.write_bytes(failure.content)
    flags = "".join(
        f" --extensions {','.join(sorted(failure.extensions))}"
        if failure.extensions
        else ""
    ) + (" --strict" if failure.strict else "")
    print(failure.problem.strip().splitlines()[-1][:400])
    print(f"  python tests/security/fuzz/yaml_source.py --input {path}{flags}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--save", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--input", type=Path, help="judge this file alone")
    parser.add_argument("--extensions", default="", help="with --input")
    parser.add_argument("--strict", action="store_true", help="with --input")
    options = parser.parse_args()
    if options.input is not None:
        names = frozenset(name for name in options.extensions.split(",") if name)
        problem, _, seconds = judge(options.input.read_bytes(), names, options.strict)
        print(problem or f"clean, {seconds:.3f} s")
        return 1 if problem else 0
    starts = range(0, options.count, BATCH)
    with ProcessPoolExecutor(options.processes) as pool:
        jobs = [
            pool.submit(run_batch, options.seed, at, min(BATCH, options.count - at))
            for at in starts
        ]
        tallies = [job.result() for job in jobs]
    failures = [each for tally in tallies for each in tally.failures]
    distinct = {kind_of(each): each for each in failures}
    for number, each in enumerate(distinct.values(), start=1):
        save(each, number, options.save)
    done = sum(tally.done for tally in tallies)
    print(
        f"yaml_source: {done:,} inputs (seed {options.seed}), "
        f"{sum(t.valid for t in tallies):,} valid, "
        f"{sum(t.findings for t in tallies):,} findings; "
        f"mean {sum(t.seconds for t in tallies) / max(done, 1) * 1000:.2f} ms, "
        f"worst {max((t.slowest for t in tallies), default=0):.3f} s, "
        f"peak {max((t.megabytes for t in tallies), default=0):.0f} MiB; "
        f"{len(failures)} failures of {len(distinct)} kinds"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
