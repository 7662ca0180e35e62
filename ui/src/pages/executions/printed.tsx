// What the tasks of one run printed.

import { useQuery } from "@tanstack/react-query";
import { get } from "../../api/client.ts";
import type { LogLine, RunLine } from "../../api/types.ts";
import { Loaded } from "../../parts/states.tsx";
import { cut, visible } from "../../pure/text.ts";
import { useExecution } from "./context.tsx";

export function Printed({ run }: { run: RunLine }) {
  const { id, head, openTab } = useExecution();
  const query = useQuery({
    queryKey: ["printed", id, run.run, run.status],
    queryFn: ({ signal }) => get<{ lines: LogLine[]; cursor: string | null }>(`executions/${encodeURIComponent(id)}/logs`, { step: run.step, limit: 1000 }, signal),
    refetchInterval: head.ended ? false : 2000,
    retry: false,
  });
  return (
    <Loaded query={query} rows={3}>
      {({ lines }) => {
        const own = lines.filter((line) => line.task_run_id.startsWith(`${run.run}:`) || line.task_run_id.startsWith(`${run.run}/`));
        if (own.length === 0) return <p className="soft pad">This run printed nothing.</p>;
        return (
          <div className="pad">
            <pre className="printed">{own.map((line, at) => <div key={at} className={line.stream}>{visible(cut(line.text))}</div>)}</pre>
            <button type="button" className="button quiet tight" onClick={() => openTab("output")}>All output</button>
          </div>
        );
      }}
    </Loaded>
  );
}
