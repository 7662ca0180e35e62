"""Requests of commands to a server."""
