// The editor of a playbook: problems, graph, form, tests and changes beside the text.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";

import { escapePath, get, post } from "../../api/client.ts";
import { asProblem } from "../../api/problem.ts";
import { useCan } from "../../api/session.ts";
import type { EditorHandle } from "../../editor/code-editor.tsx";
import type { Schema } from "../../forms/fields.ts";
import { Ask } from "../../parts/dialog.tsx";
import { Empty, Loaded, Loading } from "../../parts/states.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { Ago } from "../../parts/time.tsx";
import { say } from "../../parts/toast.tsx";
import { shown } from "../../pure/text.ts";
import { PageHead } from "../../tables/page-head.tsx";
import { Wrong } from "../../tables/wrong.tsx";
import { Changes } from "./diff.tsx";
import { EditorForm, EditorGraph, Problems, Tests } from "./editor-parts.tsx";
import { usePlaybook } from "./playbook.tsx";
import { STARTER } from "./starter.ts";
import type { PlaybookDocument, PlaybookLine, ValidateAnswer } from "./types.ts";
import { useDraft } from "./use-draft.ts";
import { useValidation } from "./use-validation.ts";

const CodeEditor = lazy(() => import("../../editor/code-editor.tsx"));

export default function EditorPage({ path }: { path: string }) {
  const [search] = useSearchParams();
  const query = usePlaybook(path, search.get("version"));
  const can = useCan();
  if (!can("playbooks:write", path)) return <Empty title="Your roles do not change this playbook" icon="keychain" />;
  return <Loaded query={query}>{(playbook) => <Workshop path={path} base={playbook} />}</Loaded>;
}

export function NewPlaybookPage() {
  const can = useCan();
  if (!can("playbooks:write")) return <Empty title="Your roles do not write playbooks" icon="keychain" />;
  return <Workshop path="" base={null} />;
}

function Workshop({ path, base }: { path: string; base: PlaybookDocument | null }) {
  const original = base?.source ?? STARTER;
  const draft = useDraft(path, original, base?.version ?? null);
  const [search, setSearch] = useSearchParams();
  const tab = search.get("tab") ?? "problems";
  const editor = useRef<EditorHandle>(null);
  const checked = useValidation(draft.text);
  const schema = useSchema();
  const register = useRegister(path, draft.drop);
  const choose = (id: string) => setSearch((before) => ({ ...Object.fromEntries(before), tab: id }), { replace: true });
  const goTo = (line: number, column = 1) => editor.current?.goTo(line, column);
  const found = useMemo(() => [...(checked.answer?.diagnostics ?? []), ...(checked.answer?.findings ?? [])], [checked.answer]);
  const errors = found.filter((each) => each.severity === "error").length;
  const conflict = register.conflict;
  useEffect(() => {
    if (conflict !== null) choose("diff");
  }, [conflict]);
  return (
    <>
      <PageHead title={path === "" ? "New playbook" : <Link className="mono" href={`/catalog/${escapePath(path)}`}>{shown(path)}</Link>} name={`Edit ${path}`}>
        {base === null ? null : <span className="tag">from {shown(base.version)}</span>}
        <DraftState draft={draft} />
        <span className="grow" />
        <button type="button" className="button primary" disabled={register.isBusy || errors > 0} onClick={() => void register.send(draft.text)}>
          Register
        </button>
      </PageHead>
      <div className="page-body workshop">
        <section className="panel text" aria-label="Text">
          <Suspense fallback={<Loading />}>
            <CodeEditor text={draft.text} label="Playbook, in YAML. Escape, then Tab leaves the editor." onChange={draft.change}
              diagnostics={found} schema={schema} handle={editor} />
          </Suspense>
        </section>
        <section className="panel beside" aria-label="Results">
          <Tabs tabs={tabsOf(found.length)} chosen={tab} onChoose={choose} name="Results of the text" />
          <div className="inside scroll" tabIndex={0} role="region" aria-label="Result">
            <Wrong error={register.error} />
            {draft.isChanged && base !== null && draft.began !== base.version ? (
              <p className="notice waiting">
                <span>Your draft began from version {shown(draft.began ?? "none")}; shown under Diff is what it changes in {shown(base.version)}.</span>
              </p>
            ) : null}
            {part(tab)}
          </div>
        </section>
      </div>
    </>
  );

  function part(id: string) {
    switch (id) {
      case "graph":
        return <EditorGraph checked={checked} onLine={goTo} />;
      case "form":
        return <EditorForm checked={checked} />;
      case "tests":
        return <Tests source={draft.text} path={path} />;
      case "diff":
        return <Changes before={conflict?.source ?? original} after={draft.text} label="Changes" />;
      default:
        return <Problems checked={checked} text={draft.text} onGo={goTo} onApply={draft.change} />;
    }
  }
}

