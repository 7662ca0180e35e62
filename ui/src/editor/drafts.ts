// Texts that were typed and not yet registered, kept by the browser.

export type Draft = {
  text: string;
  /** The version that the text began from; null for a new playbook. */
  base: string | null;
  at: string;
};

export type Shelf = Pick<Storage, "getItem" | "setItem" | "removeItem" | "key" | "length">;

const PREFIX = "noetl.draft:";
export const MAX_DRAFTS = 30;
export const MAX_TEXT = 1_000_000;

export class Drafts {
  readonly #shelf: Shelf;

  constructor(shelf: Shelf) {
    this.#shelf = shelf;
  }

  read(path: string): Draft | null {
    return readDraft(this.#shelf.getItem(PREFIX + path));
  }

  /** Keep a draft; false if the browser has no room for it. */
  keep(path: string, draft: Draft): boolean {
    if (draft.text.length > MAX_TEXT) return false;
    this.#makeRoom(path);
    for (let tries = 0; tries < MAX_DRAFTS; tries += 1) {
      try {
        this.#shelf.setItem(PREFIX + path, JSON.stringify(draft));
        return true;
      } catch {
        if (!this.#dropOldest(path)) return false;
      }
    }
    return false;
  }

  drop(path: string): void {
    this.#shelf.removeItem(PREFIX + path);
  }

  /** Paths with a draft, the newest first. */
  paths(): string[] {
    return this.#all()
      .sort((a, b) => b.at.localeCompare(a.at))
      .map((each) => each.path);
  }

  #makeRoom(path: string): void {
    while (this.#all().filter((each) => each.path !== path).length >= MAX_DRAFTS) {
      if (!this.#dropOldest(path)) return;
    }
  }

  #dropOldest(except: string): boolean {
    const others = this.#all().filter((each) => each.path !== except);
    const oldest = others.sort((a, b) => a.at.localeCompare(b.at))[0];
    if (oldest === undefined) return false;
    this.drop(oldest.path);
    return true;
  }

  #all(): { path: string; at: string }[] {
    const found: { path: string; at: string }[] = [];
    for (let index = 0; index < this.#shelf.length; index += 1) {
      const key = this.#shelf.key(index);
      if (key === null || !key.startsWith(PREFIX)) continue;
      found.push({ path: key.slice(PREFIX.length), at: readDraft(this.#shelf.getItem(key))?.at ?? "" });
    }
    return found;
  }
}

function readDraft(text: string | null): Draft | null {
  if (text === null) return null;
  try {
    const found: unknown = JSON.parse(text);
    if (typeof found !== "object" || found === null) return null;
    const { text: body, base, at } = found as Record<string, unknown>;
    if (typeof body !== "string" || typeof at !== "string") return null;
    return { text: body, base: typeof base === "string" ? base : null, at };
  } catch {
    return null;
  }
}
