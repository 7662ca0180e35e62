"""Monitoring: durations of executions and steps, and the export of events."""
