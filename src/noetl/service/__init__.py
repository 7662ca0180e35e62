"""Application services of a server: executions, triggers and the catalog, without
HTTP."""
