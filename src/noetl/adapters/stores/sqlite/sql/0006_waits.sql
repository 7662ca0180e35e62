-- Commands that only wait have an odd rank. A claim for them reads this index alone.
CREATE INDEX command_waits ON command (pool, family, execution, rank, together)
WHERE state = 'ready' AND rank & 1;
