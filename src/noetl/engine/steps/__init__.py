"""Steps: admission, routing, loops, completion, concurrency keys."""
