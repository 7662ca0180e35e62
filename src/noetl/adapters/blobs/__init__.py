"""Adapters of the port ``Blobs``: large values, addressed by content."""
