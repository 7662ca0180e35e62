// Pools and workers: what is ready, what runs, and where.

import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "wouter";

import { get } from "../../api/client.ts";
import { Command, Empty } from "../../parts/states.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago } from "../../parts/time.tsx";
import { count, shown } from "../../pure/text.ts";
import { Listed } from "../../tables/listed.tsx";
import { PageHead } from "../../tables/page-head.tsx";
import { RowTable, type Column } from "../../tables/row-table.tsx";
import type { Pool, Worker } from "./types.ts";

const EVERY_MS = 5000;

const POOLS: Column<Pool>[] = [
  { title: "Pool", cell: (row) => <span className="strong">{shown(row.pool)}</span> },
  { title: "State", cell: (row) => <PoolState pool={row} /> },
  { title: "Ready", cell: (row) => count(row.ready), number: true },
  { title: "Delayed", cell: (row) => count(row.delayed), number: true, wide: true },
  { title: "Running", cell: (row) => count(row.leased), number: true },
  { title: "Workers", cell: (row) => count(row.workers), number: true, wide: true },
  { title: "Slots", cell: (row) => count(row.slots), number: true, wide: true },
];

const WORKERS: Column<Worker>[] = [
  { title: "Worker", cell: (row) => <span className="mono">{shown(row.worker)}</span> },
  { title: "Pool", cell: (row) => shown(row.pool) },
  { title: "Running", cell: (row) => `${count(row.running)} of ${count(row.slots)}`, number: true },
  { title: "Code", cell: (row) => (row.code ? "runs code" : "no code"), wide: true },
  { title: "Seen", cell: (row) => <Ago at={row.seen_at} /> },
  { title: "Account", cell: (row) => shown(row.account ?? ""), wide: true },
  { title: "Address", cell: (row) => <span className="mono">{shown(row.address ?? "")}</span>, wide: true },
];

export default function WorkersPage() {
  const [search] = useSearchParams();
  const pool = search.get("pool");
  const pools = useQuery({
    queryKey: ["pools"],
    refetchInterval: EVERY_MS,
    queryFn: ({ signal }) => get<{ pools: Pool[] }>("pools", {}, signal),
  });
  const workers = useQuery({
    queryKey: ["workers", pool],
    refetchInterval: EVERY_MS,
    queryFn: ({ signal }) => get<{ workers: Worker[] }>("workers", { pool }, signal),
  });
  const poolRows = pools.data?.pools ?? [];
  const rows = workers.data?.workers ?? [];
  return (
    <>
      <PageHead title="Workers" />
      <div className="page-body filled sections">
        <h2>Pools</h2>
        <Listed asked={pools} isEmpty={poolRows.length === 0} empty={<p className="soft">No pool has had work yet.</p>}>
          <RowTable label="Pools" columns={POOLS} rows={poolRows} rowKey={(row) => row.pool} />
        </Listed>
        <h2>Workers</h2>
        <Listed asked={workers} isEmpty={rows.length === 0} empty={<Nothing />}>
          <RowTable label="Workers" columns={WORKERS} rows={rows} rowKey={(row) => `${row.account ?? ""}/${row.worker}/${row.pool}`} />
        </Listed>
      </div>
    </>
  );
}

function PoolState({ pool }: { pool: Pool }) {
  if (pool.ready > 0 && pool.workers === 0 && pool.leased === 0) return <Status status="waiting" text="waits for a worker" />;
  if (pool.ready > 0) return <Status status="waiting" text="busy" />;
  return <Status status={pool.leased > 0 ? "running" : "idle"} text={pool.leased > 0 ? "running" : "idle"} />;
}

function Nothing() {
  return (
    <Empty title="No worker asked for work within the last hour" icon="workers">
      <p>A server works with slots of its own; more are started by:</p>
      <Command text="noetl worker start --pool default" />
    </Empty>
  );
}
