import assert from "node:assert/strict";
import { test } from "node:test";
import { diff } from "../src/pure/diff.ts";
import { lanes, SHOWN, ticks } from "../src/pure/lanes.ts";
import { lastAtMost, pageOf, placesOf, statusOf, TrackPage, type TrackAnswer } from "../src/pure/track.ts";

const COUNTERS = ["ready", "running", "waiting", "done", "failed", "retries", "tokens", "cancelled"];
const EFFECTS: Record<string, Record<string, number>> = {
  "token+": { tokens: 1 }, "token-": { tokens: -1 }, ready: { ready: 1 }, begin: { ready: -1, running: 1 },
  wait: { running: -1, waiting: 1 }, wake: { waiting: -1, running: 1 }, done: { running: -1, done: 1 }, fail: { running: -1, failed: 1 },
  retry: { retries: 1 }, error: {}, end: {},
};
const OPS = Object.keys(EFFECTS);
type Short = [seq: number, ms: number, step: number, op: string, run?: number];

function answer(rows: Short[], more: Partial<TrackAnswer> = {}): TrackAnswer {
  const seqs = rows.map((row) => row[0]);
  return {
    page: 0, from: 1, to: seqs.at(-1) ?? 0, last_seq: seqs.at(-1) ?? 0, complete: true, t0: "2026-01-01T00:00:00Z",
    counters: COUNTERS, ops: OPS, effects: OPS.map((op) => COUNTERS.map((name) => EFFECTS[op]![name] ?? 0)),
    opening: { steps: [] }, steps: ["a", "b"], names: [],
    seq: seqs, ms: rows.map((row) => row[1]), step: rows.map((row) => row[2]), op: rows.map((row) => OPS.indexOf(row[3])),
    n: rows.map(() => 1), who: rows.map(() => -1), run: rows.map((row) => row[4] ?? -1), ...more,
  };
}

const CHAIN: Short[] = [
  [3, 0, 0, "token+"], [4, 0, 0, "token-"], [4, 0, 0, "ready", 1], [5, 2, 0, "begin", 1], [6, 4, 0, "wait", 1], [7, 9, 0, "wake", 1],
  [8, 10, 0, "done", 1], [9, 10, 1, "token+"], [10, 11, 1, "token-"], [10, 11, 1, "ready", 2], [11, 12, 1, "begin", 2],
  [12, 14, 1, "error", 2], [13, 15, 1, "retry", 2], [14, 20, 1, "fail", 2], [15, 20, -1, "end"],
];

test("counters at every position are the sums of the rows up to it", () => {
  const page = new TrackPage(answer(CHAIN));
  for (let seq = 0; seq <= 16; seq++) {
    for (const [name, count] of page.looks(seq)) {
      for (const counter of COUNTERS) {
        const expected = CHAIN.filter(([at, , step]) => at <= seq && page.steps[step] === name).reduce((sum, [, , , op]) => sum + (EFFECTS[op]![counter] ?? 0), 0);
        assert.equal(count(counter), expected, `${name}.${counter} at ${seq}`);
      }
    }
  }
});

test("a page begins with the sums of the pages before it", () => {
  const opening = { steps: [COUNTERS.map((name) => (name === "done" ? 7 : 0))] };
  const page = new TrackPage(answer([[10_001, 5, 0, "token+"]], { page: 1, from: 10_001, opening }));
  assert.equal(page.countsOf("a", 10_000)("done"), 7);
  assert.equal(page.countsOf("a", 10_001)("tokens"), 1);
  assert.equal(page.countsOf("b", 10_001)("done"), 0);
  assert.deepEqual([1, 10_000, 10_001].map(pageOf), [0, 0, 1]);
});

test("rows of the stream are added to counters that were looked at before", () => {
  const page = new TrackPage(answer(CHAIN.slice(0, 7)));
  assert.equal(page.countsOf("a", 99)("done"), 1);
  assert.equal(page.countsOf("b", 99)("ready"), 0);
  const many = Array.from({ length: 40 }, (_, at): Short => [20 + at, 30, 2, "token+"]);
  const more = answer([...CHAIN.slice(7), ...many]);
  page.append(more, ["a", "b", "c"], [], 59);
  assert.deepEqual(["done", "failed", "retries"].map((name) => page.countsOf("a", 99)(name)), [1, 0, 0]);
  assert.deepEqual(["done", "failed", "retries"].map((name) => page.countsOf("b", 99)(name)), [0, 1, 1]);
  assert.equal(page.countsOf("c", 19)("tokens"), 0);
  assert.equal(page.countsOf("c", 29)("tokens"), 10);
  assert.equal(page.countsOf("c", 99)("tokens"), 40);
});

test("rows of the stream that are known already are not counted twice", () => {
  const page = new TrackPage(answer(CHAIN.slice(0, 7)));
  const more = answer(CHAIN.slice(4, 11));
  more.step = more.step.map((step) => 1 - step);
  assert.equal(page.append(more, ["b", "a"], [], 11), true, "a message has a list of steps of its own");
  assert.equal(page.append(more, ["b", "a"], [], 11), false);
  assert.equal(page.countsOf("a", 99)("done"), 1);
  assert.equal(page.countsOf("b", 99)("running"), 1);
});