function tabsOf(problems: number) {
  return [
    { id: "problems", label: <>Problems{problems > 0 ? <span className="badge">{problems}</span> : null}</> },
    { id: "graph", label: "Graph" },
    { id: "form", label: "Form" },
    { id: "tests", label: "Tests" },
    { id: "diff", label: "Diff" },
  ];
}

function DraftState({ draft }: { draft: ReturnType<typeof useDraft> }) {
  const [asks, setAsks] = useState(false);
  if (!draft.isChanged) return null;
  return (
    <>
      <span className="soft small">{draft.isKept ? <>draft kept {draft.restoredAt ? <Ago at={draft.restoredAt} /> : null}</> : "not kept: the browser has no room"}</span>
      <button type="button" className="button quiet tight" onClick={() => setAsks(true)}>Discard</button>
      {asks ? (
        <Ask title="Discard what you typed?" does="Discard the draft" danger onNo={() => setAsks(false)}
          onYes={() => {
            setAsks(false);
            draft.discard();
          }}>
          <p>The text becomes what is registered.</p>
        </Ask>
      ) : null}
    </>
  );
}

function useSchema(): Schema | null {
  const query = useQuery({
    queryKey: ["schema"],
    staleTime: Infinity,
    queryFn: ({ signal }) => get<Schema>("schema", {}, signal),
  });
  return query.data ?? null;
}

/** What a new version changes. */
const READ_AGAIN = [["catalog"], ["catalog-versions"], ["catalog-graph"], ["catalog-form"]];

/** Register the text; a version that is taken by another text is shown beside it. */
function useRegister(path: string, onDone: () => void) {
  const [, go] = useLocation();
  const client = useQueryClient();
  const [error, setError] = useState<unknown>(null);
  const [conflict, setConflict] = useState<PlaybookDocument | null>(null);
  const [isBusy, setBusy] = useState(false);
  const send = async (source: string) => {
    setBusy(true);
    setError(null);
    setConflict(null);
    try {
      const done = await post<PlaybookLine & { created: boolean }>("catalog", { playbook: source });
      onDone();
      for (const queryKey of READ_AGAIN) void client.invalidateQueries({ queryKey });
      say(done.created ? `Registered ${done.path} ${done.version}` : `${done.path} ${done.version} was registered before`);
      go(`/catalog/${escapePath(done.path)}`);
    } catch (problem) {
      setError(problem);
      if (asProblem(problem).status === 409) setConflict(await readTaken(path, source));
    } finally {
      setBusy(false);
    }
  };
  return { send, error, conflict, isBusy };
}

/** The registered text of the version that the source names; null if it cannot be read. */
async function readTaken(path: string, source: string): Promise<PlaybookDocument | null> {
  const checked = await post<ValidateAnswer>("validate", { playbook: source, form: true }).catch(() => null);
  const version = checked?.form?.version;
  const at = checked?.form?.path ?? path;
  return get<PlaybookDocument>(`catalog/${escapePath(at)}`, { version }).catch(() => null);
}
