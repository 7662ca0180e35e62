"""Adapters of the port ``Catalog``: playbooks by their path."""
