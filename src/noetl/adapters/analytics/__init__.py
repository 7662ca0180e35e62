"""The log for analysis: SQL over it, and files of it. DuckDB does the work."""
