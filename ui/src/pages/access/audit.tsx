// The audit: changes on this server and refused calls, the newest first.

import { useState } from "react";
import { useSearchParams } from "wouter";

import type { Json } from "../../forms/fields.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { Command, Empty } from "../../parts/states.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, Moment } from "../../parts/time.tsx";
import { shown } from "../../pure/text.ts";
import { Listed } from "../../tables/listed.tsx";
import { PageHead } from "../../tables/page-head.tsx";
import { RowTable, type Column } from "../../tables/row-table.tsx";
import { usePages } from "../../tables/use-pages.ts";
import { merged } from "../operate/triggers.tsx";

type Entry = {
  audit_id: string;
  at: string;
  action: string;
  principal: string | null;
  means: string | null;
  address: string | null;
  target: { [name: string]: Json };
  status: number | null;
  problem: string | null;
};

const COLUMNS: Column<Entry>[] = [
  { title: "Action", cell: (row) => <span className="strong">{shown(row.action)}</span> },
  { title: "Result", cell: (row) => <Result entry={row} /> },
  { title: "By", cell: (row) => shown(row.principal ?? "unknown"), wide: true },
  { title: "When", cell: (row) => <Ago at={row.at} /> },
  { title: "What", cell: (row) => <span className="mono cut">{shown(targetOf(row.target), 160)}</span>, wide: true },
  { title: "From", cell: (row) => <span className="mono">{shown(row.address ?? "")}</span>, wide: true },
];

export default function AuditPage() {
  const [search, setSearch] = useSearchParams();
  const [open, setOpen] = useState<Entry | null>(null);
  const user = search.get("user");
  const action = search.get("action");
  const { answer, rows, more } = usePages<Entry>("audit", { user, action, limit: 200 }, "entries");
  const set = (name: string, text: string) => setSearch((before) => merged(before, { [name]: text || null }), { replace: true });
  const isFiltered = Boolean(user ?? action);
  return (
    <>
      <PageHead title="Audit">
        <input className="input find" type="search" aria-label="User" data-find placeholder="user" value={user ?? ""} onChange={(event) => set("user", event.target.value)} />
        <input className="input find" type="search" aria-label="Action" placeholder="action" value={action ?? ""} onChange={(event) => set("action", event.target.value)} />
      </PageHead>
      <div className="page-body filled">
        <Listed asked={answer} isEmpty={rows.length === 0} empty={<Nothing isFiltered={isFiltered} />}>
          <RowTable label="Audit" columns={COLUMNS} rows={rows} rowKey={(row) => row.audit_id} onOpen={setOpen} onEnd={more} />
        </Listed>
      </div>
      {open ? <EntryDrawer entry={open} onClose={() => setOpen(null)} /> : null}
    </>
  );
}

function Result({ entry }: { entry: Entry }) {
  if (entry.status === null) return <Status status="running" text="began" />;
  const isDone = entry.status < 400;
  return <Status status={isDone ? "done" : "failed"} text={isDone ? "done" : (entry.problem ?? String(entry.status))} />;
}

function targetOf(target: Entry["target"]): string {
  return Object.entries(target).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`).join(" ");
}

function EntryDrawer({ entry, onClose }: { entry: Entry; onClose: () => void }) {
  return (
    <Dialog title={entry.action} className="drawer" onClose={onClose}>
      <Result entry={entry} />
      <dl className="facts">
        <dt>When</dt><dd><Moment at={entry.at} ms /></dd>
        <dt>By</dt><dd>{shown(entry.principal ?? "unknown")} {entry.means ? `(${entry.means})` : ""}</dd>
        <dt>From</dt><dd className="mono">{shown(entry.address ?? "")}</dd>
        <dt>Id</dt><dd className="mono">{entry.audit_id}</dd>
        {Object.entries(entry.target).map(([name, value]) => (
          <div className="contents" key={name}><dt>{shown(name, 100)}</dt><dd className="mono">{shown(value)}</dd></div>
        ))}
      </dl>
    </Dialog>
  );
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No entry fits" />;
  return <Empty title="Nothing has been changed yet" icon="audit"><Command text="noetl audit" /></Empty>;
}
