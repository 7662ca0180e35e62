"""Adapters of the secret ports: providers of secrets, and encryption at rest."""
