// All steps as a list: the text alternative of the graph.

import { Rows } from "../../parts/rows.tsx";
import { Status } from "../../parts/status.tsx";
import { count, plural, visible } from "../../pure/text.ts";
import { useExecution, useModel } from "./context.tsx";
import { IDLE, type StepLook } from "./model.ts";

export function Steps() {
  const model = useModel();
  const { picture, step, select } = useExecution();
  const looks = model.looks();
  const rest: StepLook = { ...IDLE, status: model.endedHere ? "not_reached" : "idle" };
  const names = [...new Set([...(picture?.nodes.map((node) => node.id) ?? []), ...looks.keys()])];
  return (
    <Rows
      label="Steps"
      count={names.length}
      className="steps"
      keyOf={(index) => names[index]!}
      row={(index) => {
        const name = names[index]!;
        const look = looks.get(name) ?? rest;
        return (
          <div className={`step-row${name === step ? " here" : ""}`} role="row" onClick={() => select(name)}>
            <span role="cell"><Status status={look.status} /></span>
            <span role="cell" className="cut"><button type="button" className="as-link plain strong" onClick={() => select(name)}>{visible(name)}</button></span>
            <span role="cell" className="soft cut">{about(look)}</span>
          </div>
        );
      }}
    />
  );
}

function about(look: StepLook): string {
  const parts = [];
  if (look.runs > 1) parts.push(plural(look.runs, "run"));
  if (look.failed > 0) parts.push(`${count(look.failed)} failed`);
  if (look.loopTotal > 0) parts.push(`${count(look.loopDone + look.loopFailed)} of ${count(look.loopTotal)} iterations${look.loopFailed ? `, ${count(look.loopFailed)} failed` : ""}`);
  if (look.retries > 0) parts.push(look.retries === 1 ? "1 retry" : `${count(look.retries)} retries`);
  if (look.tokens > 0) parts.push(plural(look.tokens, "token"));
  return parts.join(", ");
}
