-- Commands that only wait have a rank below zero. A claim for them reads this index alone.
CREATE INDEX command_waits
ON command (pool, (coalesce(family, execution)), execution, rank)
WHERE state = 'ready' AND rank < 0;
