-- Commands that only wait have an odd rank. A claim for them reads this index alone.
CREATE INDEX command_waits
ON command (pool, (coalesce(family, execution)), execution, rank)
WHERE state = 'ready' AND (rank & 1) = 1;
