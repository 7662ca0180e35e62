"""The built-in tool kinds: each file declares one."""

from __future__ import annotations

from noetl.adapters.tools.choose import CHOOSE
from noetl.adapters.tools.duckdb import DUCKDB
from noetl.adapters.tools.http import HTTP
from noetl.adapters.tools.noop import NOOP
from noetl.adapters.tools.playbook import PLAYBOOK
from noetl.adapters.tools.postgres import POSTGRES
from noetl.adapters.tools.python import PYTHON
from noetl.adapters.tools.quantum import QUANTUM
from noetl.adapters.tools.script import SCRIPT, SHELL
from noetl.adapters.tools.secrets import SECRETS
from noetl.adapters.tools.wait import WAIT
from noetl.adapters.tools.workbook import WORKBOOK
from noetl.dsl.kinds import Kinds

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
