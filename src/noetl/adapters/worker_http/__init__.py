"""The HTTP client of workers."""
