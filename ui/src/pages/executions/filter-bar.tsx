// Filters of the list; each of them is in the address.

import { useEffect, useRef, useState } from "react";
import { Icon } from "../../parts/icons.tsx";
import { Menu } from "../../parts/menu.tsx";
import { Glyph } from "../../parts/status.tsx";
import { isFiltered, SPANS, STATUSES, type Filters } from "../../pure/filters.ts";
import { word } from "../../pure/status.ts";
import { count, shown } from "../../pure/text.ts";
import type { Counts } from "./lines.ts";

type Props = { filters: Filters; counts: Counts | undefined; onChange: (change: Record<string, string | null>) => void };

export function FilterBar({ filters, counts, onChange }: Props) {
  const chosen = filters.status;
  const toggle = (status: string) => {
    const next = chosen.includes(status) ? chosen.filter((each) => each !== status) : [...chosen, status];
    onChange({ status: next.join(",") });
  };
  return (
    <div className="filters" role="search" aria-label="Filters">
      <div className="chips" role="group" aria-label="Status">
        {STATUSES.filter((status) => chosen.includes(status) || (counts?.by_status[status] ?? 0) > 0 || ["running", "failed", "completed"].includes(status)).map((status) => (
          <button key={status} type="button" className="chip" aria-pressed={chosen.includes(status)} onClick={() => toggle(status)}>
            <Glyph status={status} />{word(status)}
            {counts && <span className="soft">{count(counts.by_status[status] ?? 0)}</span>}
          </button>
        ))}
      </div>
      <span className="grow" />
      <TypedFilter id="filter-path" label="Playbook" placeholder="Playbook or sales/*" value={filters.path} onChange={(path) => onChange({ path })} />
      <TypedFilter id="filter-text" label="Find" placeholder="Find text" hint="/" value={filters.text} onChange={(text) => onChange({ text })} />
      <Menu name={`Started: ${filters.since ? SPANS[filters.since]![0] : "any time"}`} className="button" align="end" label={<><Icon name="clock" />{filters.since ? SPANS[filters.since]![0] : "any time"}<Icon name="down" /></>}>
        <button type="button" onClick={() => onChange({ since: null })}>any time</button>
        {Object.entries(SPANS).map(([id, [text]]) => <button key={id} type="button" onClick={() => onChange({ since: id })}>{text}</button>)}
        <div className="label">Executions of other executions</div>
        <button type="button" onClick={() => onChange({ roots: null })}>shown</button>
        <button type="button" onClick={() => onChange({ roots: "true" })}>hidden</button>
      </Menu>
      {filters.roots && <button type="button" className="button tight" onClick={() => onChange({ roots: null })}>without children<Icon name="close" /></button>}
      {(["trigger", "parent"] as const).map((name) => filters[name] && (
        <button key={name} type="button" className="button tight" onClick={() => onChange({ [name]: null })}>{name} {shown(filters[name], 40)}<Icon name="close" /></button>
      ))}
      {isFiltered(filters) && (
        <button type="button" className="button quiet" onClick={() => onChange({ status: null, path: null, text: null, since: null, trigger: null, label: null, parent: null, roots: null })}>Clear</button>
      )}
    </div>
  );
}

type TypedProps = { id: string; label: string; placeholder: string; hint?: string; value: string; onChange: (value: string) => void };

/** A text that filters 250 ms after the last key. */
function TypedFilter({ id, label, placeholder, hint, value, onChange }: TypedProps) {
  const [text, setText] = useState(value);
  const sent = useRef(value);
  useEffect(() => {
    if (value !== sent.current) {
      sent.current = value;
      setText(value);
    }
  }, [value]);
  useEffect(() => {
    if (text === sent.current) return;
    const timer = window.setTimeout(() => {
      sent.current = text;
      onChange(text.trim());
    }, 250);
    return () => window.clearTimeout(timer);
  }, [text]);
  return (
    <span className="find-in">
      <input
        id={id}
        type="search"
        className="input"
        aria-label={label}
        placeholder={placeholder}
        value={text}
        maxLength={255}
        spellCheck={false}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") event.currentTarget.blur();
        }}
      />
      {hint && !text && <kbd aria-hidden="true">{hint}</kbd>}
    </span>
  );
}
