// Name, status and duration of an execution, and what its reader may do.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type RefObject } from "react";
import { Link } from "wouter";
import { post } from "../../api/client.ts";
import { useKeys } from "../../app/keys.ts";
import type { GraphHandle } from "../../graph/graph.tsx";
import { Copy } from "../../parts/copy.tsx";
import { Ask } from "../../parts/dialog.tsx";
import { Icon } from "../../parts/icons.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, useNow } from "../../parts/time.tsx";
import { say, sayProblem } from "../../parts/toast.tsx";
import { shownStatus } from "../../pure/status.ts";
import { shortId, visible } from "../../pure/text.ts";
import { duration, parseTime } from "../../pure/time.ts";
import { useExecution } from "./context.tsx";
import { ForkDialog } from "./fork-dialog.tsx";

export function Header({ graph }: { graph: RefObject<GraphHandle | null> }) {
  const { id, head, model, openTab } = useExecution();
  const { line } = head;
  const [open, setOpen] = useState<"cancel" | "retry" | "fork" | null>(null);
  const client = useQueryClient();
  const order = useMutation({
    mutationFn: (verb: string) => post(`executions/${encodeURIComponent(id)}/${verb}`),
    onSuccess: (_, verb) => {
      say({ cancel: "The execution is being cancelled.", pause: "The execution pauses: running tasks finish.", resume: "The execution continues." }[verb] ?? verb);
      setOpen(null);
      void client.invalidateQueries({ queryKey: ["head", id] });
    },
    onError: sayProblem,
  });
  const may = (what: string) => head.may.includes(what);
  const canRetry = may("retry") && line.status !== "completed";
  useKeys([
    ...(may("fork") ? [{ keys: "f", does: "Fork at the shown event", run: () => setOpen("fork") }] : []),
    ...(may("retry") ? [{ keys: "r", does: "Retry", run: () => setOpen("retry") }] : []),
    { keys: "/", does: "Find a step in the graph", run: () => graph.current?.find() },
    { keys: "w", does: "Ask why", run: () => openTab(new URLSearchParams(window.location.search).get("tab") ?? "timeline", { panel: "why" }) },
  ]);
  const name = line.playbook.path ?? line.playbook.name ?? "inline playbook";
  return (
    <header className="page-head execution-head">
      <Link href="/executions" className="button quiet icon" aria-label="Back to executions" title="Executions"><Icon name="left" /></Link>
      <h1 className="cut">
        {line.playbook.path ? <Link href={`/catalog/${line.playbook.path}`}>{visible(String(name))}</Link> : visible(String(name))}
        {line.playbook.version && <span className="soft">@{visible(String(line.playbook.version))}</span>}
      </h1>
      <Status {...shownStatus(line)} pill />
      <Took />
      <span className="soft started"><Ago at={line.started_at} /></span>
      <span className="row id soft mono" title={id}>{shortId(id)}<Copy text={id} label="Copy the id" /></span>
      <span className="grow" />
      <div className="row wrap actions">
        {canRetry && <button type="button" className="button primary" onClick={() => setOpen("retry")}><Icon name="retry" />{line.status === "failed" ? "Retry failed" : "Retry"}</button>}
        {may("resume") && <button type="button" className="button primary" onClick={() => order.mutate("resume")}><Icon name="play" />Resume</button>}
        {may("fork") && <button type="button" className="button" onClick={() => setOpen("fork")}><Icon name="fork" />Fork here</button>}
        {may("pause") && <button type="button" className="button" onClick={() => order.mutate("pause")}><Icon name="pause" />Pause</button>}
        {may("cancel") && <button type="button" className="button danger" onClick={() => setOpen("cancel")}>Cancel</button>}
      </div>
      {open === "cancel" && (
        <Ask title="Cancel this execution?" does="Cancel 1 execution" danger busy={order.isPending} onYes={() => order.mutate("cancel")} onNo={() => setOpen(null)}>
          <p>Running tools are stopped{head.children_total ? `, and so ${head.children_total === 1 ? "is its child" : `are its ${head.children_total} children`}` : ""}. It can be retried later.</p>
        </Ask>
      )}
      {(open === "retry" || open === "fork") && <ForkDialog kind={open} at={model.seq} onClose={() => setOpen(null)} />}
    </header>
  );
}

function Took() {
  const { line } = useExecution().head;
  const now = useNow();
  const from = parseTime(line.started_at);
  if (line.duration_ms !== null) return <span className="strong">{duration(line.duration_ms)}</span>;
  return from === null ? null : <span className="soft">{duration(Math.max(0, Math.round((now - from) / 1000) * 1000))}</span>;
}
