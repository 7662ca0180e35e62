// One trigger: its definition, its orders, its backfills.

import { useState } from "react";
import { Link, useLocation } from "wouter";

import { useCan } from "../../api/session.ts";
import { randomKey } from "../catalog/run.tsx";
import { Ask, Dialog } from "../../parts/dialog.tsx";
import { Ago, Moment } from "../../parts/time.tsx";
import { say } from "../../parts/toast.tsx";
import { shown } from "../../pure/text.ts";
import { useSend } from "../../tables/use-send.ts";
import { Wrong } from "../../tables/wrong.tsx";
import { Backfills } from "./backfills.tsx";
import { ChangeTrigger } from "./new-trigger.tsx";
import { PlaybookLink } from "./triggers.tsx";
import type { Trigger } from "./types.ts";

export function TriggerDrawer({ trigger, onClose }: { trigger: Trigger; onClose: () => void }) {
  const can = useCan();
  const path = trigger.playbook.split("@")[0] ?? "";
  return (
    <Dialog title={trigger.name} className="drawer" onClose={onClose}>
      <dl className="facts">
        <dt>Playbook</dt><dd><PlaybookLink playbook={trigger.playbook} /></dd>
        <dt>Owner</dt><dd>{shown(trigger.owner)}</dd>
        <dt>Created</dt><dd><Ago at={trigger.created_at} /> by {shown(trigger.created_by)}</dd>
        {trigger.next_at ? <><dt>Next</dt><dd><Moment at={trigger.next_at} /></dd></> : null}
        {trigger.last ? <><dt>Last</dt><dd><Last last={trigger.last} /></dd></> : null}
        {trigger.hook ? <><dt>Address</dt><dd className="mono">{shown(trigger.hook)}</dd></> : null}
      </dl>
      <pre className="block" tabIndex={0} aria-label="Definition">{shown(JSON.stringify(trigger.definition, null, 2), 20_000)}</pre>
      {can("triggers:write", path) ? <Orders trigger={trigger} onClose={onClose} /> : null}
      {trigger.kind === "schedule" ? <Backfills trigger={trigger} mayWrite={can("triggers:write", path)} /> : null}
    </Dialog>
  );
}

function Last({ last }: { last: NonNullable<Trigger["last"]> }) {
  const id = last["execution_id"];
  const slot = last["slot"] ?? last["at"];
  return (
    <>
      {typeof slot === "string" ? <Moment at={slot} /> : null}{" "}
      {typeof id === "string" ? <Link className="mono" href={`/executions/${id}`}>{id}</Link> : shown(last["status"] ?? last["outcome"] ?? "")}
    </>
  );
}

function Orders({ trigger, onClose }: { trigger: Trigger; onClose: () => void }) {
  const [asks, setAsks] = useState(false);
  const [changes, setChanges] = useState(false);
  const [, go] = useLocation();
  const path = `triggers/${encodeURIComponent(trigger.name)}`;
  const order = useSend<unknown>(["triggers"]);
  const [key] = useState(randomKey);
  const fire = useSend<{ execution_id: string }>(["triggers"], (done) => go(`/executions/${done.execution_id}`));
  const remove = useSend<unknown>(["triggers"], () => {
    say(`${trigger.name} is deleted`);
    onClose();
  });
  const isBusy = order.isPending || fire.isPending || remove.isPending;
  const turn = trigger.paused ? "resume" : "pause";
  return (
    <>
      <div className="row wrap">
        <button type="button" className="button" disabled={isBusy} onClick={() => order.mutate({ method: "POST", path: `${path}/${turn}` })}>
          {trigger.paused ? "Resume" : "Pause"}
        </button>
        {trigger.kind === "finished" ? null : (
          <button type="button" className="button" disabled={isBusy}
            onClick={() => fire.mutate({ method: "POST", path: `${path}/fire`, body: trigger.kind === "webhook" ? { key: `ui-${key}` } : {} })}>
            Fire now
          </button>
        )}
        <button type="button" className="button" disabled={isBusy} onClick={() => setChanges(true)}>Change</button>
        <span className="grow" />
        <button type="button" className="button danger" disabled={isBusy} onClick={() => setAsks(true)}>Delete</button>
      </div>
      <Wrong error={order.error ?? fire.error ?? remove.error} />
      {changes ? <ChangeTrigger trigger={trigger} onClose={() => setChanges(false)} /> : null}
      {asks ? (
        <Ask title={`Delete the trigger ${trigger.name}?`} does="Delete 1 trigger" danger busy={remove.isPending} onNo={() => setAsks(false)}
          onYes={() => {
            setAsks(false);
            remove.mutate({ method: "DELETE", path });
          }}>
          <p>Its backfills end with it. Executions that it started remain.</p>
        </Ask>
      ) : null}
    </>
  );
}
