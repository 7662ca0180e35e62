// The selected step: its runs, and why, calls, data and output of the chosen one.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { get } from "../../api/client.ts";
import type { Json, Run, RunCall, RunLine, Verdict } from "../../api/types.ts";
import { useAddress } from "../../app/view-state.ts";
import { Icon } from "../../parts/icons.tsx";
import { Value } from "../../parts/json.tsx";
import { Loaded } from "../../parts/states.tsx";
import { Glyph, Status } from "../../parts/status.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { hasEnded } from "../../pure/status.ts";
import { cut, shown, visible } from "../../pure/text.ts";
import { duration } from "../../pure/time.ts";
import { useExecution, useModel } from "./context.tsx";
import { Child } from "./children.tsx";
import { IterationList } from "./iterations.tsx";
import { IDLE } from "./model.ts";
import { Printed } from "./printed.tsx";
import { WhyView } from "./why.tsx";

const TABS = [{ id: "calls", label: "Calls" }, { id: "why", label: "Why" }, { id: "data", label: "Data" }, { id: "output", label: "Output" }];

export function Panel() {
  const { id, step, run, head, picture, select, openTab } = useExecution();
  const [params, setParams] = useAddress();
  const model = useModel();
  const look = model.looks().get(step ?? "") ?? { ...IDLE, status: model.endedHere ? "not_reached" : "idle" };
  const node = picture?.nodes.find((each) => each.id === step);
  const runs = useQuery({
    queryKey: ["run-lines", id, step, head.ended],
    queryFn: ({ signal }) => get<{ runs: RunLine[]; cursor: string | null }>(`executions/${encodeURIComponent(id)}/runs`, { step }, signal),
    placeholderData: keepPreviousData,
    retry: false,
  });
  const list = (runs.data?.runs ?? []).filter((each) => each.step === step);
  const chosen = list.find((each) => each.run === run) ?? list.at(-1) ?? null;
  const at = chosen ? list.indexOf(chosen) : -1;
  const tab = params.get("panel") ?? (list.length ? "calls" : "why");
  return (
    <aside className="run-panel" aria-label={`Step ${step}`}>
      <header>
        <h2 className="cut grow" title={step ?? ""}>{visible(step ?? "")}</h2>
        <Status status={look.status} />
        <button type="button" className="button quiet icon tight" aria-label="Close the panel" onClick={() => select(null)}><Icon name="close" /></button>
      </header>
      {node && (
        <div className="about soft small">
          {node.desc && <p>{visible(cut(node.desc, 400))}</p>}
          <button type="button" className="as-link" onClick={() => openTab("yaml", { line: String(node.line) })}>line {node.line}</button>
          {node.kinds.length > 0 && ` · ${node.kinds.map(visible).join(", ")}`}
        </div>
      )}
      {list.length > 1 && (
        <div className="run-choice row">
          <button type="button" className="button quiet icon tight" aria-label="Run before" disabled={at <= 0} onClick={() => select(step, list[at - 1]!.run)}><Icon name="left" /></button>
          <select className="input" aria-label="Run" value={chosen?.run ?? ""} onChange={(event) => select(step, event.target.value)}>
            {list.map((each, number) => <option key={each.run} value={each.run}>{`run ${number + 1}/${list.length}${runs.data?.cursor ? "+" : ""} · ${each.status} · ${duration(each.ms)}`}</option>)}
          </select>
          <button type="button" className="button quiet icon tight" aria-label="Next run" disabled={at < 0 || at >= list.length - 1} onClick={() => select(step, list[at + 1]!.run)}><Icon name="right" /></button>
        </div>
      )}
      {list.length === 1 && chosen && <div className="run-line soft small">run 1/1{chosen.ms !== null && ` · ${duration(chosen.ms)}`}{chosen.queue_ms !== null && chosen.queue_ms > 0 && ` · ${duration(chosen.queue_ms)} in the queue`}{chosen.attempts > 1 && ` · ${chosen.attempts} attempts`}</div>}
      <Tabs name="Of the step" tabs={TABS} chosen={tab} onChoose={(panel) => setParams({ panel })} />
      <div className="run-body scroll" role="tabpanel" tabIndex={0} aria-label={TABS.find((each) => each.id === tab)?.label}>
        {tab === "why" && <WhyView step={step ?? ""} seq={list.length > 1 && chosen ? chosen.to_seq : null} status={look.status} />}
        {tab !== "why" && (chosen ? <RunView key={chosen.run} line={chosen} tab={tab} /> : <Loaded query={runs}>{() => <p className="soft pad">No run of this step yet. “Why” tells what it needs.</p>}</Loaded>)}
      </div>
    </aside>
  );
}

