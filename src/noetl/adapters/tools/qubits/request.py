"""The inputs of a ``quantum`` call: who, what, which job."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.adapters.files import Roots
from noetl.adapters.processes.limits import read_memory, read_timeout
from noetl.errors import ToolError
from noetl.plugins import Circuit
from noetl.ports import ToolCall
from noetl.types import JSON

_SHOTS = 1024
_LARGEST = 1024 * 1024


def read_circuit(call: ToolCall, roots: Roots) -> Circuit:
    """What ``submit`` and ``run`` need. Raises ``ToolError``."""
    inputs = call.inputs
    text, file = inputs.get("circuit"), inputs.get("file")
    if (text is None) == (file is None):
        operation = inputs.get("operation")
        message = f"operation {operation} needs 'circuit' or 'file', one of them"
        raise ToolError("tool.contract", message)
    if file is not None:
        text = _read_file(roots, file)
    if not isinstance(text, str):
        raise ToolError("tool.contract", "'circuit' must be text: OpenQASM")
    params = inputs.get("params")
    if params is not None and not isinstance(params, Mapping | list):
        raise ToolError("tool.contract", "'params' must be a mapping or a list")
    options = inputs.get("options") or {}
    if not isinstance(options, Mapping):
        raise ToolError("tool.contract", "'options' must be a mapping")
    return Circuit(
        text=text,
        shots=_number(inputs, "shots", 1) or _SHOTS,
        params=params,
        seed=_number(inputs, "seed", 0),
        options=options,
        memory=read_memory(call.spec),
        timeout=read_timeout(call.spec),
    )


def read_job(call: ToolCall) -> str:
    """An id, or what ``submit`` returned."""
    job = call.inputs.get("job")
    if isinstance(job, Mapping):
        job = job.get("job")
    if not isinstance(job, str) or not job:
        operation = call.inputs.get("operation")
        message = f"operation {operation} needs 'job': what submit returned, or its id"
        raise ToolError("tool.contract", message)
    return job


def read_provider(call: ToolCall) -> str:
    """As the task names it, or as its job does."""
    named = call.inputs.get("provider")
    job = call.inputs.get("job")
    if named is None and isinstance(job, Mapping):
        named = job.get("provider")
    if named is None:
        return "local"
    if not isinstance(named, str):
        raise ToolError("tool.contract", "'provider' must be text")
    return named


def _number(inputs: Mapping[str, JSON], name: str, low: int) -> int | None:
    value = inputs.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        message = f"'{name}' must be a whole number from {low} on, found {value!r:.40}"
        raise ToolError("tool.contract", message)
    return value


def _read_file(roots: Roots, name: JSON) -> str:
    """A file below the folders that tools may use."""
    if not isinstance(name, str):
        raise ToolError("tool.contract", "'file' must be the path of a file")
    with roots.open_file(name, "file", "quantum.circuit") as stream:
        try:
            return stream.read(_LARGEST + 1).decode()
        except OSError as error:
            message = f"file: '{name}' cannot be read: {error.strerror}"
            raise ToolError("quantum.circuit", message) from None
        except UnicodeDecodeError:
            message = f"file: '{name}' is not UTF-8 text"
            raise ToolError("quantum.circuit", message) from None
