// What differs between two values, as lines of a tree.

import type { Json } from "../api/types.ts";

export type Difference = { path: string; kind: "added" | "removed" | "changed"; before?: Json; after?: Json };
const MOST = 500;
const MOST_OF_LIST = 1000;

/** Changed leaves only; a list is compared by index up to 1,000 entries. */
export function diff(before: Json | undefined, after: Json | undefined, path = ""): Difference[] {
  const found: Difference[] = [];
  walk(before, after, path, found);
  return found;
}

function isMap(value: Json | undefined): value is { [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function walk(before: Json | undefined, after: Json | undefined, path: string, found: Difference[]): void {
  if (found.length >= MOST || before === after) return;
  if (before === undefined) found.push({ path, kind: "added", after });
  else if (after === undefined) found.push({ path, kind: "removed", before });
  else if (isMap(before) && isMap(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) walk(before[key], after[key], path ? `${path}.${key}` : key, found);
  } else if (Array.isArray(before) && Array.isArray(after) && Math.max(before.length, after.length) <= MOST_OF_LIST) {
    for (let at = 0; at < Math.max(before.length, after.length); at++) walk(before[at], after[at], `${path}[${at}]`, found);
  } else if (JSON.stringify(before) !== JSON.stringify(after)) found.push({ path, kind: "changed", before, after });
}
