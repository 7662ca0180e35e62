// The form of an answer: fields of its schema, and two buttons if one boolean decides.

import { decisionOf, isObject, type Json, type Schema } from "../../forms/fields.ts";
import { TypedForm, useTypedForm, type Value } from "../../forms/typed-form.tsx";
import { shown } from "../../pure/text.ts";
import { Wrong } from "../../tables/wrong.tsx";
import { focusFirstProblem } from "../catalog/run.tsx";

export type Answering = {
  send: (value: Value) => Promise<void>;
  error: unknown;
  /** Why the answer came too late. */
  late: string | null;
  isBusy: boolean;
};

/** What the step was given, for the one who decides. */
export function Facts({ value }: { value: Json | undefined }) {
  if (!isObject(value) || Object.keys(value).length === 0) return null;
  return (
    <dl className="facts">
      {Object.entries(value).slice(0, 50).map(([name, each]) => (
        <div className="contents" key={name}>
          <dt>{shown(name, 100)}</dt>
          <dd className="mono">{shown(each)}</dd>
        </div>
      ))}
    </dl>
  );
}

export function AnswerForm({ schema, answer }: { schema: Schema; answer: Answering }) {
  const decision = decisionOf(schema);
  const form = useTypedForm(schema);
  const send = (decided?: boolean) => {
    const value = form.read(decided === undefined || decision === null ? {} : { [decision]: decided });
    if (value === null) focusFirstProblem();
    else void answer.send(value);
  };
  return (
    <form
      className="stack"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (decision === null) send();
      }}
    >
      <TypedForm form={form} label="the answer" except={decision ?? undefined} />
      <Wrong error={answer.error} />
      {answer.late ? <p className="notice waiting" role="alert">{answer.late}</p> : null}
      <div className="row wrap">
        {decision === null ? (
          <button type="submit" className="button primary" disabled={answer.isBusy}>Send</button>
        ) : (
          <Decision name={decision} schema={schema} isBusy={answer.isBusy} onDecide={send} />
        )}
      </div>
    </form>
  );
}

type DecisionProps = { name: string; schema: Schema; isBusy: boolean; onDecide: (decided: boolean) => void };

function Decision({ name, schema, isBusy, onDecide }: DecisionProps) {
  const [yes, no] = wordsFor(name, schema);
  return (
    <>
      <button type="button" className="button primary" disabled={isBusy} onClick={() => onDecide(true)}>{yes}</button>
      <button type="button" className="button danger" disabled={isBusy} onClick={() => onDecide(false)}>{no}</button>
    </>
  );
}

function wordsFor(name: string, schema: Schema): [string, string] {
  if (/^approved?$/i.test(name)) return ["Approve", "Refuse"];
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  const field = properties[name];
  const title = isObject(field) && typeof field["title"] === "string" ? field["title"] : name;
  return [`${title}: yes`, `${title}: no`];
}
