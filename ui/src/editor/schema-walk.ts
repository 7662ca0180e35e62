// The parts of the playbook's JSON Schema that apply at a place: follows `kind` as the schema does.

import { isObject, own, type Json, type Schema } from "../forms/fields.ts";
import type { Level, Neighbours, Place } from "./yaml-place.ts";

export type Option = { label: string; detail: string; info: string };

const MAX_PARTS = 200;
const NONE: Neighbours = new Map();

/** What may be written at a place: keys of the mapping, or values of the key. */
export function optionsAt(root: Schema, place: Place): Option[] {
  const parts = partsAt(root, place);
  return place.at === "key" ? keyOptions(root, parts, place) : valueOptions(root, parts, place);
}

/** The explanation of the key or value at a place, as lines; empty if the schema has none. */
export function explain(root: Schema, place: Place): string[] {
  const levels: Level[] =
    place.at === "key"
      ? [...place.levels, { kind: "mapping", key: place.word, neighbours: place.neighbours }]
      : place.levels;
  const parts = walk(root, levels, NONE);
  const lines = new Set<string>();
  for (const part of parts) {
    const description = part["description"];
    if (typeof description === "string") lines.add(description);
  }
  const type = typeWords(parts);
  if (lines.size > 0 && type !== "") lines.add(type);
  return [...lines].slice(0, 6);
}

function partsAt(root: Schema, place: Place): Schema[] {
  return walk(root, place.levels, place.at === "key" ? place.neighbours : NONE);
}

/** The schemas at the end of the levels; `last` are the neighbours of the cursor's own key. */
function walk(root: Schema, levels: readonly Level[], last: Neighbours): Schema[] {
  let parts: Schema[] = [root];
  levels.forEach((level) => {
    const next: Schema[] = [];
    for (const part of open(root, parts, level.kind, level.kind === "mapping" ? level.neighbours : NONE)) {
      const inner = level.kind === "mapping" ? member(part, level.key) : part["items"];
      if (isObject(inner)) next.push(inner);
    }
    parts = next.slice(0, MAX_PARTS);
  });
  return open(root, parts, "any", last);
}

function member(part: Schema, key: string): Json | undefined {
  const properties = part["properties"];
  const named = isObject(properties) ? own(properties, key) : undefined;
  return named ?? part["additionalProperties"];
}

type Form = "mapping" | "list" | "any";

/** All schemas that hold together with the given ones: references, alternatives and conditions. */
function open(root: Schema, parts: readonly Schema[], form: Form, known: Neighbours): Schema[] {
  const done = new Set<Schema>();
  const pending = [...parts];
  while (pending.length > 0 && done.size < MAX_PARTS) {
    const part = pending.pop();
    if (part === undefined || done.has(part)) continue;
    done.add(part);
    const target = typeof part["$ref"] === "string" ? resolve(root, part["$ref"]) : null;
    if (target !== null) pending.push(target);
    for (const word of ["allOf", "anyOf", "oneOf"]) {
      const all = part[word];
      if (Array.isArray(all)) pending.push(...all.filter(isObject));
    }
    const condition = part["if"];
    if (isObject(condition)) {
      const branch = holds(condition, form, known) ? part["then"] : part["else"];
      if (isObject(branch)) pending.push(branch);
    }
  }
  return [...done].reverse();
}

/** Whether a condition holds for a value of this form with these members. */
function holds(condition: Schema, form: Form, known: Neighbours): boolean {
  const type = condition["type"];
  if (type === "array" && form !== "list") return false;
  if (type === "object" && form === "list") return false;
  const required = Array.isArray(condition["required"]) ? condition["required"] : [];
  if (required.some((name) => typeof name === "string" && !known.has(name))) return false;
  const properties = isObject(condition["properties"]) ? condition["properties"] : {};
  return Object.entries(properties).every(([name, schema]) => {
    const value = known.get(name);
    return !isObject(schema) || schema["const"] === undefined || schema["const"] === value;
  });
}

function resolve(root: Schema, reference: string): Schema | null {
  let found: Json = root;
  for (const name of reference.replace(/^#\//, "").split("/")) {
    if (!isObject(found)) return null;
    found = own(found, name) ?? null;
  }
  return isObject(found) ? found : null;
}

function keyOptions(root: Schema, parts: readonly Schema[], place: Place): Option[] {
  const found = new Map<string, Option>();
  for (const part of parts) {
    const properties = isObject(part["properties"]) ? part["properties"] : {};
    const required = Array.isArray(part["required"]) ? part["required"] : [];
    for (const [label, schema] of Object.entries(properties)) {
      if (!isObject(schema) || "not" in schema || place.neighbours.has(label)) continue;
      const opened = open(root, [schema], "any", NONE);
      const info = described(opened);
      const before = found.get(label);
      if (before !== undefined && before.info !== "") continue;
      const detail = `${typeWords(opened)}${required.includes(label) ? " · required" : ""}`;
      found.set(label, { label, detail, info });
    }
  }
  return [...found.values()];
}

function valueOptions(root: Schema, parts: readonly Schema[], place: Place): Option[] {
  const found = new Map<string, Option>();
  const last = place.levels.at(-1);
  for (const part of parts) {
    const choices = Array.isArray(part["enum"]) ? part["enum"] : [];
    const values = part["const"] === undefined ? choices : [...choices, part["const"]];
    for (const value of values) {
      const label = String(value);
      const info = last?.kind === "mapping" && last.key === "kind" ? aboutKind(root, label) : "";
      found.set(label, { label, detail: "", info });
    }
    if (part["type"] === "boolean") {
      for (const label of ["true", "false"]) found.set(label, { label, detail: "", info: "" });
    }
  }
  return [...found.values()];
}

function aboutKind(root: Schema, kind: string): string {
  const task = resolve(root, `#/$defs/task_${kind}`);
  return task === null ? "" : described([task]);
}

function described(parts: readonly Schema[]): string {
  for (const part of parts) {
    if (typeof part["description"] === "string") return part["description"];
  }
  return "";
}

function typeWords(parts: readonly Schema[]): string {
  for (const part of parts) {
    const choices = part["enum"];
    if (Array.isArray(choices)) return choices.map(String).slice(0, 8).join(" | ");
    const type = part["type"];
    if (typeof type === "string") return type;
    if (Array.isArray(type)) return type.map(String).join(" | ");
  }
  return "";
}
