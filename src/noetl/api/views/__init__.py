"""Routes of what a page shows of an execution, each bounded by a screen."""
