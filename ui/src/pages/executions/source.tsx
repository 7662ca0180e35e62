// The text of the playbook as it was at the start; the line of the selected step is marked.

import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef } from "react";
import { getText } from "../../api/client.ts";
import { useAddress } from "../../app/view-state.ts";
import { Copy } from "../../parts/copy.tsx";
import { Rows, type RowsHandle } from "../../parts/rows.tsx";
import { Loaded } from "../../parts/states.tsx";
import { cut, visible } from "../../pure/text.ts";
import { useExecution } from "./context.tsx";

/** The query of an execution's playbook. */
export function sourceOf(id: string) {
  return {
    queryKey: ["source", id],
    queryFn: ({ signal }: { signal: AbortSignal }) => getText(`executions/${encodeURIComponent(id)}/playbook`, {}, signal),
    staleTime: Infinity,
    retry: false,
  };
}

export function Source() {
  const { id, textOf, step, picture } = useExecution();
  const [params] = useAddress();
  const query = useQuery(sourceOf(textOf));
  const asked = Number(params.get("line")) || null;
  const line = asked ?? picture?.nodes.find((node) => node.id === step)?.line ?? null;
  return (
    <>
      {textOf !== id && <p className="soft pad">This is the playbook of the origin: the shown event happened before the fork.</p>}
      <Loaded query={query}>{(text) => <Lines text={text} line={line} />}</Loaded>
    </>
  );
}

function Lines({ text, line }: { text: string; line: number | null }) {
  const lines = useMemo(() => text.split("\n"), [text]);
  const rows = useRef<RowsHandle>(null);
  useEffect(() => {
    if (line) rows.current?.scrollTo(line - 1, "center");
  }, [line]);
  return (
    <div className="source">
      <div className="source-copy"><Copy text={text} label="Copy the playbook" /></div>
      <Rows
        handle={rows}
        label="Playbook"
        count={lines.length}
        height={20}
        className="source-rows"
        row={(index) => (
          <div role="row" className={`source-row${index + 1 === line ? " here" : ""}`}>
            <span role="cell" className="number soft mono">{index + 1}</span>
            <span role="cell" className="mono text"><Coloured text={visible(cut(lines[index] ?? "", 2000))} /></span>
          </div>
        )}
      />
    </div>
  );
}

const PARTS = /^(\s*(?:- )?)([\w.-]+)(:)(.*)$/;

/** Keys, comments and templates of one line of YAML; good enough to read by. */
function Coloured({ text }: { text: string }) {
  const comment = text.trimStart().startsWith("#");
  if (comment) return <span className="y-comment">{text}</span>;
  const found = PARTS.exec(text);
  if (!found) return <Rest text={text} />;
  return <>{found[1]}<span className="y-key">{found[2]}</span>{found[3]}<Rest text={found[4] ?? ""} /></>;
}

function Rest({ text }: { text: string }) {
  return <>{text.split(/(\{\{.*?\}\}|\s#.*$)/).map((part, at) => {
    if (part.startsWith("{{")) return <span key={at} className="y-template">{part}</span>;
    if (/^\s#/.test(part)) return <span key={at} className="y-comment">{part}</span>;
    return part;
  })}</>;
}
