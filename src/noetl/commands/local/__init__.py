"""Actions of commands in this home, without a server."""
