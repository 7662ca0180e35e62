// Answers about triggers, backfills, workers and pools.

import type { Json } from "../../forms/fields.ts";

export type Trigger = {
  name: string;
  kind: "schedule" | "webhook" | "finished";
  playbook: string;
  paused: boolean;
  definition: { [name: string]: Json };
  hook: string | null;
  next_at: string | null;
  last: { [name: string]: Json } | null;
  created_at: string;
  created_by: string;
  owner: string;
};

export type Backfill = {
  backfill_id: string;
  trigger: string;
  state: string;
  since: string;
  until: string;
  at_once: number;
  total: number;
  present: number;
  started: number;
  running: number;
  completed: number;
  failed: number;
  left: number;
  created_at: string;
  created_by: string;
};

export type Worker = {
  worker: string;
  account: string | null;
  pool: string;
  code: boolean;
  slots: number;
  running: number;
  seen_at: string;
  address: string | null;
};

export type Pool = {
  pool: string;
  ready: number;
  delayed: number;
  leased: number;
  workers: number;
  slots: number;
};
