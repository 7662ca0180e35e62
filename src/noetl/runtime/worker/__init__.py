"""The worker: executor, tool calls, values, and the connection to a server."""
