// One playbook: its graph, its executions, its versions and its source.

import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { Link, useLocation, useSearchParams } from "wouter";

import { escapePath, get } from "../../api/client.ts";
import { useCan } from "../../api/session.ts";
import type { Picture } from "../../graph/picture.ts";
import { Copy } from "../../parts/copy.tsx";
import { Command, Empty, Loaded, Loading } from "../../parts/states.tsx";
import { Status } from "../../parts/status.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { Ago } from "../../parts/time.tsx";
import { shown } from "../../pure/text.ts";
import { duration } from "../../pure/time.ts";
import { Listed } from "../../tables/listed.tsx";
import { PageHead } from "../../tables/page-head.tsx";
import { RowTable, type Column } from "../../tables/row-table.tsx";
import { usePages } from "../../tables/use-pages.ts";
import { StaticGraph } from "./static-graph.tsx";
import type { PlaybookDocument, PlaybookLine } from "./types.ts";

const CodeEditor = lazy(() => import("../../editor/code-editor.tsx"));

const TABS = [
  { id: "graph", label: "Graph" },
  { id: "runs", label: "Runs" },
  { id: "versions", label: "Versions" },
  { id: "source", label: "Source" },
];

export default function PlaybookPage({ path }: { path: string }) {
  const [search, setSearch] = useSearchParams();
  const version = search.get("version");
  const tab = search.get("tab") ?? "graph";
  const base = `/catalog/${escapePath(path)}`;
  const query = usePlaybook(path, version);
  const choose = (id: string) => setSearch((before) => ({ ...Object.fromEntries(before), tab: id }), { replace: true });
  return (
    <>
      <PageHead title={<span className="mono">{shown(path)}</span>} name={path}>
        {query.data ? <span className="tag">{shown(query.data.version)}</span> : null}
        <span className="soft cut wide-only">{shown(query.data?.name ?? "")}</span>
        <span className="grow" />
        <Actions path={path} base={base} version={version} />
      </PageHead>
      <div className="page-body filled">
        <Loaded query={query}>
          {(playbook) => (
            <>
              <Tabs tabs={TABS} chosen={tab} onChoose={choose} name="Parts of the playbook" />
              <Part tab={tab} playbook={playbook} />
            </>
          )}
        </Loaded>
      </div>
    </>
  );
}

export function usePlaybook(path: string, version: string | null) {
  return useQuery({
    queryKey: ["catalog", path, version],
    queryFn: ({ signal }) => get<PlaybookDocument>(`catalog/${escapePath(path)}`, { version }, signal),
  });
}

function Actions({ path, base, version }: { path: string; base: string; version: string | null }) {
  const can = useCan();
  const suffix = version === null ? "" : `?version=${encodeURIComponent(version)}`;
  return (
    <>
      {can("playbooks:write", path) ? <Link className="button" href={`${base}/-/edit${suffix}`}>Edit</Link> : null}
      {can("executions:run", path) ? <Link className="button primary" href={`${base}/-/run${suffix}`}>Run</Link> : null}
    </>
  );
}

function Part({ tab, playbook }: { tab: string; playbook: PlaybookDocument }) {
  switch (tab) {
    case "runs":
      return <Runs path={playbook.path} />;
    case "versions":
      return <Versions path={playbook.path} shownVersion={playbook.version} />;
    case "source":
      return <Source playbook={playbook} />;
    default:
      return <Graph playbook={playbook} />;
  }
}

function Graph({ playbook }: { playbook: PlaybookDocument }) {
  const query = useQuery({
    queryKey: ["catalog-graph", playbook.path, playbook.version],
    staleTime: Infinity,
    queryFn: ({ signal }) =>
      get<Picture>(`catalog/${escapePath(playbook.path)}/-/graph`, { version: playbook.version }, signal),
  });
  return <Loaded query={query}>{(picture) => <StaticGraph picture={picture} />}</Loaded>;
}

