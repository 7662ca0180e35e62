// Runs of steps as lanes of a timeline, from the rows of a track.

import type { Row } from "./track.ts";

export type Span = { kind: "queue" | "run" | "wait"; from: number; to: number | null };
export type Lane = { step: string; run: number; from: number; to: number | null; spans: Span[]; errors: number[]; status: string; seq: number; cut: boolean; flawed: boolean };

const ENDS: Record<string, string> = { done: "done", fail: "failed", stop: "cancelled" };
const NEXT: Record<string, Span["kind"]> = { ready: "queue", begin: "run", wait: "wait", wake: "run", again: "queue" };

/** Changes that a lane shows; of all others it only needs to know that there were some. */
export const SHOWN: ReadonlySet<string> = new Set([...Object.keys(ENDS), ...Object.keys(NEXT), "ignored", "error", "loop_fail"]);
const BEGINS = new Set(["ready", "begin"]);

/** Lanes in the order of their starts; an open span ends at the right edge. */
export function lanes(rows: Iterable<Row>, at = Infinity): Lane[] {
  const found = new Map<number, Lane>();
  let first = NaN;
  for (const row of rows) {
    if (row.seq > at) break;
    if (Number.isNaN(first)) first = row.ms;
    if (row.run < 0 || row.step === null) continue;
    let lane = found.get(row.run);
    if (!lane) {
      lane = { step: row.step, run: row.run, from: row.ms, to: null, spans: [], errors: [], status: "running", seq: row.seq, cut: false, flawed: false };
      found.set(row.run, lane);
      if (!BEGINS.has(row.op)) {
        // It began before the rows that are here.
        lane.from = first;
        lane.cut = true;
        lane.spans.push({ kind: row.op === "wake" ? "wait" : "run", from: first, to: null });
      }
    }
    const kind = NEXT[row.op];
    const open = lane.spans.at(-1);
    if (kind) {
      if (open && open.to === null) open.to = row.ms;
      lane.spans.push({ kind, from: row.ms, to: null });
      lane.status = kind === "wait" ? "waiting" : kind === "queue" ? "ready" : "running";
    } else if (row.op in ENDS) {
      if (open && open.to === null) open.to = row.ms;
      lane.to = row.ms;
      lane.status = row.op === "done" && lane.flawed ? "partial" : ENDS[row.op]!;
    } else if (row.op === "ignored") {
      lane.flawed = true;
    } else if (row.op === "error" || row.op === "loop_fail") {
      lane.flawed ||= row.op === "loop_fail";
      lane.errors.push(row.ms);
    }
  }
  return [...found.values()];
}

const ROUND = [1, 2, 5].flatMap((each) => [1, 10, 100].map((size) => each * size)).concat(
  [1, 2, 5, 10, 15, 30].flatMap((each) => [each * 1000, each * 60_000]),
  [1, 2, 3, 6, 12, 24, 48, 168, 720].map((hours) => hours * 3_600_000),
).sort((a, b) => a - b);

/** Round ticks of a time axis in milliseconds, at most `most`. */
export function ticks(from: number, to: number, most = 6): number[] {
  const raw = Math.max(1, to - from) / most;
  const step = ROUND.find((each) => each >= raw) ?? ROUND.at(-1)! * Math.ceil(raw / ROUND.at(-1)!);
  const found: number[] = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) found.push(tick);
  return found;
}
