"""The dialect of v2 playbooks in the wild: shapes and names of earlier releases."""

from __future__ import annotations

from noetl.dsl.diagnostics import Report
from noetl.dsl.node import Node


def rewrite(root: Node, report: Report) -> Node:
    return root
