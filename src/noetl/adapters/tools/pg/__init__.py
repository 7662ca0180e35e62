"""Parts of a PostgreSQL call: the text, the values, the connection, the outcome."""
