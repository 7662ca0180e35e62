"""Executions on a server: start, queries, control, forks, results."""
