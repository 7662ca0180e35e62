"""Triggers: what in the world starts executions, and when. Pure."""
