// Two versions of a playbook, compared.

import { lazy, Suspense } from "react";
import { Link, useSearchParams } from "wouter";

import { escapePath } from "../../api/client.ts";
import { Loaded, Loading } from "../../parts/states.tsx";
import { shown } from "../../pure/text.ts";
import { PageHead } from "../../tables/page-head.tsx";
import { usePlaybook } from "./playbook.tsx";

const CodeEditor = lazy(() => import("../../editor/code-editor.tsx"));

export default function DiffPage({ path }: { path: string }) {
  const [search] = useSearchParams();
  const from = usePlaybook(path, search.get("from"));
  const to = usePlaybook(path, search.get("to"));
  return (
    <>
      <PageHead title={<Link className="mono" href={`/catalog/${escapePath(path)}?tab=versions`}>{shown(path)}</Link>} name={`Changes of ${path}`}>
        <span className="tag">{shown(search.get("from") ?? "")}</span>
        <span aria-hidden>→</span>
        <span className="tag">{shown(search.get("to") ?? "the latest")}</span>
      </PageHead>
      <div className="page-body filled">
        <Loaded query={from}>
          {(before) => (
            <Loaded query={to}>
              {(after) => <Changes before={before.source} after={after.source} label={`Changes of ${path}`} />}
            </Loaded>
          )}
        </Loaded>
      </div>
    </>
  );
}

export function Changes({ before, after, label }: { before: string; after: string; label: string }) {
  if (before === after) return <p className="notice">The texts are equal.</p>;
  return (
    <Suspense fallback={<Loading />}>
      <CodeEditor text={after} compareWith={before} label={label} />
    </Suspense>
  );
}
