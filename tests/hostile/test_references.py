"""Rows 90 to 93: references that lead elsewhere, to nothing, or to data of others.

There is no server yet that would answer 403, 404 or 422: what it will say is said by
``noetl result get``, by the engine and by the checks of what a worker reports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import StoreError
from noetl.service.executions.results import read_ref

Attempt = Callable[..., Any]

pytestmark = pytest.mark.spec("S-48", "S-65")

LARGE = "{{ 'row ' * 30000 }}"


class Store:
    """A home with one stored result."""

    def __init__(self, ran: Any) -> None:
        self.home: Path = ran.home
        self.folder = ran.home.parent
        sizes = {f.stat().st_size: f for f in (self.home / "results").glob("??/*")}
        self.blob = sizes[max(sizes)]
        self.key = self.blob.parent.name + self.blob.name

    def get(self, ref: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "noetl", "result", "get", ref],
            cwd=self.folder,
            env={**os.environ, "NOETL_HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


def make(attempt: Attempt, result: str) -> Any:
    return attempt({"make": {"kind": "noop", "result": result}}, keep="made")


@pytest.fixture(scope="module")
def store(attempt: Attempt) -> Store:
    """For those that only look."""
    return Store(make(attempt, LARGE))


ELSEWHERE = {
    "upwards": "../../etc/passwd",
    "absolute": "/etc/passwd",
    "encoded": "..%2f..%2fetc%2fpasswd",
    "5 kB": "a" * 5000,
    "a key of 5 kB": "0" * 5000,
    "of nobody": "0" * 64,
    "in capitals": "A" * 64,
    "with a line break": "0" * 63 + "\n",
    "a draft": "drafts/x",
    "the lock": "lock",
}


@pytest.mark.parametrize("ref", ELSEWHERE.values(), ids=[f"90 {x}" for x in ELSEWHERE])
def test_a_key_that_we_did_not_make_is_not_found(store: Store, ref: str) -> None:
    code, out, err = store.get(ref)

    assert (code, out) == (2, "")
    assert err.startswith("noetl: ")
    assert "ref.not_found" in err or "no execution" in err
    assert len(err) < 500
    assert "root:" not in err


def test_90_a_key_with_a_nul_is_not_found() -> None:
    """No command line can hold one; a request of a server will."""
    with pytest.raises(StoreError) as refused:
        read_ref("0" * 63 + "\0")
    assert refused.value.kind == "ref.not_found"


def test_90_a_link_is_not_followed(attempt: Attempt) -> None:
    store = Store(make(attempt, LARGE))
    body = store.blob.read_bytes()
    (store.folder / "elsewhere").write_bytes(body)
    store.blob.unlink()
    store.blob.symlink_to(store.folder / "elsewhere")

    code, out, err = store.get(store.key)

    assert (code, out) == (2, "")
    assert "ref.gone" in err


def test_90_a_key_of_another_home_is_not_found(store: Store, attempt: Attempt) -> None:
    other = Store(make(attempt, LARGE + " other"))

    assert other.key != store.key
    code, out, err = store.get(other.key)
    assert (code, out) == (2, "")
    assert "ref.not_found" in err


@pytest.mark.parametrize(
    ("span", "fits"),
    [
        ("100-50", False),
        ("0-1000000000000000000", False),
        ("0-99999999999999999999999999", False),
        ("-1-5", False),
        ("0x0-0x5", False),
        ("", False),
        ("5", False),
        ("0-5-9", False),
        ("0-3", True),
    ],
    ids=lambda value: f"92 {value}",
)
def test_a_range_is_within_the_bytes_that_there_are(
    store: Store, span: str, fits: bool
) -> None:
    code, out, err = store.get(f"{store.key}:{span}")

    if fits:
        assert (code, out, err) == (0, '"row', "")
    else:
        assert (code, out) == (2, "")
        assert err.startswith("noetl: ref.range: ")
        assert err.count("\n") == 1


WORKFLOW = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: damaged, path: tests/damaged}
workflow:
  - step: make
    tool: {kind: noop, result: "{{ 'row ' * 30000 }}"}
    next: {arcs: [{step: damage, args: {rows: "{{ event.payload.result }}"}}]}
  - step: damage
    tool: {kind: shell, command: DAMAGE}
    next: {arcs: [{step: read, args: {rows: "{{ args.rows | ref }}"}}]}
  - step: read
    tool: {kind: noop, result: "{{ args.rows | length }}"}
"""
DAMAGES = {
    "changed": ("sed -i s/row/now/ $f", "ref.corrupt"),
    "truncated": ("truncate -s 100 $f", "ref.corrupt"),
    "longer": ("echo more >> $f", "ref.corrupt"),
    "deleted": ("rm $f", "ref.gone"),
}


