// Questions of executions: who may answer sees the form, others see that it waits.

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Link } from "wouter";

import { useLive } from "../../api/live.ts";
import { call, get } from "../../api/client.ts";
import { asProblem } from "../../api/problem.ts";
import { useCan } from "../../api/session.ts";
import { isObject, type Json, type Schema } from "../../forms/fields.ts";
import type { Value } from "../../forms/typed-form.tsx";
import { Empty } from "../../parts/states.tsx";
import { Glyph } from "../../parts/status.tsx";
import { Ago } from "../../parts/time.tsx";
import { say } from "../../parts/toast.tsx";
import { count, plural, shortId, shown } from "../../pure/text.ts";
import { Listed } from "../../tables/listed.tsx";
import { PageHead } from "../../tables/page-head.tsx";
import { usePages } from "../../tables/use-pages.ts";
import { AnswerForm, Facts, type Answering } from "./answer-form.tsx";

export type Question = {
  execution_id: string;
  command_id: string;
  path: string | null;
  step: string;
  task: string;
  signal: string | null;
  asked_at: string;
  until: string | null;
  question: string | null;
  args?: Json;
  schema?: Json;
  may: boolean;
};

type Counted = { total_mine?: number; total_others?: number; complete?: boolean };

/** The server has not read all executions yet. */
const BEHIND_MS = 1000;

export default function InboxPage() {
  const mine = usePages<Question>("inbox", { mine: true }, "items");
  const others = usePages<Question>("inbox", { mine: false }, "items");
  const again = () => void Promise.all([mine.answer.refetch(), others.answer.refetch()]);
  useLive("inbox", again);
  const totals = (mine.answer.data?.pages[0]?.body ?? {}) as Counted;
  const isBehind = totals.complete === false;
  useEffect(() => {
    const timer = isBehind ? window.setTimeout(again, BEHIND_MS) : 0;
    return () => window.clearTimeout(timer);
  }, [isBehind, mine.answer.dataUpdatedAt]);
  const isEmpty = mine.rows.length + others.rows.length === 0;
  return (
    <>
      <PageHead title="Inbox">
        {mine.answer.data ? <span className="soft">{wordsOf(totals)}</span> : null}
      </PageHead>
      <div className="page-body">
        <Listed asked={mine.answer} isEmpty={isEmpty && !isBehind && !others.answer.isPending} empty={<Nothing />}>
          <div className="stack questions">
            <Cards list={mine} />
            {others.rows.length > 0 ? <h2>Waiting for others</h2> : null}
            <Cards list={others} />
          </div>
        </Listed>
      </div>
    </>
  );
}

function Cards({ list }: { list: ReturnType<typeof usePages<Question>> }) {
  return (
    <>
      {list.rows.map((row) => <Card key={`${row.execution_id} ${row.command_id} ${row.asked_at}`} question={row} />)}
      {list.answer.hasNextPage ? <button type="button" className="button" onClick={list.more}>Show more</button> : null}
    </>
  );
}

function wordsOf({ total_mine: mine = 0, total_others: others = 0 }: Counted): string {
  return others > 0 ? `${count(mine)} for me, ${plural(others, "other")}` : `${count(mine)} for me`;
}

function Nothing() {
  return (
    <Empty title="Nothing waits for an answer" icon="inbox">
      <p>A task of the kind <code>wait</code> with a signal and a schema asks here.</p>
    </Empty>
  );
}

function Card({ question }: { question: Question }) {
  const schema = isObject(question.schema) ? question.schema : {};
  const title = question.question ?? (typeof schema["title"] === "string" ? schema["title"] : `Signal “${question.signal ?? "hidden"}”`);
  return (
    <article className="panel question" aria-label={shown(title, 200)}>
      <header>
        <Glyph status="waiting" />
        <h2 className="grow">{shown(title)}</h2>
        {question.until ? <span className="soft small">due <Ago at={question.until} /></span> : null}
      </header>
      <div className="inside stack">
        <p className="soft small">
          <Link className="mono" href={`/executions/${question.execution_id}`}>{shown(question.path ?? "a playbook")} {shortId(question.execution_id)}</Link>
          , step {shown(question.step)}, asked <Ago at={question.asked_at} />
        </p>
        <Facts value={question.args} />
        {question.may ? <OwnAnswer question={question} schema={schema} /> : <p className="soft">Your roles do not answer this.</p>}
      </div>
    </article>
  );
}

function OwnAnswer({ question, schema }: { question: Question; schema: Schema }) {
  return <AnswerForm schema={schema} answer={useAnswer(question)} />;
}

/** Send the answer once; who is too late is told who was faster. */
function useAnswer(question: Question): Answering {
  const can = useCan();
  const client = useQueryClient();
  const [error, setError] = useState<unknown>(null);
  const [late, setLate] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const send = async (data: Value) => {
    setBusy(true);
    setError(null);
    setLate(null);
    try {
      await call("POST", `executions/${question.execution_id}/signal`, { body: { name: question.signal, data } });
      say(`Answered: ${question.question ?? question.signal ?? "the question"}`);
      void client.invalidateQueries({ queryKey: ["inbox"] });
    } catch (problem) {
      if (asProblem(problem).status === 409) {
        const words = await whoWasFaster(question, can("executions:read", question.path ?? undefined));
        setLate(words);
        say(words); // the card leaves when the list is read again
        void client.invalidateQueries({ queryKey: ["inbox"] });
      } else {
        setError(problem);
      }
    } finally {
      setBusy(false);
    }
  };
  return { send, error, late, isBusy };
}

type Received = { events: { seq: number; timestamp?: string; payload?: { name?: string; by?: string } }[] };

async function whoWasFaster(question: Question, mayRead: boolean): Promise<string> {
  const nobody = "This question is closed: it was answered before, or its time is over.";
  if (!mayRead) return nobody;
  const found = await get<Received>(`executions/${question.execution_id}/events`, { name: "message.received", limit: 1000 }).catch(() => null);
  const last = found?.events.filter((each) => each.payload?.name === question.signal).at(-1);
  const by = last?.payload?.by;
  return by === undefined ? nobody : `Too late: ${shown(by, 100)} has answered before.`;
}
