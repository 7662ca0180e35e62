"""Settings: what each is, how it is read, and where its value comes from."""

from __future__ import annotations

from noetl.config.reading import (
    Settings,
    find_file,
    read_extensions,
    read_plugins,
    read_settings,
    strays,
)
from noetl.config.setting import FILE, MASK, PREFIX, VARIABLE, Setting, Value
from noetl.config.table import (
    BEHIND_PROXY,
    DATABASE,
    EXTENSIONS,
    HOME,
    HOST,
    HOSTS,
    LEASE_TTL,
    NATS,
    PLUGINS,
    PORT,
    RESULTS_URL,
    SERVER,
    SETTINGS,
    SLOTS,
    START_RATE,
    TOKEN,
)

__all__ = [
    "BEHIND_PROXY",
    "DATABASE",
    "EXTENSIONS",
    "FILE",
    "HOME",
    "HOST",
    "HOSTS",
    "LEASE_TTL",
    "MASK",
    "NATS",
    "PLUGINS",
    "PORT",
    "PREFIX",
    "RESULTS_URL",
    "SERVER",
    "SETTINGS",
    "SLOTS",
    "START_RATE",
    "TOKEN",
    "VARIABLE",
    "Setting",
    "Settings",
    "Value",
    "find_file",
    "read_extensions",
    "read_plugins",
    "read_settings",
    "strays",
]