@pytest.mark.parametrize("name", DAMAGES, ids=lambda name: f"91 {name}")
def test_damaged_bytes_fail_the_step_and_are_never_read(
    tmp_path: Path, name: str
) -> None:
    damage, kind = DAMAGES[name]
    every = f"for f in home/results/??/*; do chmod u+w $f; {damage}; done"
    text = WORKFLOW.replace("DAMAGE", json.dumps(every))
    (tmp_path / "damaged.yaml").write_text(text)

    done = subprocess.run(
        [sys.executable, "-m", "noetl", "run", "damaged.yaml", "--json"],
        cwd=tmp_path,
        env={**os.environ, "NOETL_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )

    document = json.loads(done.stdout)
    assert (done.returncode, document["status"]) == (1, "failed")
    error = document["error"]
    assert (error["kind"], error["retryable"]) == (kind, False), error
    assert document["result"] is None


FORGED = {"store": "noetl", "key": "0" * 64, "size": 3, "checksum": "sha256:0"}


def test_93_a_result_that_claims_our_store_is_refused(attempt: Attempt) -> None:
    value = json.dumps(FORGED)
    nested = json.dumps({"a": [{"b": FORGED}]})
    other = json.dumps({**FORGED, "store": "postgres.table"})
    code = "import json\nresult = json.loads(text)"
    ran = attempt(
        {
            "whole": {"kind": "python", "code": code, "args": {"text": value}},
            "nested": {"kind": "python", "code": code, "args": {"text": nested}},
            "printed": {
                "kind": "shell",
                "command": ["printf", "%s", value],
                "spec": {"output": "json"},
            },
            "other": {"kind": "python", "code": code, "args": {"text": other}},
        }
    )

    for name in ("whole", "nested", "printed"):
        assert ran.kind(name) == "ref.not_owner", name
        assert ran.outcomes[name]["result"] is None
    assert ran.kind("other") is None, "any other store is the author's"


def test_93_a_response_that_claims_our_store_is_refused(
    attempt: Attempt, peer: str
) -> None:
    body = json.dumps([FORGED]).encode().hex()
    url = f"{peer}/raw?hex={body}&type=application/json"

    ran = attempt({"fetch": {"kind": "http", "url": url}})

    assert ran.kind("fetch") == "ref.not_owner"


def test_93_a_workload_that_claims_our_store_is_refused(
    store: Store, tmp_path: Path
) -> None:
    """Nobody reads what another execution stored by naming its key."""
    text = WORKFLOW.partition("workflow:")[0] + (
        "workload: {x: null}\n"
        'workflow: [{step: start, tool: {kind: noop, result: "{{ workload.x }}"}}]\n'
    )
    (tmp_path / "read.yaml").write_text(text)
    forged = json.dumps({"x": [{"store": "noetl", "key": store.key, "size": 9}]})
    (tmp_path / "inputs.json").write_text(forged)

    command = ["run", "read.yaml", "--json", "--workload", "inputs.json"]
    done = subprocess.run(
        [sys.executable, "-m", "noetl", *command],
        cwd=tmp_path,
        env={**os.environ, "NOETL_HOME": str(store.home)},
        capture_output=True,
        text=True,
        check=False,
    )

    document = json.loads(done.stdout)
    assert (done.returncode, document["status"], document["steps"]) == (2, "failed", [])
    assert document["error"]["kind"] == "ref.not_owner"


def test_93_a_signal_that_claims_our_store_is_refused(store: Store) -> None:
    data = json.dumps({"store": "noetl", "key": store.key, "size": 9})
    done = subprocess.run(
        [sys.executable, "-m", "noetl", "signal", "last", "go", "--data", data],
        env={**os.environ, "NOETL_HOME": str(store.home)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "ref.not_owner" in done.stderr
