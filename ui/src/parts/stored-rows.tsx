// Rows of a large stored value, a page at a time: the first at once, any by its number.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { createContext, useContext, useState } from "react";
import { address, get } from "../api/client.ts";
import type { Json } from "../api/types.ts";
import { bytes, count, shown, visible } from "../pure/text.ts";
import { Dialog } from "./dialog.tsx";
import { Icon } from "./icons.tsx";
import { Loaded } from "./states.tsx";

/** Id of the execution whose values are shown; the server asks who owns a value. */
export const ValueOwner = createContext<string | null>(null);

export type Reference = { store: string; key: string; size: number; schema_hint?: string };
type Page = { columns: string[]; rows: Json[][]; total: number | null; offset: number; complete: boolean };
const PAGE = 200;

export function isReference(value: { [key: string]: Json }): boolean {
  return value.store === "noetl" && typeof value.key === "string" && typeof value.size === "number";
}

export function StoredValue({ reference }: { reference: Reference }) {
  const owner = useContext(ValueOwner);
  const [isOpen, setOpen] = useState(false);
  const file = address(`results/${encodeURIComponent(reference.key)}`, { execution_id: owner });
  return (
    <span className="stored">
      <span className="tag">{visible(reference.schema_hint ?? "value")}, {bytes(reference.size)}</span>
      <button type="button" className="as-link" onClick={() => setOpen(true)}>rows</button>
      <a href={file} download={`${reference.key.slice(0, 12)}.${visible(reference.schema_hint ?? "json")}`}>download</a>
      {isOpen && <RowsDialog reference={reference} owner={owner} onClose={() => setOpen(false)} />}
    </span>
  );
}

function RowsDialog({ reference, owner, onClose }: { reference: Reference; owner: string | null; onClose: () => void }) {
  const [page, setPage] = useState(0);
  const query = useQuery({
    queryKey: ["rows", reference.key, owner, page],
    queryFn: ({ signal }) => get<Page>(`results/${encodeURIComponent(reference.key)}/rows`, { execution_id: owner, offset: page * PAGE, limit: PAGE }, signal),
    placeholderData: keepPreviousData,
    refetchInterval: (found) => (found.state.data?.complete === false ? 300 : false),
    staleTime: Infinity,
    retry: false,
  });
  const { data } = query;
  const last = data?.total !== undefined && data.total !== null ? Math.max(0, Math.ceil(data.total / PAGE) - 1) : null;
  const isEnd = last !== null ? page >= last : data !== undefined && data.rows.length < PAGE && data.complete;
  return (
    <Dialog
      title={`Rows${data?.total !== null && data?.total !== undefined ? ` of ${count(data.total)}` : ""}`}
      className="wide rows-dialog"
      onClose={onClose}
      footer={
        <>
          <label className="row">page <input className="input number-input" inputMode="numeric" aria-label="Page" value={page + 1} onChange={(event) => setPage(Math.min(last ?? 10_000_000, Math.max(0, (parseInt(event.target.value, 10) || 1) - 1)))} />{last !== null && <span className="soft">of {count(last + 1)}</span>}</label>
          <button type="button" className="button icon" aria-label="Page before" disabled={page === 0} onClick={() => setPage(page - 1)}><Icon name="left" /></button>
          <button type="button" className="button icon" aria-label="Next page" disabled={isEnd} onClick={() => setPage(page + 1)}><Icon name="right" /></button>
        </>
      }
    >
      <Loaded query={query}>
        {(found) => !found.complete && found.rows.length === 0 ? <p className="soft">The server looks through {bytes(reference.size)}…</p> : (
          <div className="scroll" tabIndex={0} role="region" aria-label="Rows">
            <table className="table rows-table">
              <thead><tr><th className="number">#</th>{found.columns.map((column) => <th key={column}>{visible(column)}</th>)}</tr></thead>
              <tbody>
                {found.rows.map((row, at) => (
                  <tr key={found.offset + at}>
                    <td className="number soft">{count(found.offset + at)}</td>
                    {row.map((cell, column) => <td key={column} className={typeof cell === "number" ? "number" : "cell"}>{cellText(cell)}</td>)}
                  </tr>
                ))}
              </tbody>
            </table>
            {found.rows.length === 0 && <p className="soft pad">No rows here.</p>}
          </div>
        )}
      </Loaded>
    </Dialog>
  );
}

function cellText(cell: Json): string {
  if (typeof cell === "object" && cell !== null && !Array.isArray(cell) && typeof cell.$cut === "number") return `${shown(cell.head, 200)}… (${bytes(cell.$cut)})`;
  return cell === null ? "" : shown(cell, 200);
}
