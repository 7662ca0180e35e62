"""The guard of ``tests/unit``: which tests it lets pass and which it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "unit" / "conftest.py"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST.read_text())
    return pytester


@pytest.mark.parametrize(
    "body",
    [
        "import subprocess; subprocess.run(['true'])",
        "import socket; socket.socket().close()",
        "import socket; socket.getaddrinfo('localhost', 80)",
        "import sqlite3; sqlite3.connect(':memory:')",
        "import time; time.sleep(0)",
    ],
)
@pytest.mark.parametrize("is_caught", [False, True])
def test_an_impure_test_fails_also_if_it_catches_the_refusal(
    project: pytest.Pytester, body: str, is_caught: bool
) -> None:
    if is_caught:
        body = f"try: {body}\n    except Exception: pass"
    project.makepyfile(f"def test_it():\n    {body}\n")

    outcomes = project.runpytest_inprocess().parseoutcomes()

    assert outcomes.get("failed", 0) + outcomes.get("errors", 0) >= 1


def test_a_test_with_an_event_loop_passes(project: pytest.Pytester) -> None:
    project.makepyfile(
        "import asyncio\n\ndef test_it():\n    asyncio.run(asyncio.sleep(0))\n"
    )

    project.runpytest_inprocess().assert_outcomes(passed=1)
