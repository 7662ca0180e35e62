"""Live view of a run: folds events and draws them on a terminal."""
