"""Runs the production code of servers and workers on virtual time, from a seed."""
