// Sign-in: by a one-time link, a password or the organisation's provider.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { get, post } from "../api/client.ts";
import { asProblem, type Problem } from "../api/problem.ts";
import { Logo } from "../parts/icons.tsx";
import { Command, Notice } from "../parts/states.tsx";

type Means = { password: boolean; oidc: boolean; sign_in: string | null };

/** Where a person goes after the provider has sent them back to the sign-in. */
const NEXT = "noetl.next";

async function hasSession(): Promise<boolean> {
  return get("sessions/current").then(() => true, () => false);
}

export function SignInPage() {
  const [, navigate] = useLocation();
  useEffect(() => {
    const next = window.sessionStorage.getItem(NEXT);
    window.sessionStorage.removeItem(NEXT);
    if (next === null || window.location.hash !== "") return;
    void hasSession().then((has) => has && navigate(next, { replace: true }));
  }, []);
  return (
    <main className="sign-in">
      <div className="panel">
        <a className="brand" href="/"><Logo /> NoETL</a>
        <SignIn onDone={() => navigate(wanted(), { replace: true })} />
      </div>
    </main>
  );
}

/** Only a path of this server: a link must not lead elsewhere after the sign-in. */
function wanted(): string {
  const next = new URLSearchParams(window.location.search).get("next") ?? "";
  return /^\/[^/\\]/.test(next) && !next.startsWith("/sign-in") ? next : "/executions";
}

/** The form itself; it also opens `over` a page whose session has ended, which must stay as it is. */
export function SignIn({ onDone, over = false }: { onDone: () => void; over?: boolean }) {
  const client = useQueryClient();
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const tried = useRef(false);
  const means = useQuery({ queryKey: ["means"], queryFn: ({ signal }) => get<Means>("sessions/means", {}, signal), staleTime: 60_000 });

  const enter = async (body: object) => {
    setBusy(true);
    setProblem(null);
    try {
      await post("sessions", body);
      await client.invalidateQueries();
      onDone();
    } catch (error) {
      if ("code" in body && (await hasSession())) onDone();
      else setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };

  useEffect(() => {
    const code = new URLSearchParams(window.location.hash.slice(1)).get("code");
    if (!code || tried.current) return;
    tried.current = true;
    history.replaceState(null, "", window.location.pathname + window.location.search);
    void enter({ code });
  }, []);

  useEffect(() => {
    if (!over) return;
    const look = () => void hasSession().then((has) => has && onDone());
    window.addEventListener("focus", look);
    return () => window.removeEventListener("focus", look);
  }, [over]);

  const byCode = tried.current;
  return (
    <>
      <h1>Sign in</h1>
      {problem && <Notice error={problem} />}
      {byCode && busy && <p className="soft">Opening the one-time link…</p>}
      {means.error != null && <Notice error={means.error} />}
      {means.data?.password && <Password busy={busy} onEnter={(name, password) => void enter({ name, password })} />}
      {means.data?.password && means.data.oidc && <div className="or">or</div>}
      {means.data?.oidc && <Provider over={over} />}
      <div className="stack small soft">
        <p>On the machine of the server this command opens a signed-in page:</p>
        <Command text="noetl ui" />
      </div>
    </>
  );
}

/** The provider is another page; over a page with typed text it opens beside it. */
function Provider({ over }: { over: boolean }) {
  const here = window.location.pathname === "/sign-in" ? wanted() : window.location.pathname + window.location.search;
  return (
    <a className="button" href={over ? "/api/sessions/oidc" : "/api/sessions/oidc?next=%2Fsign-in"} target={over ? "_blank" : undefined} rel="noopener"
      onClick={() => over || window.sessionStorage.setItem(NEXT, here)}>
      Continue with your organisation
    </a>
  );
}

function Password({ busy, onEnter }: { busy: boolean; onEnter: (name: string, password: string) => void }) {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (name && password) onEnter(name, password);
      }}
    >
      <div className="field">
        <label htmlFor="sign-in-name">Name</label>
        <input id="sign-in-name" className="input" autoComplete="username" autoCapitalize="none" spellCheck={false} value={name} onChange={(event) => setName(event.target.value)} />
      </div>
      <div className="field">
        <label htmlFor="sign-in-password">Password</label>
        <input id="sign-in-password" className="input" type="password" autoComplete="current-password" value={password} onChange={(event) => setPassword(event.target.value)} />
      </div>
      <button type="submit" className="button primary" disabled={busy || !name || !password}>Sign in</button>
    </form>
  );
}
