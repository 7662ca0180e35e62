// Answers of the API, as far as the pages of executions use them.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export type ErrorValue = { kind?: string; message?: string; [key: string]: Json | undefined };

export type Wait = {
  step?: string; task?: string; name?: string; signal?: string; kind?: string;
  until?: string | null; since?: string | null; detail?: string | null; [key: string]: unknown;
};

export type ExecutionLine = {
  execution_id: string;
  status: string;
  playbook: { path?: string | null; version?: string | null; name?: string | null; [key: string]: Json | undefined };
  started_at: string;
  finished_at: string | null;
  duration_ms: number | null;
  error: ErrorValue | null;
  parent_id: string | null;
  concurrency: Record<string, Json> | null;
  ignored_errors: number;
  not_reached: number;
  labels: Record<string, string>;
  trigger: Record<string, Json> | null;
  waits?: Wait[];
  /** Of `noetl run`, which writes it in a process of its own. */
  local?: boolean;
  interrupted?: boolean;
};

export type ExecutionList = { executions: ExecutionLine[]; cursor: string | null };

export type StepHead = {
  status: string; runs: number; ready: number; running: number; waiting: number; done: number; failed: number;
  cancelled: number; skipped: number; retries: number; ignored: number; tokens: number;
  loops: { total: number; done: number; failed: number; in_flight: number } | null;
};

export type HeadWait = { step: string; task: string; kind: string; name: string | null; until: string | null; since: string | null; detail: string | null; run: string };

export type Failure = { seq: number; step: string; task: string | null; run: string | null; attempt: number | null; kind: string; message: string };

export type Head = {
  execution_id: string;
  line: ExecutionLine;
  last_seq: number;
  ended: boolean;
  defect: { kind: string; message: string; seq: number } | null;
  failure: Failure | null;
  steps: Record<string, StepHead>;
  waits: HeadWait[];
  waits_total: number;
  parent: { execution_id: string; run: string | null } | null;
  forked_from: { execution_id: string; seq: number } | null;
  forks: string[];
  children_total: number;
  digest: string;
  playbook: { path: string; version: string | null } | null;
  may: string[];
};

export type EventLine = {
  event_id: string; seq: number; timestamp: string; source: string; name: string; status: string;
  step: string | null; step_run_id: string | null; iteration_id: string | null; task_run_id: string | null;
  task_label: string | null; attempt: number | null; payload: { [key: string]: Json };
};

export type RunLine = {
  run: string; number: number; step: string; status: string; from_seq: number; to_seq: number | null; at: string; ms: number | null;
  queue_ms: number | null; attempts: number; ignored: number; error: ErrorValue | null;
  loop: { total?: number; done?: number; failed?: number; in_flight?: number } | null;
};
export type RunCall = {
  task: string; attempt: number; task_run_id: string; seq: number; done_seq: number | null; status: string; ms: number | null; queue_ms: number | null;
  outcome: string | null; directive: string | null; rule: number | null; line: number | null; guard: string | null; note: string | null;
  result: Json; error: ErrorValue | null; set_ctx: Json; set_iter: Json; child: string | null;
};
export type Verdict = { what: string; verdict: string; good: boolean | null; guard: string | null; line: number | null; note: string | null };
export type Run = RunLine & { calls: RunCall[]; calls_total: number; args: Json; result: Json; routing: Verdict[] | null; admission: Json };

export type Why = {
  question: string; answer: string; seq: number | null; decided_by: { rule: string | number; line: number | null } | null;
  considered: { what: string; verdict: string; guard: string | null; line: number | null; saw: { name: string; value: Json; cut: boolean; missing: boolean }[]; note: string | null }[];
};

export type Iterations = {
  total: number; done: number; failed: number; in_flight: number; rate: number | null; eta_ms: number | null;
  buckets: { ms: number; done: number; failed: number; in_flight: number }[];
  errors: { kind: string; message: string; count: number; first: number }[];
  items: { index: number; status: string; seq: number; ms: number | null; attempts: number; value: Json; error: ErrorValue | null }[];
  cursor: number | null;
  /** False: the server has not looked at all of the loop yet. */
  complete: boolean;
};

export type LogLine = { time: string; step: string; task: string; iteration: string | null; attempt: number; stream: string; level: string | null; text: string; task_run_id: string };

export type Plan = {
  forked_from: { execution_id: string; seq: number };
  kept: { step: string; status: string; runs: number }[];
  again: { step: string; step_run_id: string; task: string | null; iterations: Json }[];
  next: { step: string; args: Json }[];
  workload: Json; set_ctx: Json; playbook: Json;
};
