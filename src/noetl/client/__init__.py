"""The HTTP client of commands, and its TLS settings."""
