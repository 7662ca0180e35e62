"""What people see: source lines, carets, no secrets, no control characters."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable

import click
import pytest

from noetl import load
from noetl.commands.output.diagnostics import format_diagnostic

Run = Callable[..., subprocess.CompletedProcess[str]]

KEY = "AKIAIOSFODNN7EXAMPLE"
GITHUB = "ghp_" + "a1B2" * 9


def blocks(text: str) -> list[str]:
    """Every finding as it is printed, without colours."""
    lines = text.splitlines()
    found = load(text).diagnostics
    return [click.unstyle(format_diagnostic(each, "f", lines)) for each in found]


def workload(head: str, value: str) -> str:
    steps = "workflow: [{step: start, tool: {kind: noop}}]\n"
    return f"{head}workload: {value}\n{steps}"


@pytest.fixture
def head(good: str) -> str:
    return good[: good.index("workflow:")]


def caret_at(block: str) -> str:
    """The part of the source line that the caret underlines."""
    _, source, marker, *_ = block.splitlines()
    start = marker.index("^")
    return source[start : marker.rindex("^") + 1]


@pytest.mark.spec("SRV-06")
@pytest.mark.parametrize(
    ("value", "marked"),
    [
        pytest.param("{mode: 0777}", "0777", id="a plain scalar"),
        pytest.param("{a: 'é', 日: 0777}", "0777", id="after other characters"),
        pytest.param("{password: hunter2hunter2, b: 007}", "007", id="after a secret"),
        pytest.param("{a: 1,\tb: 007}", "007", id="after a tab"),
        pytest.param("{a: " + "x" * 500 + ", b: 007}", "007", id="far to the right"),
    ],
)
def test_the_caret_stands_under_the_value(head: str, value: str, marked: str) -> None:
    octal = [block for block in blocks(workload(head, value)) if "octal" in block]
    assert [caret_at(block) for block in octal] == [marked]


@pytest.mark.spec("SRV-06")
def test_a_byte_order_mark_moves_nothing(noetl: Run, good: str) -> None:
    text = "\ufeff" + good.replace("noetl.io/v2", "noetl.io/v3")
    shown = noetl("validate", "-", stdin=text).stdout
    assert "    1 | apiVersion: noetl.io/v3\n      |             ^^^^^^^^^^^\n" in shown


@pytest.mark.spec("SRV-06")
def test_a_long_line_is_shown_in_part(head: str) -> None:
    value = "{a: " + "x" * 100_000 + ", b: 007, c: " + "y" * 100_000 + "}"
    [block] = blocks(workload(head, value))
    assert "b: 007, c: yyy" in block
    assert max(map(len, block.splitlines())) < 160


@pytest.mark.spec("WARN-05", "S-41")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"workload: {{key: {KEY}}}", id="in the workload"),
        pytest.param(f"workload: {{a: 007, key: {KEY}}}", id="beside another finding"),
        pytest.param(f"{KEY}: 1", id="as an unknown root key"),
        pytest.param(f"executor: {{{KEY}: 1}}", id="as a key"),
        pytest.param(f"executor: {KEY}", id="as a value of the wrong type"),
        pytest.param(f"keychain: {KEY}", id="as a keychain"),
        pytest.param(f"executor: {{profile: {KEY}}}", id="as a profile"),
        pytest.param(f"executor: {{spec: {{deadline: {KEY}}}}}", id="as a duration"),
        pytest.param(f"executor: {'x' * 26}{KEY}", id="where a message is cut"),
        pytest.param(
            f"executor: {{profile: '{'x ' * 25}{GITHUB}'}}", id="half of it shown"
        ),
        pytest.param(
            f"workload: {{a: {'x' * 300}, k: 007, q: '{'y' * 20} {GITHUB}'}}",
            id="at the edge of a long line",
        ),
        pytest.param(
            f"workload: {{q: '{GITHUB} {'y' * 20}', a: 007, b: {'x' * 300}}}",
            id="at the left edge of a long line",
        ),
    ],
)
def test_secrets_are_masked_everywhere(noetl: Run, good: str, text: str) -> None:
    document = good + text + "\n"
    for flags in ([], ["--json"]):
        done = noetl("validate", *flags, "-", stdin=document)
        shown = done.stdout + done.stderr
        assert "[" in shown
        for secret in (KEY, GITHUB):
            assert secret[:12] not in shown


@pytest.mark.spec("WARN-05", "S-41", "VAL-22")
def test_a_hint_masks_what_it_quotes(noetl: Run, head: str) -> None:
    text = (
        f"{head}workflow: [{{step: a, next: {{arcs: [{{step: a, when: {KEY}}}]}}}}]\n"
    )
    done = noetl("validate", "--json", "-", stdin=text)
    assert "needs template delimiters" in done.stdout
    assert KEY not in done.stdout


@pytest.mark.spec("SRV-06")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(r'tool: {kind: "\e[2J\x07x"}', id="in a kind"),
        pytest.param(r'"\e[31mkey": 1', id="in a key"),
        pytest.param(r'tool: {kind: noop, spec: {pool: ["\x9b31m"]}}', id="a C1 code"),
        pytest.param(r'desc: ["\u202e\u2066"]', id="writing direction"),
        pytest.param(r'tool: {kind: "a\nb\rc"}', id="line ends"),
    ],
)
def test_control_characters_never_reach_the_terminal(
    noetl: Run, head: str, text: str
) -> None:
    document = f"{head}workflow:\n  - step: start\n    {text}\n"
    done = noetl("validate", "-", stdin=document)
    assert done.returncode == 1
    assert all(char.isprintable() or char == "\n" for char in done.stdout)
    found = noetl("validate", "--json", "-", stdin=document)
    assert all(char.isprintable() or char == "\n" for char in found.stdout)


@pytest.mark.spec("SRV-06")
def test_raw_control_characters_are_shown_as_such(noetl: Run, head: str) -> None:
    done = noetl("validate", "-", stdin=f"{head}a: \x1b[2J\n")
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    assert "U+001B" in done.stdout
    assert "\ufffd[2J" in done.stdout


@pytest.mark.spec("SRV-06")
def test_a_message_stays_short(noetl: Run, head: str) -> None:
    text = f"{head}workflow: [{{step: a, tool: {{kind: {'k' * 100_000}}}}}]\n"
    for flags in ([], ["--json"]):
        done = noetl("validate", *flags, "-", stdin=text)
        assert "unknown tool kind 'kkk" in done.stdout
        assert len(done.stdout) < 3_000


@pytest.mark.spec("SRV-06")
def test_no_colours_in_a_pipe(noetl: Run, bad: str) -> None:
    assert "\x1b" not in noetl("validate", "-", stdin=bad).stdout


@pytest.mark.spec("SRV-06")
@pytest.mark.parametrize(
    ("environ", "coloured"),
    [
        pytest.param({}, True, id="on a terminal"),
        pytest.param({"NO_COLOR": "1"}, False, id="with NO_COLOR"),
    ],
)
def test_colours_on_a_terminal(
    bad: str, environ: dict[str, str], coloured: bool
) -> None:
    assert ("\x1b[" in on_a_terminal(bad, environ)) is coloured


def on_a_terminal(text: str, environ: dict[str, str]) -> str:
    """The output of ``noetl validate`` whose standard output is a terminal."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "noetl", "validate", "-"],
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=theirs,
        env={"PATH": os.environ["PATH"], "TERM": "xterm", **environ},
    )
    os.close(theirs)
    assert child.stdin is not None
    child.stdin.write(text.encode())
    child.stdin.close()
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    child.wait()
    return shown.decode()
