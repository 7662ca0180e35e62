// Where a cursor stands in a playbook: the keys and indexes above it, and their neighbours.

import type { SyntaxNode, Tree } from "@lezer/common";
import { yamlLanguage } from "@codemirror/lang-yaml";

/** Scalars of a mapping by key; `undefined` stands for a mapping or a list. */
export type Neighbours = ReadonlyMap<string, string | undefined>;

/** One level above the cursor: a mapping with the key that leads on, or a list. */
export type Level =
  | { kind: "mapping"; key: string; neighbours: Neighbours }
  | { kind: "list" };

export type Place = {
  levels: Level[];
  /** The cursor stands in a key of this mapping, or in a value. */
  at: "key" | "value";
  /** The keys that the mapping of the cursor has. */
  neighbours: Neighbours;
  word: string;
  from: number;
  to: number;
};

const MARK = "x\u2063x";
/** A longer text is not completed. */
const MAX_TEXT = 400_000;

/** The place for completion at `offset`; null where nothing can be completed. */
export function placeForCompletion(text: string, offset: number): Place | null {
  if (text.length > MAX_TEXT) return null;
  const start = text.lastIndexOf("\n", offset - 1) + 1;
  const before = text.slice(start, offset);
  if (/(^|\s)#/.test(before)) return null;
  const word = /[\w.-]*$/.exec(before)?.[0] ?? "";
  const from = offset - word.length;
  const after = /^[\w.-]*/.exec(text.slice(offset))?.[0] ?? "";
  const rest = text.slice(offset + after.length);
  const isKey = !/:\s*$/.test(text.slice(start, from)) && !/^\s*:/.test(rest.split("\n", 1)[0] ?? "");
  const marked = text.slice(0, from) + (isKey ? `${MARK}: ` : MARK) + rest;
  const place = placeAt(marked, from + 1);
  if (place === null) return null;
  return { ...place, word, from, to: offset + after.length };
}

/** The place of the key or value at `offset`, for an explanation. */
export function placeAt(text: string, offset: number): Place | null {
  if (text.length > MAX_TEXT) return null;
  const tree: Tree = yamlLanguage.parser.parse(text);
  const leaf = tree.resolveInner(offset, 1);
  if (!isScalar(leaf) && leaf.name !== "Key") return null;
  const node = leaf.name === "Key" ? (leaf.firstChild ?? leaf) : leaf;
  const inKey = node.parent?.name === "Key";
  const levels: Level[] = [];
  let neighbours: Neighbours = new Map();
  let isFirst = true;
  for (let up: SyntaxNode | null = node; up !== null; up = up.parent) {
    if (up.name === "Pair") {
      const all = neighboursOf(text, up.parent);
      if (isFirst && inKey) neighbours = all;
      else levels.unshift({ kind: "mapping", key: keyOf(text, up), neighbours: all });
      isFirst = false;
    } else if (up.name === "Item") {
      levels.unshift({ kind: "list" });
      isFirst = false;
    }
  }
  const word = scalar(text, node);
  return { levels, at: inKey ? "key" : "value", neighbours, word, from: node.from, to: node.to };
}

function neighboursOf(text: string, mapping: SyntaxNode | null): Neighbours {
  const found = new Map<string, string | undefined>();
  for (let pair = mapping?.firstChild ?? null; pair !== null; pair = pair.nextSibling) {
    if (pair.name !== "Pair") continue;
    const key = keyOf(text, pair);
    if (key.includes("\u2063")) continue;
    const value = pair.lastChild;
    const isPlain = value !== null && isScalar(value) && value.parent?.name === "Pair";
    found.set(key, isPlain ? scalar(text, value) : undefined);
  }
  return found;
}

function keyOf(text: string, pair: SyntaxNode): string {
  const key = pair.getChild("Key");
  return key === null ? "" : scalar(text, key);
}

function scalar(text: string, node: SyntaxNode): string {
  return text.slice(node.from, node.to).replace(/^(["'])(.*)\1$/s, "$2");
}

function isScalar(node: SyntaxNode): boolean {
  return node.name === "Literal" || node.name === "QuotedLiteral";
}
