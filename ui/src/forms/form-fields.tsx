// The fields of a form, drawn from their model.

import { useId, type ReactNode } from "react";

import { own, type Field } from "./fields.ts";
import { typedOf, type Problems, type Typed } from "./typed.ts";

type Group = { [name: string]: Typed };

type FieldsProps = {
  fields: readonly Field[];
  typed: Group;
  problems: Problems;
  onChange: (typed: Group) => void;
  path?: string;
};

export function FormFields({ fields, typed, problems, onChange, path = "" }: FieldsProps) {
  return (
    <div className="form-fields">
      {fields.map((field) => (
        <FieldRow
          key={field.name}
          field={field}
          typed={own(typed, field.name)}
          problems={problems}
          path={path === "" ? field.name : `${path}.${field.name}`}
          onChange={(value) => onChange({ ...typed, [field.name]: value })}
        />
      ))}
    </div>
  );
}

type RowProps = {
  field: Field;
  typed: Typed | undefined;
  problems: Problems;
  path: string;
  onChange: (typed: Typed) => void;
};

function FieldRow(props: RowProps) {
  const { field, problems, path } = props;
  if (field.kind === "group") return <GroupRow {...props} field={field} />;
  if (field.kind === "list") return <ListRow {...props} field={field} />;
  return <ScalarRow {...props} message={own(problems, path)} />;
}

function ScalarRow({ field, typed, message, path, onChange }: RowProps & { message: string | undefined }) {
  const id = useId();
  const described = [field.help && `${id}-help`, message && `${id}-wrong`].filter(Boolean).join(" ");
  const common = {
    id,
    "aria-describedby": described || undefined,
    "aria-invalid": message ? true : undefined,
    "aria-required": field.required || undefined,
    "data-path": path,
  };
  const isCheck = field.kind === "switch" && typeof field.initial === "boolean";
  const name = <Name id={id} field={field} />;
  return (
    <div className={isCheck ? "field check" : "field"}>
      {isCheck ? null : name}
      <Input field={field} typed={typed} onChange={onChange} common={common} />
      {isCheck ? name : null}
      {field.help ? <p id={`${id}-help`} className="hint">{field.help}</p> : null}
      {message ? <p id={`${id}-wrong`} className="wrong" role="alert">{message}</p> : null}
    </div>
  );
}

function Name({ id, field }: { id: string; field: Field }) {
  return (
    <label htmlFor={id}>
      {field.title}
      {field.required ? <span className="must" title="required"> *</span> : null}
      <span className="type"> {typeWord(field)}</span>
    </label>
  );
}

type Common = { id: string; "data-path": string } & Record<string, unknown>;
type InputProps = { field: Field; typed: Typed | undefined; onChange: (typed: Typed) => void; common: Common };

function Input({ field, typed, onChange, common }: InputProps) {
  const text = typeof typed === "string" ? typed : "";
  switch (field.kind) {
    case "switch":
      return <Switch field={field} typed={typed} onChange={onChange} common={common} />;
    case "choice":
      return (
        <select className="input" {...common} value={text} onChange={(event) => onChange(event.target.value)}>
          <option value="">{field.required ? "choose…" : "not set"}</option>
          {field.choices.map((choice) => {
            const value = JSON.stringify(choice);
            return <option key={value} value={value}>{typeof choice === "string" ? choice : value}</option>;
          })}
        </select>
      );
    case "json":
      return (
        <textarea className="input" spellCheck={false} rows={4} placeholder="JSON" {...common} value={text}
          onChange={(event) => onChange(event.target.value)} />
      );
    default:
      return <TextInput field={field} text={text} onChange={onChange} common={common} />;
  }
}

function TextInput({ field, text, onChange, common }: Omit<InputProps, "typed"> & { text: string }) {
  if (field.kind === "text" && (field.long || text.includes("\n")) && !field.secret) {
    return (
      <textarea className="input" rows={4} {...common} value={text} onChange={(event) => onChange(event.target.value)} />
    );
  }
  return (
    <input
      className="input"
      {...common}
      type={field.secret ? "password" : "text"}
      inputMode={field.kind === "number" ? (field.whole ? "numeric" : "decimal") : undefined}
      autoComplete={field.secret ? "new-password" : "off"}
      spellCheck={false}
      value={text}
      onChange={(event) => onChange(event.target.value)}
    />
  );
}

function Switch({ field, typed, onChange, common }: InputProps) {
  if (typeof field.initial === "boolean") {
    return (
      <input type="checkbox" {...common} checked={typed === true} onChange={(event) => onChange(event.target.checked)} />
    );
  }
  const value = typeof typed === "boolean" ? String(typed) : "";
  const choose = (text: string) => onChange(text === "" ? null : text === "true");
  return (
    <select className="input" {...common} value={value} onChange={(event) => choose(event.target.value)}>
      <option value="">{field.required ? "choose…" : "not set"}</option>
      <option value="true">yes</option>
      <option value="false">no</option>
    </select>
  );
}

function GroupRow({ field, typed, problems, path, onChange }: RowProps & { field: Field & { kind: "group" } }) {
  return (
    <Box field={field} message={own(problems, path)}>
      <FormFields fields={field.fields} typed={asGroup(typed)} problems={problems} path={path} onChange={onChange} />
    </Box>
  );
}

function ListRow({ field, typed, problems, path, onChange }: RowProps & { field: Field & { kind: "list" } }) {
  const rows = Array.isArray(typed) ? typed : [];
  const change = (index: number, value: Typed) => onChange(rows.map((each, at) => (at === index ? value : each)));
  return (
    <Box field={field} message={own(problems, path)}>
      {rows.map((row, index) => (
        <div className="list-row" key={index}>
          <FieldRow
            field={{ ...field.item, title: `${index + 1}`, name: String(index) }}
            typed={row}
            problems={problems}
            path={`${path}.${index}`}
            onChange={(value) => change(index, value)}
          />
          <button type="button" className="button quiet tight" aria-label={`Remove entry ${index + 1} of ${field.title}`}
            onClick={() => onChange(rows.filter((_, at) => at !== index))}>
            Remove
          </button>
        </div>
      ))}
      <button type="button" className="button tight" onClick={() => onChange([...rows, typedOf(field.item)])}>
        Add to {field.title}
      </button>
    </Box>
  );
}

function Box({ field, message, children }: { field: Field; message: string | undefined; children: ReactNode }) {
  return (
    <fieldset className="form-group">
      <legend>
        {field.title}
        {field.required ? <span className="must" title="required"> *</span> : null}
      </legend>
      {field.help ? <p className="hint">{field.help}</p> : null}
      {children}
      {message ? <p className="wrong" role="alert">{message}</p> : null}
    </fieldset>
  );
}

function typeWord(field: Field): string {
  switch (field.kind) {
    case "number":
      return `${field.whole ? "whole number" : "number"}${range(field.least, field.most)}`;
    case "text":
      return field.secret ? "secret" : "text";
    case "json":
      return "JSON";
    default:
      return "";
  }
}

function range(least: number, most: number): string {
  if (Number.isFinite(least) && Number.isFinite(most)) return `, ${least} to ${most}`;
  if (Number.isFinite(least)) return `, ${least} or more`;
  return Number.isFinite(most) ? `, ${most} or less` : "";
}

function asGroup(typed: Typed | undefined): Group {
  return typeof typed === "object" && typed !== null && !Array.isArray(typed) ? typed : {};
}
