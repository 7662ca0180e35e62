"""Views of an execution for pages, each view bounded by what fits on a screen."""
