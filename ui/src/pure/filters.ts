// Filters of the list of executions: in the address, in calls, and against live lines.

import type { ExecutionLine } from "../api/types.ts";

export const STATUSES = ["running", "waiting", "paused", "failed", "quarantined", "completed", "cancelled"] as const;
export const SPANS: Record<string, [string, number]> = {
  "1h": ["last hour", 3_600_000],
  "24h": ["last 24 h", 86_400_000],
  "7d": ["last 7 days", 604_800_000],
  "30d": ["last 30 days", 2_592_000_000],
};

export type Filters = {
  status: string[];
  path: string;
  text: string;
  since: string;
  trigger: string;
  label: string[];
  parent: string;
  roots: boolean;
};

export function readFilters(params: URLSearchParams): Filters {
  return {
    status: (params.get("status") ?? "").split(",").filter((each) => (STATUSES as readonly string[]).includes(each)),
    path: params.get("path") ?? "",
    text: params.get("text") ?? "",
    since: (params.get("since") ?? "") in SPANS ? params.get("since")! : "",
    trigger: params.get("trigger") ?? "",
    label: params.getAll("label").filter((each) => /^[^=]+=./.test(each)),
    parent: params.get("parent") ?? "",
    roots: params.get("roots") === "true",
  };
}

export function isFiltered(filters: Filters): boolean {
  const { status, path, text, since, trigger, label, parent, roots } = filters;
  return status.length > 0 || label.length > 0 || roots || [path, text, since, trigger, parent].some((each) => each !== "");
}

/** Beginning of a span, to the minute, so that equal filters make equal calls. */
export function sinceOf(span: string, now: number): string | null {
  const length = SPANS[span]?.[1];
  return length === undefined ? null : new Date(Math.floor((now - length) / 60_000) * 60_000).toISOString();
}

/** Parameters of `GET executions` and of its counts. */
export function queryOf(filters: Filters, now: number): Record<string, string | string[] | null> {
  return {
    status: filters.status.join(",") || null,
    path: filters.path || null,
    text: filters.text || null,
    since: sinceOf(filters.since, now),
    trigger: filters.trigger || null,
    label: filters.label.length ? filters.label : null,
    parent: filters.parent || null,
    roots: filters.roots ? "true" : null,
  };
}

/** The same filters as the body of a bulk order. */
export function bulkOf(filters: Filters, now: number): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  if (filters.status.length) found.status = filters.status.join(",");
  for (const name of ["path", "text", "trigger", "parent"] as const) if (filters[name]) found[name] = filters[name];
  const since = sinceOf(filters.since, now);
  if (since) found.since = since;
  if (filters.label.length) found.labels = Object.fromEntries(filters.label.map((each) => [each.slice(0, each.indexOf("=")), each.slice(each.indexOf("=") + 1)]));
  if (filters.roots) found.roots = true;
  return found;
}

/** Whether a line told by the server's stream belongs to the list. */
export function fits(filters: Filters, line: ExecutionLine, now: number): boolean {
  const path = line.playbook.path ?? "";
  if (filters.status.length && !filters.status.includes(line.status)) return false;
  if (filters.path && !(filters.path.endsWith("/*") ? path.startsWith(filters.path.slice(0, -1)) : path === filters.path)) return false;
  if (filters.since && Date.parse(line.started_at) < now - (SPANS[filters.since]?.[1] ?? 0)) return false;
  if (filters.trigger && line.trigger?.name !== filters.trigger) return false;
  if (filters.parent && line.parent_id !== filters.parent) return false;
  if (filters.roots && line.parent_id) return false;
  if (!filters.label.every((each) => line.labels[each.slice(0, each.indexOf("="))] === each.slice(each.indexOf("=") + 1))) return false;
  const text = filters.text.toLowerCase();
  return !text || JSON.stringify([line.execution_id, path, line.labels, line.trigger, line.error?.message]).toLowerCase().includes(text);
}
