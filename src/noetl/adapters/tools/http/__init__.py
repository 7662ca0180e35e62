"""Kind `http`: one request, one response."""
