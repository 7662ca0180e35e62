// Why a step ran or not, and why it does not run yet: rules, guards and the values they saw.

import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { get } from "../../api/client.ts";
import type { Why } from "../../api/types.ts";
import { Loaded } from "../../parts/states.tsx";
import { shown, visible } from "../../pure/text.ts";
import { sayProblem } from "../../parts/toast.tsx";
import { useExecution, useModel } from "./context.tsx";
import { ForkDialog } from "./fork-dialog.tsx";
import { sourceOf } from "./source.tsx";

const SIGNS: Record<string, string> = { yes: "✓", no: "✗", error: "!", waiting: "…", not_looked_at: "–" };
const WORDS: Record<string, string> = { yes: "yes", no: "no", error: "error", waiting: "waits", not_looked_at: "not looked at" };
const OPEN = new Set(["idle", "ready", "waiting", "not_reached", "skipped"]);

/** Of a step: of its chosen run, if it had several that have ended. */
export function WhyView({ step, seq, status }: { step: string; seq: number | null; status: string }) {
  const asksStep = seq === null || OPEN.has(status);
  return <Asked question={asksStep ? { step } : { seq }} />;
}

export function Asked({ question }: { question: { step: string } | { seq: number } }) {
  const { id } = useExecution();
  const model = useModel();
  const query = useQuery({
    queryKey: ["why", id, JSON.stringify(question), "step" in question ? model.last : 0],
    queryFn: ({ signal }) => get<Why>(`executions/${encodeURIComponent(id)}/why`, question, signal),
    placeholderData: keepPreviousData,
    retry: false,
  });
  return <Loaded query={query} rows={4}>{(why) => <Answer why={why} />}</Loaded>;
}

function Answer({ why }: { why: Why }) {
  const { move, openTab, select, picture } = useExecution();
  const toLine = (line: number) => openTab("yaml", { line: String(line) });
  const rule = why.decided_by?.rule;
  return (
    <div className="why pad">
      <h3>{visible(why.question)}</h3>
      <p>{visible(why.answer)}</p>
      {(why.decided_by || why.seq !== null) && (
        <p className="soft small">
          {why.decided_by && <>decided by {typeof rule === "number" ? `rule ${rule + 1}` : visible(rule ?? "")}{why.decided_by.line !== null && <>, <button type="button" className="as-link" onClick={() => toLine(why.decided_by!.line!)}>line {why.decided_by.line}</button></>}{why.seq !== null && ", "}</>}
          {why.seq !== null && <button type="button" className="as-link" onClick={() => move(why.seq)}>event {why.seq}</button>}
        </p>
      )}
      <ol>
        {why.considered.map((each, at) => (
          <li key={at} className={`verdict-${each.verdict}`}>
            <span className="sign" aria-hidden="true">{SIGNS[each.verdict] ?? "?"}</span>
            <div className="grow">
              <div className="row wrap">
                {picture?.nodes.some((node) => node.id === each.what) ? <button type="button" className="as-link strong" onClick={() => select(each.what)}>{visible(each.what)}</button> : <span className="strong">{visible(each.what)}</span>}
                <span className="tag">{WORDS[each.verdict] ?? visible(each.verdict)}</span>
                {each.line !== null && <button type="button" className="as-link small" onClick={() => toLine(each.line!)}>line {each.line}</button>}
              </div>
              {each.guard && <code className="guard">{visible(each.guard)}</code>}
              {each.saw.length > 0 && <dl className="facts small saw">{each.saw.map((value) => <FactRow key={value.name} name={value.name} text={value.missing ? "is not there" : `${shown(value.value, 300)}${value.cut ? " (cut)" : ""}`} />)}</dl>}
              {each.note && <p className="soft small"><Linked text={each.note} /></p>}
            </div>
          </li>
        ))}
      </ol>
      {why.seq !== null && why.seq > 1 && why.considered.some((each) => each.guard) && <AnotherGuard at={why.seq - 1} />}
    </div>
  );
}

/** Decide once more with a changed playbook, from the event before the decision. */
function AnotherGuard({ at }: { at: number }) {
  const { id, head } = useExecution();
  const client = useQueryClient();
  const [text, setText] = useState<string | null>(null);
  if (!head.may.includes("fork")) return null;
  const open = () => client.fetchQuery(sourceOf(id)).then(setText, sayProblem);
  return (
    <>
      <button type="button" className="button" onClick={() => void open()}>Try another guard: fork at {at}</button>
      {text !== null && <ForkDialog kind="fork" at={at} playbook={text} onClose={() => setText(null)} />}
    </>
  );
}

const ID = /([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/;

/** A text whose ids of executions are links. */
function Linked({ text }: { text: string }) {
  return <>{text.split(ID).map((part, at) => (at % 2 ? <Link key={at} className="mono" href={`/executions/${part}`}>{part}</Link> : visible(part)))}</>;
}

function FactRow({ name, text }: { name: string; text: string }) {
  return <><dt className="mono">{visible(name)}</dt><dd className="mono">{text}</dd></>;
}
