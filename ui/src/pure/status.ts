// The states that are drawn, and the words of executions and steps for each.

export const LOOKS = [
  "done", "completed", "failed", "quarantined", "running", "waiting", "ready", "partial",
  "paused", "cancelled", "skipped", "idle", "not_reached",
] as const;
export type Look = (typeof LOOKS)[number];

const WORDS: Partial<Record<Look, string>> = { not_reached: "not reached", partial: "done with errors" };

/** An unknown word of a newer server is drawn as idle, under its own name. */
export function look(status: string): Look {
  return (LOOKS as readonly string[]).includes(status) ? (status as Look) : "idle";
}

export function word(status: string): string {
  return WORDS[status as Look] ?? status.replaceAll("_", " ");
}

/** What a line of an execution shows: look and, where it differs, the word. */
export function shownStatus(line: { status: string; ignored_errors: number; interrupted?: boolean }): { status: string; text?: string } {
  if (line.interrupted) return { status: "paused", text: "interrupted" };
  if (line.status === "completed" && line.ignored_errors > 0) return { status: "partial", text: "completed" };
  return { status: line.status };
}

export const ENDED = ["completed", "failed", "cancelled"] as const;

export function hasEnded(status: string): boolean {
  return (ENDED as readonly string[]).includes(status);
}
