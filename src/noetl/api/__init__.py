"""The server's HTTP surface: one file of routes per noun."""
