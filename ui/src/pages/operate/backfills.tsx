// Backfills of a schedule: their progress, and a new one.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { get } from "../../api/client.ts";
import { TypedForm, useTypedForm } from "../../forms/typed-form.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Loaded } from "../../parts/states.tsx";
import { Status } from "../../parts/status.tsx";
import { count } from "../../pure/text.ts";
import { useSend } from "../../tables/use-send.ts";
import { Wrong } from "../../tables/wrong.tsx";
import { focusFirstProblem } from "../catalog/run.tsx";
import { BACKFILL } from "./schemas.ts";
import type { Backfill, Trigger } from "./types.ts";

const RUNNING_MS = 2000;

export function Backfills({ trigger, mayWrite }: { trigger: Trigger; mayWrite: boolean }) {
  const [isNew, setNew] = useState(false);
  const query = useQuery({
    queryKey: ["backfills", trigger.name],
    queryFn: ({ signal }) => get<{ backfills: Backfill[] }>("backfills", { trigger: trigger.name }, signal),
    refetchInterval: (now) => (now.state.data?.backfills.some((each) => each.state === "running") ? RUNNING_MS : false),
  });
  return (
    <section className="stack" aria-label="Backfills">
      <div className="row">
        <h3 className="grow">Backfills</h3>
        {mayWrite ? <button type="button" className="button tight" onClick={() => setNew(true)}>Run missing slots</button> : null}
      </div>
      <Loaded query={query} rows={2}>
        {({ backfills }) =>
          backfills.length === 0 ? (
            <p className="soft">None.</p>
          ) : (
            <ul className="stack">{backfills.slice(0, 50).map((each) => <Line key={each.backfill_id} backfill={each} mayWrite={mayWrite} />)}</ul>
          )
        }
      </Loaded>
      {isNew ? <NewBackfill trigger={trigger} onClose={() => setNew(false)} /> : null}
    </section>
  );
}

const LOOKS: Record<string, string> = { running: "running", stopped: "paused", done: "done", finished: "done" };

function Line({ backfill, mayWrite }: { backfill: Backfill; mayWrite: boolean }) {
  const order = useSend<unknown>(["backfills"]);
  const send = (verb: string) => order.mutate({ method: "POST", path: `backfills/${backfill.backfill_id}/${verb}` });
  const ended = backfill.total - backfill.left;
  return (
    <li className="panel padded stack">
      <div className="row wrap">
        <Status status={LOOKS[backfill.state] ?? "idle"} text={backfill.state} />
        <span className="mono small">{backfill.since} – {backfill.until}</span>
        <span className="grow" />
        {mayWrite && backfill.state === "running" ? <button type="button" className="button tight" disabled={order.isPending} onClick={() => send("stop")}>Stop</button> : null}
        {mayWrite && backfill.state === "stopped" ? <button type="button" className="button tight" disabled={order.isPending} onClick={() => send("resume")}>Continue</button> : null}
      </div>
      <progress max={Math.max(backfill.total, 1)} value={ended} aria-label="Progress of the backfill" />
      <p className="soft small">
        {count(ended)} of {count(backfill.total)} slots, {count(backfill.running)} running, {count(backfill.failed)} failed, {count(backfill.present)} there before
      </p>
      <Wrong error={order.error} />
    </li>
  );
}

function NewBackfill({ trigger, onClose }: { trigger: Trigger; onClose: () => void }) {
  const form = useTypedForm(BACKFILL);
  const order = useSend<Backfill>(["backfills"], onClose);
  const send = () => {
    const value = form.read();
    if (value === null) focusFirstProblem();
    else order.mutate({ method: "POST", path: "backfills", body: { ...value, trigger: trigger.name } });
  };
  const footer = (
    <>
      <button type="button" className="button" onClick={onClose}>Back</button>
      <button type="submit" className="button primary" disabled={order.isPending}>Start the backfill</button>
    </>
  );
  return (
    <Dialog title={`Run missing slots of ${trigger.name}`} onClose={onClose} footer={footer} onSubmit={send}>
      <TypedForm form={form} label="the range" />
      <Wrong error={order.error} />
    </Dialog>
  );
}
