"""Parts of an HTTP call: where it may go, what is sent, what is read."""
