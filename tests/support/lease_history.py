"""How often commands were leased that have ended: the store has no rows of them."""

from __future__ import annotations

from noetl.adapters.postgres import Postgres

RECORD = """
CREATE TABLE IF NOT EXISTS public.ended_command (command_id text, epoch integer);
TRUNCATE public.ended_command;
CREATE OR REPLACE FUNCTION public.note_ended_command() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER AS $$
BEGIN
  INSERT INTO public.ended_command VALUES (OLD.command_id, OLD.epoch);
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER note_ended AFTER DELETE ON noetl.command
FOR EACH ROW EXECUTE FUNCTION public.note_ended_command();
"""


async def record_leases(database: Postgres) -> None:
    """Record how often a command was leased, for each that ends from now on. What was
    recorded before is forgotten."""
    await database.run(lambda connection: connection.execute(RECORD))


async def lease_counts(database: Postgres) -> dict[str, int]:
    """Return how often each command that has ended was leased. None ended twice."""
    rows = await database.fetch("SELECT command_id, epoch FROM public.ended_command")
    found: dict[str, int] = dict(rows)
    assert len(found) == len(rows)
    return found
