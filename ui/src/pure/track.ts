// The track of an execution: what its events change in the counters of its steps.
// The browser adds integers; a look at any position is a binary search.

export type TrackAnswer = {
  page: number;
  from: number;
  to: number;
  last_seq: number;
  complete: boolean;
  t0: string;
  counters: string[];
  ops: string[];
  effects: number[][];
  opening: { steps: number[][] };
  steps: string[];
  names: string[];
} & Columns;

export type Columns = { seq: number[]; ms: number[]; step: number[]; op: number[]; n: number[]; who: number[]; run: number[] };

export type Counts = Readonly<Record<string, number>>;
export type Row = { seq: number; ms: number; step: string | null; op: string; n: number; who: string | null; run: number };
/** Changes of one step: their events, and the counters after each of them. */
type Changes = { seqs: Int32Array; sums: Int32Array; length: number };

/** Index of the last entry that is at most `wanted`, or -1. */
export function lastAtMost(sorted: ArrayLike<number>, wanted: number, length = sorted.length): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle]! <= wanted) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Status of a step from its counters; the order of the questions is that of the server. */
export function statusOf(count: (name: string) => number, ended: boolean): string {
  if (count("running") > 0) return "running";
  if (count("waiting") > 0) return "waiting";
  if (count("ready") > 0) return "ready";
  if (count("failed") > count("cancelled")) return "failed";
  if (count("cancelled") > 0) return "cancelled";
  if (count("done") > 0) return count("ignored") > 0 || count("loop_failed") > 0 ? "partial" : "done";
  if (count("skipped") > 0) return "skipped";
  if (count("tokens") > 0) return "ready";
  return ended ? "not_reached" : "idle";
}

/** Position in `list` of an entry of `others`; what is new is added to `list`. */
function numbering(list: string[], others: string[]): (at: number) => number {
  const known = new Map(list.map((name, at) => [name, at]));
  return (at) => {
    const name = at < 0 ? undefined : others[at];
    if (name === undefined) return -1;
    if (!known.has(name)) {
      known.set(name, list.length);
      list.push(name);
    }
    return known.get(name)!;
  };
}

function grown(old: Int32Array): Int32Array {
  const more = new Int32Array(old.length * 2);
  more.set(old);
  return more;
}

/** One page of the track: at most 10,000 events, with the sums before it. */
export class TrackPage {
  readonly page: number;
  readonly from: number;
  readonly t0: number;
  readonly counters: string[];
  readonly ops: string[];
  to: number;
  complete: boolean;
  steps: string[];
  names: string[];
  readonly columns: Columns;
  #effects: number[][];
  #opening: number[][];
  #byStep: Changes[] = [];
  #indexed = 0;
  #numbers: Map<string, number>;
  #marks = new Map<string, number[]>();
  #marked = 0;

  constructor(answer: TrackAnswer) {
    this.page = answer.page;
    this.from = answer.from;
    this.to = answer.to;
    this.t0 = Date.parse(answer.t0);
    this.complete = answer.complete;
    this.counters = answer.counters;
    this.ops = answer.ops;
    this.steps = [...answer.steps];
    this.names = [...answer.names];
    this.#effects = answer.effects;
    this.#opening = answer.opening.steps;
    this.#numbers = new Map(answer.counters.map((name, number) => [name, number]));
    const { seq, ms, step, op, n, who, run } = answer;
    this.columns = { seq: [...seq], ms: [...ms], step: [...step], op: [...op], n: [...n], who: [...who], run: [...run] };
  }

  get length(): number {
    return this.columns.seq.length;
  }

  /** Add rows of the stream, which index lists of their own; those that are here already
   * are left out. Returns whether any was new. */
  append(rows: Columns, steps: string[], names: string[], to: number): boolean {
    const known = this.to;
    const stepAt = numbering(this.steps, steps);
    const nameAt = numbering(this.names, names);
    let added = false;
    for (let at = 0; at < rows.seq.length; at++) {
      if (rows.seq[at]! <= known) continue;
      const { seq, ms, step, op, n, who, run } = this.columns;
      seq.push(rows.seq[at]!);
      ms.push(rows.ms[at]!);
      step.push(stepAt(rows.step[at]!));
      op.push(rows.op[at]!);
      n.push(rows.n[at]!);
      who.push(nameAt(rows.who[at]!));
      run.push(rows.run[at]!);
      added = true;
    }
    this.to = Math.max(this.to, to);
    return added;
  }

  /** Changes of each step, with the sums of its counters after each of them. Rows are
   * looked at once, so that rows of the stream cost what they bring. */
  #index(): Changes[] {
    const { seq, step, op, n } = this.columns;
    const width = this.counters.length;
    while (this.#byStep.length < this.steps.length) {
      const sums = new Int32Array(4 * width);
      sums.set(this.#opening[this.#byStep.length] ?? []);
      this.#byStep.push({ seqs: new Int32Array(4).fill(-1, 0, 1), sums, length: 1 });
    }
    for (; this.#indexed < seq.length; this.#indexed++) {
      const row = this.#indexed;
      const at = step[row]!;
      if (at < 0) continue;
      const found = this.#byStep[at]!;
      const to = found.length++;
      if (to === found.seqs.length) {
        found.seqs = grown(found.seqs);
        found.sums = grown(found.sums);
      }
      const { seqs, sums } = found;
      const effect = this.#effects[op[row]!]!;
      seqs[to] = seq[row]!;
      for (let counter = 0; counter < width; counter++) {
        sums[to * width + counter] = sums[(to - 1) * width + counter]! + (effect[counter] ?? 0) * n[row]!;
      }
    }
    return this.#byStep;
  }

