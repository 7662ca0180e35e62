// Values at the cursor: ctx with what changed, workload, result. They follow 60 ms after rest.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { get } from "../../api/client.ts";
import type { Json } from "../../api/types.ts";
import { JsonTree, Value } from "../../parts/json.tsx";
import { Loading, Notice, Refused } from "../../parts/states.tsx";
import { diff, type Difference } from "../../pure/diff.ts";
import { shown, visible } from "../../pure/text.ts";
import { hasEnded } from "../../pure/status.ts";
import { useAddress } from "../../app/view-state.ts";
import type { TrackPage } from "../../pure/track.ts";
import { useExecution, useModel } from "./context.tsx";

type State = { status: string; seq: number; ctx: { [key: string]: Json } };
type Document = { workload: Json; result: Json; warnings: string[] };
type Change = { seq: number; step: string | null; task: string | null; key: string; before?: Json; after?: Json; refused: string | null };
const REST_MS = 60;
/** Changes of ctx that are listed, the latest ones. */
const WRITERS = 100;

/** The position once the cursor rests. */
function useRest(seq: number): number {
  const [rested, setRested] = useState(seq);
  useEffect(() => {
    const timer = window.setTimeout(() => setRested(seq), REST_MS);
    return () => window.clearTimeout(timer);
  }, [seq]);
  return rested;
}

export function useStateAt(id: string, seq: number, isWanted = true) {
  return useQuery({
    queryKey: ["state", id, seq],
    queryFn: ({ signal }) => get<State>(`executions/${encodeURIComponent(id)}/state`, { at: seq, parts: "ctx" }, signal),
    enabled: seq > 0 && isWanted,
    staleTime: Infinity,
    gcTime: 60_000,
    retry: false,
    placeholderData: keepPreviousData,
  });
}

export function Data() {
  const { id, head, move } = useExecution();
  const model = useModel();
  const { seq, page } = model;
  const base = useBase(seq, page);
  const rested = useRest(seq);
  const state = useStateAt(id, rested);
  // What is looked at comes first, then what explains it.
  const isHere = state.data !== undefined && !state.isPlaceholderData;
  const from = Math.max(1, base.seq ?? rested - 1);
  const before = useStateAt(id, from, isHere);
  const whole = useQuery({
    queryKey: ["document", id, hasEnded(head.line.status)],
    queryFn: ({ signal }) => get<Document>(`executions/${encodeURIComponent(id)}`, {}, signal),
    staleTime: 30_000,
    retry: false,
  });
  // The track says where ctx was written: only that part of the log is read.
  const range = model.ctxRange(rested, WRITERS);
  const changes = useQuery({
    queryKey: ["ctx", id, range?.[0], range?.[1]],
    queryFn: ({ signal }) => get<{ changes: Change[] }>(`executions/${encodeURIComponent(id)}/ctx`, { from: range![0], to: range![1] }, signal),
    enabled: isHere && range !== null,
    staleTime: Infinity,
    retry: false,
    placeholderData: keepPreviousData,
  });
  if (state.error && !state.data) return <Refused error={state.error} again={() => void state.refetch()} />;
  if (!state.data) return <Loading rows={6} />;
  const isOld = rested !== seq || state.isPlaceholderData;
  const differs = before.data && !before.isPlaceholderData && isHere && from !== rested ? diff(before.data.ctx, state.data.ctx) : [];
  return (
    <div className="data scroll" tabIndex={0} role="region" aria-label="Values">
      <div className={`values${isOld ? " old" : ""}`} data-seq={state.data.seq}>
        <Against base={base} seq={seq} />
        {differs.length > 0 && <Differences list={differs} title={base.seq === null ? `Changed by event ${rested}` : `Changed from event ${from} to ${rested}`} />}
        {base.seq !== null && isHere && !before.isPlaceholderData && before.data && differs.length === 0 && <p className="soft">Nothing of ctx differs from event {from}.</p>}
        <Value title={`ctx after event ${state.data.seq}`} value={state.data.ctx} />
        {range !== null && changes.data && changes.data.changes.length > 0 && (
          <section>
            <h3>Writers of ctx</h3>
            <ul className="writers">
              {changes.data.changes.slice(-WRITERS).reverse().map((change, at) => (
                <li key={`${change.seq} ${change.key} ${at}`}>
                  <button type="button" className="as-link" onClick={() => move(change.seq)}>#{change.seq}</button>
                  <span className="strong">{visible(change.key)}</span>
                  <code className="cut grow">{change.refused ? <span className="state-failed wrong-text">{visible(change.refused)}</span> : <>{change.before !== undefined && change.before !== null && <><del>{shown(change.before, 80)}</del> → </>}{shown(change.after, 120)}</>}</code>
                  <span className="soft cut">{[change.step, change.task].filter(Boolean).map((each) => visible(each!)).join(", ")}</span>
                </li>
              ))}
            </ul>
          </section>
        )}
      </div>
      <div className="values">
        {whole.error && <Notice error={whole.error} />}
        {whole.data?.warnings.map((warning) => <div key={warning} className="notice waiting">{visible(warning)}</div>)}
        {whole.data && <Value title="Workload" value={whole.data.workload} />}
        {whole.data && head.ended && <Value title="Result" value={whole.data.result} />}
      </div>
    </div>
  );
}

type Base = { seq: number | null; kind: string; step: string | null; choose: (next: string | null) => void };

/** What the values are compared with: the event before (null), the begin of the chosen
 * step, or a pinned event; it is in the address. */
function useBase(seq: number, page: TrackPage | undefined): Base {
  const { step } = useExecution();
  const [params, setParams] = useAddress();
  const given = params.get("vs");
  const choose = (next: string | null) => setParams({ vs: next });
  if (given === "step" && step !== null) {
    const begun = page?.neighbour(seq + 1, -1, (op, name) => op === "begin" && name === step) ?? null;
    return { seq: begun, kind: "step", step, choose };
  }
  const pinned = Number(given);
  if (Number.isInteger(pinned) && pinned > 0) return { seq: pinned, kind: String(pinned), step, choose };
  return { seq: null, kind: "", step, choose };
}

function Against({ base, seq }: { base: Base; seq: number }) {
  const { kind, step, choose } = base;
  return (
    <div className="row wrap against">
      <label className="row soft small">
        compared with
        <select className="input" value={kind} onChange={(event) => choose(event.target.value || null)}>
          <option value="">the event before</option>
          {step !== null && <option value="step">the begin of {visible(step)}</option>}
          {Number(kind) > 0 && <option value={kind}>event {kind}</option>}
        </select>
      </label>
      {kind !== String(seq) && <button type="button" className="button quiet tight" title="Compare what comes with this event" onClick={() => choose(String(seq))}>Pin event {seq}</button>}
    </div>
  );
}

const SIGN = { added: "+", removed: "−", changed: "~" };

export function Differences({ list, title }: { list: Difference[]; title: string }) {
  return (
    <section className="differences">
      <h3>{title}</h3>
      <ul>
        {list.slice(0, 200).map((each) => (
          <li key={each.path} className={each.kind}>
            <b aria-label={each.kind}>{SIGN[each.kind]}</b>
            <span className="strong">{visible(each.path)}</span>
            {each.kind === "changed" && <code><del>{shown(each.before, 300)}</del> → <ins>{shown(each.after, 300)}</ins></code>}
            {each.kind === "added" && <JsonTree value={each.after} open={0} />}
            {each.kind === "removed" && <code><del>{shown(each.before, 300)}</del></code>}
          </li>
        ))}
      </ul>
    </section>
  );
}
