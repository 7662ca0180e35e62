"""Adapters of the port ``Store``: the log, its commands, leases and timers."""
