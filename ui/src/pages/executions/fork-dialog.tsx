// Retry and fork: where, with which changes, and what it would do, before it does it.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useLocation } from "wouter";
import { post } from "../../api/client.ts";
import { asProblem } from "../../api/problem.ts";
import type { Json, Plan } from "../../api/types.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { Notice } from "../../parts/states.tsx";
import { Glyph, Status } from "../../parts/status.tsx";
import { say } from "../../parts/toast.tsx";
import { visible } from "../../pure/text.ts";
import { useExecution } from "./context.tsx";

type Props = { kind: "retry" | "fork"; at: number; playbook?: string; onClose: () => void };
type Started = { execution_id: string };
type Edits = { kind: "retry" | "fork"; at: string; step: string; workload: string; ctx: string; playbook: string; timeout: string };

/** Members of the request, or the reason why they are not valid. */
function bodyOf(edits: Edits): { body: Record<string, unknown>; wrong: string | null } {
  const body: Record<string, unknown> = {};
  let wrong: string | null = null;
  for (const name of ["workload", "ctx"] as const) {
    if (!edits[name].trim()) continue;
    try {
      const value: unknown = JSON.parse(edits[name]);
      if (typeof value !== "object" || value === null || Array.isArray(value)) wrong = `${name}: an object is expected`;
      body[name] = value;
    } catch (error) {
      wrong = `${name}: ${error instanceof Error ? error.message : "not JSON"}`;
    }
  }
  if (edits.playbook.trim()) body.playbook = edits.playbook;
  if (edits.timeout.trim()) {
    body.timeout = Number(edits.timeout);
    if (!(Number(edits.timeout) > 0)) wrong = "time limit: a number of seconds is expected";
  }
  if (edits.kind === "fork") {
    body.at = Number(edits.at);
    if (!/^[1-9]\d*$/.test(edits.at)) wrong = "event: a number is expected";
  } else if (edits.step) body.step = edits.step;
  return { body, wrong };
}

/** With `playbook`, the dialog opens with this text to be changed. */
export function ForkDialog({ kind, at, playbook = "", onClose }: Props) {
  const { id, head, picture } = useExecution();
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const [edits, setEdits] = useState<Edits>({ kind, at: String(at), step: "", workload: "", ctx: "", playbook, timeout: "" });
  const [settled, setSettled] = useState(edits);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(edits), 400);
    return () => window.clearTimeout(timer);
  }, [edits]);
  const path = `executions/${encodeURIComponent(id)}/${edits.kind}`;
  const now = bodyOf(edits);
  const asked = bodyOf(settled);
  const plan = useQuery({
    queryKey: ["plan", id, JSON.stringify(settled)],
    queryFn: ({ signal }) => post<Plan>(`executions/${encodeURIComponent(id)}/${settled.kind}`, { ...asked.body, dry_run: true }, signal),
    enabled: asked.wrong === null,
    retry: false,
    gcTime: 0,
  });
  const start = useMutation({
    mutationFn: () => post<Started>(path, now.body),
    onSuccess: ({ execution_id: made }) => {
      void client.invalidateQueries({ queryKey: ["head", id] });
      say(edits.kind === "retry" ? "The retry is running." : "The fork is running.");
      onClose();
      navigate(`/executions/${made}`);
    },
  });
  const change = (part: Partial<Edits>) => setEdits((old) => ({ ...old, ...part }));
  const isFresh = settled === edits && plan.data !== undefined && !plan.isFetching;
  const verb = edits.kind === "retry" ? "Retry" : "Fork";
  return (
    <Dialog
      title={kind === "retry" ? "Retry" : "Fork"}
      className="wide"
      onClose={onClose}
      onSubmit={() => { if (isFresh && !now.wrong) start.mutate(); }}
      footer={<><button type="button" className="button" onClick={onClose}>Back</button><button type="submit" className="button primary" disabled={!isFresh || now.wrong !== null || start.isPending}>{verb} 1 execution</button></>}
    >
      {start.error && <Notice error={start.error} />}
      <div className="fork-where">
        <fieldset className="choices">
          <legend className="label">From where</legend>
          {head.may.includes("retry") && head.ended && <label className="row"><input type="radio" name="where" checked={edits.kind === "retry" && !edits.step} onChange={() => change({ kind: "retry", step: "" })} />the steps that failed</label>}
          {head.may.includes("retry") && head.ended && (
            <label className="row">
              <input type="radio" name="where" checked={edits.kind === "retry" && edits.step !== ""} onChange={() => change({ kind: "retry", step: head.failure?.step ?? Object.keys(head.steps)[0] ?? "" })} />
              a step, and all after it
              <select className="input" aria-label="Step" value={edits.step} onChange={(event) => change({ kind: "retry", step: event.target.value })}>
                <option value="" disabled>choose a step</option>
                {(picture?.nodes.map((node) => node.id) ?? Object.keys(head.steps)).filter((step) => step in head.steps).map((step) => <option key={step} value={step}>{visible(step)}</option>)}
              </select>
            </label>
          )}
          {head.may.includes("fork") && (
            <label className="row">
              <input type="radio" name="where" checked={edits.kind === "fork"} onChange={() => change({ kind: "fork" })} />
              after event
              <input className="input number-input" inputMode="numeric" aria-label="Event" value={edits.at} onChange={(event) => change({ kind: "fork", at: event.target.value.trim() })} />
              <span className="soft">of {head.last_seq}</span>
            </label>
          )}
        </fieldset>
        <details className="changes" open={playbook !== ""}>
          <summary>Changes: workload, ctx, playbook, time limit</summary>
          <div className="stack">
            <Typed label="Workload, members that change" value={edits.workload} placeholder='{"order": 3}' onChange={(workload) => change({ workload })} />
            <Typed label="ctx, keys that change" value={edits.ctx} placeholder="{}" onChange={(ctx) => change({ ctx })} />
            <Typed label="Playbook: a whole new text" value={edits.playbook} rows={playbook ? 14 : 2} placeholder="empty: as it was" onChange={(playbook) => change({ playbook })} />
            <div className="field"><label htmlFor="fork-timeout">Time limit in seconds</label><input id="fork-timeout" className="input number-input" inputMode="decimal" value={edits.timeout} onChange={(event) => change({ timeout: event.target.value })} /></div>
          </div>
        </details>
      </div>
      <section aria-label="What it would do" aria-busy={plan.isFetching} className={`plan-of-fork${isFresh ? "" : " old"}`}>
        <h3>What it would do</h3>
        {now.wrong ? <p className="wrong-text" role="alert">{visible(now.wrong)}</p>
          : plan.error ? <Notice error={asProblem(plan.error)} />
          : plan.data ? <PlanOf plan={plan.data} asked={settled.kind === "fork" ? Number(settled.at) : null} /> : <p className="soft">Asking the server…</p>}
      </section>
    </Dialog>
  );
}

