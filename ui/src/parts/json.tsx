// A JSON value as a tree that opens; long lists and texts are cut until they are opened.

import { useState } from "react";
import type { Json } from "../api/types.ts";
import { bytes, count, cut, visible } from "../pure/text.ts";
import { Copy } from "./copy.tsx";
import { isReference, StoredValue, type Reference } from "./stored-rows.tsx";

const ROWS = 100;
const TEXT = 300;

export function JsonTree({ value, open = 1, name }: { value: Json | undefined; open?: number; name?: string }) {
  if (value === undefined) return <span className="soft">–</span>;
  return <div className="json" role="group" aria-label={name ?? "value"}><Node value={value} open={open} /></div>;
}

function isCut(value: { [key: string]: Json }): value is { $cut: number; head: string } {
  return typeof value.$cut === "number";
}

function Node({ value, open, label }: { value: Json; open: number; label?: string }) {
  const [isOpen, setOpen] = useState(open > 0);
  const [shown, setShown] = useState(ROWS);
  const key = label !== undefined && <span className="json-key">{visible(cut(label, 200))}: </span>;
  if (typeof value !== "object" || value === null) return <div className="json-line">{key}<Leaf value={value} /></div>;
  if (!Array.isArray(value) && isCut(value)) {
    return <div className="json-line">{key}<span className="json-text">{visible(value.head)}</span> <span className="tag">cut of {bytes(value.$cut)}</span></div>;
  }
  if (!Array.isArray(value) && isReference(value)) {
    return <div className="json-line">{key}<StoredValue reference={value as unknown as Reference} /></div>;
  }
  const entries: [string, Json][] = Array.isArray(value) ? value.map((each, at) => [String(at), each]) : Object.entries(value);
  const [left, right] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) return <div className="json-line">{key}{left}{right}</div>;
  const hint = Array.isArray(value) ? `${count(entries.length)} entries` : preview(entries);
  return (
    <div>
      <div className="json-line">
        <button type="button" className="json-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span>{key}{left}{!isOpen && <span className="soft"> {hint} {right}</span>}
        </button>
      </div>
      {isOpen && (
        <div className="json-inside">
          {entries.slice(0, shown).map(([name, each]) => <Node key={name} label={name} value={each} open={open - 1} />)}
          {entries.length > shown && <button type="button" className="button quiet tight" onClick={() => setShown(shown + 10 * ROWS)}>{count(entries.length - shown)} more</button>}
        </div>
      )}
      {isOpen && <div className="json-line soft">{right}</div>}
    </div>
  );
}

function preview(entries: [string, Json][]): string {
  return visible(cut(entries.map(([name]) => name).join(", "), 60));
}

function Leaf({ value }: { value: string | number | boolean | null }) {
  const [isWhole, setWhole] = useState(false);
  if (typeof value === "string") {
    const text = isWhole ? cut(value, 20_000) : cut(value, TEXT);
    return (
      <>
        <span className="json-text">{`"${visible(text)}"`}</span>
        {value.length > TEXT && <button type="button" className="button quiet tight" onClick={() => setWhole(!isWhole)}>{isWhole ? "less" : `all of ${bytes(value.length)}`}</button>}
      </>
    );
  }
  return <span className={typeof value === "number" ? "json-number" : "json-word"}>{String(value)}</span>;
}

/** A titled value with its copy button. */
export function Value({ title, value, open = 2 }: { title: string; value: Json | undefined; open?: number }) {
  return (
    <section className="value">
      <header className="row"><h3>{title}</h3><span className="grow" />{value !== undefined && <Copy label={`Copy ${title}`} text={() => JSON.stringify(value, null, 2)} />}</header>
      <JsonTree value={value} open={open} name={title} />
    </section>
  );
}
