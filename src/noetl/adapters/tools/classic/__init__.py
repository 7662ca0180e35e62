"""Tools of the dialect ``classic``."""
