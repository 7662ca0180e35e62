// One execution outside of React: track pages, cursor, looks. Parts subscribe to it.

import { get } from "../../api/client.ts";
import type { ExecutionLine } from "../../api/types.ts";
import { lastAtMost, pageOf, statusOf, TrackPage, type Columns, type TrackAnswer } from "../../pure/track.ts";

export type StepLook = {
  status: string;
  runs: number;
  done: number;
  failed: number;
  tokens: number;
  retries: number;
  running: number;
  waiting: number;
  loopTotal: number;
  loopDone: number;
  loopFailed: number;
  loopRunning: number;
};

export const IDLE: StepLook = { status: "idle", runs: 0, done: 0, failed: 0, tokens: 0, retries: 0, running: 0, waiting: 0, loopTotal: 0, loopDone: 0, loopFailed: 0, loopRunning: 0 };
export type LiveTrack = Columns & { id: string; steps: string[]; names: string[]; last_seq: number; line?: ExecutionLine };
const KEPT = 12;

export class Model {
  readonly id: string;
  /** Event after which everything is shown; null follows the end. */
  at: number | null;
  last = 0;
  problem: unknown = null;
  version = 0;
  #pages = new Map<number, TrackPage>();
  #loading = new Map<number, Promise<void>>();
  #listeners = new Set<() => void>();
  #frame = 0;
  #abort = new AbortController();
  #looks: { page: TrackPage; seq: number; to: number; found: Map<string, StepLook> } | null = null;
  #isReading = false;

  constructor(id: string, at: number | null) {
    this.id = id;
    this.at = at;
  }

  close(): void {
    this.#abort.abort();
    cancelAnimationFrame(this.#frame);
    this.#listeners.clear();
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  getVersion = (): number => this.version;

  /** All parts change in one frame. */
  #tell(): void {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.version += 1;
      for (const listener of this.#listeners) listener();
    });
  }

  /** The event that is shown. */
  get seq(): number {
    return this.at === null ? this.last : Math.min(this.at, Math.max(1, this.last));
  }

  get follows(): boolean {
    return this.at === null;
  }

  /** The page of the shown event, if it is here. */
  get page(): TrackPage | undefined {
    return this.#pages.get(pageOf(this.seq));
  }

  move(at: number | null): void {
    const next = at === null || at >= this.last ? null : Math.max(1, at);
    if (next === this.at) return;
    this.at = next;
    void this.load(pageOf(this.seq)).then(() => this.readAhead());
    this.#tell();
  }

  /** Load the pages around the cursor, the nearest first, so that moves wait for none. */
  readAhead(): void {
    if (this.#isReading) return;
    this.#isReading = true;
    void this.#readAhead().finally(() => { this.#isReading = false; });
  }

  async #readAhead(): Promise<void> {
    const pages = pageOf(this.last) + 1;
    for (let distance = 0; distance < Math.min(pages, KEPT); distance++) {
      for (const number of [pageOf(this.seq) - distance, pageOf(this.seq) + distance]) {
        const isNear = number >= 0 && number < pages && (pages <= KEPT || distance <= 1);
        if (isNear) await this.load(number);
        if (this.problem !== null || this.#abort.signal.aborted) return;
      }
    }
  }

  setLast(last: number): void {
    if (last <= this.last) return;
    this.last = last;
    void this.load(pageOf(this.seq));
    this.#tell();
  }

  /** Load a page, unless it is here and holds all that it can hold by now. */
  load(number: number): Promise<void> {
    const known = this.#pages.get(number);
    const end = Math.min(this.last, (number + 1) * 10_000);
    if (this.last === 0 || (known && known.to >= end)) return Promise.resolve();
    const loading = this.#loading.get(number);
    if (loading) return loading;
    const begun = this.#fetch(number).finally(() => this.#loading.delete(number));
    this.#loading.set(number, begun);
    return begun;
  }

  async #fetch(number: number): Promise<void> {
    try {
      const answer = await get<TrackAnswer>(`executions/${encodeURIComponent(this.id)}/track`, { page: number }, this.#abort.signal);
      this.#keep(new TrackPage(answer));
      this.last = Math.max(this.last, answer.last_seq);
      this.problem = null;
    } catch (error) {
      if (this.#abort.signal.aborted) return;
      this.problem = error;
    }
    this.#tell();
  }

  #keep(page: TrackPage): void {
    this.#pages.delete(page.page);
    this.#pages.set(page.page, page);
    for (const number of this.#pages.keys()) {
      if (this.#pages.size <= KEPT) break;
      if (number !== pageOf(this.seq)) this.#pages.delete(number);
    }
  }

  /** Ask again for what the end may have changed: the stream has lost its place. */
  async renew(): Promise<void> {
    await this.#fetch(pageOf(Math.max(1, this.last)));
  }

  /** Rows of the stream: they belong to the last page, or begin the next one. */
  take(live: LiveTrack): void {
    const page = this.#pages.get(pageOf(Math.max(1, live.seq[0] ?? live.last_seq)));
    const isWhole = page && live.last_seq <= page.from + 9_999;
    this.last = Math.max(this.last, live.last_seq);
    if (page && isWhole) page.append(live, live.steps, live.names, live.last_seq);
    else void this.load(pageOf(this.seq));
    this.#tell();
  }

  /** Position from which the stream continues. */
  get known(): number {
    return Math.max(0, ...[...this.#pages.values()].map((page) => page.to));
  }

  /** First and last of the `most` latest changes of ctx up to an event; null if there are
   * none. Pages that are not here may hold others: then it begins with event 1. */
  ctxRange(seq: number, most: number): [number, number] | null {
    let range: [number, number] | null = null;
    let left = most;
    for (let number = pageOf(seq); number >= 0 && left > 0; number--) {
      const page = this.#pages.get(number);
      if (!page) return range ?? [1, seq];
      const seqs = page.marks().get("ctx") ?? [];
      const count = lastAtMost(seqs, seq) + 1;
      if (count > 0) range = [seqs[Math.max(0, count - left)]!, range?.[1] ?? seqs[count - 1]!];
      left -= count;
    }
    return range;
  }

  pages(): TrackPage[] {
    return [...this.#pages.values()].sort((a, b) => a.page - b.page);
  }

  /** Looks of all steps that the log names by the shown event. */
  looks(): Map<string, StepLook> {
    const { page, seq } = this;
    const old = this.#looks;
    // Until its page is here, the looks stay those of the position before.
    if (!page) return old?.found ?? new Map();
    if (old?.page === page && old.seq === seq && old.to === page.to) return old.found;
    const found = new Map<string, StepLook>();
    const ended = page.endedBy(seq);
    for (const [name, count] of page.looks(seq)) found.set(name, lookOf(count, ended));
    this.#looks = { page, seq, to: page.to, found };
    return found;
  }

  get endedHere(): boolean {
    return this.page?.endedBy(this.seq) ?? false;
  }
}

function lookOf(count: (name: string) => number, ended: boolean): StepLook {
  const running = count("running");
  const waiting = count("waiting");
  const done = count("done");
  const failed = count("failed");
  return {
    status: statusOf(count, ended),
    runs: count("ready") + running + waiting + done + failed,
    done, failed, running, waiting,
    tokens: count("tokens"),
    retries: count("retries"),
    loopTotal: count("loop_total"),
    loopDone: count("loop_done"),
    loopFailed: count("loop_failed"),
    loopRunning: count("loop_running"),
  };
}
