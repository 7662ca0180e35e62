-- The table of events that NoETL exports to ClickHouse (25.3 or newer). A row that is
-- sent twice is merged into one; add FINAL to a query that must not see both.
CREATE TABLE IF NOT EXISTS noetl_events (
  execution_id String,
  seq UInt32,
  timestamp DateTime64(6, 'UTC'),
  path LowCardinality(String),
  name LowCardinality(String),
  source LowCardinality(String),
  entity_type LowCardinality(String),
  entity_id String,
  parent_id Nullable(String),
  status LowCardinality(String),
  step LowCardinality(Nullable(String)),
  step_run_id Nullable(String),
  iteration_id Nullable(String),
  task_run_id Nullable(String),
  task_label LowCardinality(Nullable(String)),
  attempt Nullable(UInt32),
  action_id Nullable(String),
  payload JSON(max_dynamic_paths = 64)
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(timestamp)
ORDER BY (execution_id, seq)
SETTINGS non_replicated_deduplication_window = 1000;