function Source({ playbook }: { playbook: PlaybookDocument }) {
  return (
    <>
      <div className="row bar">
        <span className="soft small cut">sha256 {playbook.sha256.slice(0, 16)}…, registered <Ago at={playbook.registered_at} /></span>
        <span className="grow" />
        <Copy text={playbook.source} label="Copy the source" />
      </div>
      <Suspense fallback={<Loading />}>
        <CodeEditor text={playbook.source} label={`Source of ${playbook.path}`} />
      </Suspense>
    </>
  );
}

type RunLine = {
  execution_id: string;
  status: string;
  playbook: { version?: string | null };
  started_at: string;
  duration_ms: number | null;
  error: { kind?: string; message?: string } | null;
  /** A run of the command line whose process is gone. */
  interrupted?: boolean;
};

const RUN_COLUMNS: Column<RunLine>[] = [
  { title: "Status", cell: (row) => (row.interrupted ? <Status status="paused" text="interrupted" /> : <Status status={row.status} />) },
  { title: "Execution", cell: (row) => <Link className="mono" href={`/executions/${row.execution_id}`}>{row.execution_id}</Link> },
  { title: "Version", cell: (row) => shown(row.playbook.version ?? ""), wide: true },
  { title: "Started", cell: (row) => <Ago at={row.started_at} /> },
  { title: "Time", cell: (row) => duration(row.duration_ms), number: true, wide: true },
  { title: "Error", cell: (row) => (row.error ? shown(row.error.message ?? row.error.kind ?? "", 200) : ""), wide: true },
];

function Runs({ path }: { path: string }) {
  const { answer, rows, more } = usePages<RunLine>("executions", { path, limit: 100 }, "executions");
  const nothing = (
    <Empty title="It has not run yet" icon="executions">
      <Command text={`noetl exec ${path}`} />
    </Empty>
  );
  return (
    <Listed asked={answer} isEmpty={rows.length === 0} empty={nothing}>
      <RowTable label={`Executions of ${path}`} columns={RUN_COLUMNS} rows={rows} rowKey={(row) => row.execution_id} onEnd={more} />
    </Listed>
  );
}

function Versions({ path, shownVersion }: { path: string; shownVersion: string }) {
  const query = useQuery({
    queryKey: ["catalog-versions", path],
    queryFn: ({ signal }) => get<{ versions: PlaybookLine[] }>(`catalog/${escapePath(path)}/-/versions`, {}, signal),
  });
  const rows = query.data?.versions ?? [];
  return (
    <Listed asked={query} isEmpty={rows.length === 0} empty={<Empty title="No version" />}>
      <VersionTable path={path} rows={rows} chosen={shownVersion} />
    </Listed>
  );
}

function VersionTable({ path, rows, chosen }: { path: string; rows: PlaybookLine[]; chosen: string }) {
  const [, go] = useLocation();
  const base = `/catalog/${escapePath(path)}`;
  const before = new Map(rows.map((row, index) => [row.version, rows[index + 1]?.version]));
  const columns: Column<PlaybookLine>[] = [
    { title: "Version", cell: (row) => <span className="tag">{shown(row.version)}</span> },
    { title: "Registered", cell: (row) => <Ago at={row.registered_at} /> },
    { title: "By", cell: (row) => shown(row.registered_by ?? ""), wide: true },
    { title: "sha256", cell: (row) => <span className="mono soft">{row.sha256.slice(0, 12)}</span>, wide: true },
    { title: "Changes", cell: (row) => <Compare base={base} from={before.get(row.version)} to={row.version} /> },
  ];
  return (
    <RowTable label={`Versions of ${path}`} columns={columns} rows={rows} rowKey={(row) => row.version} chosen={chosen}
      onOpen={(row) => go(`${base}?tab=source&version=${encodeURIComponent(row.version)}`)} />
  );
}

function Compare({ base, from, to }: { base: string; from: string | undefined; to: string }) {
  if (from === undefined) return <span className="soft">the first</span>;
  const query = new URLSearchParams({ from, to });
  return <Link href={`${base}/-/diff?${query}`}>since {shown(from)}</Link>;
}
