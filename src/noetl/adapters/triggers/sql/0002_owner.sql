-- The account whose rights the executions of a trigger have, as JSON.

ALTER TABLE triggers ADD COLUMN owner text
