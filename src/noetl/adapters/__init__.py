"""One folder per port, one file per technology."""
