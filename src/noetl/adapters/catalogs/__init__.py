"""Adapters of the port ``Catalog``: playbooks by path."""
