import assert from "node:assert/strict";
import { test } from "node:test";
import { readProblem } from "../src/api/problem.ts";

const answer = (kind: string) =>
  readProblem(new Response(JSON.stringify({ kind, message: "no" }), { status: 401 }));

test("an ended session is signed out; one that cannot be checked is asked for again", async () => {
  const ended = await answer("auth.required");
  const unchecked = await answer("session.store_down");
  assert.deepEqual([ended.isSignedOut, ended.passes], [true, false]);
  assert.deepEqual([unchecked.isSignedOut, unchecked.passes], [false, true]);
});
