"""Retention: which executions a server removes, when, and what goes with them."""
