"""Sections of the page, from top to bottom."""
