"""What runs on the other side: DuckDB, in a process that can be limited and killed.

DuckDB's own limits do not bind all of it: a single ``repeat`` takes gigabytes beyond
its memory limit and hears no interrupt. A process has limits that hold.
"""
