// A form of a JSON Schema, with a second mode in which the whole value is JSON.

import { useId, useMemo, useState } from "react";

import { Tabs } from "../parts/tabs.tsx";
import { fieldsOf, hasForm, type Field, type Json, type Schema } from "./fields.ts";
import { FormFields } from "./form-fields.tsx";
import { readForm, readObject, typedGroup, type Problems, type Typed } from "./typed.ts";

export type FormState = {
  fields: Field[];
  typed: { [name: string]: Typed };
  json: string;
  mode: "form" | "json";
  problems: Problems;
};

export type Value = { [name: string]: Json };

const NO_ORDER: readonly string[] = [];
const NO_COMMENTS: Record<string, string> = {};
const NO_VALUES: Value = {};

/** The state of a form, and how it is read: null if something does not fit. */
export function useTypedForm(
  schema: Schema,
  order: readonly string[] = NO_ORDER,
  comments: Record<string, string> = NO_COMMENTS,
  first: Value = NO_VALUES,
) {
  const fields = useMemo(() => fieldsOf(schema, order, comments), [schema, order, comments]);
  const [state, setState] = useState<FormState>(() => firstState(fields, hasForm(schema), first));
  const change = (part: Partial<FormState>) => setState((before) => ({ ...before, ...part }));
  const read = (decided: { [name: string]: Typed } = {}): Value | null => {
    const typed = { ...state.typed, ...decided };
    const reading = state.mode === "json" ? readObject(state.json) : readForm(fields, typed);
    change({ problems: reading.problems });
    const value = reading.value;
    return Object.keys(reading.problems).length === 0 && value !== undefined ? (value as Value) : null;
  };
  return { state: { ...state, fields }, change, read };
}

function firstState(fields: Field[], isForm: boolean, first: Value): FormState {
  const typed = typedGroup(fields, first);
  const json = JSON.stringify(readForm(fields, typed).value, null, 2);
  return { fields, typed, json, mode: isForm ? "form" : "json", problems: {} };
}

const MODES = [
  { id: "form", label: "Form" },
  { id: "json", label: "JSON" },
];

type Props = { form: ReturnType<typeof useTypedForm>; label: string; except?: string; plain?: boolean };

/** `plain` has no JSON mode; `except` is a field that the caller asks for by buttons. */
export function TypedForm({ form, label, except, plain = false }: Props) {
  const { state, change } = form;
  const shownFields = except === undefined ? state.fields : state.fields.filter((field) => field.name !== except);
  const choose = (mode: string) => change(mode === "json" ? asJson(state) : asForm(state));
  const hasModes = state.fields.length > 0 && except === undefined && !plain;
  return (
    <div className="stack">
      {hasModes ? <Tabs tabs={MODES} chosen={state.mode} onChoose={choose} name={`How to give ${label}`} /> : null}
      {state.mode === "form" ? (
        <FormFields fields={shownFields} typed={state.typed} problems={state.problems} onChange={(typed) => change({ typed })} />
      ) : (
        <JsonField label={label} text={state.json} problem={state.problems[""]} onChange={(json) => change({ json })} />
      )}
    </div>
  );
}

function JsonField({ label, text, problem, onChange }: { label: string; text: string; problem: string | undefined; onChange: (text: string) => void }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}, as JSON</label>
      <textarea id={id} className="input whole-json" spellCheck={false} rows={14} value={text}
        aria-invalid={problem ? true : undefined} onChange={(event) => onChange(event.target.value)} />
      {problem ? <p className="wrong" role="alert">{problem}</p> : null}
    </div>
  );
}

/** Change the mode: what was typed goes along as far as it can be read. */
function asJson(state: FormState): Partial<FormState> {
  const { value } = readForm(state.fields, state.typed);
  const extra = readObject(state.json).value;
  const known = new Set(state.fields.map((field) => field.name));
  const others = Object.entries((extra ?? {}) as Value).filter(([name]) => !known.has(name));
  return { mode: "json", problems: {}, json: JSON.stringify({ ...value, ...Object.fromEntries(others) }, null, 2) };
}

function asForm(state: FormState): Partial<FormState> {
  const { value, problems } = readObject(state.json);
  if (value === undefined) return { problems };
  return { mode: "form", problems: {}, typed: typedGroup(state.fields, value as Value) };
}
