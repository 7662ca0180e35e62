// One stream of changes for the whole page: topics are added and dropped by its parts.
// It ends 30 s after the tab is hidden and comes back with the cursor of its last message.

import { useEffect, useRef, useSyncExternalStore } from "react";
import { announceSignedOut } from "./client.ts";
import { readProblem } from "./problem.ts";
import { useSession } from "./session.ts";
import { backoff, SseReader } from "../pure/sse.ts";

export type LiveState = "off" | "connecting" | "open" | "lost";
type Handler = (data: unknown, event: string) => void;
type Subscriber = { topic: () => string; on: Handler };

/** Streams of all tabs together: a browser has six connections to a server. */
const SLOTS = 4;
const NO_SLOT_S = 5;
const HIDDEN_MS = 30_000;
const SILENT_MS = 45_000;

class Live {
  #subscribers = new Set<Subscriber>();
  #listeners = new Set<() => void>();
  #abort: AbortController | null = null;
  #attempt = 0;
  #lastId: string | null = null;
  #topics = "";
  #opened = false;
  #timer = 0;
  #hidden = 0;
  #tabs = "BroadcastChannel" in window ? new BroadcastChannel("noetl.live") : null;
  state: LiveState = "off";

  constructor() {
    document.addEventListener("visibilitychange", () => this.#visible());
    window.addEventListener("online", () => this.#again(0));
    this.#tabs?.addEventListener("message", () => {
      if (document.hidden) this.#close();
    });
  }

  subscribe(subscriber: Subscriber): () => void {
    this.#subscribers.add(subscriber);
    this.#settle();
    return () => {
      this.#subscribers.delete(subscriber);
      this.#settle();
    };
  }

  watch = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  #say(state: LiveState): void {
    if (this.state === state) return;
    this.state = state;
    for (const listener of this.#listeners) listener();
  }

  #visible(): void {
    window.clearTimeout(this.#hidden);
    if (document.hidden) this.#hidden = window.setTimeout(() => this.#close(), HIDDEN_MS);
    else if (!this.#abort) this.#again(0);
  }

  /** Parts of a page come and go together: wait for the rest of this turn. */
  #settle(): void {
    window.clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => {
      const names = this.#names();
      if (names === this.#topics && this.#abort) return;
      this.#topics = names;
      this.#lastId = null;
      this.#again(0);
    }, 20);
  }

  #names(): string {
    const topics = [...this.#subscribers].map((each) => each.topic().split("@")[0]!);
    return [...new Set(topics)].sort().join(",");
  }

  #close(): void {
    this.#abort?.abort();
    this.#abort = null;
    this.#say("off");
  }

  #again(seconds: number): void {
    this.#close();
    window.clearTimeout(this.#timer);
    if (this.#subscribers.size === 0 || document.hidden) return;
    if (seconds > 0) this.#say("lost");
    this.#timer = window.setTimeout(() => void this.#open(), seconds * 1000);
  }

  async #open(): Promise<void> {
    const abort = new AbortController();
    this.#abort = abort;
    if (this.state !== "lost") this.#say("connecting");
    let silence = 0;
    const alive = () => {
      window.clearTimeout(silence);
      silence = window.setTimeout(() => abort.abort("silent"), SILENT_MS);
    };
    let hasSlot = true;
    try {
      alive();
      hasSlot = await withSlot(() => this.#follow(abort.signal, alive));
    } catch {
      // ended: tried again below
    } finally {
      window.clearTimeout(silence);
    }
    if (this.#abort !== abort) return;
    this.#abort = null;
    if (!hasSlot) {
      // Other tabs have all streams: the parts of the page ask instead.
      this.#tabs?.postMessage("wanted");
      this.#close();
      this.#timer = window.setTimeout(() => this.#again(0), NO_SLOT_S * 1000);
      return;
    }
    this.#again(backoff(this.#attempt++, Math.random()));
  }

  async #follow(signal: AbortSignal, alive: () => void): Promise<void> {
    const topics = [...new Set([...this.#subscribers].map((each) => each.topic()))].join(",");
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (this.#lastId !== null) headers["Last-Event-ID"] = this.#lastId;
    const response = await fetch(`/api/live?topics=${encodeURIComponent(topics)}`, { signal, headers, credentials: "same-origin" });
    if (response.status === 401 && (await readProblem(response)).isSignedOut) announceSignedOut();
    if (!response.ok || !response.body) {
      if (response.status < 500 && response.status !== 429) this.#attempt = Math.max(this.#attempt, 4);
      if (response.status === 400 || response.status === 409 || response.status === 422) this.#lastId = null;
      throw new Error(String(response.status));
    }
    this.#say("open");
    const isFresh = this.#lastId === null;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const sse = new SseReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      for (const message of sse.read(value)) {
        this.#attempt = 0;
        if (message.id !== null) this.#lastId = message.id;
        if (message.event === "ready" && isFresh) this.#reset();
        this.#tell(message.event, JSON.parse(message.data));
      }
    }
  }

  /** A stream that continues no earlier one may have missed changes: those between the
   * answer that a part shows and its own beginning, unless the topic names a position. */
  #reset(): void {
    const isFirst = !this.#opened;
    this.#opened = true;
    for (const subscriber of [...this.#subscribers]) {
      const topic = subscriber.topic();
      if (!isFirst || !topic.includes("@")) subscriber.on({ topic, isFirst }, "reset");
    }
  }

  #tell(event: string, data: unknown): void {
    const about = event === "reset" ? (data as { topic?: string }).topic : undefined;
    const id = event === "track" ? `track:${(data as { id?: string }).id}` : about ?? event;
    for (const subscriber of [...this.#subscribers]) {
      if (subscriber.topic().split("@")[0] === id) subscriber.on(data, event);
    }
  }
}

/** Hold one of the streams that all tabs share; returns false if none is free. */
async function withSlot(follow: () => Promise<void>): Promise<boolean> {
  if (!("locks" in navigator)) {
    await follow(); // a page over plain HTTP
    return true;
  }
  for (let slot = 0; slot < SLOTS; slot++) {
    const had = await navigator.locks.request(`noetl.live.${slot}`, { ifAvailable: true }, async (lock) => {
      if (lock) await follow();
      return lock !== null;
    });
    if (had) return true;
  }
  return false;
}

export const live = new Live();

/** Follow a topic while the calling part is shown; null follows nothing.
 *
 * `topic` may be a function: what follows `@` is read when the stream is opened.
 */
export function useLive(topic: string | null, on: Handler, at?: () => number): void {
  const handler = useRef(on);
  const position = useRef(at);
  // Parts of a page begin together, once it is known who is there: a stream that gets
  // another topic later is opened anew, and all parts would ask for everything again.
  const isKnown = useSession().data !== undefined;
  useEffect(() => {
    handler.current = on;
    position.current = at;
  });
  useEffect(() => {
    if (topic === null || !isKnown) return;
    return live.subscribe({
      topic: () => (position.current ? `${topic}@${position.current()}` : topic),
      on: (data, event) => handler.current(data, event),
    });
  }, [topic, isKnown]);
}

export function useLiveState(): LiveState {
  return useSyncExternalStore(live.watch, () => live.state);
}
