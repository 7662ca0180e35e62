"""Nodes to model, tolerantly: what is wrong is reported, the rest is read on."""

from noetl.dsl.parse.root import Draft, declared_extensions, parse_playbook

__all__ = ["Draft", "declared_extensions", "parse_playbook"]
