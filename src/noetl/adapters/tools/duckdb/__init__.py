"""Kind `duckdb`: SQL over files and earlier results."""
