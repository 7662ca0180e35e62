// Start an execution of a registered playbook by a form of its inputs.

import { useQuery } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";

import { escapePath, get, post } from "../../api/client.ts";
import { useCan } from "../../api/session.ts";
import { attemptFor, type Attempt } from "../../forms/attempt.ts";
import { TypedForm, useTypedForm, type Value } from "../../forms/typed-form.tsx";
import { Empty, Loaded } from "../../parts/states.tsx";
import { say } from "../../parts/toast.tsx";
import { shown } from "../../pure/text.ts";
import { PageHead } from "../../tables/page-head.tsx";
import { Wrong } from "../../tables/wrong.tsx";
import type { FormAnswer } from "./types.ts";

type Started = { execution_id: string; status: string; warnings: string[]; repeated: boolean };

export default function RunPage({ path }: { path: string }) {
  const [search] = useSearchParams();
  const can = useCan();
  const version = search.get("version");
  const query = useQuery({
    queryKey: ["catalog-form", path, version],
    staleTime: Infinity, // a form does not change under the fingers
    queryFn: ({ signal }) => get<FormAnswer>(`catalog/${escapePath(path)}/-/form`, { version }, signal),
  });
  return (
    <>
      <PageHead title={<>Run <Link className="mono" href={`/catalog/${escapePath(path)}`}>{shown(path)}</Link></>} name={`Run ${path}`}>
        {query.data?.version ? <span className="tag">{shown(query.data.version)}</span> : null}
      </PageHead>
      <div className="page-body">
        {can("executions:run", path) ? (
          <Loaded query={query}>{(form) => <StartForm path={path} answer={form} />}</Loaded>
        ) : (
          <Empty title="Your roles do not start executions" icon="keychain" />
        )}
      </div>
    </>
  );
}

function StartForm({ path, answer }: { path: string; answer: FormAnswer }) {
  const form = useTypedForm(answer.fields, answer.order, answer.comments);
  const start = useStart(path, answer.version ?? null);
  const send = () => {
    const workload = form.read();
    if (workload !== null) void start.send(workload);
    else focusFirstProblem();
  };
  return (
    <form
      className="stack run-form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {answer.fields["properties"] && Object.keys(answer.fields["properties"]).length > 0 ? null : (
        <p className="soft">This playbook declares no inputs.</p>
      )}
      <TypedForm form={form} label="inputs" />
      <Wrong error={start.error} />
      <div className="row">
        <button type="submit" className="button primary" aria-disabled={start.isBusy}>
          {start.isBusy ? "Starting…" : "Start"}
        </button>
      </div>
    </form>
  );
}

/** Start once: the same inputs keep their key until the server has refused them. */
function useStart(path: string, version: string | null) {
  const [, go] = useLocation();
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const attempt = useRef<Attempt | null>(null);
  const send = async (workload: Value) => {
    const body = { path, ...(version === null ? {} : { version }), workload };
    attempt.current = attemptFor(attempt.current, JSON.stringify(body), () => randomKey());
    setBusy(true);
    setError(null);
    try {
      const done = await post<Started>("executions", { ...body, idempotency_key: attempt.current.key });
      for (const warning of done.warnings ?? []) say(warning);
      go(`/executions/${done.execution_id}`);
    } catch (problem) {
      setError(problem);
      if (isRefusal(problem)) attempt.current = null;
    } finally {
      setBusy(false);
    }
  };
  return { send, error, isBusy };
}

/** The server has answered no: the next try is another one. Without an answer it is the same. */
function isRefusal(problem: unknown): boolean {
  const status = (problem as { status?: number }).status ?? 0;
  return status >= 400 && status < 500 && status !== 401 && status !== 429;
}

export function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function focusFirstProblem(): void {
  window.requestAnimationFrame(() => document.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
}
