import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { contrast, distance, VISIONS } from "./colour.ts";

const css = readFileSync(new URL("../src/styles/tokens.css", import.meta.url), "utf8");
const tokens = new Map([...css.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)].map((found) => [found[1]!, [found[2]!, found[3]!]]));
const colour = (name: string, theme: number) => tokens.get(name)![theme]!;
const THEMES = [[0, "light"], [1, "dark"]] as const;
const STATES = ["done", "failed", "running", "waiting"];

for (const [theme, name] of THEMES) {
  test(`states differ by 15 or more in every colour vision, ${name}`, () => {
    for (const one of STATES) {
      for (const other of STATES.filter((each) => each > one)) {
        for (const vision of VISIONS) {
          const found = distance(colour(one, theme), colour(other, theme), vision);
          assert.ok(found >= 15, `${one} and ${other}, ${vision}: ${found.toFixed(1)}`);
        }
      }
    }
  });

  test(`done with errors differs from every other state, ${name}`, () => {
    for (const other of STATES) {
      for (const vision of VISIONS) {
        const found = distance(colour("partial", theme), colour(other, theme), vision);
        assert.ok(found >= 11, `${other}, ${vision}: ${found.toFixed(1)}`);
      }
    }
  });

  test(`text can be read on its ground, ${name}`, () => {
    const pairs = [...STATES, "partial"].flatMap((state) => [[state, `${state}-tint`], [state, "paper"]]);
    for (const ground of ["paper", "raised", "hover", "chosen", "sunken"]) pairs.push(["ink", ground], ["soft", ground]);
    pairs.push(["accent", "paper"], ["on-accent", "accent"], ["accent", "chosen"], ["accent", "raised"]);
    for (const [text, ground] of pairs) {
      const found = contrast(colour(text!, theme), colour(ground!, theme));
      assert.ok(found >= 4.7, `${text} on ${ground}: ${found.toFixed(2)}`);
    }
  });

  test(`the frame of a control can be seen, ${name}`, () => {
    assert.ok(contrast(colour("control", theme), colour("paper", theme)) >= 3.2);
  });
}
