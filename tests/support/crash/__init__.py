"""Crashes of SQLite stores: what a disk may hold after one, and calls that fail."""
