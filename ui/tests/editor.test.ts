import assert from "node:assert/strict";
import { test } from "node:test";

import { Drafts, MAX_DRAFTS, type Shelf } from "../src/editor/drafts.ts";
import { applied, fixOf, offsetOf, rangeOf, type Diagnostic } from "../src/editor/positions.ts";
import { Told } from "../src/editor/told.ts";
import { explain, optionsAt } from "../src/editor/schema-walk.ts";
import { placeAt, placeForCompletion } from "../src/editor/yaml-place.ts";
import type { Schema } from "../src/forms/fields.ts";

const SCHEMA: Schema = {
  $ref: "#/$defs/playbook",
  $defs: {
    playbook: {
      type: "object",
      properties: {
        metadata: { description: "Name and path.", properties: { name: { type: "string" } } },
        workflow: { type: "array", items: { $ref: "#/$defs/step" } },
      },
      required: ["workflow"],
    },
    step: {
      properties: {
        step: { description: "The step's name.", type: "string" },
        tool: { $ref: "#/$defs/pipeline" },
        old: { not: {} },
      },
    },
    pipeline: {
      if: { type: "array" },
      then: {
        items: {
          if: { required: ["kind"] },
          then: { $ref: "#/$defs/task" },
          else: { additionalProperties: { $ref: "#/$defs/task" } },
        },
      },
      else: { $ref: "#/$defs/task" },
    },
    task: {
      properties: { kind: { description: "What it calls.", enum: ["http", "python"] } },
      allOf: [
        {
          if: { properties: { kind: { const: "http" } }, required: ["kind"] },
          then: { $ref: "#/$defs/task_http" },
        },
        {
          if: { properties: { kind: { const: "python" } }, required: ["kind"] },
          then: { properties: { code: { type: "string" } } },
        },
      ],
    },
    task_http: {
      description: "Sends one HTTP request.",
      properties: {
        url: { description: "The URL.", type: "string" },
        method: { enum: ["GET", "POST"] },
        follow: { type: "boolean" },
      },
      required: ["url"],
    },
  },
};

/** The labels offered where `|` stands. */
function offered(text: string): string[] {
  const place = placeForCompletion(text.replace("|", ""), text.indexOf("|"));
  return place === null ? [] : optionsAt(SCHEMA, place).map((option) => option.label);
}

const STEP = "workflow:\n- step: start\n  tool:\n";

for (const [name, text, expected] of [
  ["at the root of an empty playbook", "|", ["metadata", "workflow"]],
  ["in a line that was begun", "meta|", ["metadata", "workflow"]],
  ["without those that are there", "metadata:\n  name: x\n|", ["workflow"]],
  ["in a list of steps", "workflow:\n- |", ["step", "tool"]],
  ["in a flow mapping", "metadata: {|}", ["name"]],
  ["kinds of a task", `${STEP}    kind: |`, ["http", "python"]],
  ["keys by kind", `${STEP}    kind: http\n    |`, ["url", "method", "follow"]],
  ["keys by a kind that stands below", `${STEP}    |\n    kind: python`, ["code"]],
  ["keys by kind in a labelled task", `${STEP}  - get:\n      kind: http\n      m|`, ["url", "method", "follow"]],
  ["keys by kind in a flow mapping", `${STEP}    {kind: http, |}`, ["url", "method", "follow"]],
  ["values of a key", `${STEP}    kind: http\n    method: |`, ["GET", "POST"]],
  ["values of a switch", `${STEP}    kind: http\n    follow: |`, ["true", "false"]],
  ["nothing in a comment", "metadata: # |", []],
] as const) {
  test(`completion offers ${name}`, () => {
    assert.deepEqual(offered(text).sort(), [...expected].sort());
  });
}

test("completion replaces the word under the cursor", () => {
  const place = placeForCompletion("metadata:\n  nam: x", 13);
  assert.equal(place?.from, 12);
  assert.equal(place?.to, 15);
});

test("a required key says so", () => {
  const text = `${STEP}    kind: http\n    `;
  const place = placeForCompletion(text, text.length);
  const option = place && optionsAt(SCHEMA, place).find((each) => each.label === "url");
  assert.deepEqual(option, { label: "url", detail: "string · required", info: "The URL." });
});

test("an explanation follows the kind", () => {
  const text = `${STEP}    kind: http\n    url: x`;
  const place = placeAt(text, text.indexOf("url") + 1);
  assert.deepEqual(place && explain(SCHEMA, place), ["The URL.", "string"]);
});

test("references in circles end", () => {
  const schema: Schema = { $ref: "#/$defs/a", $defs: { a: { allOf: [{ $ref: "#/$defs/a" }], properties: { b: {} } } } };
  const place = placeForCompletion("", 0);
  assert.deepEqual(place && optionsAt(schema, place).map((each) => each.label), ["b"]);
});

