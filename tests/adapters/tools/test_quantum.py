"""Kind ``quantum`` on the local simulator: real circuits, real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.tools.quantum.local import Jobs
from noetl.adapters.tools.quantum.tool import QUANTUM, QuantumTool
from noetl.errors import ToolError
from noetl.extras import install_command
from noetl.ports import ToolCall

BELL = """OPENQASM 3.0;
include "stdgates.inc";
input float theta;
qubit[2] q;
bit[2] c;
ry(theta) q[0];
cx q[0], q[1];
c = measure q;
"""
COIN = """OPENQASM 2.0;
include "qelib1.inc";
qreg q[1];
creg c[1];
h q[0];
measure q -> c;
"""
# Twenty qubits, and more gates than anybody wants to wait for.
LONG = """OPENQASM 3.0;
include "stdgates.inc";
qubit[20] q;
bit[20] c;
h q;
for uint i in [0:20000] { t q[0]; rx(0.1) q[19]; cx q[0], q[19]; }
c = measure q;
"""
Ask = Callable[..., Coroutine[Any, Any, dict[str, Any]]]
Warm = tuple[Path, Callable[..., Any]]


def make_call(folder: Path | None = None, action: str = "a", **inputs: Any) -> ToolCall:
    spec = {**QUANTUM.defaults, **inputs.pop("spec", {})}
    return ToolCall(
        kind="quantum",
        inputs=inputs,
        spec=spec,
        execution_id="e",
        step="s",
        task="t",
        action_id=action,
        attempt=1,
        folder=str(folder) if folder else None,
    )


def work(home: Path, do: Callable[[Ask], Coroutine[Any, Any, Any]]) -> Any:
    """Do it with a tool of its own, as another process would."""

    async def main() -> Any:
        tool = QuantumTool(2, home=str(home))

        async def ask(operation: str, **inputs: Any) -> dict[str, Any]:
            outcome = await tool.run(make_call(home, operation=operation, **inputs))
            result: dict[str, Any] = outcome.result
            return result

        try:
            return await do(ask)
        finally:
            await tool.close()

    return asyncio.run(main())


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """One tool for many calls: its process starts once."""
    home = tmp_path_factory.mktemp("home")
    tool = QuantumTool(1, home=str(home))
    with asyncio.Runner() as runner:

        def ask(**inputs: Any) -> dict[str, Any]:
            result: dict[str, Any] = runner.run(tool.run(make_call(home, **inputs)))
            return result

        yield home, ask
        runner.run(tool.close())


def run(home: Path, **inputs: Any) -> dict[str, Any]:
    found: dict[str, Any] = work(home, lambda ask: ask("run", **inputs))
    return found


async def ended(ask: Ask, job: Any) -> str:
    async with asyncio.timeout(120):  # only if it is broken
        while True:
            status = (await ask("status", job=job))["status"]
            if status not in ("queued", "running"):
                return str(status)
            await asyncio.sleep(0)


@pytest.mark.spec("QNT-01", "PIPE-21")
def test_a_job_is_submitted_looked_at_and_fetched(tmp_path: Path) -> None:
    async def do(ask: Ask) -> dict[str, Any]:
        job = await ask("submit", circuit=BELL, params={"theta": 1.0}, shots=100)
        assert job.keys() == {"job", "provider", "status"}
        assert (job["provider"], job["status"]) == ("local", "queued")
        assert await ended(ask, job) == "done"
        return await ask("result", job=job)

    found = work(tmp_path, do)

    assert found["status"] == "done"
    assert found["counts"].keys() == {"00", "11"}
    assert sum(found["counts"].values()) == found["shots"] == 100
    assert found["simulator"].keys() == {"qiskit", "qiskit-aer"}


def test_a_seed_makes_counts_repeatable(tmp_path: Path) -> None:
    given = {"circuit": BELL, "params": [1.0], "seed": 7}

    first, again = run(tmp_path, **given), run(tmp_path / "other", **given)
    other = run(tmp_path, **{**given, "seed": 8}, action="b")

    assert first["counts"] == again["counts"] != other["counts"]
    assert first["seed"] == 7


def test_a_drawn_seed_is_reported_and_repeats_the_counts(tmp_path: Path) -> None:
    first = run(tmp_path, circuit=COIN, shots=1000)

    again = run(tmp_path, circuit=COIN, shots=1000, seed=first["seed"], action="b")

    assert again["counts"] == first["counts"]
    assert again["job"] != first["job"]


def test_gates_of_the_circuit_itself_and_files_are_known(tmp_path: Path) -> None:
    text = COIN.replace("h q[0];", "flip q[0];").replace(
        "qreg", "gate flip a { x a; }\nqreg"
    )
    (tmp_path / "flip.qasm").write_text(text)

    assert run(tmp_path, file="flip.qasm", shots=5)["counts"] == {"1": 5}


def test_many_qubits_of_clifford_gates_fit(tmp_path: Path) -> None:
    text = BELL.replace("input float theta;\n", "").replace("ry(theta)", "x")
    text = text.replace("[2]", "[100]")

    found = run(tmp_path, circuit=text, shots=3, options={"method": "stabilizer"})

    assert found["qubits"] == 100
    assert list(found["counts"].values()) == [3]


@pytest.mark.parametrize(
    ("inputs", "kind", "said"),
    [
        ({}, "tool.contract", "needs either 'circuit' or 'file'"),
        ({"circuit": "h q;"}, "quantum.circuit", "begins with its version"),
        ({"circuit": "OPENQASM 4.0;"}, "quantum.circuit", "unknown version OPENQASM 4"),
        (
            {"circuit": BELL.replace("q;\nbit", "q\nbit")},
            "quantum.circuit",
            "line 5: 'bit' is not expected here",
        ),
        (
            {"circuit": BELL.removesuffix(";\n")},
            "quantum.circuit",
            "line 8: the text ends too early",
        ),
        (
            {"circuit": BELL.replace("cx", "cz2")},
            "quantum.circuit",
            "line 7: gate 'cz2' is not defined.",
        ),
        (
            {"circuit": BELL.replace("q[1]", "q[9]")},
            "quantum.circuit",
            "the circuit is not valid: IndexError",
        ),
        (
            {"circuit": COIN.replace("h q[0];", "h q[0]")},
            "quantum.circuit",
            "line 6: needed ';'",
        ),
        (
            {"circuit": COIN.replace("qelib1.inc", "/etc/passwd")},
            "quantum.circuit",
            "line 2: unable to find '/etc/passwd'",
        ),
        (
            {"circuit": BELL.replace("stdgates.inc", "/etc/passwd")},
            "quantum.circuit",
            "line 2: non-stdgates imports",
        ),
        (
            {"circuit": COIN.replace("measure q -> c;", "")},
            "quantum.circuit",
            "has no measurement",
        ),
        ({"circuit": "OPENQASM 3;" + "(" * 9999}, "quantum.circuit", ""),
        ({"circuit": BELL}, "quantum.params", "'theta' has no value"),
        (
            {"circuit": BELL, "params": {"thta": 1}},
            "quantum.params",
            "no input 'thta' (inputs: theta)",
        ),
        ({"circuit": BELL, "params": [1, 2]}, "quantum.params", "inputs are: theta"),
        (
            {"circuit": BELL, "params": {"theta": "x"}},
            "quantum.params",
            "needs a number, found 'x'",
        ),
        (
            {"circuit": COIN, "params": {"x": 1}},
            "quantum.params",
            "does not support inputs",
        ),
        (
            {"circuit": COIN.replace("[1]", "[40]")},
            "quantum.limit",
            "spec.memory allows 1,073,741,824 (26 qubits)",
        ),
        (
            {"circuit": COIN.replace("[1]", "[20]"), "spec": {"memory": "1MiB"}},
            "quantum.limit",
            "(16 qubits)",
        ),
        ({"circuit": COIN, "shots": 2_000_000}, "quantum.limit", "takes 1,000,000"),
        ({"circuit": COIN + " " * 2**20}, "quantum.limit", "characters"),
        ({"circuit": COIN, "shots": 0}, "tool.contract", "'shots' must be"),
        (
            {"circuit": COIN, "options": {"methd": "x"}},
            "tool.contract",
            "did you mean 'method'?",
        ),
        (
            {"circuit": COIN, "options": {"method": "stabiliser"}},
            "tool.contract",
            "did you mean 'stabilizer'?",
        ),
        ({"circuit": COIN, "provider": "ibm"}, "quantum.provider", "known: local"),
        ({"file": "../x.qasm"}, "quantum.circuit", "outside of the allowed folders"),
        ({"file": "x.qasm"}, "quantum.circuit", "cannot be read: No such file"),
    ],
)
def test_an_invalid_circuit_is_refused_before_a_job_is_made(
    warm: Warm, inputs: dict[str, Any], kind: str, said: str
) -> None:
    home, ask = warm

    with pytest.raises(ToolError) as e:
        ask(operation="submit", **inputs)

    assert e.value.kind == kind
    assert said in e.value.message
    assert not list(home.glob("quantum/*"))
    if e.value.message.startswith("line "):
        assert e.value.details["line"] == int(e.value.message.split()[1].rstrip(":"))


@pytest.mark.parametrize("job", ["0" * 32, "../../etc/passwd", "x"])
@pytest.mark.parametrize("operation", ["status", "result", "cancel"])
def test_an_unknown_job_is_an_error(warm: Warm, operation: str, job: str) -> None:
    with pytest.raises(ToolError) as e:
        warm[1](operation=operation, job=job)

    assert e.value.kind == "quantum.unknown_job"


def test_without_its_packages_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "qiskit_aer", None)

    with pytest.raises(ToolError) as e:
        run(tmp_path, circuit=COIN)

    assert e.value.kind == "quantum.driver"
    assert e.value.message == (
        "the local simulator needs the package qiskit-aer, which is not installed; "
        f"run: {install_command('quantum')}"
    )


@pytest.mark.spec("S-60")
def test_submitting_twice_for_one_reason_makes_one_job(tmp_path: Path) -> None:
    async def do(ask: Ask) -> tuple[Any, Any, Any]:
        first = await ask("submit", circuit=COIN)
        again = await ask("submit", circuit=COIN)
        other = await ask("submit", circuit=COIN, action="b")
        return first["job"], again["job"], other["job"]

    first, again, other = work(tmp_path, do)

    assert first == again != other


@pytest.mark.spec("QNT-01")
def test_a_job_outlives_the_process_that_submitted_it(tmp_path: Path) -> None:
    """It is killed in the middle; whoever asks next goes on with the job."""
    source = (
        "import asyncio, sys\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from test_quantum import *\n"
        "async def main():\n"
        "    tool = QuantumTool(2, home=sys.argv[1])\n"
        "    call = make_call(operation='submit', circuit=COIN, shots=50, seed=3)\n"
        "    print((await tool.run(call)).result['job'], flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    here = str(Path(__file__).parent)
    process = subprocess.Popen(
        [sys.executable, "-c", source, str(tmp_path), here],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    job = process.stdout.readline().strip()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    for end in tmp_path.glob("quantum/*.end"):
        end.unlink()  # it was fast; let it have been killed a moment earlier

    async def do(ask: Ask) -> dict[str, Any]:
        assert await ended(ask, job) == "done"
        return await ask("result", job=job)

    found = work(tmp_path, do)
    expected = run(tmp_path, circuit=COIN, shots=50, seed=3, action="b")
    assert found["counts"] == expected["counts"]


def test_a_cancelled_job_is_stopped_and_stays_cancelled(tmp_path: Path) -> None:
    async def do(ask: Ask) -> list[Any]:
        job = await ask("submit", circuit=LONG)
        with pytest.raises(ToolError) as e:
            await ask("result", job=job)
        assert (e.value.kind, e.value.retryable) == ("quantum.pending", True)
        cancelled = await ask("cancel", job=job["job"])
        with pytest.raises(ToolError) as e:
            await ask("result", job=job)
        assert e.value.kind == "quantum.cancelled"
        return [cancelled["status"], (await ask("status", job=job))["status"]]

    assert work(tmp_path, do) == ["cancelled", "cancelled"]


def test_another_process_stops_a_job_that_is_cancelled(tmp_path: Path) -> None:
    async def do(ask: Ask) -> str:
        job = await ask("submit", circuit=LONG)
        other = QuantumTool(2, home=str(tmp_path))
        await other.run(make_call(operation="cancel", job=job))
        await other.close()
        # The one who worked on it lets go of it: then nobody holds its lock.
        jobs = Jobs(tmp_path / "quantum")
        while True:
            if not jobs.is_locked(job["job"]):
                return str((await ask("status", job=job))["status"])
            await asyncio.sleep(0)

    assert work(tmp_path, do) == "cancelled"


def test_a_run_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as e:
        run(tmp_path, circuit=LONG, spec={"timeout": 1})

    assert (e.value.kind, e.value.retryable) == ("timeout", True)


def test_a_job_that_takes_too_long_has_failed(tmp_path: Path) -> None:
    async def do(ask: Ask) -> None:
        job = await ask("submit", circuit=LONG, spec={"timeout": 2})
        assert await ended(ask, job) == "failed"
        with pytest.raises(ToolError) as e:
            await ask("result", job=job)
        assert e.value.kind == "timeout"

    work(tmp_path, do)


@pytest.mark.parametrize(
    ("inputs", "effect"),
    [
        ({"operation": "submit"}, True),
        ({"operation": "cancel"}, True),
        ({"operation": "run"}, False),
        ({"operation": "run", "provider": "acme"}, True),
        ({"operation": "status"}, False),
        ({"operation": "result"}, False),
    ],
)
def test_what_costs_is_recorded_first(inputs: dict[str, Any], effect: bool) -> None:
    assert QuantumTool(1).has_effect(make_call(**inputs)) is effect
