// One execution in the list.

import { memo } from "react";
import { Link } from "wouter";
import type { ExecutionLine, Wait } from "../../api/types.ts";
import { Status } from "../../parts/status.tsx";
import { Ago } from "../../parts/time.tsx";
import { useNow } from "../../parts/time.tsx";
import { look, shownStatus } from "../../pure/status.ts";
import type { Bar } from "../../pure/sparks.ts";
import { cut, shortId, visible } from "../../pure/text.ts";
import { duration, parseTime, relative } from "../../pure/time.ts";

type Props = {
  line: ExecutionLine;
  waits?: Wait[];
  spark?: Bar[];
  isHere: boolean;
  isChosen: boolean;
  onChoose?: (extend: boolean) => void;
  onOpen: () => void;
};

export const Line = memo(function Line({ line, waits, spark, isHere, isChosen, onChoose, onOpen }: Props) {
  const name = line.playbook.path ?? line.playbook.name ?? "inline playbook";
  return (
    <div
      className={`line${isHere ? " here" : ""}${isChosen ? " chosen" : ""}${onChoose ? "" : " no-choice"}`}
      role="row"
      aria-selected={isChosen}
      data-id={line.execution_id}
      onClick={(event) => {
        if (!(event.target as HTMLElement).closest("a, input, label, button")) onOpen();
      }}
    >
      {onChoose && (
        <span role="cell" className="choice">
          <input type="checkbox" checked={isChosen} aria-label={`Choose ${name} ${shortId(line.execution_id)}`} onClick={(event) => onChoose(event.shiftKey)} onChange={() => undefined} />
        </span>
      )}
      <span role="cell"><Status {...shownStatus(line)} /></span>
      <span role="cell" className="cut playbook">
        <Link href={`/executions/${line.execution_id}`} className="strong">{visible(cut(name, 200))}</Link>
        {line.playbook.version && <span className="soft">@{visible(String(line.playbook.version))}</span>}
      </span>
      <span role="cell" className="soft cut"><Ago at={line.started_at} /></span>
      <span role="cell" className="number took"><Took line={line} /></span>
      <span role="cell" className="before">{spark && spark.length > 1 && <Spark bars={spark} />}</span>
      <span role="cell" className="cut story"><Story line={line} waits={waits} /></span>
    </div>
  );
});

function Took({ line }: { line: ExecutionLine }) {
  if (line.duration_ms !== null) return <>{duration(line.duration_ms)}</>;
  return line.status === "running" ? <Since at={line.started_at} /> : <span className="soft">–</span>;
}

function Since({ at }: { at: string }) {
  const now = useNow();
  const from = parseTime(at);
  return from === null ? null : <span className="soft">{duration(Math.max(0, Math.round((now - from) / 1000) * 1000))}</span>;
}

function Story({ line, waits }: { line: ExecutionLine; waits?: Wait[] }) {
  const now = useNow();
  if (line.error) {
    const where = [line.error.step, line.error.task].find((each) => typeof each === "string");
    return <span className="state-failed wrong">{where ? <b>{visible(String(where))}: </b> : null}{visible(cut(line.error.message ?? line.error.kind ?? "", 300))}</span>;
  }
  const wait = waits?.[0];
  if (line.status === "waiting" && wait) {
    const until = parseTime(wait.until);
    const what = wait.signal ?? wait.name ?? wait.kind ?? "";
    return <>{wait.step ? `${visible(wait.step)}: ` : ""}{what ? `waits for ${visible(String(what))}` : "waits"}{until !== null && <span className="soft">, {relative(until, now)}</span>}</>;
  }
  const by = line.trigger?.name ?? (line.parent_id ? "another execution" : null);
  if (line.interrupted) return <span className="soft">its process has ended: <code>noetl resume</code> continues it</span>;
  const labels = Object.entries(line.labels);
  return (
    <span className="soft">
      {line.ignored_errors > 0 && <span>{line.ignored_errors} ignored {line.ignored_errors === 1 ? "error" : "errors"} </span>}
      {by ? `by ${visible(String(by))} ` : ""}
      {labels.slice(0, 3).map(([key, value]) => <span key={key} className="tag">{visible(key)}={visible(cut(value, 40))}</span>)}
    </span>
  );
}

const BAR = 4;

export function Spark({ bars }: { bars: Bar[] }) {
  const failed = bars.filter((bar) => bar.status === "failed").length;
  return (
    <svg className="spark" viewBox={`0 0 ${20 * BAR} 18`} width={20 * BAR} height="18" role="img" aria-label={`last ${bars.length} executions, ${failed} failed`}>
      {bars.map((bar, at) => {
        const height = 2 + bar.height * 15;
        return <rect key={at} className={`state-${look(bar.status)}`} x={at * BAR} y={18 - height} width={BAR - 1.2} height={height} rx="1" />;
      })}
    </svg>
  );
}
