"""Reports of workers: their schema, acceptance and duplicates."""
