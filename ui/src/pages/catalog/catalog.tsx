// The catalog: the latest version of each playbook.

import { useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";

import { escapePath } from "../../api/client.ts";
import { useCan } from "../../api/session.ts";
import { Drafts } from "../../editor/drafts.ts";
import { Command, Empty } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { shown } from "../../pure/text.ts";
import { Listed } from "../../tables/listed.tsx";
import { PageHead } from "../../tables/page-head.tsx";
import { RowTable, type Column } from "../../tables/row-table.tsx";
import { usePages } from "../../tables/use-pages.ts";
import type { PlaybookLine } from "./types.ts";

export default function CatalogPage() {
  const [search, setSearch] = useSearchParams();
  const [, go] = useLocation();
  const can = useCan();
  const prefix = search.get("prefix") ?? "";
  const { answer, rows, more } = usePages<PlaybookLine>("catalog", { prefix, limit: 200 }, "playbooks");
  const find = (text: string) => setSearch(text === "" ? {} : { prefix: text }, { replace: true });
  return (
    <>
      <PageHead title="Catalog">
        <input className="input find" type="search" aria-label="Path begins with" data-find
          placeholder="path begins with…" value={prefix} onChange={(event) => find(event.target.value)} />
        <span className="grow" />
        {can("playbooks:write") ? <Link className="button primary" href="/catalog/-/new">New playbook</Link> : null}
      </PageHead>
      <div className="page-body filled">
        <DraftList />
        <Listed asked={answer} isEmpty={rows.length === 0} empty={<Nothing prefix={prefix} />}>
          <RowTable label="Playbooks" columns={columnsFor(can)} rows={rows} rowKey={(row) => row.path}
            onOpen={(row) => go(`/catalog/${escapePath(row.path)}`)} onEnd={more} />
        </Listed>
      </div>
    </>
  );
}

type Can = ReturnType<typeof useCan>;

function columnsFor(can: Can): Column<PlaybookLine>[] {
  return [
    { title: "Path", cell: (row) => <span className="mono strong">{shown(row.path)}</span> },
    { title: "Version", cell: (row) => <span className="tag">{shown(row.version)}</span> },
    { title: "Name", cell: (row) => shown(row.name), wide: true },
    { title: "Registered", cell: (row) => <Ago at={row.registered_at} />, wide: true },
    { title: "By", cell: (row) => shown(row.registered_by ?? ""), wide: true },
    { title: "Actions", cell: (row) => <RowActions row={row} can={can} />, actions: true },
  ];
}

function RowActions({ row, can }: { row: PlaybookLine; can: Can }) {
  const base = `/catalog/${escapePath(row.path)}/-`;
  return (
    <span className="row end">
      {can("playbooks:write", row.path) ? (
        <Link className="button quiet tight wide-only" href={`${base}/edit`} aria-label={`Edit ${row.path}`}>Edit</Link>
      ) : null}
      {can("executions:run", row.path) ? (
        <Link className="button tight" href={`${base}/run`} aria-label={`Run ${row.path}`}>Run</Link>
      ) : null}
    </span>
  );
}

function DraftList() {
  const can = useCan();
  const [paths] = useState(() => new Drafts(window.localStorage).paths());
  if (paths.length === 0 || !can("playbooks:write")) return null;
  return (
    <p className="notice">
      <span>
        Not registered yet, kept in this browser:{" "}
        {paths.slice(0, 5).map((path, index) => (
          <span key={path}>
            {index > 0 ? ", " : ""}
            <Link href={path === "" ? "/catalog/-/new" : `/catalog/${escapePath(path)}/-/edit`}>{shown(path) || "a new playbook"}</Link>
          </span>
        ))}
      </span>
    </p>
  );
}

function Nothing({ prefix }: { prefix: string }) {
  if (prefix !== "") {
    return (
      <Empty title={`No playbook begins with “${shown(prefix, 80)}”`} icon="search">
        <p>Paths are like <code>sales/orders</code>.</p>
      </Empty>
    );
  }
  return (
    <Empty title="No playbook is registered" icon="catalog">
      <p>Write one here, or register a file:</p>
      <Command text="noetl catalog register playbook.yaml" />
    </Empty>
  );
}
