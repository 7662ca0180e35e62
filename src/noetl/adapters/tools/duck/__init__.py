"""Parts of a DuckDB call: its files, its turn, and the process that runs it."""
