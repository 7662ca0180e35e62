"""Built-in tool kinds: a file declares each."""

from __future__ import annotations

from noetl.adapters.tools.duckdb.tool import DUCKDB
from noetl.adapters.tools.engine_kinds import CHOOSE, NOOP, PLAYBOOK, WAIT, WORKBOOK
from noetl.adapters.tools.http.tool import HTTP
from noetl.adapters.tools.postgres.tool import POSTGRES
from noetl.adapters.tools.python import PYTHON
from noetl.adapters.tools.quantum.tool import QUANTUM
from noetl.adapters.tools.script import SCRIPT, SHELL
from noetl.adapters.tools.secrets import SECRETS
from noetl.dsl.tool_kinds import Kinds

BUILTIN = Kinds(
    (
        CHOOSE,
        DUCKDB,
        HTTP,
        NOOP,
        PLAYBOOK,
        POSTGRES,
        PYTHON,
        QUANTUM,
        SCRIPT,
        SECRETS,
        SHELL,
        WAIT,
        WORKBOOK,
    )
)
