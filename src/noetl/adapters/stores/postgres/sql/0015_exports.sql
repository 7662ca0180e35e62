-- Many executions may wait for an export while its receiver is away: the search for due
-- timers does not read them, and they are found by their export.
DROP INDEX timer_due;
CREATE INDEX timer_due ON timer (due_at) WHERE kind <> 'export';
CREATE INDEX timer_export ON timer (timer_id, due_at) WHERE kind = 'export';
