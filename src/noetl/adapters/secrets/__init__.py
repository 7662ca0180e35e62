"""Adapters of the secret ports: who keeps secrets, and how they are sealed at rest."""
