// A new trigger by a form; the token of a webhook is shown once.

import { useId, useState } from "react";

import { TypedForm, useTypedForm } from "../../forms/typed-form.tsx";
import { readObject } from "../../forms/typed.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { Command } from "../../parts/states.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { say } from "../../parts/toast.tsx";
import { useSend } from "../../tables/use-send.ts";
import { Wrong } from "../../tables/wrong.tsx";
import { focusFirstProblem } from "../catalog/run.tsx";
import { triggerSchema, type TriggerKind } from "./schemas.ts";
import type { Trigger } from "./types.ts";

const KINDS = [
  { id: "schedule", label: "Schedule" },
  { id: "webhook", label: "Webhook" },
  { id: "finished", label: "End of an execution" },
];
const SCHEMAS = { schedule: triggerSchema("schedule"), webhook: triggerSchema("webhook"), finished: triggerSchema("finished") };

type Made = Trigger & { token: string | null; warnings?: string[] };

export function NewTrigger({ onClose }: { onClose: () => void }) {
  const [kind, setKind] = useState<TriggerKind>("schedule");
  const [made, setMade] = useState<Made | null>(null);
  if (made?.token) return <Token made={made} token={made.token} onClose={onClose} />;
  return (
    <KindForm key={kind} kind={kind} onClose={onClose}
      tabs={<Tabs tabs={KINDS} chosen={kind} onChoose={(id) => setKind(id as TriggerKind)} name="Kind of the trigger" />}
      onMade={(answer) => {
        for (const warning of answer.warnings ?? []) say(warning);
        if (answer.token) setMade(answer);
        else onClose();
      }} />
  );
}

type FormProps = { kind: TriggerKind; tabs: React.ReactNode; onClose: () => void; onMade: (made: Made) => void };

function KindForm({ kind, tabs, onClose, onMade }: FormProps) {
  const form = useTypedForm(SCHEMAS[kind]);
  const order = useSend<Made>(["triggers"], onMade);
  const send = () => {
    const value = form.read();
    if (value === null) focusFirstProblem();
    else order.mutate({ method: "POST", path: "triggers", body: { trigger: { [kind]: {}, ...value } } });
  };
  const footer = (
    <>
      <button type="button" className="button" onClick={onClose}>Back</button>
      <button type="submit" className="button primary" disabled={order.isPending}>Create the trigger</button>
    </>
  );
  return (
    <Dialog title="New trigger" onClose={onClose} footer={footer} onSubmit={send}>
      {tabs}
      <TypedForm form={form} label="the trigger" />
      <Wrong error={order.error} />
    </Dialog>
  );
}

/** Another definition of the same name; a webhook keeps its token, a schedule its decided slots. */
export function ChangeTrigger({ trigger, onClose }: { trigger: Trigger; onClose: () => void }) {
  const id = useId();
  const [text, setText] = useState(() => JSON.stringify(trigger.definition, null, 2));
  const [wrong, setWrong] = useState<string | null>(null);
  const order = useSend<Made>(["triggers"], (answer) => {
    for (const warning of answer.warnings ?? []) say(warning);
    onClose();
  });
  const send = () => {
    const read = readObject(text);
    setWrong(read.problems[""] ?? null);
    if (read.value !== undefined) order.mutate({ method: "POST", path: "triggers", body: { trigger: read.value, replace: true } });
  };
  const footer = (
    <>
      <button type="button" className="button" onClick={onClose}>Back</button>
      <button type="submit" className="button primary" disabled={order.isPending}>Change the trigger</button>
    </>
  );
  return (
    <Dialog title={`Change ${trigger.name}`} onClose={onClose} footer={footer} onSubmit={send}>
      <p className="soft">You become its owner: it starts executions with your rights.</p>
      <div className="field">
        <label htmlFor={id}>Definition, as JSON</label>
        <textarea id={id} className="input" rows={16} spellCheck={false} value={text} onChange={(event) => setText(event.target.value)} />
        {wrong ? <p className="wrong" role="alert">{wrong}</p> : null}
      </div>
      <Wrong error={order.error} />
    </Dialog>
  );
}

function Token({ made, token, onClose }: { made: Made; token: string; onClose: () => void }) {
  const footer = <button type="button" className="button primary" onClick={onClose}>I have it</button>;
  return (
    <Dialog title={`Token of ${made.name}`} onClose={onClose} footer={footer}>
      <p>The sender needs it. It is shown once and not stored.</p>
      <Command text={token} />
      {made.hook ? (
        <>
          <p className="soft">Deliveries go to:</p>
          <Command text={`${window.location.origin}${made.hook}`} />
        </>
      ) : null}
    </Dialog>
  );
}
