"""Waits: suspended pipelines, signals, event waits."""
