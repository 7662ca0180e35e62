"""Secrets: handles, requests of tasks, redaction."""
