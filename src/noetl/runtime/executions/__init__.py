"""Loaded executions: their cache, inbox, transitions, children, limits and timers."""
