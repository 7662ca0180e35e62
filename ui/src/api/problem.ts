// What the server refuses, as its problem documents say it.

export type Issue = { message: string; line?: number | null; column?: number | null; code?: string; hint?: string | null };

const STORE_DOWN = "session.store_down";

export class Problem extends Error {
  status: number;
  kind: string;
  hint: string | null;
  more: Record<string, unknown>;

  constructor(status: number, kind: string, message: string, hint: string | null = null, more: Record<string, unknown> = {}) {
    super(message);
    this.name = "Problem";
    this.status = status;
    this.kind = kind;
    this.hint = hint;
    this.more = more;
  }

  /** The server, or one before it, was not there. */
  get isAway(): boolean {
    return this.status === 0 || (this.status >= 502 && this.status <= 504);
  }

  /** The server cannot be reached, or its store cannot: asking again may help. */
  get passes(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500 || this.kind === STORE_DOWN;
  }

  /** The session has ended; not if the server could not check it. */
  get isSignedOut(): boolean {
    return this.status === 401 && this.kind !== STORE_DOWN;
  }
}

/** Read a refusal; a proxy between browser and server may answer with anything. */
export async function readProblem(response: Response): Promise<Problem> {
  const text = await response.text().catch(() => "");
  try {
    const body: unknown = JSON.parse(text);
    if (body && typeof body === "object" && "message" in body) {
      const found = body as Record<string, unknown>;
      const hint = typeof found.hint === "string" ? found.hint : null;
      return new Problem(response.status, String(found.kind ?? "unknown"), String(found.message), hint, found);
    }
  } catch {
    // not JSON: below
  }
  return new Problem(response.status, "http", `The server answered ${response.status} ${response.statusText}`.trim());
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof TypeError) {
    return new Problem(0, "network", "The server cannot be reached.", "It is asked again every few seconds.");
  }
  return new Problem(-1, "page", error instanceof Error ? error.message : String(error));
}
