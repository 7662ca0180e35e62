// A question that a signed link opens, without a session: it is answered once.

import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import { post } from "../../api/client.ts";
import { asProblem } from "../../api/problem.ts";
import { isObject, type Json } from "../../forms/fields.ts";
import { Logo } from "../../parts/icons.tsx";
import { Loaded } from "../../parts/states.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago } from "../../parts/time.tsx";
import { shown } from "../../pure/text.ts";
import { Facts } from "./answer-form.tsx";

type Asked = {
  question: string | null;
  path: string | null;
  step: string;
  args?: Json;
  until: string | null;
  /** The answer that the link gives: it only has to be confirmed. */
  data: Json;
  by: string;
};

export default function AnswerLink() {
  const [token] = useState(() => new URLSearchParams(window.location.hash.slice(1)).get("t") ?? "");
  useEffect(() => {
    document.title = "Answer · NoETL";
    // The token stays out of the history and of what is copied from the address bar.
    history.replaceState(null, "", window.location.pathname);
  }, []);
  const query = useQuery({
    queryKey: ["answer", token],
    staleTime: Infinity,
    retry: false,
    queryFn: ({ signal }) => post<Asked>("answers/look", { token }, signal),
  });
  return (
    <main className="sign-in">
      <div className="panel answer-link">
        <span className="brand"><Logo /> NoETL</span>
        <Loaded query={query} rows={4}>{(asked) => <Question asked={asked} token={token} />}</Loaded>
      </div>
    </main>
  );
}

function Question({ asked, token }: { asked: Asked; token: string }) {
  const answer = useAnswer(token);
  if (answer.isSent) {
    return (
      <>
        <h1>Thank you</h1>
        <p><Status status="done" text="Your answer is recorded. You can close this page." /></p>
      </>
    );
  }
  return (
    <>
      <h1>{shown(asked.question ?? "An execution asks")}</h1>
      <p className="soft small">
        <span className="mono">{shown(asked.path ?? "a playbook")}</span>, step {shown(asked.step)}
        {asked.until ? <>, due <Ago at={asked.until} /></> : null}
      </p>
      <Facts value={asked.args} />
      <Fixed value={asked.data} answer={answer} />
      <p className="soft small">It is given in the name of {shown(asked.by)}.</p>
    </>
  );
}

/** The answer of the link is sent by a press: programs that follow links send nothing. */
function Fixed({ value, answer }: { value: Json; answer: Answer }) {
  return (
    <>
      <p>Your answer is:</p>
      {isObject(value) ? <Facts value={value} /> : <p className="mono">{shown(value)}</p>}
      {answer.problem === null ? null : (
        <p className={`notice ${answer.isLate ? "waiting" : "failed"}`} role="alert">{shown(answer.problem)}</p>
      )}
      <button type="button" className="button primary" disabled={answer.isBusy} onClick={answer.send}>Send this answer</button>
    </>
  );
}

type Answer = { send: () => void; problem: string | null; isLate: boolean; isBusy: boolean; isSent: boolean };

function useAnswer(token: string): Answer {
  const order = useMutation({ mutationFn: () => post("answers", { token }) });
  const problem = order.error === null ? null : asProblem(order.error);
  return {
    send: () => order.mutate(),
    problem: problem === null ? null : problem.message,
    isLate: problem !== null && problem.status === 409,
    isBusy: order.isPending,
    isSent: order.isSuccess,
  };
}
