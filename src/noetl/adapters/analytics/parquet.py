"""Events as a Parquet file, in the order of the log."""

from __future__ import annotations

import duckdb

from noetl.adapters.analytics.warehouse import Warehouse, interruptible
from noetl.adapters.tools.duck.noetl_duck.quoting import literal
from noetl.errors import ConfigError


def write_parquet(warehouse: Warehouse, part: str, name: str) -> int:
    """Write all events to ``part``, which will be ``name``; how many they are."""
    warehouse.seal()
    with warehouse.connect(read_only=True) as connection:
        target = f"{literal(part)} (FORMAT parquet, COMPRESSION zstd)"
        try:
            # Rows are in the order in which they came: that of the log.
            with interruptible():
                done = connection.execute(f"COPY events TO {target}")
        except duckdb.IOException as error:
            why = str(error).rpartition(": ")[2].partition('"')[0]  # JSON, at times
            raise ConfigError(f"{name}: cannot be written: {why}") from None
        ((count,),) = done.fetchall()
        return int(count)
