// Lines and columns of diagnostics as offsets of the text, and the fixes that hints offer.

export type Severity = "error" | "warning" | "hint";

export type Diagnostic = {
  code: string;
  rule: string;
  severity: Severity;
  message: string;
  path: string;
  line: number;
  column: number;
  hint: string | null;
};

export type Fix = { label: string; from: number; to: number; insert: string };

export type Range = { from: number; to: number };

/** The offset of a line and column, both from 1; columns are counted in characters. */
export function offsetOf(text: string, line: number, column: number): number {
  const start = startOfLine(text, line);
  const end = endOfLine(text, start);
  let at = start;
  for (let left = column - 1; left > 0 && at < end; left -= 1) {
    at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  }
  return Math.min(at, end);
}

/** The part of the text that a diagnostic marks: the word at its place, or the rest of the line. */
export function rangeOf(text: string, found: Diagnostic): Range {
  const from = offsetOf(text, found.line, found.column);
  const end = endOfLine(text, from);
  const rest = text.slice(from, end);
  const quoted = /^(["']).*?\1/.exec(rest);
  const word = quoted ?? /^[^\s,\]}#:][^\s,\]}#]*/.exec(rest);
  const length = word ? word[0].replace(/:$/, "").length : rest.trimEnd().length;
  return { from, to: Math.min(from + Math.max(length, 0), end) };
}

/** The fix of a diagnostic whose hint names the word that was meant; null if there is none. */
export function fixOf(text: string, found: Diagnostic): Fix | null {
  const meant = /^did you mean '([^']+)'\?$/.exec(found.hint ?? "")?.[1];
  if (meant === undefined) return null;
  const from = offsetOf(text, found.line, found.column);
  for (const word of quotedWords(found.message)) {
    const at = findWord(text, from, word);
    if (at === null || word === meant) continue;
    return { label: `Replace by '${meant}'`, from: at, to: at + word.length, insert: meant };
  }
  return null;
}

/** The text after a fix. */
export function applied(text: string, fix: Fix): string {
  return text.slice(0, fix.from) + fix.insert + text.slice(fix.to);
}

function quotedWords(message: string): string[] {
  return [...message.matchAll(/'([^']+)'/g)].map((match) => match[1] ?? "");
}

/** Where a word stands on the line of an offset: at the offset, or else once in the line. */
function findWord(text: string, offset: number, word: string): number | null {
  for (const at of [offset, offset + 1]) {
    if (text.startsWith(word, at) && isWhole(text, at, word)) return at;
  }
  const start = text.lastIndexOf("\n", offset - 1) + 1;
  const line = text.slice(start, endOfLine(text, start));
  const places: number[] = [];
  for (let at = line.indexOf(word); at >= 0; at = line.indexOf(word, at + 1)) {
    if (isWhole(line, at, word)) places.push(start + at);
  }
  return places.length === 1 ? (places[0] ?? null) : null;
}

function isWhole(text: string, at: number, word: string): boolean {
  const inside = /[\p{L}\p{N}_]/u;
  const before = text[at - 1] ?? "";
  const after = text[at + word.length] ?? "";
  return !inside.test(before) && !inside.test(after);
}

function startOfLine(text: string, line: number): number {
  let start = 0;
  for (let left = line - 1; left > 0; left -= 1) {
    const next = text.indexOf("\n", start);
    if (next < 0) return start;
    start = next + 1;
  }
  return start;
}

function endOfLine(text: string, from: number): number {
  const next = text.indexOf("\n", from);
  return next < 0 ? text.length : next;
}
