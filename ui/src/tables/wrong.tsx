// A refusal of what a form sent, with the list of what does not fit.

import { asProblem } from "../api/problem.ts";
import { Glyph } from "../parts/status.tsx";
import { visible } from "../pure/text.ts";

export function Wrong({ error }: { error: unknown }) {
  if (!error) return null;
  const problem = asProblem(error);
  const reasons = Array.isArray(problem.more["problems"]) ? problem.more["problems"].map(String) : [];
  return (
    <div className="notice failed" role="alert">
      <Glyph status="failed" />
      <div className="grow">
        <p>{visible(problem.message)}</p>
        {problem.hint ? <p className="hint">{visible(problem.hint)}</p> : null}
        {reasons.length > 1 ? <ul>{reasons.slice(0, 20).map((each) => <li key={each}>{visible(each)}</li>)}</ul> : null}
      </div>
    </div>
  );
}
