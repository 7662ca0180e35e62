"""Builds the parts of a host: backends, result stores, options, identifiers."""
