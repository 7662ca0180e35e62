// What a person typed into a form: its first state, and its values after a check.

import { isObject, own, type Field, type Json } from "./fields.ts";

/** The state of one field: texts as typed, a switch that may be untouched, lists and groups of them. */
export type Typed = string | boolean | null | Typed[] | { [name: string]: Typed };

/** Messages by the path of a field, such as `order.lines.0`; the path of the form is empty. */
export type Problems = { [path: string]: string };

/** `value` is undefined for a field that was left empty. */
export type Reading = { value: Json | undefined; problems: Problems };

/** The state of a field that shows a value, or its default. */
export function typedOf(field: Field, value: Json | undefined = field.initial): Typed {
  switch (field.kind) {
    case "text":
      return typeof value === "string" ? value : value == null ? "" : JSON.stringify(value);
    case "number":
      return value == null ? "" : String(value);
    case "switch":
      return typeof value === "boolean" ? value : null;
    case "choice":
      return value === undefined ? "" : JSON.stringify(value);
    case "list":
      return Array.isArray(value) ? value.map((each) => typedOf(field.item, each)) : [];
    case "group":
      return typedGroup(field.fields, isObject(value) ? value : {});
    case "json":
      return value === undefined ? "" : JSON.stringify(value, null, 2);
  }
}

export function typedGroup(fields: readonly Field[], values: { [name: string]: Json }): {
  [name: string]: Typed;
} {
  const pairs = fields.map((field): [string, Typed] => [
    field.name,
    typedOf(field, own(values, field.name) ?? field.initial),
  ]);
  return Object.fromEntries(pairs);
}

/** Read and check one field. */
export function readField(field: Field, typed: Typed | undefined, path = field.name): Reading {
  switch (field.kind) {
    case "text":
      return readText(field, asText(typed), path);
    case "number":
      return readNumber(field, asText(typed).trim(), path);
    case "switch":
      if (typeof typed === "boolean") return { value: typed, problems: {} };
      return empty(field, path, "choose yes or no");
    case "choice":
      return readChoice(field, asText(typed), path);
    case "list":
      return readList(field, Array.isArray(typed) ? typed : [], path);
    case "group":
      return readGroupField(field, typed, path);
    case "json":
      return readJson(field, asText(typed), path);
  }
}

/** Read and check all fields of a form. */
export function readForm(fields: readonly Field[], typed: { [name: string]: Typed }, path = ""): {
  value: { [name: string]: Json };
  problems: Problems;
} {
  const values: [string, Json][] = [];
  const problems: Problems = {};
  for (const field of fields) {
    const at = path === "" ? field.name : `${path}.${field.name}`;
    const read = readField(field, own(typed, field.name), at);
    Object.assign(problems, read.problems);
    if (read.value !== undefined) values.push([field.name, read.value]);
  }
  return { value: Object.fromEntries(values), problems };
}

/** Read a whole value that is edited as JSON: an object. */
export function readObject(text: string): Reading {
  const read = parse(text.trim() === "" ? "{}" : text, "");
  if (read.value !== undefined && !isObject(read.value)) {
    return { value: undefined, problems: { "": "expected an object: { … }" } };
  }
  return read;
}

function readText(field: Field & { kind: "text" }, typed: string, path: string): Reading {
  if (typed === "" && (!field.required || field.least > 0)) return empty(field, path, "is required");
  const length = [...typed].length;
  if (length < field.least) return wrong(path, `at least ${field.least} characters`);
  if (length > field.most) return wrong(path, `at most ${field.most} characters`);
  if (field.pattern !== "" && !matches(field.pattern, typed)) {
    return wrong(path, `must match ${field.pattern}`);
  }
  return { value: typed, problems: {} };
}

function readNumber(field: Field & { kind: "number" }, typed: string, path: string): Reading {
  if (typed === "") return empty(field, path, "is required");
  const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(typed) ? Number(typed) : NaN;
  if (!Number.isFinite(value)) return wrong(path, `expected a number, found '${cut(typed)}'`);
  if (field.whole && !Number.isInteger(value)) return wrong(path, "expected a whole number");
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
    return wrong(path, TOO_LARGE);
  }
  if (value < field.least) return wrong(path, `must be ${field.least} or more`);
  if (value > field.most) return wrong(path, `must be ${field.most} or less`);
  return { value, problems: {} };
}

function readChoice(field: Field & { kind: "choice" }, typed: string, path: string): Reading {
  if (typed === "") return empty(field, path, "choose one");
  const chosen = field.choices.find((each) => JSON.stringify(each) === typed);
  if (chosen === undefined) return wrong(path, "is not one of the choices");
  return { value: chosen, problems: {} };
}

function readList(field: Field & { kind: "list" }, typed: Typed[], path: string): Reading {
  const problems: Problems = {};
  const values: Json[] = [];
  typed.forEach((each, index) => {
    const read = readField(field.item, each, `${path}.${index}`);
    Object.assign(problems, read.problems);
    if (read.value !== undefined) values.push(read.value);
  });
  if (typed.length === 0 && !field.required && field.initial === undefined) {
    return { value: undefined, problems };
  }
  if (typed.length < field.least) problems[path] = `at least ${field.least} entries`;
  if (typed.length > field.most) problems[path] = `at most ${field.most} entries`;
  return { value: values, problems };
}

function readGroupField(field: Field & { kind: "group" }, typed: Typed | undefined, path: string): Reading {
  if (!field.required && isBlank(typed)) return { value: undefined, problems: {} };
  return readForm(field.fields, isTypedGroup(typed) ? typed : {}, path);
}

function readJson(field: Field, typed: string, path: string): Reading {
  if (typed.trim() === "") return empty(field, path, "is required");
  return parse(typed, path);
}

function parse(text: string, path: string): Reading {
  try {
    const value = JSON.parse(text) as Json;
    return isExact(value) ? { value, problems: {} } : wrong(path, TOO_LARGE);
  } catch (error) {
    return wrong(path, `is not JSON: ${error instanceof Error ? error.message : "unreadable"}`);
  }
}

const TOO_LARGE = "has a number that a browser would round: start it on the command line";

/** Whether every whole number is kept as it was written. */
function isExact(value: Json): boolean {
  if (typeof value === "number") return !Number.isInteger(value) || Number.isSafeInteger(value);
  if (Array.isArray(value)) return value.every(isExact);
  return !isObject(value) || Object.values(value).every(isExact);
}

function empty(field: Field, path: string, message: string): Reading {
  if (!field.required) return { value: undefined, problems: {} };
  if (field.nullable) return { value: null, problems: {} };
  return wrong(path, message);
}

function wrong(path: string, message: string): Reading {
  return { value: undefined, problems: { [path]: message } };
}

function asText(typed: Typed | undefined): string {
  return typeof typed === "string" ? typed : "";
}

/** Whether nothing was typed. */
function isBlank(typed: Typed | undefined): boolean {
  if (typed === undefined || typed === null || typed === "") return true;
  if (Array.isArray(typed)) return typed.every(isBlank);
  return isTypedGroup(typed) && Object.values(typed).every(isBlank);
}

function isTypedGroup(typed: Typed | undefined): typed is { [name: string]: Typed } {
  return typeof typed === "object" && typed !== null && !Array.isArray(typed);
}

/** A pattern that the browser cannot read is left to the server. */
function matches(pattern: string, text: string): boolean {
  if (pattern.length > 200 || text.length > 2000) return true;
  try {
    return new RegExp(pattern, "u").test(text);
  } catch {
    return true;
  }
}

function cut(text: string): string {
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}
