"""The 003 dialect: cases, chains, control actions, retries and polls."""

from __future__ import annotations

from noetl.dsl.diagnostics import Report
from noetl.dsl.node import Node


def rewrite(root: Node, report: Report) -> Node:
    return root
