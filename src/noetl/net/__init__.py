"""Petri net of a playbook: built once, read by analysis, drawings and joins."""
