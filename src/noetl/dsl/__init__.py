"""Playbook language: reads, normalizes and validates text into a model; no I/O."""