  /** Counters of a step after an event. */
  countsOf(step: string, seq: number): (counter: string) => number {
    const at = this.steps.indexOf(step);
    return this.#countsAt(at, seq);
  }

  #countsAt(at: number, seq: number): (counter: string) => number {
    const found = at < 0 ? undefined : this.#index()[at];
    if (!found) return () => 0;
    const base = lastAtMost(found.seqs, seq, found.length) * this.counters.length;
    return (counter) => found.sums[base + (this.#numbers.get(counter) ?? 0)] ?? 0;
  }

  /** Every step that the log names by now, with its counters after an event. */
  *looks(seq: number): Generator<[string, (counter: string) => number]> {
    for (const [at, name] of this.steps.entries()) yield [name, this.#countsAt(at, seq)];
  }

  /** Position of the next change, of one step or of any, after or before an event. */
  neighbour(seq: number, by: 1 | -1, wanted: (op: string, step: string | null) => boolean): number | null {
    const { seq: seqs } = this.columns;
    let row = lastAtMost(seqs, by > 0 ? seq : seq - 1);
    if (by > 0) row += 1;
    for (; row >= 0 && row < seqs.length; row += by) {
      if (seqs[row] !== seq && wanted(this.ops[this.columns.op[row]!]!, this.#step(row))) return seqs[row]!;
    }
    return null;
  }

  #step(row: number): string | null {
    const at = this.columns.step[row]!;
    return at < 0 ? null : this.steps[at] ?? null;
  }

  row(at: number): Row {
    const { seq, ms, op, n, who, run } = this.columns;
    return {
      seq: seq[at]!, ms: ms[at]!, step: this.#step(at), op: this.ops[op[at]!]!, n: n[at]!,
      who: who[at]! < 0 ? null : this.names[who[at]!] ?? null, run: run[at]!,
    };
  }

  *rows(): Generator<Row> {
    for (let at = 0; at < this.length; at++) yield this.row(at);
  }

  /** Rows of some changes, and of the others the first in a row of one run. */
  *rowsOf(wanted: ReadonlySet<string>): Generator<Row> {
    const { op, run } = this.columns;
    const isWanted = this.ops.map((name) => wanted.has(name));
    for (let at = 0; at < this.length; at++) {
      if (isWanted[op[at]!] || run[at] !== run[at - 1]) yield this.row(at);
    }
  }

  /** Positions of what the strip marks, by kind. Rows are looked at once. */
  marks(): ReadonlyMap<string, readonly number[]> {
    const { seq, op } = this.columns;
    for (; this.#marked < seq.length; this.#marked++) {
      const kind = MARKS[this.ops[op[this.#marked]!]!];
      if (kind === undefined) continue;
      const known = this.#marks.get(kind);
      if (known) known.push(seq[this.#marked]!);
      else this.#marks.set(kind, [seq[this.#marked]!]);
    }
    return this.#marks;
  }

  /** Milliseconds since the start at an event. */
  msAt(seq: number): number {
    const at = lastAtMost(this.columns.seq, seq);
    return at < 0 ? this.columns.ms[0] ?? 0 : this.columns.ms[at]!;
  }

  /** Whether the execution has ended by an event. */
  endedBy(seq: number): boolean {
    const number = this.ops.indexOf("end");
    for (let at = this.length - 1; at >= 0 && at > this.length - 50; at--) {
      if (this.columns.op[at] === number) return this.columns.seq[at]! <= seq;
    }
    return false;
  }
}

/** What the strip above the slider marks. */
export const MARKS: Record<string, string> = { error: "failed", fail: "failed", loop_fail: "failed", ctx: "ctx", refused: "ctx", signal: "signal", fork: "fork", wait: "waiting" };

/** Marks of some pages on a strip of `width`: the places where there is one, by kind. */
export function placesOf(pages: TrackPage[], last: number, width: number): Map<string, number[]> {
  const found = new Map<string, Uint8Array>();
  const scale = last > 1 ? width / (last - 1) : 0;
  for (const page of pages) {
    for (const [kind, seqs] of page.marks()) {
      const places = found.get(kind) ?? new Uint8Array(width + 1);
      found.set(kind, places);
      for (const seq of seqs) places[Math.min(width, Math.round(scale ? (seq - 1) * scale : width))] = 1;
    }
  }
  const places = (marked: Uint8Array) => [...marked.keys()].filter((at) => marked[at]);
  return new Map([...found].map(([kind, marked]) => [kind, places(marked)]));
}

export const PAGE = 10_000;

/** The page of the track that holds an event. */
export function pageOf(seq: number): number {
  return Math.max(0, Math.floor((seq - 1) / PAGE));
}
