"""Entry point of a call: simulates a circuit, and returns counts or a refusal."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from qiskit import QuantumCircuit, transpile
from qiskit_aer import AerSimulator

from .circuits import Refusal, read_circuit

_AMPLITUDE = 16  # bytes
_SMALL = frozenset({"stabilizer", "matrix_product_state"})


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return ``{"result": …}`` or ``{"refusal": …}``."""
    try:
        circuit = read_circuit(request["circuit"], request["params"])
        _check_size(circuit, request)
        if request["do"] == "check":
            return {"result": {"qubits": circuit.num_qubits}}
        return {"result": _simulate(circuit, request)}
    except Refusal as refusal:
        return {"refusal": refusal.fault}


def _check_size(circuit: QuantumCircuit, request: dict[str, Any]) -> None:
    qubits, memory = circuit.num_qubits, request["memory"]
    if request["method"] in _SMALL or _AMPLITUDE << qubits <= memory:
        return
    most = (memory // _AMPLITUDE).bit_length() - 1
    raise Refusal(
        "quantum.limit",
        f"{qubits} qubits need {_AMPLITUDE << qubits:,} bytes for their state, but "
        f"spec.memory allows {memory:,} ({most} qubits), which is at most half of the "
        "setting limits.memory",
    )


def _simulate(circuit: QuantumCircuit, request: dict[str, Any]) -> dict[str, Any]:
    # One thread: the same seed gives the same counts on every machine.
    simulator = AerSimulator(method=request["method"], max_parallel_threads=1)
    seed = request["seed"]
    prepared = transpile(circuit, simulator, optimization_level=0, seed_transpiler=seed)
    done = simulator.run(prepared, shots=request["shots"], seed_simulator=seed).result()
    if not done.success:
        raise Refusal("quantum.failed", f"the simulator failed: {_reason(done)}")
    counts = done.get_counts()
    packages = ("qiskit", "qiskit-aer")
    return {
        "counts": {key: int(counts[key]) for key in sorted(counts)},
        "shots": request["shots"],
        "seed": seed,
        "qubits": circuit.num_qubits,
        "simulator": {name: version(name) for name in packages},
    }


def _reason(done: Any) -> str:
    inner = [each.status for each in done.results if not each.success]
    return str(inner[0] if inner else done.status)[:200]
