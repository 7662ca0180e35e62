// What stands beside the text of the editor.

import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import { post } from "../../api/client.ts";
import { applied, fixOf, type Diagnostic } from "../../editor/positions.ts";
import { TypedForm, useTypedForm } from "../../forms/typed-form.tsx";
import { Empty, Loading, Refused } from "../../parts/states.tsx";
import { Status } from "../../parts/status.tsx";
import { shown } from "../../pure/text.ts";
import { duration } from "../../pure/time.ts";
import { Wrong } from "../../tables/wrong.tsx";
import { StaticGraph } from "./static-graph.tsx";
import type { Finding, FormAnswer, TestsAnswer } from "./types.ts";
import type { Checked } from "./use-validation.ts";

type ProblemsProps = {
  checked: Checked;
  text: string;
  onGo: (line: number, column: number) => void;
  onApply: (text: string) => void;
};

export function Problems({ checked, text, onGo, onApply }: ProblemsProps) {
  const { answer } = checked;
  if (answer === undefined) return checked.error ? <Refused error={checked.error} /> : <Loading />;
  const found = [...answer.diagnostics, ...(answer.findings ?? [])];
  if (found.length === 0) {
    return <p><Status status="done" text="No problem was found." /></p>;
  }
  return (
    <ul className={checked.isBehind ? "problems behind" : "problems"} aria-busy={checked.isBehind}>
      {found.map((each, index) => (
        <ProblemLine key={index} found={each} text={text} onGo={onGo} onApply={onApply} />
      ))}
    </ul>
  );
}

const LOOKS: Record<string, string> = { error: "failed", warning: "waiting", hint: "idle" };

function ProblemLine({ found, text, onGo, onApply }: Omit<ProblemsProps, "checked"> & { found: Diagnostic | Finding }) {
  const witness = "witness" in found ? found.witness : undefined;
  const fix = fixOf(text, found);
  return (
    <li>
      <Status status={LOOKS[found.severity] ?? "idle"} text={found.severity} />
      <button type="button" className="button quiet tight mono" aria-label={`${found.line}:${found.column}, go to line ${found.line}, column ${found.column}`}
        onClick={() => onGo(found.line, found.column)}>
        {found.line}:{found.column}
      </button>
      <div className="grow">
        <p>{shown(found.message)}</p>
        {found.hint === null ? null : <p className="soft">{shown(found.hint)}</p>}
        {witness && witness.length > 0 ? <p className="small">{shown(witness.join(" → "))}</p> : null}
        <p className="soft small mono">{found.code} {found.rule}</p>
      </div>
      {fix === null ? null : (
        <button type="button" className="button tight" aria-label={`Apply: ${fix.label}`} title={fix.label} onClick={() => onApply(applied(text, fix))}>
          Apply
        </button>
      )}
    </li>
  );
}

export function EditorGraph({ checked, onLine }: { checked: Checked; onLine: (line: number) => void }) {
  const picture = checked.answer?.graph;
  if (!picture) return <Waiting checked={checked} what="graph" />;
  return <StaticGraph picture={picture} onLine={onLine} />;
}

export function EditorForm({ checked }: { checked: Checked }) {
  const form = checked.answer?.form;
  if (!form) return <Waiting checked={checked} what="form" />;
  return <FormPreview key={JSON.stringify(form)} form={form} />;
}

function FormPreview({ form }: { form: FormAnswer }) {
  const state = useTypedForm(form.fields, form.order, form.comments);
  return (
    <>
      <p className="soft">This is what a person sees who runs it.</p>
      <TypedForm form={state} label="inputs" />
    </>
  );
}

function Waiting({ checked, what }: { checked: Checked; what: string }) {
  if (checked.answer === undefined) return checked.error ? <Refused error={checked.error} /> : <Loading />;
  return <Empty title={`No ${what} yet`} icon="graph"><p>The text has errors: they are under Problems.</p></Empty>;
}

export function Tests({ source, path }: { source: string; path: string }) {
  const [suite, setSuite] = useState(() => window.sessionStorage.getItem(`noetl.suite:${path}`) ?? SUITE);
  const run = useMutation({
    mutationFn: () => post<TestsAnswer>("tests", { playbook: source, suite }),
  });
  const keep = (text: string) => {
    setSuite(text);
    window.sessionStorage.setItem(`noetl.suite:${path}`, text);
  };
  return (
    <div className="stack">
      <div className="field">
        <label htmlFor="suite">Tests, in YAML</label>
        <textarea id="suite" className="input" rows={10} spellCheck={false} value={suite} onChange={(event) => keep(event.target.value)} />
        <p className="hint">Tools are scripted and time is virtual: nothing is called.</p>
      </div>
      <div className="row">
        <button type="button" className="button primary" disabled={run.isPending || suite.trim() === ""} onClick={() => run.mutate()}>
          {run.isPending ? "Testing…" : "Run the tests"}
        </button>
      </div>
      <Wrong error={run.error} />
      {run.data ? <Verdicts answer={run.data} /> : null}
    </div>
  );
}

const SUITE = `cases:
  - name: it completes
    expect: {status: completed}
`;

function Verdicts({ answer }: { answer: TestsAnswer }) {
  return (
    <div className="stack">
      <p className="row">
        {answer.passed > 0 ? <Status status="done" text={`${answer.passed} passed`} /> : null}
        {answer.failed > 0 ? <Status status="failed" text={`${answer.failed} failed`} /> : null}
      </p>
      <ul className="problems">
        {answer.diagnostics.map((each, index) => (
          <li key={index}>
            <Status status={LOOKS[each.severity] ?? "idle"} text={each.severity} />
            <div className="grow">
              <p>{each.file}, line {each.line}: {shown(each.message)}</p>
              {each.hint === null ? null : <p className="soft">{shown(each.hint)}</p>}
            </div>
          </li>
        ))}
        {answer.tests.map((each) => (
          <li key={each.name}>
            <Status status={each.verdict === "passed" ? "done" : "failed"} text={each.verdict} />
            <div className="grow">
              <p>{shown(each.name)}</p>
              {each.message ? <p className="soft">{shown(each.message)}</p> : null}
            </div>
            <span className="soft small">{duration(each.ms)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
