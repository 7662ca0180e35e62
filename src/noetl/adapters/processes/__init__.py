"""Processes for code that is not ours: started, bounded, watched and ended."""
