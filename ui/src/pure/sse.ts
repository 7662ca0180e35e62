// Reads a stream of server-sent events from its chunks of text.

export type Message = { event: string; data: string; id: string | null };

export class SseReader {
  #rest = "";
  #event = "";
  #data: string[] = [];
  #id: string | null = null;

  /** Messages that are complete with this chunk. */
  read(chunk: string): Message[] {
    const lines = (this.#rest + chunk).split("\n");
    this.#rest = lines.pop() ?? "";
    const found: Message[] = [];
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (this.#data.length) found.push({ event: this.#event || "message", data: this.#data.join("\n"), id: this.#id });
        this.#event = "";
        this.#data = [];
      } else if (!line.startsWith(":")) {
        this.#take(line);
      }
    }
    return found;
  }

  #take(line: string): void {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "event") this.#event = value;
    else if (name === "data") this.#data.push(value);
    else if (name === "id") this.#id = value;
  }
}

/** Seconds before the next try: doubled from 1 to 30, with a part that is drawn. */
export function backoff(attempt: number, drawn: number): number {
  const whole = Math.min(30, 2 ** Math.min(attempt, 5));
  return whole * (0.5 + drawn / 2);
}
