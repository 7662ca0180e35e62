// The last executions of each playbook as bars: height by duration, colour by status.

import type { ExecutionLine } from "../api/types.ts";

export type Bar = { status: string; height: number };
export const MOST = 20;

/** By path of the playbook, the oldest first. `lines` are the newest first. */
export function sparks(lines: readonly ExecutionLine[]): Map<string, Bar[]> {
  const byPath = new Map<string, ExecutionLine[]>();
  for (const line of lines) {
    const path = line.playbook.path ?? "";
    const list = byPath.get(path) ?? [];
    if (list.length < MOST) list.push(line);
    byPath.set(path, list);
  }
  return new Map([...byPath].map(([path, list]) => [path, bars(list.reverse())]));
}

function bars(list: ExecutionLine[]): Bar[] {
  const most = Math.max(1, ...list.map((line) => line.duration_ms ?? 0));
  return list.map((line) => ({
    status: line.status,
    height: line.duration_ms === null ? 1 : Math.max(0.15, Math.sqrt(line.duration_ms / most)),
  }));
}
