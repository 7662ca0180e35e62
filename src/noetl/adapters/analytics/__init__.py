"""SQL queries over the log, and exports of it, by DuckDB."""
