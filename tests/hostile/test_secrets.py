"""Row 88: secrets that are missing, empty, huge, or look like everyday words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Attempt = Callable[..., Any]

pytestmark = pytest.mark.spec("S-41", "S-65", "S-67")

SHORT = {"LETTER": "a", "WORD": "true", "SEVEN": "sevenab"}
LONG = "long-enough-secret"


def test_88_an_unknown_or_empty_secret_is_missing(
    attempt: Attempt,
) -> None:
    secret = {"kind": "secrets", "provider": "env"}
    ran = attempt(
        {
            "nobody": {"kind": "secrets", "name": "nobody"},
            "unset": {**secret, "path": "NOETL_TEST_UNSET"},
            "empty": {**secret, "path": "NOETL_TEST_EMPTY"},
        },
        env={"NOETL_TEST_EMPTY": ""},
    )

    assert [ran.kind(name) for name in ran.outcomes] == ["secret.missing"] * 3


ECHO = """
def main(**secrets):
    return {name: {'equal': value, 'inside': f'x{value}y', 'list': [value]}
            for name, value in secrets.items()}
"""


@pytest.fixture(scope="module")
def echoed(attempt: Attempt) -> Any:
    entries = {**SHORT, "LONG": LONG}
    keychain = [
        {"name": name.lower(), "kind": "env", "variable": f"S_{name}"}
        for name in entries
    ]
    args = {name.lower(): f"{{{{ keychain.{name.lower()} }}}}" for name in entries}
    plain = "banana is true, and sevenabc too"
    return attempt(
        {
            "echo": {"kind": "python", "code": ECHO, "args": args},
            "plain": {"kind": "noop", "result": {"text": plain, "flag": True}},
        },
        root={"keychain": keychain},
        env={f"S_{name}": value for name, value in entries.items()},
    )


@pytest.mark.parametrize("name", [*SHORT, "LONG"], ids=lambda name: f"88 {name}")
def test_equal_texts_are_masked_at_any_length(echoed: Any, name: str) -> None:
    seen = echoed.outcomes["echo"]["result"][name.lower()]

    assert (seen["equal"], seen["list"]) == ("***", ["***"])


@pytest.mark.parametrize("name", SHORT, ids=lambda name: f"88 {name}")
def test_a_short_secret_leaves_other_words_alone(echoed: Any, name: str) -> None:
    seen = echoed.outcomes["echo"]["result"][name.lower()]

    assert seen["inside"] == f"x{SHORT[name]}y"


def test_88_a_long_secret_is_masked_inside_of_text(echoed: Any) -> None:
    assert echoed.outcomes["echo"]["result"]["long"]["inside"] == "x***y"
    assert LONG.encode() not in echoed.everything()


def test_88_words_that_match_no_secret_stay(echoed: Any) -> None:
    result = echoed.outcomes["plain"]["result"]

    assert result == {"text": "banana is true, and sevenabc too", "flag": True}


def test_88_a_secret_of_a_megabyte_works_and_is_masked(
    attempt: Attempt, tmp_path: Path
) -> None:
    secret = "".join(f"{number:x}-" for number in range(200_000))[:1_000_000]
    file = tmp_path / "huge.pem"
    file.write_text(secret)
    file.chmod(0o600)
    plain = attempt({"plain": {"kind": "python", "code": "result = 1"}})

    ran = attempt(
        {
            "measure": {
                "kind": "python",
                "code": "result = [len(huge), huge, 'x' + huge]",
                "args": {"huge": "{{ keychain.huge }}"},
            }
        },
        root={"keychain": [{"name": "huge", "kind": "file", "path": str(file)}]},
    )

    assert ran.kind("measure") is None
    assert ran.outcomes["measure"]["result"] == [1_000_000, "***", "x***"]
    assert secret[5000:5100].encode() not in ran.everything()
    assert ran.megabytes - plain.megabytes <= 128
    assert len(json.dumps(ran.document)) < 100_000
