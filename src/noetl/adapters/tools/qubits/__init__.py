"""Kind ``quantum``: the local simulator, its processes and its jobs."""
