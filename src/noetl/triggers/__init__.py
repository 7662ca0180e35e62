"""Triggers: events and schedules that start executions. Pure."""