function RunView({ line, tab }: { line: RunLine; tab: string }) {
  const { id } = useExecution();
  const query = useQuery({
    queryKey: ["run", id, line.run, line.to_seq, line.status],
    queryFn: ({ signal }) => get<Run>(`executions/${encodeURIComponent(id)}/runs/${encodeURIComponent(line.run)}`, {}, signal),
    staleTime: hasEnded(line.status) ? Infinity : 2000,
    retry: false,
    placeholderData: keepPreviousData,
  });
  if (tab === "output") return <Printed run={line} />;
  return (
    <Loaded query={query} rows={4}>
      {(run) => tab === "data" ? (
        <div className="stack pad">
          <Value title="Args" value={run.args} />
          <Value title="Result" value={run.result} />
        </div>
      ) : (
        <>
          {line.loop && <IterationList line={line} />}
          {line.error && run.calls.length === 0 && <p className="pad wrong-text">{visible(line.error.message ?? "")}</p>}
          <ol className="calls">{run.calls.map((call) => <Call key={`${call.seq} ${call.task} ${call.attempt}`} call={call} />)}</ol>
          {run.calls_total > run.calls.length && <p className="soft small pad">The first {run.calls.length} of {run.calls_total} calls.</p>}
          {run.routing && run.routing.length > 0 && <Routing list={run.routing} />}
          {run.calls.length === 0 && !line.loop && !line.error && <p className="soft pad">This step calls no tool.</p>}
        </>
      )}
    </Loaded>
  );
}

const LOOKS: Record<string, string> = { ok: "done", success: "done", error: "failed", skipped: "skipped", suspended: "waiting", started: "running" };

/** The arcs after the run: which fired, and why the others did not. */
function Routing({ list }: { list: Verdict[] }) {
  const { select, openTab } = useExecution();
  return (
    <section className="routing">
      <h3 className="pad">Then</h3>
      <ul>
        {list.map((each, at) => (
          <li key={at} className="call">
            <div className="row wrap">
              <Glyph status={each.good ? "done" : "skipped"} />
              <button type="button" className="as-link plain strong" onClick={() => select(each.what)}>{visible(each.what)}</button>
              <span className="soft">{visible(each.verdict)}</span>
              <span className="grow" />
              {each.line !== null && <button type="button" className="as-link small" onClick={() => openTab("yaml", { line: String(each.line) })}>line {each.line}</button>}
            </div>
            {each.guard && <code className="guard">{visible(each.guard)}</code>}
            {each.note && <p className="soft small">{visible(each.note)}</p>}
          </li>
        ))}
      </ul>
    </section>
  );
}

function isEmpty(value: Json | undefined): boolean {
  return value === null || value === undefined || (typeof value === "object" && Object.keys(value).length === 0);
}

function Call({ call }: { call: RunCall }) {
  const { move, openTab } = useExecution();
  const { directive } = call;
  return (
    <li className="call">
      <div className="row wrap">
        <Status status={LOOKS[call.status] ?? call.status} text={`${visible(call.task)} #${call.attempt}`} />
        <span className="soft">{duration(call.ms)}</span>
        {call.queue_ms !== null && call.queue_ms > 0.5 && <span className="soft small">{duration(call.queue_ms)} queued</span>}
        <span className="grow" />
        <button type="button" className="as-link small" onClick={() => move(call.seq)}>event {call.seq}</button>
      </div>
      {call.error && <p className="call-error">{visible(cut(call.error.message ?? call.error.kind ?? "", 2000))}</p>}
      {directive && directive !== "continue" && (
        <p className="soft small">then {visible(directive)}{call.note && `, by ${visible(call.note)}`}{call.line !== null && <> on <button type="button" className="as-link" onClick={() => openTab("yaml", { line: String(call.line) })}>line {call.line}</button></>}</p>
      )}
      {!isEmpty(call.set_ctx) && <p className="small soft">sets ctx <code>{shown(call.set_ctx, 160)}</code></p>}
      {call.child && <Child id={call.child} depth={1} />}
      {!isEmpty(call.result) && <details><summary className="small soft cut">result {shown(call.result, 80)}</summary><Value title="Result" value={call.result} /></details>}
    </li>
  );
}
