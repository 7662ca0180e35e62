"""Adapters of the port ``Blobs``: large values by their content."""
