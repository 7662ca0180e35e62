// Fields of a form, made from a subset of JSON Schema; what is outside of it is edited as JSON.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Schema = { [word: string]: Json };

/** Objects are opened two deep; below that they are edited as JSON. */
export const MAX_DEPTH = 2;
/** A form with more fields than this is edited as JSON. */
export const MAX_FIELDS = 200;

export type Field = {
  name: string;
  title: string;
  help: string;
  required: boolean;
  secret: boolean;
  nullable: boolean;
  initial: Json | undefined;
} & Shape;

export type Shape =
  | { kind: "text"; least: number; most: number; pattern: string; long: boolean }
  | { kind: "number"; whole: boolean; least: number; most: number }
  | { kind: "switch" }
  | { kind: "choice"; choices: Json[] }
  | { kind: "list"; item: Field; least: number; most: number }
  | { kind: "group"; fields: Field[] }
  | { kind: "json" };

/** Words that change the meaning of a schema and that the form does not read. */
const UNREAD = [
  "$ref", "allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "prefixItems",
  "dependentRequired", "dependentSchemas", "minProperties", "propertyNames", "const",
];

export function isObject(value: unknown): value is { [name: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The field of a schema; `comments` are descriptions of inputs that have none of their own. */
export function fieldOf(
  name: string,
  given: Json | undefined,
  required = false,
  depth = 0,
  comment = "",
): Field {
  const schema = isObject(given) ? given : {};
  const { type, nullable } = typeOf(schema);
  const base = {
    name,
    title: text(schema["title"]) || name,
    help: text(schema["description"]) || comment,
    required,
    secret: schema["secret"] === true || schema["writeOnly"] === true,
    nullable,
    initial: schema["default"],
  };
  return { ...base, ...shapeOf(schema, type, depth) };
}

/** The fields of an object's schema: those that `order` names first, in its order. */
export function fieldsOf(
  schema: Schema,
  order: readonly string[] = [],
  comments: Readonly<Record<string, string>> = {},
  depth = 0,
): Field[] {
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  const required = new Set(strings(schema["required"]));
  const names = Object.keys(properties);
  const known = new Set(names);
  const first = order.filter((name) => known.has(name));
  const sorted = [...new Set([...first, ...names])];
  return sorted.map((name) =>
    fieldOf(name, properties[name], required.has(name), depth, own(comments, name) ?? ""),
  );
}

/** Whether a form can show the schema; otherwise the whole value is edited as JSON. */
export function hasForm(schema: Schema): boolean {
  const size = isObject(schema["properties"]) ? Object.keys(schema["properties"]).length : 0;
  return size > 0 && size <= MAX_FIELDS && !UNREAD.some((word) => word in schema);
}

/** The name of the one required boolean of a schema, which becomes two buttons. */
export function decisionOf(schema: Schema): string | null {
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  const required = strings(schema["required"]).filter((name) => {
    const each = own(properties, name);
    return isObject(each) && each["type"] === "boolean";
  });
  return required.length === 1 ? (required[0] ?? null) : null;
}

/** A member of a record itself; never of its prototype (`constructor`). */
export function own<T>(record: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

function shapeOf(schema: Schema, type: string, depth: number): Shape {
  const choices = schema["enum"];
  if (Array.isArray(choices) && choices.length > 0 && choices.length <= MAX_FIELDS) {
    return { kind: "choice", choices };
  }
  if (UNREAD.some((word) => word in schema)) return { kind: "json" };
  switch (type) {
    case "string":
      return textShape(schema);
    case "integer":
    case "number":
      return numberShape(schema, type === "integer");
    case "boolean":
      return { kind: "switch" };
    case "array":
      return listShape(schema, depth);
    case "object":
      return groupShape(schema, depth);
    default:
      return { kind: "json" };
  }
}

function textShape(schema: Schema): Shape {
  const most = limit(schema["maxLength"], Infinity);
  return {
    kind: "text",
    least: limit(schema["minLength"], 0),
    most,
    pattern: text(schema["pattern"]),
    long: schema["format"] === "text" || text(schema["default"]).includes("\n"),
  };
}

function numberShape(schema: Schema, whole: boolean): Shape {
  return {
    kind: "number",
    whole,
    least: limit(schema["minimum"], -Infinity),
    most: limit(schema["maximum"], Infinity),
  };
}

function listShape(schema: Schema, depth: number): Shape {
  const items = schema["items"];
  if (!isObject(items) || depth >= MAX_DEPTH) return { kind: "json" };
  const item = fieldOf("", items, true, depth + 1);
  if (item.kind === "json" || item.kind === "list") return { kind: "json" };
  const least = limit(schema["minItems"], 0);
  return { kind: "list", item, least, most: limit(schema["maxItems"], Infinity) };
}

function groupShape(schema: Schema, depth: number): Shape {
  if (depth >= MAX_DEPTH || !hasForm(schema)) return { kind: "json" };
  return { kind: "group", fields: fieldsOf(schema, [], {}, depth + 1) };
}

function typeOf(schema: Schema): { type: string; nullable: boolean } {
  const type = schema["type"];
  if (typeof type === "string") return { type, nullable: type === "null" };
  const types = strings(type);
  const others = types.filter((each) => each !== "null");
  return { type: others.length === 1 ? (others[0] ?? "") : "", nullable: types.includes("null") };
}

function strings(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}

function text(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

function limit(value: Json | undefined, otherwise: number): number {
  return typeof value === "number" ? value : otherwise;
}
