"""Forks: points, plans, the copied history, and their creation."""
