"""Reference pages that need more than a few lines; `scripts/docs.py` writes them."""