test("the status of a step follows from its counters", () => {
  const page = new TrackPage(answer(CHAIN));
  const status = (step: string, seq: number) => statusOf(page.countsOf(step, seq), page.endedBy(seq));
  assert.deepEqual([2, 3, 4, 5, 6, 7, 8].map((seq) => status("a", seq)), ["idle", "ready", "ready", "running", "waiting", "running", "done"]);
  assert.deepEqual([8, 13, 14].map((seq) => status("b", seq)), ["idle", "running", "failed"]);
  assert.equal(status("c", 14), "idle");
  assert.equal(status("c", 15), "not_reached");
});

test("the next boundary of a step is found in both directions", () => {
  const page = new TrackPage(answer(CHAIN));
  const ends = (op: string) => op === "done" || op === "fail";
  assert.equal(page.neighbour(5, 1, ends), 8);
  assert.equal(page.neighbour(8, 1, ends), 14);
  assert.equal(page.neighbour(14, -1, ends), 8);
  assert.equal(page.neighbour(3, -1, ends), null);
  assert.equal(page.neighbour(9, 1, (_, step) => step === "b"), 10);
});

test("a run is a lane of queue, work and wait", () => {
  const [first, second] = lanes(new TrackPage(answer(CHAIN)).rows());
  assert.deepEqual(first!.spans, [{ kind: "queue", from: 0, to: 2 }, { kind: "run", from: 2, to: 4 }, { kind: "wait", from: 4, to: 9 }, { kind: "run", from: 9, to: 10 }]);
  assert.deepEqual([first!.status, second!.status, second!.errors], ["done", "failed", [14]]);
  assert.equal(lanes(new TrackPage(answer(CHAIN)).rows(), 6)[0]!.status, "waiting");
});

test("lanes need only the rows that they show", () => {
  const loop: Short[] = [[3, 0, 0, "ready", 1], [4, 1, 0, "begin", 1], [5, 2, 0, "error", 1], [6, 2, 0, "token+", 1], [7, 3, 0, "token-", 1], [8, 4, 1, "token+", 2], [9, 5, 1, "token-", 2]];
  for (const rows of [CHAIN, loop]) {
    const page = new TrackPage(answer(rows));
    assert.deepEqual(lanes(page.rowsOf(SHOWN)), lanes(page.rows()));
  }
  assert.equal([...new TrackPage(answer(loop)).rowsOf(SHOWN)].length, 4);
});

test("the strip marks places, each kind once at a place, also those of rows that came later", () => {
  const page = new TrackPage(answer([[1, 0, 0, "begin", 1], [500, 1, 0, "error", 1], [501, 1, 0, "error", 1], [1001, 2, 0, "wait", 1]]));
  assert.deepEqual([...placesOf([page], 1001, 100)], [["failed", [50]], ["waiting", [100]]]);
  const { columns } = page;
  page.append({ seq: [2001], ms: [3], step: [0], op: [OPS.indexOf("error")], n: [1], who: [-1], run: [1] }, page.steps, page.names, 2001);
  assert.deepEqual(placesOf([page], 2001, 100).get("failed"), [25, 100]);
  assert.equal(columns.seq.length, 5);
});

test("a run that began before the page has a span from the page's start", () => {
  const [lane] = lanes(new TrackPage(answer([[10_001, 500, 1, "token+"], [10_002, 600, 0, "done", 7]])).rows());
  assert.deepEqual(lane!.spans, [{ kind: "run", from: 500, to: 600 }]);
});

test("a look at 1,000 steps is fast with 96,000 rows", () => {
  const steps = Array.from({ length: 1000 }, (_, at) => `s${at}`);
  const rows = Array.from({ length: 96_000 }, (_, at): Short => [at + 1, at, at % 1000, "token+"]);
  const page = new TrackPage(answer(rows, { steps }));
  for (const [, count] of page.looks(1)) count("tokens");
  const began = performance.now();
  for (let seq = 1; seq < 96_000; seq += 4_000) for (const [, count] of page.looks(seq)) count("tokens");
  assert.ok((performance.now() - began) / 24 < 25, "median 1.5 ms on a quiet machine");
});

test("binary search finds the last entry that is small enough", () => {
  assert.deepEqual([0, 1, 2, 5, 9].map((wanted) => lastAtMost([1, 2, 2, 5], wanted)), [-1, 0, 2, 3, 3]);
});

test("ticks are round and few", () => {
  assert.deepEqual(ticks(0, 1000), [0, 200, 400, 600, 800, 1000]);
  assert.ok(ticks(3, 625).length <= 7);
});

test("only what changed is listed, by its path", () => {
  const found = diff({ a: 1, b: [1, 2], c: { d: "x" } }, { a: 1, b: [1, 3, 4], e: null });
  assert.deepEqual(found, [
    { path: "b[1]", kind: "changed", before: 2, after: 3 },
    { path: "b[2]", kind: "added", after: 4 },
    { path: "c", kind: "removed", before: { d: "x" } },
    { path: "e", kind: "added", after: null },
  ]);
});
