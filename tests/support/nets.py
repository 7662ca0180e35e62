"""Nets from a few lines of YAML."""

from __future__ import annotations

from noetl.adapters.tools import BUILTIN
from noetl.dsl.load import load
from noetl.net.net import Net, build_net

HEADER = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: example, path: tests/example}
workflow:
"""


def read_net(workflow: str) -> Net:
    loaded = load(HEADER + workflow, BUILTIN)
    assert loaded.playbook is not None, loaded.diagnostics
    return build_net(loaded.playbook)
