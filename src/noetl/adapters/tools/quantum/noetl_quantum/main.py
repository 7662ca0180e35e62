"""Entry point of a call: simulates a circuit; returns counts or a refusal."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Any

import openqasm3
from openqasm3.ast import IODeclaration, IOKeyword
from openqasm3.parser import QASM3ParsingError
from qiskit import QuantumCircuit, qasm2, transpile
from qiskit_aer import AerSimulator
from qiskit_qasm3_import import ConversionError, convert

_AMPLITUDE = 16  # bytes
_SMALL = frozenset({"stabilizer", "matrix_product_state"})
_BLANK = re.compile(r"(?:\s+|//[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_VERSION = re.compile(r"OPENQASM\s+([0-9]+)(?:\.[0-9]+)?\s*;")
_PLACE = re.compile(r"\"?(?:<input>:)?([0-9]+),([0-9]+): (.*?)\"?\Z", re.DOTALL)


def read_circuit(text: str, params: Any) -> QuantumCircuit:
    """Parse a circuit. Raises ``Refusal`` with the line of the error."""
    start = _BLANK.match(text)
    version = _VERSION.match(text, start.end() if start else 0)
    if version is None:
        message = "a circuit begins with its version: OPENQASM 3.0; or OPENQASM 2.0;"
        raise Refusal("quantum.circuit", message)
    inputs: list[str] = []
    if version[1] == "2":
        circuit = _read_2(text)
    elif version[1] == "3":
        circuit, inputs = _read_3(text)
    else:
        message = f"unknown version OPENQASM {version[1]}: write 2.0 or 3.0"
        raise Refusal("quantum.circuit", message)
    _check_measured(circuit)
    return _bind(circuit, inputs, params)


def _read_2(text: str) -> QuantumCircuit:
    try:
        # No folders: a circuit must not read files of the machine.
        return qasm2.loads(
            text,
            include_path=(),
            custom_instructions=qasm2.LEGACY_CUSTOM_INSTRUCTIONS,
        )
    except qasm2.QASM2ParseError as error:
        raise _located(error.message) from None


def _read_3(text: str) -> tuple[QuantumCircuit, list[str]]:
    try:
        program = openqasm3.parse(text)
    except QASM3ParsingError as error:
        raise _syntax(error) from None
    except RecursionError:
        message = "the circuit is nested too deeply"
        raise Refusal("quantum.circuit", message) from None
    inputs = [
        each.identifier.name
        for each in program.statements
        if isinstance(each, IODeclaration) and each.io_identifier is IOKeyword.input
    ]
    try:
        return convert(program), inputs
    except ConversionError as error:
        raise _located(str(error)) from None
    except MemoryError:
        raise
    except Exception as error:
        # The converter raises various errors for wrong indices, sizes and types.
        message = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
        message = f"the circuit is not valid: {message:.200}"
        raise Refusal("quantum.circuit", message) from None


def _located(text: str) -> Refusal:
    found = _PLACE.match(text)
    if found is None:
        return Refusal("quantum.circuit", text)
    return Refusal("quantum.circuit", found[3], int(found[1]), int(found[2]) + 1)


def _syntax(error: BaseException) -> Refusal:
    """Find the token at which the parser stopped, inside of its exception."""
    cause = error.__cause__
    inner = cause.args[0] if cause is not None and cause.args else cause
    token = getattr(inner, "offendingToken", None)
    if token is None:
        found = re.match(r"L([0-9]+):C([0-9]+): (.*)", str(error), re.DOTALL)
        if found is None:
            return Refusal("quantum.circuit", str(error) or "the circuit is not valid")
        place = int(found[1]), int(found[2]) + 1
        return Refusal("quantum.circuit", found[3], *place)
    what = "the text ends too early" if token.type == -1 else f"'{token.text:.40}'"
    message = what if token.type == -1 else f"{what} is not expected here"
    return Refusal("quantum.circuit", message, token.line, token.column + 1)


def _check_measured(circuit: QuantumCircuit) -> None:
    ops = circuit.count_ops()
    if not ops.keys() & {"measure", "if_else", "for_loop", "while_loop", "switch_case"}:
        message = "the circuit has no measurement: add measure statements"
        raise Refusal("quantum.circuit", message)


def _bind(circuit: QuantumCircuit, inputs: list[str], params: Any) -> QuantumCircuit:
    if isinstance(params, list):
        if len(params) != len(inputs):
            message = f"params has {len(params)} values, but the circuit's inputs are: "
            message += ", ".join(inputs) or "none"
            raise Refusal("quantum.params", message)
        params = dict(zip(inputs, params, strict=True))
    given: dict[str, Any] = params or {}
    for name, value in given.items():
        if name not in inputs:
            known = ", ".join(inputs) or "none; OpenQASM 2 does not support inputs"
            message = f"the circuit has no input '{name}' (inputs: {known})"
            raise Refusal("quantum.params", message)
        if isinstance(value, bool) or not isinstance(value, int | float):
            message = f"the input '{name}' needs a number, found {value!r:.40}"
            raise Refusal("quantum.params", message)
    missing = [name for name in inputs if name not in given]
    if missing:
        message = f"the circuit's input '{missing[0]}' has no value in params"
        raise Refusal("quantum.params", message)
    used = {each.name for each in circuit.parameters}
    values = {name: value for name, value in given.items() if name in used}
    return circuit.assign_parameters(values)


class Refusal(Exception):
    """Ends the call with this error; ``line`` and ``column`` start at 1."""

    def __init__(
        self,
        kind: str,
        message: str,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message)
        self.fault: dict[str, Any] = {"kind": kind, "message": message, "details": {}}
        if line is not None:
            self.fault["message"] = f"line {line}: {message}"
            self.fault["details"] = {"line": line, "column": column}


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
