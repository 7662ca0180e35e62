// Executions, the newest first: filters in the address, live rows, bulk orders.

import { useMemo, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { useCan } from "../../api/session.ts";
import { useKeys } from "../../app/keys.ts";
import { usePhone } from "../../app/media.ts";
import { useAddress } from "../../app/view-state.ts";
import { Command, Empty, Loading, Notice, Refused } from "../../parts/states.tsx";
import { Rows, type RowsHandle } from "../../parts/rows.tsx";
import { isFiltered, readFilters } from "../../pure/filters.ts";
import { count, plural } from "../../pure/text.ts";
import { Bulk } from "./bulk.tsx";
import { FilterBar } from "./filter-bar.tsx";
import { Hours } from "./hours.tsx";
import { Line } from "./line.tsx";
import { useCounts, useLines, useWaits } from "./lines.ts";
import { sparks } from "../../pure/sparks.ts";
import "./list.css";

export default function Executions() {
  const [, navigate] = useLocation();
  const [params, setParams] = useAddress();
  const filters = useMemo(() => readFilters(params), [params.toString()]);
  const { query, lines, arrived, show } = useLines(filters);
  const waits = useWaits(filters, lines);
  const counts = useCounts(filters, arrived);
  const can = useCan();
  const isPhone = usePhone();
  const [chosen, setChosen] = useState<Set<string>>(new Set());
  const [at, setAt] = useState(-1);
  const last = useRef(-1);
  const rows = useRef<RowsHandle>(null);
  const history = useMemo(() => sparks(lines), [lines]);
  const controls = can("executions:control");

  const toggle = (index: number, extend: boolean) => {
    const from = extend && last.current >= 0 ? Math.min(last.current, index) : index;
    const to = extend && last.current >= 0 ? Math.max(last.current, index) : index;
    setChosen((old) => {
      const next = new Set(old);
      const on = !old.has(lines[index]!.execution_id);
      for (const line of lines.slice(from, to + 1)) on ? next.add(line.execution_id) : next.delete(line.execution_id);
      return next;
    });
    last.current = index;
  };
  const step = (by: number) => {
    const next = Math.max(0, Math.min(lines.length - 1, at + by));
    setAt(next);
    rows.current?.scrollTo(next);
  };
  const here = lines[at];
  useKeys([
    { keys: "j", does: "Next execution", run: () => step(1) },
    { keys: "k", does: "Previous execution", run: () => step(-1) },
    { keys: "Enter", does: "Open the execution", run: () => here && navigate(`/executions/${here.execution_id}`) },
    { keys: "x", does: "Choose the execution", run: () => controls && here && toggle(at, false) },
    { keys: "/", does: "Find in the list", run: () => document.getElementById("filter-text")?.focus() },
    { keys: "n", does: "Show the new executions", run: () => void show() },
    { keys: "Escape", does: "Choose none", run: () => setChosen(new Set()) },
  ]);

  const total = counts ? Object.values(counts.by_status).reduce((sum, each) => sum + each, 0) : null;
  return (
    <>
      <header className="page-head">
        <h1>Executions</h1>
        {counts && (
          <span className="soft">
            {["running", "waiting"].filter((each) => counts.by_status[each]).map((each) => `${count(counts.by_status[each]!)} ${each}`).join(", ")}
          </span>
        )}
        <span className="grow" />
        {counts && <Hours counts={counts} />}
      </header>
      <FilterBar filters={filters} counts={counts} onChange={setParams} />
      <div className="page-body list-body">
        {query.error && lines.length > 0 && <Notice error={query.error} about="The list is from before." />}
        {query.data === undefined && query.error && <Refused error={query.error} again={() => void query.refetch()} />}
        {query.data === undefined && !query.error && <Loading rows={14} />}
        {query.data && lines.length === 0 && !query.hasNextPage && (isFiltered(filters) ? (
          <Empty title="No execution fits" icon="filter">
            <button type="button" className="button" onClick={() => navigate("/executions")}>Remove the filters</button>
          </Empty>
        ) : <First />)}
        {query.data && (lines.length > 0 || query.hasNextPage) && (
          <div className={`lines${query.isPlaceholderData ? " old" : ""}`}>
            <div className="line head" aria-hidden="true">
              {controls && <span />}<span>Status</span><span>Playbook</span><span>Started</span><span className="number">Took</span><span>Before</span><span>What happened</span>
            </div>
            <div className="new-line">
              {arrived > 0 && <button type="button" className="button tight primary" onClick={() => { void show(); rows.current?.scrollTo(0); }}>{count(arrived)} new</button>}
            </div>
            <Rows
              handle={rows}
              label="Executions"
              className="list-rows"
              remember={`executions?${params.toString()}`}
              key={isPhone ? "phone" : "desk"}
              height={isPhone ? 62 : undefined}
              count={lines.length}
              keyOf={(index) => lines[index]?.execution_id ?? index}
              onEnd={() => { if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage(); }}
              row={(index) => {
                const line = lines[index];
                return line && (
                  <Line
                    line={line}
                    waits={waits.get(line.execution_id)}
                    spark={history.get(line.playbook.path ?? "")}
                    isHere={index === at}
                    isChosen={chosen.has(line.execution_id)}
                    onChoose={controls ? (extend) => toggle(index, extend) : undefined}
                    onOpen={() => navigate(`/executions/${line.execution_id}`)}
                  />
                );
              }}
            />
            <footer className="row soft small list-foot">
              <span>{plural(lines.length, "execution")} shown{total !== null && total > lines.length ? ` of ${count(total)}${counts?.complete === false ? " or more" : ""}` : ""}</span>
              {query.isFetchingNextPage && <span>Loading more…</span>}
              {query.hasNextPage && !query.isFetchingNextPage && <button type="button" className="button quiet tight" onClick={() => void query.fetchNextPage()}>Load more</button>}
            </footer>
          </div>
        )}
        {controls && lines.length > 0 && (
          <Bulk filters={filters} chosen={[...chosen]} onDone={() => { setChosen(new Set()); void show(); }} onNone={() => setChosen(new Set())} />
        )}
      </div>
    </>
  );
}

function First() {
  const can = useCan();
  return (
    <Empty title="Nothing has run yet" icon="executions">
      <p>Three commands for a first execution:</p>
      <div className="commands">
        <Command text="noetl run examples/hello.yaml" />
        <Command text="noetl catalog register examples/hello.yaml" />
        <Command text="noetl exec examples/hello" />
      </div>
      {can("playbooks:write") && <p>Or write one here: <Link href="/catalog/-/new">New playbook</Link></p>}
    </Empty>
  );
}
