"""Parsers from nodes to model; each reports problems and reads the rest."""

from noetl.dsl.parse.root import Draft, declared_extensions, parse_playbook

__all__ = ["Draft", "declared_extensions", "parse_playbook"]
