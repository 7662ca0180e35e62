// The idempotency key of a form: one for each thing that a person asks for, however often they click.

export type Attempt = { body: string; key: string };

/** The key of a request: as before while the request is the same, otherwise a new one. */
export function attemptFor(before: Attempt | null, body: string, random: () => string): Attempt {
  return before !== null && before.body === body ? before : { body, key: `ui-${random()}` };
}
