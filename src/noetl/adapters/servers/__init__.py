"""A NoETL server, as a worker sees it."""
