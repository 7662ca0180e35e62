// Triggers: schedules, webhooks and ends of executions that start others.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearchParams } from "wouter";

import { escapePath, get } from "../../api/client.ts";
import { useCan } from "../../api/session.ts";
import { Command, Empty } from "../../parts/states.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago } from "../../parts/time.tsx";
import { shown } from "../../pure/text.ts";
import { Listed } from "../../tables/listed.tsx";
import { PageHead } from "../../tables/page-head.tsx";
import { RowTable, type Column } from "../../tables/row-table.tsx";
import { NewTrigger } from "./new-trigger.tsx";
import { TriggerDrawer } from "./trigger-drawer.tsx";
import type { Trigger } from "./types.ts";

const COLUMNS: Column<Trigger>[] = [
  { title: "Name", cell: (row) => <span className="strong">{shown(row.name)}</span> },
  { title: "State", cell: (row) => <Status status={row.paused ? "paused" : "done"} text={row.paused ? "paused" : "active"} /> },
  { title: "Kind", cell: (row) => row.kind, wide: true },
  { title: "Playbook", cell: (row) => <PlaybookLink playbook={row.playbook} /> },
  { title: "When", cell: (row) => <span className="mono">{shown(whenOf(row), 80)}</span>, wide: true },
  { title: "Next", cell: (row) => <Ago at={row.next_at} />, wide: true },
  { title: "Owner", cell: (row) => shown(row.owner), wide: true },
];

export default function TriggersPage() {
  const [search, setSearch] = useSearchParams();
  const [isNew, setNew] = useState(false);
  const can = useCan();
  const query = useQuery({
    queryKey: ["triggers"],
    queryFn: ({ signal }) => get<{ triggers: Trigger[] }>("triggers", {}, signal),
  });
  const find = (search.get("find") ?? "").toLowerCase();
  const all = query.data?.triggers ?? [];
  const rows = all.filter((row) => `${row.name} ${row.playbook}`.toLowerCase().includes(find));
  const open = rows.find((row) => row.name === search.get("trigger"));
  const change = (part: Record<string, string | null>) => setSearch((before) => merged(before, part), { replace: true });
  return (
    <>
      <PageHead title="Triggers">
        <input className="input find" type="search" aria-label="Find triggers" data-find placeholder="find…" value={search.get("find") ?? ""}
          onChange={(event) => change({ find: event.target.value || null })} />
        <span className="grow" />
        {can("triggers:write") ? <button type="button" className="button primary" onClick={() => setNew(true)}>New trigger</button> : null}
      </PageHead>
      <div className="page-body filled">
        <Listed asked={query} isEmpty={rows.length === 0} empty={<Nothing isFiltered={all.length > 0} />}>
          <RowTable label="Triggers" columns={COLUMNS} rows={rows} rowKey={(row) => row.name} chosen={open?.name}
            onOpen={(row) => change({ trigger: row.name })} />
        </Listed>
      </div>
      {open ? <TriggerDrawer trigger={open} onClose={() => change({ trigger: null })} /> : null}
      {isNew ? <NewTrigger onClose={() => setNew(false)} /> : null}
    </>
  );
}

export function merged(before: URLSearchParams, part: Record<string, string | null>): URLSearchParams {
  const after = new URLSearchParams(before);
  for (const [name, value] of Object.entries(part)) {
    if (value === null) after.delete(name);
    else after.set(name, value);
  }
  return after;
}

export function PlaybookLink({ playbook }: { playbook: string }) {
  const [path = "", version] = playbook.split("@");
  const query = version ? `?version=${encodeURIComponent(version)}` : "";
  return <Link className="mono" href={`/catalog/${escapePath(path)}${query}`}>{shown(playbook)}</Link>;
}

function whenOf(row: Trigger): string {
  const part = row.definition[row.kind];
  if (typeof part !== "object" || part === null || Array.isArray(part)) return "";
  if (row.kind === "schedule") return `${String(part["cron"] ?? "")} ${String(part["zone"] ?? "")}`;
  if (row.kind === "finished") return `${String(part["path"] ?? "")} ${[part["status"]].flat().join(", ")}`;
  return row.hook ?? "";
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No trigger fits" />;
  return (
    <Empty title="No trigger" icon="triggers">
      <p>A trigger starts executions on a schedule, by a webhook, or at the end of others.</p>
      <Command text='noetl trigger create nightly --playbook sales/orders --cron "0 3 * * *"' />
    </Empty>
  );
}
