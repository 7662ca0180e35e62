"""Commands of ``noetl``, one module per verb."""