function diagnostic(line: number, column: number, message: string, hint: string | null = null): Diagnostic {
  return { code: "VAL-02", rule: "arc-target", severity: "error", message, path: "", line, column, hint };
}

test("columns count characters, not code units", () => {
  assert.equal("a😀b".charAt(offsetOf("a😀b", 1, 3)), "b");
  assert.equal(offsetOf("one\ntwo", 2, 1), 4);
});

test("a place outside of the text is its nearest line's end", () => {
  assert.equal(offsetOf("ab\ncd", 9, 9), 5);
  assert.equal(offsetOf("ab\ncd", 1, 99), 2);
  assert.equal(offsetOf("", 1, 1), 0);
});

test("a diagnostic marks its word", () => {
  const text = 'next: {arcs: [{step: fetsh}]}\nname: "two words" # why\nkind: noop';
  const marked = (line: number, column: number) => {
    const { from, to } = rangeOf(text, diagnostic(line, column, ""));
    return text.slice(from, to);
  };
  assert.equal(marked(1, 22), "fetsh");
  assert.equal(marked(2, 7), '"two words"');
  assert.equal(marked(3, 1), "kind");
});

test("a hint that names a word is applied", () => {
  const text = "arcs: [{step: fetsh}]";
  const fix = fixOf(text, diagnostic(1, 15, "arc to unknown step 'fetsh'", "did you mean 'fetch'?"));
  assert.equal(fix && applied(text, fix), "arcs: [{step: fetch}]");
});

test("a hint is applied where the word stands once in the line", () => {
  const text = "- wokflow: []";
  const fix = fixOf(text, diagnostic(1, 1, "unknown key 'wokflow'", "did you mean 'workflow'?"));
  assert.equal(fix && applied(text, fix), "- workflow: []");
});

test("no fix is offered for a word that cannot be found, or stands twice", () => {
  const hint = "did you mean 'b'?";
  assert.equal(fixOf("x: [a, a]", diagnostic(1, 1, "unknown 'a'", hint)), null);
  assert.equal(fixOf("x: ab", diagnostic(1, 4, "unknown 'a'", hint)), null);
  assert.equal(fixOf("x: a", diagnostic(1, 4, "unknown 'a'", "known: b, c")), null);
});

test("a text that comes back late is not taken for an order of the page", () => {
  const told = new Told();
  for (const text of ["a", "ab", "abc"]) told.tell(text);
  assert.equal(told.takes("a"), true);
  assert.equal(told.takes("abc"), true);
  assert.equal(told.takes("a"), false);
});

test("a text of the page is its own, even if it was typed before", () => {
  const told = new Told();
  told.tell("a");
  told.forget();
  assert.equal(told.takes("a"), false);
});

class Memory implements Shelf {
  readonly kept = new Map<string, string>();
  room = Infinity;
  get length() {
    return this.kept.size;
  }
  key(index: number) {
    return [...this.kept.keys()][index] ?? null;
  }
  getItem(key: string) {
    return this.kept.get(key) ?? null;
  }
  removeItem(key: string) {
    this.kept.delete(key);
  }
  setItem(key: string, value: string) {
    if (!this.kept.has(key) && this.kept.size >= this.room) throw new Error("full");
    this.kept.set(key, value);
  }
}

function draft(at: number) {
  return { text: `text ${at}`, base: null, at: `2026-01-01T00:00:${String(at).padStart(2, "0")}Z` };
}

test("a draft is read back, until it is dropped", () => {
  const drafts = new Drafts(new Memory());
  assert.equal(drafts.keep("a/b", draft(1)), true);
  assert.deepEqual(drafts.read("a/b"), draft(1));
  drafts.drop("a/b");
  assert.equal(drafts.read("a/b"), null);
});

test("what is no draft is none", () => {
  const shelf = new Memory();
  for (const bad of ["{", "[]", "null", '{"text": 1, "at": ""}']) {
    shelf.setItem("noetl.draft:x", bad);
    assert.equal(new Drafts(shelf).read("x"), null);
  }
});

test("the oldest drafts give way to new ones", () => {
  const drafts = new Drafts(new Memory());
  for (let at = 0; at < MAX_DRAFTS + 2; at += 1) drafts.keep(`p${at}`, draft(at));
  assert.equal(drafts.paths().length, MAX_DRAFTS);
  assert.equal(drafts.paths()[0], `p${MAX_DRAFTS + 1}`);
  assert.equal(drafts.read("p1"), null);
});

test("a full browser keeps the newest draft", () => {
  const shelf = new Memory();
  shelf.room = 2;
  const drafts = new Drafts(shelf);
  for (let at = 1; at <= 3; at += 1) assert.equal(drafts.keep(`p${at}`, draft(at)), true);
  assert.deepEqual(drafts.paths(), ["p3", "p2"]);
  shelf.room = 0;
  assert.equal(drafts.keep("p9", draft(9)), false);
});
