// An execution that a call started, opened inline: its steps, and their own children.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { get } from "../../api/client.ts";
import type { ExecutionList, Head } from "../../api/types.ts";
import { Loaded } from "../../parts/states.tsx";
import { Status } from "../../parts/status.tsx";
import { shortId, visible } from "../../pure/text.ts";
import { duration } from "../../pure/time.ts";

const DEEPEST = 8;

export function Child({ id, depth }: { id: string; depth: number }) {
  const [isOpen, setOpen] = useState(false);
  const head = useQuery({
    queryKey: ["head", id],
    queryFn: ({ signal }) => get<Head>(`executions/${encodeURIComponent(id)}/head`, {}, signal),
    refetchInterval: (query) => (query.state.data?.ended ? false : 3000),
    retry: false,
  });
  const line = head.data?.line;
  const name = visible(line?.playbook.path ?? shortId(id));
  return (
    <div className="child">
      <div className="row">
        <button type="button" className="button quiet icon tight" aria-expanded={isOpen} aria-label={`Steps of ${name} ${shortId(id)}`} onClick={() => setOpen(!isOpen)}>{isOpen ? "▾" : "▸"}</button>
        {line && <Status status={line.status} text="" />}
        <Link href={`/executions/${id}`} className="cut">{name}</Link>
        <span className="soft small">{duration(line?.duration_ms)}</span>
      </div>
      {isOpen && (
        <div className="child-inside">
          <Loaded query={head} rows={2}>{(found) => <Inside head={found} depth={depth} />}</Loaded>
        </div>
      )}
    </div>
  );
}

function Inside({ head, depth }: { head: Head; depth: number }) {
  return (
    <>
      {head.failure && <p className="call-error small">{visible(head.failure.message)}</p>}
      <ul>
        {Object.entries(head.steps).slice(0, 100).map(([step, each]) => (
          <li key={step} className="row"><Status status={each.status} text={visible(step)} />{each.runs > 1 && <span className="soft small">×{each.runs}</span>}</li>
        ))}
      </ul>
      {head.children_total > 0 && depth < DEEPEST && <Called parent={head.execution_id} ended={head.ended} depth={depth + 1} />}
    </>
  );
}

function Called({ parent, ended, depth }: { parent: string; ended: boolean; depth: number }) {
  const query = useQuery({
    queryKey: ["children", parent],
    queryFn: ({ signal }) => get<ExecutionList>("executions", { parent, limit: 20 }, signal),
    refetchInterval: ended ? false : 3000,
  });
  return (
    <Loaded query={query} rows={2}>
      {({ executions, cursor }) => (
        <>
          {executions.map((line) => <Child key={line.execution_id} id={line.execution_id} depth={depth} />)}
          {cursor && <Link href={`/executions?parent=${parent}`}>all of them</Link>}
        </>
      )}
    </Loaded>
  );
}
