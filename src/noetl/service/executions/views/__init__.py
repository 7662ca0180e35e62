"""What a page shows of an execution, each view bounded by what fits on a screen."""
