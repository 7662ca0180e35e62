"""HTTP: server, protocol limits, typed routes, bodies, problems, OpenAPI."""
