import assert from "node:assert/strict";
import { test } from "node:test";

import { attemptFor } from "../src/forms/attempt.ts";
import { decisionOf, fieldOf, fieldsOf, hasForm, type Json, type Schema } from "../src/forms/fields.ts";
import { readField, readForm, readObject, typedGroup, typedOf, type Typed } from "../src/forms/typed.ts";

const ORDER: Schema = {
  type: "object",
  required: ["order", "region"],
  properties: {
    order: { type: "integer", minimum: 1, default: 11, description: "the order" },
    region: { enum: ["eu", "us"] },
    rush: { type: "boolean" },
    tags: { type: "array", items: { type: "string", maxLength: 3 }, maxItems: 2 },
    address: {
      type: "object",
      required: ["street"],
      properties: { street: { type: "string", minLength: 1 }, zip: { type: "string", pattern: "^\\d{5}$" } },
    },
  },
};

function read(schema: Json, typed: Typed, required = false) {
  return readField(fieldOf("x", schema, required), typed);
}

test("a field has the kind of its schema", () => {
  const kinds = fieldsOf(ORDER).map((field) => [field.name, field.kind]);
  assert.deepEqual(kinds, [
    ["order", "number"], ["region", "choice"], ["rush", "switch"], ["tags", "list"], ["address", "group"],
  ]);
});

test("fields stand in the order that is given, the others follow", () => {
  const names = fieldsOf(ORDER, ["region", "unknown", "order"]).map((field) => field.name);
  assert.deepEqual(names, ["region", "order", "rush", "tags", "address"]);
});

test("a comment explains an input that has no description of its own", () => {
  const fields = fieldsOf(ORDER, [], { region: "where it goes", order: "unused" });
  assert.equal(fields[1]?.help, "where it goes");
  assert.equal(fields[0]?.help, "the order");
});

test("names of an object's prototype are names like others", () => {
  const schema: Schema = { properties: { constructor: { type: "string" }, toString: { type: "string" } } };
  const fields = fieldsOf(schema);
  assert.deepEqual(readForm(fields, typedGroup(fields, {})).value, {});
  assert.equal(decisionOf({ required: ["constructor"], properties: {} }), null);
});

test("what a form cannot show is edited as JSON", () => {
  const deep = { type: "object", properties: { a: { type: "object", properties: { b: ORDER } } } };
  const field = fieldOf("x", deep);
  assert.equal(field.kind, "group");
  const inner = field.kind === "group" ? field.fields[0] : undefined;
  assert.equal(inner?.kind === "group" ? inner.fields[0]?.kind : "", "json");
  assert.equal(fieldOf("x", { anyOf: [{ type: "string" }] }).kind, "json");
  assert.equal(fieldOf("x", { type: ["string", "integer"] }).kind, "json");
  assert.equal(fieldOf("x", { type: "array" }).kind, "json");
  assert.equal(hasForm({ properties: { a: {} }, oneOf: [] }), false);
});

test("a filled form gives typed values, empty optional fields are left out", () => {
  const typed = {
    order: " 12 ", region: '"eu"', rush: null, tags: ["a", "b"], address: { street: "Elm 1", zip: "" },
  };
  const { value, problems } = readForm(fieldsOf(ORDER), typed);
  assert.deepEqual(problems, {});
  assert.deepEqual(value, { order: 12, region: "eu", tags: ["a", "b"], address: { street: "Elm 1" } });
});

test("each problem names the field that has it", () => {
  const typed = { order: "x1", region: "", rush: true, tags: ["long", "b", "c"], address: { street: "", zip: "1" } };
  const { problems } = readForm(fieldsOf(ORDER), typed);
  assert.deepEqual(problems, {
    order: "expected a number, found 'x1'",
    region: "choose one",
    "tags.0": "at most 3 characters",
    tags: "at most 2 entries",
    "address.street": "is required",
    "address.zip": "must match ^\\d{5}$",
  });
});

test("an untouched optional group is left out, even if a field in it is required", () => {
  const properties = ORDER["properties"] as { [name: string]: Json };
  const fields = fieldsOf({ properties: { address: properties["address"] ?? {} } });
  assert.deepEqual(readForm(fields, { address: { street: "", zip: "" } }), { value: {}, problems: {} });
});

test("numbers are read exactly or refused", () => {
  for (const [text, value] of [["5", 5], ["-1.5", -1.5], ["1e3", 1000], ["+2", 2], [".5", 0.5]] as const) {
    assert.equal(read({ type: "number" }, text).value, value);
  }
  for (const text of ["0x10", "NaN", "1e999", "1,5", "12 3", "9007199254740993"]) {
    assert.notDeepEqual(read({ type: "number" }, text).problems, {}, text);
  }
  assert.equal(read({ type: "integer" }, "1.5").problems["x"], "expected a whole number");
  assert.equal(read({ type: "integer", maximum: 3 }, "4").problems["x"], "must be 3 or less");
});

test("whole numbers that would be rounded are refused in JSON, too", () => {
  assert.match(readObject('{"a": [{"b": 12345678901234567890}]}').problems[""] ?? "", /rounded|round/);
  assert.deepEqual(readObject('{"a": 9007199254740991, "b": 1e-300}').problems, {});
});

test("a choice keeps the type of its value", () => {
  assert.equal(read({ enum: [1, "1", null] }, '"1"').value, "1");
  assert.equal(read({ enum: [1, "1", null] }, "1").value, 1);
  assert.equal(read({ enum: [1, "1", null] }, "null").value, null);
  assert.notDeepEqual(read({ enum: [1] }, "2").problems, {});
});

test("an empty required text is a value unless a length is asked for", () => {
  assert.equal(read({ type: "string" }, "", true).value, "");
  assert.equal(read({ type: "string", minLength: 1 }, "", true).problems["x"], "is required");
});

test("a pattern that cannot be read is left to the server", () => {
  assert.equal(read({ type: "string", pattern: "(?P<x>a)" }, "b").value, "b");
});

test("a default is shown and read back as it was", () => {
  for (const [schema, value] of [
    [{ type: "string", default: "a\nb" }, "a\nb"],
    [{ type: "integer", default: 0 }, 0],
    [{ type: "boolean", default: false }, false],
    [{ default: { any: [1] } }, { any: [1] }],
    [{ type: "array", items: { type: "string" }, default: ["a"] }, ["a"]],
    [{ type: "array", items: { type: "string" }, default: [] }, []],
  ] as [Schema, Json][]) {
    const field = fieldOf("x", schema);
    assert.deepEqual(readField(field, typedOf(field)).value, value);
  }
});

test("a whole value as JSON must be an object", () => {
  assert.deepEqual(readObject(" ").value, {});
  assert.deepEqual(readObject('{"a": 1}').value, { a: 1 });
  assert.match(readObject("[1]").problems[""] ?? "", /object/);
  assert.match(readObject("{").problems[""] ?? "", /not JSON/);
});

test("the one required boolean decides; two of them do not", () => {
  const yes = { type: "boolean" };
  assert.equal(decisionOf({ required: ["ok", "by"], properties: { ok: yes, by: { type: "string" } } }), "ok");
  assert.equal(decisionOf({ required: ["ok", "no"], properties: { ok: yes, no: yes } }), null);
  assert.equal(decisionOf({ properties: { ok: yes } }), null);
});

test("a second click repeats the key, another request gets another", () => {
  let count = 0;
  const random = () => String((count += 1));
  const first = attemptFor(null, "a", random);
  assert.equal(attemptFor(first, "a", random).key, first.key);
  assert.notEqual(attemptFor(first, "b", random).key, first.key);
});
