"""The server's HTTP API: one module of routes per resource."""
