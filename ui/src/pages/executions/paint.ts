// What the graph shows at the cursor.

import type { Arc, NodeLook, Paint, Picture } from "../../graph/picture.ts";
import { count } from "../../pure/text.ts";
import { IDLE, type Model, type StepLook } from "./model.ts";

export function paintOf(model: Model, picture: Picture, selected: string | null): Paint {
  const steps = model.looks();
  const ended = model.endedHere;
  const rest = { ...IDLE, status: ended ? "not_reached" : "idle" };
  const looks = new Map<string, NodeLook>();
  for (const node of picture.nodes) looks.set(node.id, nodeLook(steps.get(node.id) ?? rest));
  return { looks, taken: takenArcs(picture, steps), selected };
}

function nodeLook(step: StepLook): NodeLook {
  const { loopTotal, loopDone, loopFailed, runs } = step;
  const share = loopTotal > 0 ? (loopDone + loopFailed) / loopTotal : null;
  return { status: step.status, tokens: step.tokens, share, pill: pillOf(step, loopTotal, loopDone + loopFailed, runs) };
}

function pillOf(step: StepLook, total: number, ended: number, runs: number): string {
  if (total > 0) return ended === total ? count(total) : `${count(ended)}/${count(total)}`;
  const retried = step.retries > 0 ? `↻${step.retries}` : "";
  return [runs > 1 ? `×${count(runs)}` : "", retried].filter(Boolean).join(" ");
}

/** Arcs by their targets, once for each picture; `isJoin` says which targets are joins. */
type Ways = { step: string; arcs: Arc[]; isJoin: boolean }[];
const known = new WeakMap<Picture, Ways>();

function waysInto(picture: Picture): Ways {
  let ways = known.get(picture);
  if (!ways) {
    const byTarget = new Map<string, Arc[]>();
    for (const arc of picture.arcs) byTarget.set(arc.to, [...(byTarget.get(arc.to) ?? []), arc]);
    const joins = new Set(picture.nodes.filter((node) => node.join).map((node) => node.id));
    ways = [...byTarget].map(([step, arcs]) => ({ step, arcs, isJoin: joins.has(step) }));
    known.set(picture, ways);
  }
  return ways;
}

/** Arcs that a token certainly took: the step was reached, and either one way in has ended
 * or, at a join, no guard could have kept the token back. */
function takenArcs(picture: Picture, steps: Map<string, StepLook>): Set<string> {
  const taken = new Set<string>();
  for (const { step, arcs, isJoin } of waysInto(picture)) {
    const look = steps.get(step);
    if (!look || look.runs + look.tokens === 0) continue;
    const ended = arcs.filter((arc) => {
      const source = steps.get(arc.from);
      return arc.look !== "never" && source !== undefined && source.done + source.failed > 0;
    });
    const certain = ended.length === 1 ? ended : isJoin ? ended.filter((arc) => arc.look === "plain" && arc.when === null) : [];
    for (const arc of certain) taken.add(arc.id);
  }
  return taken;
}
