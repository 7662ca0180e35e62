"""Python code that would hang, fill or crash the compiler: the validator goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Validate = Callable[..., Any]

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
HEAD += "workflow:\n  - step: start\n    tool:\n"

LARGE = {
    "slow": "def f(a):\n return a\n" * 20_000,
    "of much memory": "x = [" + "1," * 450_000 + "]",
    "of deep nesting": "x = " + "-" * 400_000 + "1",
}


def task(code: str) -> str:
    lines = "".join(f"          {line}\n" for line in code.splitlines())
    return f"      - kind: python\n        code: |\n{lines}"


@pytest.mark.spec("PIPE-15", "S-70", "SRV-06")
@pytest.mark.parametrize("kind", LARGE)
def test_code_above_the_limits_is_a_warning(validate: Validate, kind: str) -> None:
    text = HEAD + task("def main() return 1") + task(LARGE[kind]) + task("result = (")
    answer = validate(text.encode(), "--json")
    assert answer.code == 1
    assert [each["rule"] for each in answer.findings] == [
        "code-syntax",
        "code-unchecked",
    ]
    assert answer.seconds < 4
    assert answer.megabytes < 256


@pytest.mark.spec("PIPE-15")
def test_nothing_of_the_code_is_run(validate: Validate, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    code = f"@open({str(trace)!r}, 'w').write\ndef main(a=open({str(trace)!r}, 'w')):\n"
    answer = validate((HEAD + task(code + "  return 1")).encode(), "--json")
    assert answer.code == 0, answer.out
    assert not trace.exists()
