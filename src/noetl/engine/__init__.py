"""Decisions over plain data: live runs, replay and simulation share this code."""