function Typed({ label, value, rows = 2, placeholder, onChange }: { label: string; value: string; rows?: number; placeholder: string; onChange: (value: string) => void }) {
  const id = `fork-${label.split(/\W/)[0]!.toLowerCase()}`;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <textarea id={id} className="input" rows={rows} spellCheck={false} placeholder={placeholder} value={value} onChange={(event) => onChange(event.target.value)} />
    </div>
  );
}

/** Kinds that change nothing outside of the execution. */
const HARMLESS = new Set(["noop", "wait"]);

/** What a step calls that has effects: a repetition repeats them. */
function Calls({ step }: { step: string }) {
  const tasks = useExecution().picture?.nodes.find((node) => node.id === step)?.tasks ?? [];
  const kinds = [...new Set(tasks.map(([, kind]) => kind))].filter((kind) => kind && !HARMLESS.has(kind));
  if (kinds.length === 0) return null;
  return <span className="effects wrong-text" title="What it does outside is done once more.">calls {visible(kinds.join(", "))}</span>;
}

function PlanOf({ plan, asked }: { plan: Plan; asked: number | null }) {
  const from = plan.forked_from.seq;
  const isEmpty = (value: Json) => value === null || (typeof value === "object" && Object.keys(value).length === 0);
  return (
    <ul className="plan fork-plan">
      <li className="strong">It keeps the events up to {from}{asked !== null && asked !== from && <span className="state-waiting hint-text">: event {asked} is inside a decision that is one batch</span>}</li>
      {plan.kept.map((each) => <li key={each.step}><Status status={each.status} text={`kept, ${each.status}`} /><span>{visible(each.step)}</span>{each.runs > 1 && <span className="soft">×{each.runs}</span>}</li>)}
      {plan.again.map((each) => <li key={each.step_run_id}><span className="status state-running"><Glyph status="running" />again</span><span>{visible(each.step)}</span>{each.task && <span className="soft">from task {visible(each.task)}</span>}{each.iterations !== null && each.iterations !== undefined && <span className="soft">{visible(JSON.stringify(each.iterations)).slice(0, 80)}</span>}<Calls step={each.step} /></li>)}
      {plan.next.map((each, at) => <li key={`${each.step}${at}`}><span className="status state-ready"><Glyph status="ready" />next</span><span>{visible(each.step)}</span>{!isEmpty(each.args) && <code className="soft cut">{visible(JSON.stringify(each.args)).slice(0, 200)}</code>}<Calls step={each.step} /></li>)}
      {!isEmpty(plan.workload) && <li><span className="label">workload</span><code className="cut">{visible(JSON.stringify(plan.workload)).slice(0, 300)}</code></li>}
      {!isEmpty(plan.set_ctx) && <li><span className="label">ctx</span><code className="cut">{visible(JSON.stringify(plan.set_ctx)).slice(0, 300)}</code></li>}
      {plan.again.length + plan.next.length === 0 && <li className="soft">Nothing would run.</li>}
    </ul>
  );
}
