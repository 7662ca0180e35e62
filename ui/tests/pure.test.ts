import assert from "node:assert/strict";
import { test } from "node:test";
import { match } from "../src/pure/match.ts";
import { backoff, SseReader } from "../src/pure/sse.ts";
import { bytes, visible } from "../src/pure/text.ts";
import { absolute, duration, relative } from "../src/pure/time.ts";

test("a duration has two units at most", () => {
  const texts = [0.2, 83, 1240, 59_999, 125_000, 11_520_000, 86_400_000].map(duration);
  assert.deepEqual(texts, ["< 1 ms", "83 ms", "1.24 s", "60.0 s", "2 min 5 s", "3 h 12 min", "1 d"]);
});

test("a time is told from now, before and after", () => {
  assert.equal(relative(0, 180_000), "3 min ago");
  assert.equal(relative(22 * 3_600_000, 0), "in 22 h");
  assert.equal(absolute(Date.UTC(2026, 0, 2, 3, 4, 5, 6), "utc", true), "2026-01-02 03:04:05.006");
});

test("signs that nobody sees are made visible", () => {
  assert.equal(visible("a\u202eb\u0007"), "a⟨U+202E⟩b␇");
  assert.equal(visible("a\nb\tc"), "a\nb\tc", "lines and columns stay");
});

test("a size has two digits or a whole number", () => {
  assert.deepEqual([83, 1234, 4_500_000, 999_900].map(bytes), ["83 B", "1.2 KB", "4.5 MB", "1.0 MB"]);
});

test("a stream is read across the borders of its chunks", () => {
  const reader = new SseReader();
  const found = ["id: 7\nevent: tr", "ack\ndata: {\"a\":\n", ": beat\ndata: 1}\n\n", "data: x\n\n"].flatMap((chunk) => reader.read(chunk));
  assert.deepEqual(found, [
    { event: "track", data: '{"a":\n1}', id: "7" },
    { event: "message", data: "x", id: "7" },
  ]);
});

test("waiting before another try grows to 30 s and no further", () => {
  assert.deepEqual([0, 1, 4, 5, 9].map((attempt) => backoff(attempt, 1)), [1, 2, 16, 30, 30]);
  assert.equal(backoff(0, 0), 0.5);
});

test("whole words are found before scattered letters", () => {
  assert.ok(match("ord", "sales/orders") > match("ord", "overall record deleted"));
  assert.equal(match("xyz", "sales/orders"), 0);
});
