"""Kind `postgres`: SQL with bound parameters."""
